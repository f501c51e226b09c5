// The staking commands of quern-wallet: payloads from options. Used by quern_wallet.cpp only.
#pragma once

#include <CLI/CLI.hpp>

#include "chain/types/native_kinds.h"
#include "crypto/signature.h"

namespace quern::wallet {

struct StakeOptions {
    std::string validator;  // address
    std::string delegator;  // address; the sender when empty
    std::string amount;
    std::string validator_key;  // key file of the key that will sign votes; the sender's own when empty
    std::string validator_password_file;
    std::string evidence;  // hex, @FILE or @-
};

// The payload of create_validator, delegate, undelegate, withdraw_stake or evidence, sent by the owner of `sender`.
// Errors: those of amounts, addresses and key files, evidence.*, wallet.*.
[[nodiscard]] Expected<Bytes> stake_payload(chain::types::NativeKind kind, const StakeOptions& options,
                                            std::uint64_t chain_id, const crypto::PrivateKey& sender);
void add_stake_options(CLI::App& app, chain::types::NativeKind kind, StakeOptions& options);

}  // namespace quern::wallet
