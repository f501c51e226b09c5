// ECDSA over secp256k1 as Ethereum uses it: recoverable signatures, low S, addresses from keys. Used by transactions,
// votes, certificates, the wallet. One shared context that is blinded at first use; all functions are thread-safe.
#pragma once

#include "base/bytes.h"
#include "base/expected.h"
#include "base/rng.h"
#include "base/uint256.h"

namespace quern::crypto {

// The order of the group (SEC 2, secp256k1).
inline constexpr Uint256 kCurveOrder{0xffffffffffffffff, 0xfffffffffffffffe, 0xbaaedce6af48a03b, 0xbfd25e8cd0364141};

// A secret scalar in 1..order-1. Move-only and wiped on destruction; it has no text form, so it cannot reach a log.
class PrivateKey {
public:
    // Errors: key.wrong_length, key.out_of_range.
    [[nodiscard]] static Expected<PrivateKey> from_bytes(BytesView bytes);
    // As many draws as it takes to be in range; `rng` is OsRng outside tests.
    [[nodiscard]] static PrivateKey generate(Rng& rng);

    PrivateKey(PrivateKey&& other) noexcept;
    PrivateKey& operator=(PrivateKey&& other) noexcept;
    PrivateKey(const PrivateKey&) = delete;
    PrivateKey& operator=(const PrivateKey&) = delete;
    ~PrivateKey();

    [[nodiscard]] PrivateKey clone() const;
    // The secret itself: for signing and for encrypting into a keystore.
    [[nodiscard]] BytesView secret_bytes() const { return secret_; }

private:
    PrivateKey() = default;
    Hash32 secret_;
};

// Uncompressed point without the leading 0x04: x, then y, big endian.
struct PublicKey {
    FixedBytes<64> bytes;
    constexpr auto operator<=>(const PublicKey&) const = default;
};

struct RecoverableSignature {
    Hash32 r;
    Hash32 s;
    std::uint8_t y_parity = 0;  // 0 or 1

    constexpr auto operator<=>(const RecoverableSignature&) const = default;
    // r then s.
    [[nodiscard]] FixedBytes<64> compact() const;
};

[[nodiscard]] PublicKey derive_public(const PrivateKey& key);
// The last 20 bytes of keccak256 of the public key.
[[nodiscard]] Bytes20 address20(const PublicKey& key);
[[nodiscard]] Bytes20 address20(const PrivateKey& key);

// Deterministic (RFC 6979), low S.
[[nodiscard]] RecoverableSignature sign(const Hash32& digest, const PrivateKey& key);
// Accepts high S (callers that must not, ask is_low_s first). Errors: signature.bad_parity, signature.out_of_range,
// signature.not_recoverable.
[[nodiscard]] Expected<PublicKey> recover(const Hash32& digest, const RecoverableSignature& signature);
// `signature` is r then s. High S is false, as are out-of-range values and points off the curve.
[[nodiscard]] bool verify(const Hash32& digest, const FixedBytes<64>& signature, const PublicKey& key);
// s <= order / 2 (EIP-2).
[[nodiscard]] bool is_low_s(const Hash32& s);

}  // namespace quern::crypto
