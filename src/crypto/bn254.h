// The groups of BN254 (alt_bn128), the curve of Ethereum's pairing contracts (EIP-196, EIP-197): points from and to
// bytes, sums and multiples. Of our own: no library of Debian has this curve. Used by vm/evm; pairings are in
// crypto/bn254_pairing.h. Nothing is secret and times depend on values. Pure; thread-safe.
//
//   G1: y^2 = x^3 + 3 over Fp                  64 bytes: x, y
//   G2: y^2 = x^3 + 3 / (9 + i) over Fp2      128 bytes: x's i part, x's real part, y's i part, y's real part
//
// Numbers are 32 bytes, big endian; zeros alone stand for infinity. G1 has prime order; of the twisted curve G2 is the
// subgroup of that order.
#pragma once

#include "base/expected.h"
#include "crypto/bn254_curve.h"

namespace quern::crypto::bn254 {

inline constexpr std::size_t kG1Bytes = 64;
inline constexpr std::size_t kG2Bytes = 128;

// Errors: bn254.wrong_length, bn254.not_reduced (a number >= p), bn254.not_on_curve.
[[nodiscard]] Expected<G1> decode_g1(BytesView bytes);
// Also bn254.not_in_group.
[[nodiscard]] Expected<G2> decode_g2(BytesView bytes);
[[nodiscard]] FixedBytes<kG1Bytes> encode(const G1& point);

[[nodiscard]] G1 add(const G1& p, const G1& q);
// The scalar may be any.
[[nodiscard]] G1 multiply(const G1& point, const Uint256& scalar);

// Whether a point of the twisted curve has the group's order.
[[nodiscard]] bool is_in_group(const G2& point);
// The map pi that Frobenius' makes on the twisted curve, `power` times (1 to 3): the group's points are multiplied by
// p^power.
[[nodiscard]] G2 frobenius(const G2& point, unsigned power);

}  // namespace quern::crypto::bn254
