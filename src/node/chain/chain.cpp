#include "node/chain/chain.h"

#include "base/log.h"
#include "chain/exec/system/epoch_reader.h"
#include "chain/store/block_store.h"
#include "chain/store/tables.h"
#include "node/chain/event_log.h"

namespace quern::node {

namespace types = chain::types;
namespace consensus = chain::consensus;
using chain::store::BlockStore;
using consensus::sdbft::EpochHeights;
using consensus::sdbft::EpochSetup;

Expected<std::unique_ptr<Chain>> Chain::open(const Parts& parts) {
    auto chain = std::unique_ptr<Chain>(new Chain(parts));
    QUERN_CHECK(chain->load());
    return chain;
}

std::shared_ptr<chain::store::LiveRanges> Chain::walked_objects() {
    std::vector<Bytes> prefixes;
    for (const auto prefix : types::kWalkedObjects)
        prefixes.push_back(chain::store::table_key(chain::store::Table::native, {types::object_key(prefix)}));
    return std::make_shared<chain::store::LiveRanges>(std::move(prefixes));
}

Status Chain::load() {
    const BlockStore blocks(parts_.store);
    QUERN_TRY(const auto head, blocks.head());
    if (!head) return fault("node.no_head", "the database has no newest block");
    QUERN_TRY(const auto encoded, blocks.block(head->hash));
    if (!encoded) return fault("store.corrupt", "the newest block is missing");
    QUERN_TRY(auto block, types::decode_block(*encoded));
    if (parts_.checkpoint) {
        QUERN_TRY(const auto known, blocks.canonical_hash(parts_.checkpoint->number));
        if (known) QUERN_CHECK(check_history(parts_.checkpoint->number, *known));
    }
    const auto finalization = blocks.finalization(head->hash);
    QUERN_CHECK(finalization);
    Bytes certificate;
    if (*finalization) certificate = **finalization;

    const std::uint64_t began_ms = parts_.clock.monotonic_ms();
    QUERN_TRY(tries_, chain::state::StateTries::open(parts_.store, head->number,
                                                     {block.header.state_root, block.header.consensus.native_root},
                                                     &parts_.threads, {.archive = parts_.setup.archive}));
    log::info(log::Category::store, "state opened number={} replayed={} ms={}", head->number, tries_->changes_behind(),
              parts_.clock.monotonic_ms() - began_ms);
    const std::uint64_t size = encoded->size();
    accounts_->put_all({}, head->number);
    QUERN_CHECK(live_ranges_->load(parts_.store, head->number));
    QUERN_TRY(const auto indexed_since, activity_since(parts_.store));
    is_indexed_ = indexed_since.has_value();
    set_head(std::make_shared<chain::api::BlockView>(
        chain::api::BlockView{std::move(block), head->hash, size, std::move(certificate), &parts_.pool.senders()}));
    QUERN_CHECK(epoch_setup());
    QUERN_TRY(previous_committee_, committee_before(tip_.number));
    return {};
}

Status Chain::check_history(std::uint64_t number, const Hash32& hash) const {
    if (!parts_.checkpoint || parts_.checkpoint->number != number || parts_.checkpoint->hash == hash) return {};
    return fail("node.other_history", "block " + std::to_string(number) + " is " + to_hex0x(hash) +
                                          ", the checkpoint says " + to_hex0x(parts_.checkpoint->hash) +
                                          ". If the checkpoint is right, this data directory follows a history that "
                                          "others forged: move chaindata away and start again with other peers");
}

void Chain::set_head(std::shared_ptr<const chain::api::BlockView> head) {
    const auto& header = head->block.header;
    tip_ = consensus::tip_of(header);
    const Uint256 base_fee =
        chain::exec::next_base_fee(params(), header.gas_used, header.gas_limit, header.base_fee_per_gas);
    latest_ = std::make_shared<const Snapshot>(
        std::make_unique<chain::store::LiveRangesReader>(parts_.store.snapshot(), live_ranges_, header.number),
        std::move(head), base_fee, accounts_);
    board_.publish(latest_);
}

Expected<EpochSetup> Chain::epoch_setup() const {
    const chain::state::FlatState state(*latest_->reader);
    auto setup =
        chain::exec::system::read_epoch_setup(state, EpochHeights(params().epoch_length).epoch_of(tip_.number + 1));
    QUERN_CHECK(state.status());
    return setup;
}

Expected<std::optional<consensus::Committee>> Chain::committee_before(std::uint64_t number) const {
    const std::uint64_t epoch = EpochHeights(params().epoch_length).epoch_of(number + 1);
    if (epoch == 0) return std::optional<consensus::Committee>();
    const chain::state::FlatState state(*latest_->reader);
    auto committee = chain::exec::system::committee_of_epoch(state, epoch - 1);
    QUERN_CHECK(state.status());
    QUERN_TRY(auto found, std::move(committee));
    return std::optional(std::move(found));
}

Expected<consensus::sdbft::event::Committed> Chain::commit(const Hash32& hash, BytesView bytes,
                                                           const std::optional<consensus::Certificate>& certificate,
                                                           const Published& published) {
    const std::uint64_t began_ms = parts_.clock.monotonic_ms();
    if (prepared_.find(hash) == nullptr) QUERN_CHECK(prepare(hash, bytes, {}));
    PreparedBlock& prepared = prepared_.to_commit(hash);
    if (prepared.block.header.parent_hash != tip_.hash)
        return fail("block.wrong_parent", to_hex0x(prepared.block.header.parent_hash));
    if (!equal(prepared.encoded, bytes)) return fail("block.other_bytes", to_hex0x(hash));

    QUERN_CHECK(check_history(prepared.block.header.number, hash));
    const chain::store::BlockId id{prepared.block.header.number, hash};
    const Bytes finalization = certificate ? consensus::encode(*certificate) : Bytes{};
    auto& batch = prepared.change.batch;
    tries_->parts_stored(flusher_.take_written());
    const auto last_version = tries_->head();  // what only that one held is given back when all is said
    tries_->commit(prepared.change.version, id.number, batch);
    std::vector<Bytes> receipts;
    receipts.reserve(prepared.receipts.size());
    for (const auto& receipt : prepared.receipts) receipts.push_back(types::encode_stored(receipt));
    BlockStore::put_block(batch, hash, bytes);
    BlockStore::put_receipts(batch, hash, receipts);
    BlockStore::put_transaction_places(batch, id, prepared.hashes);
    BlockStore::put_canonical(batch, id);
    const auto& proposed = prepared.block.header.consensus;
    BlockStore::put_height(batch, proposed.epoch, proposed.view, id.number);
    if (certificate) BlockStore::put_finalization(batch, hash, finalization);
    BlockStore::put_head(batch, id);
    LeafTimer::write(prepared.leaf_times, batch);
    if (!is_indexed_) begin_activity(batch, id.number);
    QUERN_CHECK(parts_.store.write(batch, true));
    is_indexed_ = true;
    QUERN_CHECK(flusher_.add(tries_->take_due_parts()));

    leaf_timer_.publish(prepared.leaf_times);
    accounts_->put_all(*prepared.change.accounts, id.number);
    live_ranges_->apply(batch, id.number);
    PreparedBlock block = std::move(prepared);
    prepared_.committed(hash);
    const std::uint64_t gas_used = block.block.header.gas_used;
    set_head(std::make_shared<chain::api::BlockView>(
        chain::api::BlockView{std::move(block.block), hash, bytes.size(), finalization, &parts_.pool.senders()}));
    if (published) published(latest_);
    large_.committed(tip_.number, hash, parts_.clock.monotonic_ms());
    parts_.pool.on_block(block.senders, latest_->state, tip_.number);
    log::info(log::Category::consensus, "block finalized number={} hash={} txs={} gas={} ms={}", tip_.number,
              to_hex0x(hash), block.hashes.size(), gas_used, block.spent_ms + (parts_.clock.monotonic_ms() - began_ms));
    log_market_events(tip_.number, block.receipts);

    consensus::sdbft::event::Committed committed{tip_, std::nullopt};
    if (EpochHeights(params().epoch_length).is_last(tip_.number)) {
        QUERN_TRY(committed.next_epoch, epoch_setup());
        QUERN_TRY(previous_committee_, committee_before(tip_.number));
    }
    return committed;
}

}  // namespace quern::node
