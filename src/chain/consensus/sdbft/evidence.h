// Proof that a validator signed two votes that no honest one signs both. Anyone may send it to the chain as a native
// transaction. Pure; thread-safe.
//
//   evidence = rlp([epoch, view, public_key (64), [type, hash, signature (64)], [type, hash, signature (64)]])
//
// Slashable pairs (same epoch and view): two PROPOSE, two NOTARIZE or two FINALIZE with different hashes; FINALIZE(h)
// with NOTARIZE(h'); FINALIZE with NULLIFY. NOTARIZE with NULLIFY is legal, as is PROPOSE with anything else.
#pragma once

#include "chain/consensus/sdbft/keys.h"

namespace quern::chain::consensus::sdbft {

struct Evidence {
    crypto::PublicKey signer;
    Vote first;
    Signature first_signature;
    Vote second;
    Signature second_signature;
    bool operator==(const Evidence&) const = default;
};

[[nodiscard]] bool is_slashable_pair(const Vote& a, const Vote& b);
[[nodiscard]] Bytes encode(const Evidence& evidence);
// Errors: evidence.unknown_type, rlp.*.
[[nodiscard]] Expected<Evidence> decode_evidence(BytesView bytes);
// Whether it convicts the signer; that the signer was in the epoch's committee is the caller's to check.
// Errors: evidence.not_slashable, evidence.bad_signature.
[[nodiscard]] Status check_evidence(const Evidence& evidence, const ChainIdentity& chain, const Scheme& scheme);
// SHA-256("evidence" || sender || evidence): what a reporter puts into the chain before its evidence. It needs no salt:
// evidence holds signatures, and who can guess those has them already.
[[nodiscard]] Hash32 evidence_commitment(const types::Address& sender, BytesView evidence);
// Everybody that two certificates of one committee convict.
[[nodiscard]] std::vector<Evidence> conflicts_between(const Certificate& a, const Certificate& b,
                                                      const Committee& committee);

}  // namespace quern::chain::consensus::sdbft
