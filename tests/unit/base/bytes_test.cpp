#include "base/bytes.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

TEST(Bytes, hex_round_trips_in_both_cases_and_with_prefix) {
    const Bytes bytes = {0x00, 0x01, 0xab, 0xff};
    EXPECT_EQ(to_hex(bytes), "0001abff");
    EXPECT_EQ(to_hex0x(bytes), "0x0001abff");
    EXPECT_EQ(*from_hex("0x0001ABff"), bytes);
    EXPECT_EQ(*from_hex(""), Bytes());
    EXPECT_EQ(*from_hex("0x"), Bytes());
}

TEST(Bytes, bad_hex_is_named) {
    EXPECT_EQ(from_hex("0x123").error().name, "hex.odd_length");
    EXPECT_EQ(from_hex("0g").error().name, "hex.bad_digit");
    EXPECT_EQ(from_hex("0x0x").error().name, "hex.bad_digit");
}

TEST(Bytes, fixed_bytes_check_the_length) {
    EXPECT_EQ(fixed_from_hex<2>("0x0102")->data[1], 2);
    EXPECT_EQ(fixed_from_hex<2>("0x01").error().name, "bytes.wrong_length");
    EXPECT_EQ(fixed_from_hex<2>("0x010203").error().name, "bytes.wrong_length");
    EXPECT_EQ(Hash32::from_view(Bytes(31)).error().name, "bytes.wrong_length");
    EXPECT_TRUE(Hash32().is_zero());
}

TEST(Bytes, order_is_lexicographic_with_unsigned_bytes) {
    const BytesLess less;
    EXPECT_TRUE(less(Bytes{0x7f}, Bytes{0x80}));
    EXPECT_TRUE(less(Bytes{0x01}, Bytes{0x01, 0x00}));
    EXPECT_FALSE(less(Bytes{0x01}, Bytes{0x01}));
    EXPECT_TRUE(less(Bytes{}, Bytes{0x00}));
    EXPECT_LT(fixed_from_hex<2>("0102").value(), fixed_from_hex<2>("0200").value());
}

}  // namespace
}  // namespace quern
