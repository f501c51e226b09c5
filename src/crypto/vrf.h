// A verifiable random function on secp256k1: for each key and message there is one output, only the key's owner can
// compute it, and everybody can check it. RFC 9381's ECVRF construction with SHA-256 and try-and-increment; the RFC
// defines no suite for this curve, so the suite byte is 0xFE. Used by the beacon: ECDSA signatures are not unique and
// would let a proposer choose. Vectors: doc/consensus.md. Thread-safe: pure functions.
//
//   proof = point(Gamma) (33, compressed) || c (16, big endian) || s (32, big endian)
//
// Proving multiplies secret scalars only through secp256k1_ecdh, ec_pubkey_create and the seckey functions, which are
// constant-time; ec_pubkey_tweak_mul is not and sees public values only.
#pragma once

#include "crypto/signature.h"

namespace quern::crypto {

using VrfProof = FixedBytes<81>;
inline constexpr std::uint8_t kVrfSuite = 0xFE;

struct VrfResult {
    VrfProof proof;
    Hash32 output;  // RFC 9381's beta: SHA-256(suite || 0x03 || Gamma || 0x00)
};

// Deterministic (the nonce is RFC 6979's).
[[nodiscard]] VrfResult vrf_prove(const PrivateKey& key, BytesView message);
// The output, when the proof is `key`'s for this message. Errors: vrf.wrong_length, vrf.bad_key, vrf.bad_point,
// vrf.out_of_range, vrf.wrong_proof.
[[nodiscard]] Expected<Hash32> vrf_verify(const PublicKey& key, BytesView message, BytesView proof);
// The output that a proof stands for, unchecked. Errors: vrf.wrong_length, vrf.bad_point.
[[nodiscard]] Expected<Hash32> vrf_output(BytesView proof);

}  // namespace quern::crypto
