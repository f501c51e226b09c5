// eth_*: blocks.
#include "rpc/methods/backend.h"
#include "rpc/methods/eth_json.h"

namespace quern::rpc::methods {
namespace {

using chain::api::BlockSelector;

BlockSelector by_hash(const Hash32& hash) { return {BlockSelector::Kind::hash, 0, hash}; }

constexpr Parameter kBlock{"block", Kind::block, true, "number or tag"};
constexpr Parameter kHash{"hash", Kind::hash, true, "the block's hash"};
constexpr Parameter kFull{"full", Kind::boolean, false, "whole transactions instead of their hashes"};

}  // namespace

Status add_block_methods(Registry& registry, const Backend& backend) {
    const auto* chain = backend.chain;
    const auto block_or_null = [chain](const BlockSelector& selector, bool full) -> Result {
        const auto block = chain->block(selector);
        return block ? block_json(*block, full) : json::Value();
    };
    const auto count_or_null = [chain](const BlockSelector& selector) -> Result {
        const auto block = chain->block(selector);
        if (!block) return json::Value();
        return quantity(block->block.transactions.size());
    };
    QUERN_CHECK(registry.add({"eth_blockNumber",
                              "The number of the newest finalized block.",
                              {},
                              {"quantity", "the number"},
                              {},
                              {{"[]", R"("0x4b7")"}},
                              [chain](const Call&) -> Result { return quantity(chain->head_number()); }}));
    QUERN_CHECK(registry.add(
        {"eth_getBlockByNumber",
         "A block by number or tag. Blocks are final: latest, safe and finalized are the same.",
         {kBlock, kFull},
         {"object or null", "the block; null when there is none yet"},
         {},
         {{R"(["0x1",false])", R"({"number":"0x1"})"}},
         [=](const Call& call) -> Result { return block_or_null(call.block(0), call.boolean_or(1, false)); }}));
    QUERN_CHECK(registry.add(
        {"eth_getBlockByHash",
         "A block by hash.",
         {kHash, kFull},
         {"object or null", "the block; null when it is unknown"},
         {},
         {},
         [=](const Call& call) -> Result { return block_or_null(by_hash(call.hash(0)), call.boolean_or(1, false)); }}));
    QUERN_CHECK(registry.add({"eth_getBlockTransactionCountByNumber",
                              "How many transactions a block has.",
                              {kBlock},
                              {"quantity or null", "the count; null when the block is unknown"},
                              {},
                              {},
                              [=](const Call& call) -> Result { return count_or_null(call.block(0)); }}));
    QUERN_CHECK(registry.add({"eth_getBlockTransactionCountByHash",
                              "How many transactions a block has.",
                              {kHash},
                              {"quantity or null", "the count; null when the block is unknown"},
                              {},
                              {},
                              [=](const Call& call) -> Result { return count_or_null(by_hash(call.hash(0))); }}));
    return registry.add({"eth_getBlockReceipts",
                         "The receipts of a block's transactions in order.",
                         {kBlock},
                         {"array or null", "receipts as in eth_getTransactionReceipt; null when the block is unknown"},
                         {},
                         {},
                         [chain](const Call& call) -> Result {
                             const auto block = chain->block(call.block(0));
                             if (!block) return json::Value();
                             const auto receipts = chain->receipts(block->block.header.number);
                             json::Array result;
                             std::uint64_t first_log = 0;
                             for (std::size_t i = 0; i < receipts.size(); ++i) {
                                 if (i >= block->block.transactions.size()) break;
                                 QUERN_RPC_TRY(auto transaction, transaction_in(*block, i));
                                 result.push_back(receipt_json({receipts[i], std::move(transaction), first_log},
                                                               block->block.header.timestamp));
                                 first_log += receipts[i].logs.size();
                             }
                             return result;
                         }});
}

}  // namespace quern::rpc::methods
