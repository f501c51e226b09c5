// eth_*: sending transactions, finding them and their receipts.
#include "rpc/methods/backend.h"
#include "rpc/methods/eth_json.h"

namespace quern::rpc::methods {
namespace {

using chain::api::BlockSelector;

std::vector<ErrorInfo> send_errors() {
    std::vector<ErrorInfo> errors;
    for (const auto& refusal : chain::exec::kRefusals) errors.push_back({kServerError, refusal.text});
    return errors;
}

}  // namespace

Status add_transaction_methods(Registry& registry, const Backend& backend) {
    const auto* chain = backend.chain;
    auto* submitter = backend.submitter;
    const auto transaction_at = [chain](const BlockSelector& selector, const Uint256& index) -> Result {
        const auto block = chain->block(selector);
        if (!block || !(index < Uint256(block->block.transactions.size()))) return json::Value();
        QUERN_RPC_TRY(const auto transaction, transaction_in(*block, index.low_u64()));
        return transaction_json(transaction, block->block.header.timestamp);
    };
    const auto answer = [](const chain::api::Submission& submission) -> Result {
        if (submission) return hex(submission.hash);
        return rpc_fail(kServerError, submission.result.to_string());
    };
    QUERN_CHECK(registry.add(
        {"eth_sendRawTransaction",
         "Checks a signed transaction (types 0, 1, 2 or Quern's 0x51) and queues it.",
         {{"transaction", Kind::data, true, "the signed envelope"}},
         {"hash", "the transaction's hash"},
         send_errors(),
         {},
         [answer, submitter](const Call& call) -> Result { return answer(submitter->submit(call.data(0))); },
         Access::open,
         {},
         [answer, submitter](std::span<const Call> calls) {
             std::vector<Bytes> encoded;
             for (const Call& call : calls) encoded.push_back(call.data(0));
             std::vector<Result> results;
             for (const auto& submission : submitter->submit_all(encoded, {})) results.push_back(answer(submission));
             return results;
         }}));
    QUERN_CHECK(registry.add({"eth_getTransactionByHash",
                              "A transaction by hash, also while it waits. A native transaction is shown as a type-2 "
                              "call to its reserved address, with its own fields under \"quern\".",
                              {{"hash", Kind::hash, true, "the transaction's hash"}},
                              {"object or null", "the transaction; null when it is unknown"},
                              {},
                              {},
                              [chain](const Call& call) -> Result {
                                  const auto transaction = chain->transaction(call.hash(0));
                                  if (!transaction) return json::Value();
                                  return transaction_json(*transaction, block_timestamp_of(*chain, *transaction));
                              }}));
    QUERN_CHECK(registry.add(
        {"eth_getTransactionByBlockHashAndIndex",
         "A block's transaction by its place.",
         {{"hash", Kind::hash, true, "the block's hash"}, {"index", Kind::quantity, true, "the place, from 0"}},
         {"object or null", "the transaction; null when there is none"},
         {},
         {},
         [=](const Call& call) -> Result {
             return transaction_at({BlockSelector::Kind::hash, 0, call.hash(0)}, call.quantity(1));
         }}));
    QUERN_CHECK(registry.add(
        {"eth_getTransactionByBlockNumberAndIndex",
         "A block's transaction by its place.",
         {{"block", Kind::block, true, "number or tag"}, {"index", Kind::quantity, true, "the place, from 0"}},
         {"object or null", "the transaction; null when there is none"},
         {},
         {},
         [=](const Call& call) -> Result { return transaction_at(call.block(0), call.quantity(1)); }}));
    return registry.add({"eth_getTransactionReceipt",
                         "The receipt of a transaction in a finalized block. A failed one has the failure's name under "
                         "\"quern\".",
                         {{"hash", Kind::hash, true, "the transaction's hash"}},
                         {"object or null", "the receipt; null while the transaction waits or is unknown"},
                         {},
                         {},
                         [chain](const Call& call) -> Result {
                             const auto receipt = chain->receipt(call.hash(0));
                             if (!receipt || !receipt->transaction.block_hash) return json::Value();
                             return receipt_json(*receipt, block_timestamp_of(*chain, receipt->transaction));
                         }});
}

}  // namespace quern::rpc::methods
