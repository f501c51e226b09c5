#include "crypto/signature.h"

#include <openssl/crypto.h>
#include <secp256k1_recovery.h>

#include <atomic>
#include <cstdlib>

#include "crypto/hash.h"
#include "crypto/recovery_count.h"
#include "crypto/secp256k1_context.h"

namespace quern::crypto {
namespace {

std::atomic<std::uint64_t> recovery_count{0};

const secp256k1_context* context() { return secp256k1_shared_context(); }

PublicKey serialize(const secp256k1_pubkey& point) {
    std::array<std::uint8_t, 65> encoded;
    std::size_t size = encoded.size();
    secp256k1_ec_pubkey_serialize(context(), encoded.data(), &size, &point, SECP256K1_EC_UNCOMPRESSED);
    return {FixedBytes<64>::copy_of(BytesView(encoded).subspan(1))};
}

}  // namespace

Expected<PrivateKey> PrivateKey::from_bytes(BytesView bytes) {
    if (bytes.size() != Hash32::kSize) return fail("key.wrong_length", "a private key has 32 bytes");
    if (secp256k1_ec_seckey_verify(context(), bytes.data()) != 1) return fail("key.out_of_range");
    PrivateKey key;
    key.secret_ = Hash32::copy_of(bytes);
    return key;
}

PrivateKey PrivateKey::generate(Rng& rng) {
    PrivateKey key;
    do rng.fill(key.secret_.data);
    while (secp256k1_ec_seckey_verify(context(), key.secret_.data.data()) != 1);
    return key;
}

PrivateKey::PrivateKey(PrivateKey&& other) noexcept : secret_(other.secret_) {
    OPENSSL_cleanse(other.secret_.data.data(), Hash32::kSize);
}

PrivateKey& PrivateKey::operator=(PrivateKey&& other) noexcept {
    if (this != &other) {
        secret_ = other.secret_;
        OPENSSL_cleanse(other.secret_.data.data(), Hash32::kSize);
    }
    return *this;
}

PrivateKey::~PrivateKey() { OPENSSL_cleanse(secret_.data.data(), Hash32::kSize); }

PrivateKey PrivateKey::clone() const {
    PrivateKey copy;
    copy.secret_ = secret_;
    return copy;
}

FixedBytes<64> RecoverableSignature::compact() const {
    FixedBytes<64> both;
    std::memcpy(both.data.data(), r.data.data(), 32);
    std::memcpy(both.data.data() + 32, s.data.data(), 32);
    return both;
}

PublicKey derive_public(const PrivateKey& key) {
    secp256k1_pubkey point;
    // Only a moved-from key can fail; using one is a programming error.
    if (secp256k1_ec_pubkey_create(context(), &point, key.secret_bytes().data()) != 1) std::abort();
    return serialize(point);
}

Bytes20 address20(const PublicKey& key) { return Bytes20::copy_of(keccak256(key.bytes).view().subspan(12)); }

Bytes20 address20(const PrivateKey& key) { return address20(derive_public(key)); }

RecoverableSignature sign(const Hash32& digest, const PrivateKey& key) {
    secp256k1_ecdsa_recoverable_signature signature;
    FixedBytes<64> compact;
    int recovery_id = 0;
    // The extra entropy that is tried when r overflowed the order (chance 2^-128) keeps the result deterministic.
    Hash32 extra;
    for (std::uint8_t attempt = 0;; ++attempt) {
        extra.data[0] = attempt;
        const void* nonce_data = attempt == 0 ? nullptr : extra.data.data();
        if (secp256k1_ecdsa_sign_recoverable(context(), &signature, digest.data.data(), key.secret_bytes().data(),
                                             secp256k1_nonce_function_rfc6979, nonce_data) != 1)
            std::abort();
        secp256k1_ecdsa_recoverable_signature_serialize_compact(context(), compact.data.data(), &recovery_id,
                                                                &signature);
        if (recovery_id < 2) break;
    }
    return {Hash32::copy_of(compact.view().first(32)), Hash32::copy_of(compact.view().subspan(32)),
            static_cast<std::uint8_t>(recovery_id)};
}

std::uint64_t recoveries() { return recovery_count.load(std::memory_order_relaxed); }

Expected<PublicKey> recover(const Hash32& digest, const RecoverableSignature& signature) {
    if (signature.y_parity > 1) return fail("signature.bad_parity");
    if (signature.r.is_zero() || signature.s.is_zero()) return fail("signature.out_of_range");
    secp256k1_ecdsa_recoverable_signature parsed;
    if (secp256k1_ecdsa_recoverable_signature_parse_compact(context(), &parsed, signature.compact().data.data(),
                                                            signature.y_parity) != 1)
        return fail("signature.out_of_range");
    recovery_count.fetch_add(1, std::memory_order_relaxed);
    secp256k1_pubkey point;
    if (secp256k1_ecdsa_recover(context(), &point, &parsed, digest.data.data()) != 1)
        return fail("signature.not_recoverable");
    return serialize(point);
}

bool verify(const Hash32& digest, const FixedBytes<64>& signature, const PublicKey& key) {
    std::array<std::uint8_t, 65> encoded;
    encoded[0] = 0x04;
    std::memcpy(encoded.data() + 1, key.bytes.data.data(), 64);
    secp256k1_pubkey point;
    if (secp256k1_ec_pubkey_parse(context(), &point, encoded.data(), encoded.size()) != 1) return false;
    secp256k1_ecdsa_signature parsed;
    if (secp256k1_ecdsa_signature_parse_compact(context(), &parsed, signature.data.data()) != 1) return false;
    return secp256k1_ecdsa_verify(context(), &parsed, digest.data.data(), &point) == 1;
}

bool is_low_s(const Hash32& s) { return Uint256::from_be(s) <= kCurveOrder >> 1; }

}  // namespace quern::crypto
