#include "crypto/siphash.h"

#include <gtest/gtest.h>

namespace quern::crypto {
namespace {

// The reference implementation's vectors: key 00 01 .. 0f, messages of 0, 1, .. bytes 00 01 02 ..
TEST(SipHash, public_vectors) {
    FixedBytes<16> key;
    Bytes message;
    for (std::uint8_t i = 0; i < 16; ++i) key.data[i] = i;
    for (std::uint8_t i = 0; i < 15; ++i) message.push_back(i);
    EXPECT_EQ(siphash24(key, message), 0xa129ca6149be45e5U);  // the paper's appendix A
    EXPECT_EQ(siphash24(key, {}), 0x726fdb47dd0e0e31U);
    EXPECT_EQ(siphash24(key, BytesView(message).first(1)), 0x74f839c593dc67fdU);
    EXPECT_EQ(siphash24(key, BytesView(message).first(8)), 0x93f5f5799a932462U);
    key.data[0] = 1;
    EXPECT_NE(siphash24(key, {}), 0x726fdb47dd0e0e31U);
}

}  // namespace
}  // namespace quern::crypto
