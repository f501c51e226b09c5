#include "crypto/vrf.h"

#include <gtest/gtest.h>

namespace quern::crypto {
namespace {

struct Vector {
    const char* key;
    const char* message;
    const char* proof;
    const char* output;
};
// From vrf_reference.py, which reproduces RFC 9381's P-256 example with the same code.
const Vector kVectors[] = {
    {"0000000000000000000000000000000000000000000000000000000000000001", "",
     "024192220588c4ef502f5d2ab75552edfbe0256cebb0424efb9c4c58f438c3dcb43740e701a78589f1"
     "3a3577908db37b1ddb55edaf0706552da59a41b69be3740878407cf6d13675cd94802a33b5e629f7",
     "6bf7eda22a89f87fb8c8e17fa111727ca02d0a23db29fdcbe7ac84280e8bde24"},
    {"c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721", "73616d706c65",
     "0338ec99b5d0f94ebcc2c704c04af3de8b4289df8798e5fb9f920d7f5d77ac03d7718b9677d1c93486"
     "49ac2ec4f7ecbe519b30dd10c4eb5efc21dd5944709f2f3b7e97a25f6f095334593502d05103bc5b",
     "d466c22e14dc3b7fd169668dd3ee9ac6351429a24aebc5e8af61a0f0de89b65a"},
    {"fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364140", "74657374",
     "03e22b17045ab9de437e4e82ede79121fda66e238a70fc44f19f993b2c4ad3edc0f382f74bee6a0c77"
     "5b8fc05e465141b44cbc381786335f1e683da78c7a00e58e8e0c1846744a7fe504308cdaea0b4589",
     "642e3b7354de225d231fd407468b415c22ff4dcf57538f1fff585a95816d6ac9"},
    {"c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721",
     "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
     "02138e38e947b1d5e039d6f77babb301d635cf4722ae36fc22ec90bca076c49374acdd4fb1756af31c"
     "b1a138dfa73de5bcf4d9b0231e7bfacdae03680f9da88b1c00a07be1dcc7043f3bbccd274c725434",
     "68721e3a3f20a63f739e819ffde2ff839c75304668622b7ca99fa889aba1b2fe"},
};

PrivateKey key_from(std::string_view hex) { return std::move(*PrivateKey::from_bytes(*from_hex(hex))); }

TEST(Vrf, reproduces_the_vectors_of_an_independent_implementation) {
    for (const auto& vector : kVectors) {
        const PrivateKey key = key_from(vector.key);
        const Bytes message = *from_hex(vector.message);
        const auto result = vrf_prove(key, message);
        EXPECT_EQ(to_hex(result.proof), vector.proof);
        EXPECT_EQ(to_hex(result.output), vector.output);
        const auto verified = vrf_verify(derive_public(key), message, *from_hex(vector.proof));
        ASSERT_TRUE(verified) << verified.error().to_string();
        EXPECT_EQ(to_hex(*verified), vector.output);
        EXPECT_EQ(to_hex(*vrf_output(*from_hex(vector.proof))), vector.output);
    }
}

TEST(Vrf, proves_and_verifies_with_many_keys_and_messages) {
    SeededRng rng(7);
    for (int i = 0; i < 50; ++i) {
        const PrivateKey key = PrivateKey::generate(rng);
        Bytes message(static_cast<std::size_t>(i));
        rng.fill(message);
        const auto result = vrf_prove(key, message);
        EXPECT_EQ(vrf_prove(key, message).proof, result.proof);
        EXPECT_EQ(*vrf_verify(derive_public(key), message, result.proof), result.output);
    }
}

TEST(Vrf, refuses_another_key_message_or_any_changed_bit) {
    SeededRng rng(8);
    const PrivateKey key = PrivateKey::generate(rng);
    const PublicKey public_key = derive_public(key);
    const auto result = vrf_prove(key, as_bytes("beacon"));
    EXPECT_EQ(vrf_verify(derive_public(PrivateKey::generate(rng)), as_bytes("beacon"), result.proof).error().name,
              "vrf.wrong_proof");
    EXPECT_EQ(vrf_verify(public_key, as_bytes("beacoN"), result.proof).error().name, "vrf.wrong_proof");
    for (std::size_t bit = 0; bit < 8 * VrfProof::kSize; ++bit) {
        VrfProof changed = result.proof;
        changed.data[bit / 8] = static_cast<std::uint8_t>(changed.data[bit / 8] ^ 1U << (bit % 8));
        EXPECT_FALSE(vrf_verify(public_key, as_bytes("beacon"), changed)) << "bit " << bit;
    }
}

TEST(Vrf, names_what_is_malformed) {
    SeededRng rng(9);
    const PrivateKey key = PrivateKey::generate(rng);
    const PublicKey public_key = derive_public(key);
    VrfProof proof = vrf_prove(key, {}).proof;
    EXPECT_EQ(vrf_verify(public_key, {}, BytesView(proof).first(80)).error().name, "vrf.wrong_length");
    EXPECT_EQ(vrf_verify(public_key, {}, Bytes(82)).error().name, "vrf.wrong_length");
    EXPECT_EQ(vrf_verify(PublicKey{}, {}, proof).error().name, "vrf.bad_key");
    VrfProof bad_point = proof;
    bad_point.data[0] = 0x05;
    EXPECT_EQ(vrf_verify(public_key, {}, bad_point).error().name, "vrf.bad_point");
    EXPECT_EQ(vrf_output(bad_point).error().name, "vrf.bad_point");
    // s + order: the same scalar, another encoding.
    VrfProof large = proof;
    std::memcpy(large.data.data() + 49, kCurveOrder.to_be32().data.data(), 32);
    EXPECT_EQ(vrf_verify(public_key, {}, large).error().name, "vrf.out_of_range");
    std::memset(proof.data.data() + 49, 0, 32);
    EXPECT_EQ(vrf_verify(public_key, {}, proof).error().name, "vrf.out_of_range");
}

}  // namespace
}  // namespace quern::crypto
