// KZG proofs of evaluations on BLS12-381 (EIP-4844, "Point evaluation precompile"), with the powers of Ethereum's
// ceremony of 2023, of which checking needs one. Through blst. Used by the EVM's contract 0x0a. Pure; thread-safe.
#pragma once

#include "base/bytes.h"
#include "base/expected.h"

namespace quern::crypto {

// Points of G1, compressed as the specifications of consensus do (ZCash's form); numbers big endian.
using KzgPoint = FixedBytes<48>;

// Whether the polynomial of the commitment is y at z. Errors: kzg.bad_point (no encoding of a point of G1),
// kzg.not_reduced (z or y is not below the group's order), kzg.wrong_proof.
[[nodiscard]] Status verify_kzg_proof(const KzgPoint& commitment, const Hash32& z, const Hash32& y,
                                      const KzgPoint& proof);

}  // namespace quern::crypto
