#include "crypto/p256.h"

#include <gtest/gtest.h>

#include "crypto/hash.h"

namespace quern::crypto {
namespace {

Hash32 word(std::string_view hex) { return *fixed_from_hex<32>(hex); }

// The example of RFC 6979, A.2.5: SHA-256 and the message "sample".
const P256Key kKey{word("60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6"),
                   word("7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299")};
const P256Signature kSignature{word("efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716"),
                               word("f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8")};
const Hash32 kOrder = word("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551");

TEST(P256, takes_the_signatures_of_rfc_6979) {
    EXPECT_TRUE(p256_verify(sha256(as_bytes("sample")), kSignature, kKey));
    EXPECT_TRUE(p256_verify(sha256(as_bytes("test")),
                            {word("f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367"),
                             word("019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083")},
                            kKey));
    EXPECT_FALSE(p256_verify(sha256(as_bytes("test")), kSignature, kKey));
}

TEST(P256, refuses_numbers_out_of_range_and_points_off_the_curve) {
    const Hash32 digest = sha256(as_bytes("sample"));
    EXPECT_FALSE(p256_verify(digest, {{}, kSignature.s}, kKey));
    EXPECT_FALSE(p256_verify(digest, {kSignature.r, {}}, kKey));
    EXPECT_FALSE(p256_verify(digest, {kOrder, kSignature.s}, kKey));
    EXPECT_FALSE(p256_verify(digest, {kSignature.r, kOrder}, kKey));
    EXPECT_FALSE(p256_verify(digest, kSignature, {{}, {}}));
    P256Key off = kKey;
    off.y.data[31] ^= 1;
    EXPECT_FALSE(p256_verify(digest, kSignature, off));
}

// The same residues, but not the numbers that name the point or the signature: x = 5 is one of the curve's, and 5 + p
// fits 32 bytes.
TEST(P256, refuses_numbers_that_are_not_reduced) {
    const P256Key small{word("0000000000000000000000000000000000000000000000000000000000000005"),
                        word("459243b9aa581806fe913bce99817ade11ca503c64d9a3c533415c083248fbcc")};
    const P256Key raised{word("ffffffff00000001000000000000000000000001000000000000000000000004"), small.y};
    // Any u1, u2: R = u1 G + u2 Q, r = R.x, s = r / u2, z = u1 s. With u1 = 0 and u2 = 1: R = Q, r = s = 5, z = 0.
    const P256Signature signature{small.x, small.x};
    EXPECT_TRUE(p256_verify({}, signature, small));
    EXPECT_FALSE(p256_verify({}, signature, raised));
    // 5 + n, likewise.
    const Hash32 above = word("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632556");
    EXPECT_FALSE(p256_verify({}, {small.x, above}, small));
    EXPECT_FALSE(p256_verify({}, {above, small.x}, small));
}

}  // namespace
}  // namespace quern::crypto
