#include "node/chain/revert.h"

#include "base/big_endian.h"
#include "base/log.h"
#include "chain/state/state_revert.h"
#include "chain/state/state_tries.h"
#include "chain/store/block_store.h"
#include "chain/store/layered_reader.h"
#include "chain/store/tables.h"
#include "chain/types/block.h"
#include "node/chain/activity_index.h"

namespace quern::node {
namespace {

namespace types = chain::types;
using chain::store::BlockStore;
using chain::store::Table;
using chain::store::table_key;

Expected<std::pair<Hash32, types::Block>> block_at(const BlockStore& blocks, std::uint64_t number) {
    QUERN_TRY(const auto hash, blocks.canonical_hash(number));
    QUERN_TRY(const auto encoded, hash ? blocks.block(*hash) : std::optional<Bytes>());
    if (!encoded) return fault("store.corrupt", "no block " + std::to_string(number));
    QUERN_TRY(auto block, types::decode_block(*encoded));
    return std::pair(*hash, std::move(block));
}

}  // namespace

Status revert_chain(chain::store::Store& store, std::uint64_t number) {
    const BlockStore blocks(store);
    QUERN_TRY(const auto head, blocks.head());
    if (!head || number >= head->number)
        return fail("node.cannot_revert", "to block " + std::to_string(number) + ": the newest block is " +
                                              std::to_string(head ? head->number : 0));
    chain::store::WriteBatch batch;
    QUERN_CHECK(chain::state::revert_state(store, head->number, number, batch));
    QUERN_TRY(const auto target, block_at(blocks, number));
    const auto& header = target.second.header;
    {
        const chain::store::LayeredReader after(store, batch);
        QUERN_CHECK(chain::state::StateTries::open(after, number, {header.state_root, header.consensus.native_root}));
    }
    for (std::uint64_t above = number + 1; above <= head->number; ++above) {
        QUERN_TRY(const auto block, block_at(blocks, above));
        for (const auto& encoded : block.second.transactions)
            batch.erase(table_key(Table::tx_index, {types::transaction_hash(encoded)}));
        batch.erase(table_key(Table::canonical, {be64(above)}));
        batch.erase(table_key(Table::finalization, {block.first}));
        BlockStore::erase_block(batch, block.first);
    }
    QUERN_CHECK(erase_activity_above(store, number, batch));
    BlockStore::put_head(batch, {number, target.first});
    QUERN_CHECK(store.write(batch, true));
    log::warning(log::Category::store, "went back from block {} to block {}", head->number, number);
    return {};
}

}  // namespace quern::node
