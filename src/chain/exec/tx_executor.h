// One transaction: what it must meet before it may be in a block, and its effect. Used by BlockExecution, simulate and
// precheck. Pure functions over the overlay they are given.
#pragma once

#include "chain/exec/block_executor.h"
#include "chain/exec/handlers/handler.h"

namespace quern::chain::exec {

// --- Before execution ------------------------------------------------------------------------------------------------
// Gas that is due before anything runs: Ethereum's intrinsic gas, for native transactions the kind's fixed part too.
[[nodiscard]] std::uint64_t due_gas(const types::Transaction& tx);
struct GasCosts {
    std::uint64_t due = 0;    // due_gas
    std::uint64_t floor = 0;  // EIP-7623
};
[[nodiscard]] GasCosts gas_costs(const types::Transaction& tx);
// What needs no state: types and kinds that are active, chain id, fee fields, sizes, gas limit, the native payload.
struct FormCheck {
    Result result;
    std::unique_ptr<const handlers::CheckedCall> native;  // the decoded payload of a native transaction, when ok
};
[[nodiscard]] FormCheck check_stateless(const params::ChainParams& params, const types::RecoveredTransaction& tx,
                                        const GasCosts& costs);
// Nonce and balance of the sender's account. With `exact_nonce` a nonce ahead of the account's is Band::retry, else it
// is ok.
[[nodiscard]] Result check_account(const state::Account& account, const types::RecoveredTransaction& tx,
                                   bool exact_nonce);

// --- Execution -------------------------------------------------------------------------------------------------------
struct Message {
    types::Address from;
    std::optional<types::Address> to;  // absent only when native
    Uint256 value;
    BytesView data;  // call data, or the native payload
    std::optional<types::NativeKind> native_kind;
    const handlers::CheckedCall* native = nullptr;  // `data` decoded, where that was done before
    std::uint64_t gas = 0;                          // limit, intrinsic gas included
    std::uint64_t gas_charged = 0;                  // due_gas
    std::uint64_t gas_floor = 0;                    // EIP-7623
};
struct Outcome {
    bool success = false;
    std::uint64_t gas_used = 0;
    Bytes output;  // revert data
    Error error;   // when !success
};
// Runs the message; on failure the overlay is as before. Fees and nonce are the caller's.
[[nodiscard]] Outcome run_message(const params::ChainParams& params, state::Overlay& overlay, std::uint64_t height,
                                  const Message& message, ExecutionObserver* observer);

}  // namespace quern::chain::exec
