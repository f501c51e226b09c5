// What a validator's key signs to show that its owner wants it to vote: else anybody could stake for somebody else's
// key, and bring it into a committee that waits for its votes. Used by wallets and by execution. Pure; thread-safe.
//
//   digest = SHA-256("QUERN-VALIDATOR!" (16) || chain_id (8) || owner (20)); the proof is r || s with low s (64)
#pragma once

#include "chain/types/address.h"
#include "crypto/signature.h"

namespace quern::chain::types {

[[nodiscard]] Hash32 validator_proof_digest(std::uint64_t chain_id, const Address& owner);
[[nodiscard]] Bytes sign_validator_proof(std::uint64_t chain_id, const Address& owner, const crypto::PrivateKey& key);
// Errors validator.bad_key, validator.bad_proof.
[[nodiscard]] Status check_validator_proof(std::uint64_t chain_id, const Address& owner, BytesView public_key,
                                           BytesView proof);

}  // namespace quern::chain::types
