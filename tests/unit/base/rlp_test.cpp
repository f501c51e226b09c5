#include "base/rlp.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace quern {
namespace {

Bytes hex(std::string_view text) { return from_hex(text).value(); }

TEST(Rlp, reads_what_it_wrote) {
    rlp::Writer out;
    out.begin_list().integer(std::uint64_t{0}).integer(std::uint64_t{0x0400}).boolean(true).bytes(Bytes(56, 0xaa));
    out.begin_list().end_list().fixed(Hash32()).end_list();
    const Bytes encoded = std::move(out).finish();
    auto in = rlp::decode_list(encoded).value();
    EXPECT_EQ(*in.u64(), 0U);
    EXPECT_EQ(*in.u64(), 0x0400U);
    EXPECT_TRUE(*in.boolean());
    EXPECT_EQ(in.bytes()->size(), 56U);
    EXPECT_TRUE(in.list()->at_end());
    EXPECT_TRUE(in.fixed<32>()->is_zero());
    EXPECT_TRUE(in.expect_end().has_value());
    EXPECT_EQ(in.next().error().name, "rlp.truncated");
}

TEST(Rlp, names_each_kind_of_malformed_input) {
    const auto error_of = [](std::string_view text) { return rlp::decode_single(hex(text)).error().name; };
    EXPECT_EQ(error_of(""), "rlp.truncated");
    EXPECT_EQ(error_of("81"), "rlp.truncated");
    EXPECT_EQ(error_of("b8"), "rlp.truncated");
    EXPECT_EQ(error_of("c101c0"), "rlp.trailing_bytes");
    EXPECT_EQ(error_of("8105"), "rlp.non_canonical_byte");
    EXPECT_EQ(error_of("b801ff"), "rlp.non_canonical_length");
    EXPECT_EQ(error_of("b90000"), "rlp.non_canonical_length");
    EXPECT_EQ(error_of("bfffffffffffffffff"), "rlp.truncated");
    EXPECT_EQ(error_of("ffffffffffffffffff"), "rlp.truncated");
}

TEST(Rlp, integers_are_canonical_and_bounded) {
    const auto u64_of = [](std::string_view text) {
        const Bytes bytes = hex(text);
        return rlp::Reader(bytes).u64();
    };
    EXPECT_EQ(u64_of("00").error().name, "rlp.leading_zero");
    EXPECT_EQ(u64_of("820001").error().name, "rlp.leading_zero");
    EXPECT_EQ(u64_of("89010000000000000000").error().name, "rlp.integer_overflow");
    EXPECT_EQ(u64_of("c0").error().name, "rlp.expected_string");
    EXPECT_EQ(rlp::decode_list(hex("01")).error().name, "rlp.expected_list");
    EXPECT_EQ(*u64_of("88ffffffffffffffff"), ~0ULL);
}

TEST(Rlp, nesting_is_bounded_without_recursion) {
    Bytes deep;
    for (int i = 0; i < 3000; ++i) {
        rlp::Writer out;
        out.begin_list().raw(deep).end_list();
        deep = std::move(out).finish();
    }
    EXPECT_EQ(rlp::validate(deep).error().name, "rlp.too_deep");
}

TEST(Rlp, every_truncation_of_a_valid_item_is_an_error) {
    rlp::Writer out;
    out.begin_list().bytes(Bytes(300, 1)).begin_list().integer(std::uint64_t{70000}).end_list().end_list();
    const Bytes whole = std::move(out).finish();
    ASSERT_TRUE(rlp::validate(whole).has_value());
    for (std::size_t size = 0; size < whole.size(); ++size)
        EXPECT_FALSE(rlp::validate(BytesView(whole).first(size)).has_value()) << size;
}

TEST(Rlp, whatever_decodes_encodes_to_the_same_bytes) {
    SeededRng rng(3);
    int accepted = 0;
    for (int i = 0; i < 50000; ++i) {
        Bytes bytes(rng.below(6) + 1);
        rng.fill(bytes);
        const auto item = rlp::decode_single(bytes);
        if (!item || item->is_list) continue;
        ++accepted;
        rlp::Writer out;
        out.bytes(item->payload);
        ASSERT_EQ(std::move(out).finish(), bytes);
    }
    EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace quern
