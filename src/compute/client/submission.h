// A task's way onto the chain, paid once: what it costs at most, one signed transaction, and sending that same
// transaction until a block has it. Used by quern-train over the worker's view of a node. One thread.
#pragma once

#include <optional>

#include "chain/types/transaction.h"
#include "compute/client/job_file.h"
#include "compute/worker/node_view.h"
#include "crypto/signature.h"
#include "wallet/task.h"

namespace quern::compute::client {

// What --budget says: as wallet::parse_amount() takes it, also with a blank before the unit. Errors: amount.*,
// uint256.*.
[[nodiscard]] Expected<Uint256> parse_budget(const std::string& text);

struct Offer {
    chain::types::TaskSubmitPayload spec;  // with the price cap
    wallet::Price price;
    chain::types::Transaction tx;  // unsigned
    Uint256 fee;                   // at most
    Uint256 most;                  // escrow and fee
};
// With the price cap of `options`, else with the highest that the budget pays for. `options.params` are the chain's.
// Errors: train.budget_too_small (the detail says what is needed), train.not_enough_balance; those of
// wallet::price_of(), worker::compose_native() and the node.
[[nodiscard]] Expected<Offer> make_offer(worker::NodeView& node, const chain::types::Address& from,
                                         const Uint256& balance, std::uint64_t chain_id,
                                         chain::types::TaskSubmitPayload spec, const wallet::SpecOptions& options,
                                         const Uint256& budget);

// Signs the offer with the account's nonce as of now, and what is to be saved before it is sent. Errors: tx.*, the
// node's.
[[nodiscard]] Expected<Job> sign_offer(worker::NodeView& node, const Offer& offer, const crypto::PrivateKey& key,
                                       std::uint64_t chain_id, const Hash32& training);

// Looks for the job's transaction in a block, and sends it where the node does not have it: never another one. nullopt:
// it waits. Errors: train.refused (the node takes it not, and no block has it; the detail says why); those of the kind
// busy say nothing.
[[nodiscard]] Expected<std::optional<worker::TransactionOutcome>> push(worker::NodeView& node, const Job& job);
[[nodiscard]] Hash32 transaction_of(const Job& job);

// The task's id and the fee paid, of a receipt as eth_getTransactionReceipt answers it. Errors: train.bad_receipt
// (busy).
struct Submitted {
    std::uint64_t task = 0;
    Uint256 fee;
};
[[nodiscard]] Expected<Submitted> read_receipt(const json::Value& receipt);

}  // namespace quern::compute::client
