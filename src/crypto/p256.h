// Verification of ECDSA signatures over P-256 (secp256r1; FIPS 186-5, section 6.4.2), through OpenSSL. Used by the
// EVM's contract 0x0100 (EIP-7951). Pure; thread-safe.
#pragma once

#include "base/bytes.h"

namespace quern::crypto {

struct P256Signature {
    Hash32 r;
    Hash32 s;
};
// An affine point's coordinates, big endian.
struct P256Key {
    Hash32 x;
    Hash32 y;
};

// False as well for r or s outside 1..n-1 and for keys that are no point of the curve (a coordinate >= p, or 0, 0).
// High s is taken.
[[nodiscard]] bool p256_verify(const Hash32& digest, const P256Signature& signature, const P256Key& key);

}  // namespace quern::crypto
