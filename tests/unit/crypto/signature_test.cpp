#include "crypto/signature.h"

#include <gtest/gtest.h>

#include "crypto/hash.h"
#include "crypto/keystore.h"

namespace quern::crypto {
namespace {

PrivateKey key_from(std::string_view hex) { return std::move(*PrivateKey::from_bytes(*from_hex(hex))); }
const char* const kOne = "0000000000000000000000000000000000000000000000000000000000000001";

TEST(Signature, known_keys_have_their_known_addresses) {
    EXPECT_EQ(to_hex(address20(key_from(kOne))), "7e5f4552091a69125d5dfcb7b8c2659029395bdf");
    EXPECT_EQ(to_hex(address20(key_from("c85ef7d79691fe79573b1a7064c19c1a9819ebdbd1faaab1a8ec92344438aaf4"))),
              "cd2a3d9f938e13cd947ec05abc7fe734df8dd826");
}

TEST(Signature, signing_is_deterministic_low_s_and_recoverable) {
    SeededRng rng(5);
    for (int i = 0; i < 200; ++i) {
        const PrivateKey key = PrivateKey::generate(rng);
        Hash32 digest;
        rng.fill(digest.data);
        const auto signature = sign(digest, key);
        EXPECT_EQ(signature, sign(digest, key));
        EXPECT_TRUE(is_low_s(signature.s));
        EXPECT_EQ(*recover(digest, signature), derive_public(key));
        EXPECT_TRUE(verify(digest, signature.compact(), derive_public(key)));
        Hash32 other = digest;
        other.data[0] ^= 1;
        EXPECT_FALSE(verify(other, signature.compact(), derive_public(key)));
        const auto wrong = recover(other, signature);
        EXPECT_TRUE(!wrong || *wrong != derive_public(key));
    }
}

TEST(Signature, rfc_6979_vector) {
    // Widely published for secp256k1: key 1, SHA-256("Satoshi Nakamoto").
    const auto signature = sign(sha256(as_bytes("Satoshi Nakamoto")), key_from(kOne));
    EXPECT_EQ(to_hex(signature.r), "934b1ea10a4b3c1757e2b0c017d0b6143ce3c9a7e6a4a49860d7a6ab210ee3d8");
    EXPECT_EQ(to_hex(signature.s), "2442ce9d2b916064108014783e923ec36b49743e2ffa1c4496f01a512aafd9e5");
}

TEST(Signature, refuses_values_out_of_range) {
    const PrivateKey key = key_from(kOne);
    const Hash32 digest = sha256({});
    const auto good = sign(digest, key);
    auto bad = good;
    bad.r = {};
    EXPECT_EQ(recover(digest, bad).error().name, "signature.out_of_range");
    bad = good;
    bad.s = kCurveOrder.to_be32();
    EXPECT_EQ(recover(digest, bad).error().name, "signature.out_of_range");
    bad = good;
    bad.y_parity = 2;
    EXPECT_EQ(recover(digest, bad).error().name, "signature.bad_parity");
    // The same signature with s replaced by order - s: recovery allows it, verification and is_low_s do not.
    auto high = good;
    high.s = (kCurveOrder - Uint256::from_be(good.s)).to_be32();
    high.y_parity ^= 1;
    EXPECT_FALSE(is_low_s(high.s));
    EXPECT_EQ(*recover(digest, high), derive_public(key));
    EXPECT_FALSE(verify(digest, high.compact(), derive_public(key)));
    PublicKey off_curve = derive_public(key);
    off_curve.bytes.data[63] ^= 1;
    EXPECT_FALSE(verify(digest, good.compact(), off_curve));
}

TEST(Signature, private_keys_are_in_range_and_wiped_when_moved) {
    EXPECT_EQ(PrivateKey::from_bytes(Bytes(31)).error().name, "key.wrong_length");
    EXPECT_EQ(PrivateKey::from_bytes(Bytes(32)).error().name, "key.out_of_range");
    EXPECT_EQ(PrivateKey::from_bytes(kCurveOrder.to_be32()).error().name, "key.out_of_range");
    PrivateKey key = key_from(kOne);
    const PrivateKey copy = key.clone();
    const PrivateKey moved = std::move(key);
    EXPECT_TRUE(Hash32::copy_of(key.secret_bytes()).is_zero());  // NOLINT: what moving leaves is the point
    EXPECT_EQ(address20(copy), address20(moved));
}

TEST(Keystore, opens_what_it_wrote_and_nothing_else) {
    SeededRng rng(1);
    const PrivateKey key = PrivateKey::generate(rng);
    const ScryptCost cheap{16, 1, 1};
    const auto file = encrypt_key(key, "pässword", rng, cheap).value();
    const std::string text = file.dump_pretty();
    EXPECT_EQ(text.find(to_hex(key.secret_bytes())), std::string::npos);
    EXPECT_EQ(address20(decrypt_key(std::string_view(text), "pässword").value()), address20(key));
    EXPECT_EQ(decrypt_key(std::string_view(text), "password").error().name, "keystore.wrong_password");
    auto renamed = file;
    renamed.set("address", std::string(40, '0'));
    EXPECT_EQ(decrypt_key(renamed, "pässword").error().name, "keystore.address_mismatch");
    auto crypto = **file.get_object("crypto");
    crypto.set("ciphertext", std::string(64, '0'));
    auto damaged = file;
    damaged.set("crypto", crypto);
    EXPECT_EQ(decrypt_key(damaged, "pässword").error().name, "keystore.wrong_password");
}

TEST(Keystore, costs_are_refused_before_memory_is_taken) {
    SeededRng rng(1);
    const PrivateKey key = PrivateKey::generate(rng);
    const auto file = encrypt_key(key, "x", rng, {16, 1, 1}).value();
    const auto with = [&](std::string_view field, std::uint64_t value) {
        auto crypto = **file.get_object("crypto");
        auto parameters = **crypto.get_object("kdfparams");
        parameters.set(field, value);
        crypto.set("kdfparams", parameters);
        auto changed = file;
        changed.set("crypto", crypto);
        return std::string(decrypt_key(changed, "x").error().name);
    };
    EXPECT_EQ(with("n", 1ULL << 40), "keystore.too_costly");
    EXPECT_EQ(with("n", 1ULL << 63), "keystore.too_costly");
    EXPECT_EQ(with("n", 15), "keystore.bad_cost");
    EXPECT_EQ(with("n", 0), "keystore.bad_cost");
    EXPECT_EQ(with("r", 0xffffffff), "keystore.too_costly");
    EXPECT_EQ(with("r", 1ULL << 40), "keystore.too_costly");
    EXPECT_EQ(with("p", 0xffffffff), "keystore.too_costly");
    EXPECT_EQ(with("dklen", 1ULL << 30), "keystore.unsupported");
    EXPECT_EQ(decrypt_key(std::string_view("{}"), "x").error().name, "json.missing_field");
    EXPECT_EQ(decrypt_key(std::string_view("["), "x").error().name, "json.syntax");
    const std::string spaces(20000, ' ');
    EXPECT_EQ(decrypt_key(std::string_view(spaces), "x").error().name, "json.too_large");
}

}  // namespace
}  // namespace quern::crypto
