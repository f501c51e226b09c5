// Payloads of bonds and stakes from what a person wrote. Used by quern-wallet. Reads key files; thread-safe.
#pragma once

#include <string>

#include "chain/types/native_kinds.h"
#include "crypto/signature.h"

namespace quern::wallet {

struct StakeOptions {
    std::string validator;  // address
    std::string delegator;  // address; the sender when empty
    std::string amount;
    std::string validator_key;  // key file of the key that will sign votes; the sender's own when empty
    std::string validator_password_file;
    std::string evidence;  // hex, or @FILE
};

// The payload of create_validator, delegate, undelegate, withdraw_stake, evidence or evidence_commit (to
// `options.evidence`), sent by the owner of `sender`.
// Errors: those of amounts, addresses and key files, evidence.*, wallet.*.
[[nodiscard]] Expected<Bytes> stake_payload(chain::types::NativeKind kind, const StakeOptions& options,
                                            std::uint64_t chain_id, const crypto::PrivateKey& sender);
// role: solver, verifier, whistleblower or custodian. Errors: wallet.unknown_role, amount.*, uint256.*.
[[nodiscard]] Expected<Bytes> bond_payload(const std::string& role, const std::string& amount);

}  // namespace quern::wallet
