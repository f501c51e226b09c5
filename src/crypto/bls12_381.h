// The curve BLS12-381 in the encoding of EIP-2537, through blst: what its contracts compute. Used by vm/evm; opening
// proofs on the same curve are in crypto/kzg.h. Pure; thread-safe.
//
//   Fp       64 bytes: 16 zeros, then the number, big endian, below p
//   Fp2     128 bytes: real part, i part
//   G1      128 bytes: x, y                    zeros alone stand for infinity
//   G2      256 bytes: x, y in Fp2
//   scalar   32 bytes: any number, big endian
//
// Errors of all: bls12_381.wrong_length, bls12_381.not_reduced (a number >= p, or no zeros before it),
// bls12_381.not_on_curve; bls12_381.not_in_group where a subgroup is asked for.
#pragma once

#include "base/bytes.h"
#include "base/expected.h"

namespace quern::crypto::bls12_381 {

inline constexpr std::size_t kFpBytes = 64;
inline constexpr std::size_t kFp2Bytes = 128;
inline constexpr std::size_t kScalarBytes = 32;
inline constexpr std::size_t kG1Bytes = 128;
inline constexpr std::size_t kG2Bytes = 256;
using G1 = FixedBytes<kG1Bytes>;
using G2 = FixedBytes<kG2Bytes>;

// The sum of two points of the curve, which need not be the group's.
[[nodiscard]] Expected<G1> add_g1(BytesView both);
[[nodiscard]] Expected<G2> add_g2(BytesView both);
// The sum of multiples of the group's points: `terms` are one or more of point, scalar. Memory: about as much as they
// take.
[[nodiscard]] Expected<G1> multiply_and_add_g1(BytesView terms);
[[nodiscard]] Expected<G2> multiply_and_add_g2(BytesView terms);
// Whether the product of the pairings is one; `pairs` are one or more of G1, G2, both their group's. Memory is the same
// however many.
[[nodiscard]] Expected<bool> is_pairing_product_one(BytesView pairs);
// RFC 9380's map of a field's element to a point of the group (SSWU, isogeny, cofactor).
[[nodiscard]] Expected<G1> map_to_g1(BytesView fp);
[[nodiscard]] Expected<G2> map_to_g2(BytesView fp2);

}  // namespace quern::crypto::bls12_381
