#include "node/chain.h"

#include "base/log.h"
#include "chain/state/trie.h"
#include "chain/store/block_store.h"
#include "node/dispute_lane.h"
#include "node/event_log.h"

namespace quern::node {
namespace {

namespace types = chain::types;
namespace consensus = chain::consensus;
using chain::store::BlockStore;

// What a block's execution and content put into its header.
void fill_results(types::Block& block, const std::vector<types::Receipt>& receipts, std::uint64_t gas_used,
                  const chain::state::Roots& roots) {
    auto& header = block.header;
    header.state_root = roots.state_root;
    header.consensus.native_root = roots.native_root;
    header.transactions_root = chain::state::ordered_trie_root(block.transactions);
    std::vector<Bytes> encoded;
    encoded.reserve(receipts.size());
    header.logs_bloom = types::Bloom{};
    for (const auto& receipt : receipts) {
        encoded.push_back(types::encode_consensus(receipt));
        for (std::size_t i = 0; i < header.logs_bloom.data.size(); ++i)
            header.logs_bloom.data[i] = static_cast<std::uint8_t>(header.logs_bloom.data[i] | receipt.bloom.data[i]);
    }
    header.receipts_root = chain::state::ordered_trie_root(encoded);
    header.gas_used = gas_used;
    header.withdrawals_root = types::kEmptyTrieRoot;
}

Status compare(const types::BlockHeader& claimed, const types::BlockHeader& actual) {
    const auto wrong = [](const char* field) { return fail("block.wrong_root", field); };
    if (claimed.gas_used != actual.gas_used) return fail("block.wrong_gas", std::to_string(actual.gas_used));
    if (claimed.transactions_root != actual.transactions_root) return wrong("transactions");
    if (claimed.receipts_root != actual.receipts_root) return wrong("receipts");
    if (claimed.logs_bloom != actual.logs_bloom) return wrong("logs bloom");
    if (claimed.state_root != actual.state_root) return wrong("state");
    if (claimed.consensus.native_root != actual.consensus.native_root) return wrong("native objects");
    if (claimed.withdrawals_root != actual.withdrawals_root) return wrong("withdrawals");
    if (claimed != actual) return fail("block.wrong_header");
    return {};
}

}  // namespace

Expected<std::unique_ptr<Chain>> Chain::open(const Parts& parts) {
    auto chain = std::unique_ptr<Chain>(new Chain(parts));
    QUERN_CHECK(chain->load());
    return chain;
}

Status Chain::load() {
    const BlockStore blocks(parts_.store);
    QUERN_TRY(const auto head, blocks.head());
    if (!head) return fail("node.no_head", "the database has no newest block");
    QUERN_TRY(const auto encoded, blocks.block(head->hash));
    if (!encoded) return fail("store.corrupt", "the newest block is missing");
    QUERN_TRY(auto block, types::decode_block(*encoded));
    QUERN_TRY(auto finalization, blocks.finalization(head->hash));

    std::vector<types::ValidatorObject> validators;
    const chain::state::FlatState state(parts_.store);
    for (const auto& [key, value] :
         state.native_range(types::object_key(types::ObjectPrefix::validator), {}, consensus::kMaxCommittee)) {
        QUERN_TRY(auto validator, types::decode_record<types::ValidatorObject>(value));
        validators.push_back(std::move(validator));
    }
    QUERN_CHECK(state.status());
    QUERN_TRY(committee_, consensus::Committee::from_validators(validators));

    roots_ = {block.header.state_root, block.header.consensus.native_root};
    tries_ = std::make_unique<chain::state::StateTries>(parts_.store, roots_);
    const std::uint64_t size = encoded->size();
    set_head(std::make_shared<chain::api::BlockView>(
        chain::api::BlockView{std::move(block), head->hash, size, finalization.value_or(Bytes{})}));
    return {};
}

void Chain::set_head(std::shared_ptr<const chain::api::BlockView> head) {
    const auto& header = head->block.header;
    tip_ = consensus::tip_of(header);
    const Uint256 base_fee =
        chain::exec::next_base_fee(params(), header.gas_used, header.gas_limit, header.base_fee_per_gas);
    latest_ = std::make_shared<const Snapshot>(parts_.store.snapshot(), std::move(head), base_fee);
    board_.publish(latest_);
}

chain::exec::BlockContext Chain::context_for(const types::BlockHeader& header) const {
    return {header.number,    header.consensus.timestamp_ms, header.beneficiary,
            header.gas_limit, header.base_fee_per_gas,       header.consensus.beacon};
}

Status Chain::seal(Prepared& prepared, const chain::exec::BlockExecution& execution,
                   const chain::state::Overlay& overlay) {
    // A read that the store failed looked like a missing object: nothing that came of it may be used.
    QUERN_CHECK(latest_->state.status());
    QUERN_TRY(prepared.change, tries_->compute(overlay, roots_, &parts_.threads));
    prepared.receipts = execution.receipts();
    fill_results(prepared.block, prepared.receipts, execution.gas_used(), prepared.change.roots);
    prepared.hash = types::hash_of(prepared.block.header);
    return {};
}

Expected<consensus::BuiltBlock> Chain::build_block(const consensus::BuildRequest& request) {
    prepared_.reset();
    leaf_timer_.discard();
    Prepared prepared;
    prepared.began_ms = parts_.clock.monotonic_ms();
    auto& header = prepared.block.header;
    header.parent_hash = request.parent.hash;
    header.beneficiary = parts_.beneficiary;
    header.number = request.parent.number + 1;
    header.gas_limit = params().block_gas_limit;
    header.timestamp = request.timestamp_ms / 1000;
    header.prev_randao = request.beacon;
    header.base_fee_per_gas = latest_->next_base_fee;
    prepared.block.parent_certificate = latest_->head->finalization;
    auto& fields = header.consensus;
    fields.view = request.view;
    fields.epoch = request.epoch;
    fields.parent_certificate_hash = consensus::certificate_hash(prepared.block.parent_certificate);
    fields.committee_hash = committee_.hash();
    fields.next_committee_hash = fields.committee_hash;
    fields.beacon = request.beacon;
    fields.timestamp_ms = request.timestamp_ms;

    chain::state::Overlay overlay(latest_->state);
    chain::exec::BlockExecution execution(params(), overlay, context_for(header), &leaf_timer_);
    execution.begin();
    const auto filled = chain::mempool::fill_block(
        execution, parts_.pool.executable(), header.base_fee_per_gas, {.gas_limit = header.gas_limit},
        [&](const types::RecoveredTransaction& transaction) { return due_dispute_move(overlay, transaction); });
    std::vector<Hash32> dropped;
    for (const auto& refused : filled.refused) {
        const auto& transaction = refused.transaction->transaction;
        log::debug(log::Category::mempool, "dropped tx={} sender={} reason={}", to_hex0x(transaction.hash),
                   to_hex0x(transaction.sender), refused.result.to_string());
        dropped.push_back(transaction.hash);
    }
    parts_.pool.drop(dropped);
    QUERN_CHECK(execution.finish());

    for (const auto& pooled : filled.included) {
        prepared.block.transactions.push_back(pooled->transaction.encoded);
        prepared.transactions.push_back(pooled->transaction);
    }
    QUERN_CHECK(seal(prepared, execution, overlay));
    prepared_ = std::move(prepared);
    return consensus::BuiltBlock{prepared_->hash, types::encode(prepared_->block)};
}

Status Chain::validate_block(BytesView bytes) {
    prepared_.reset();
    leaf_timer_.discard();
    Prepared prepared;
    prepared.began_ms = parts_.clock.monotonic_ms();
    QUERN_TRY(auto block, types::decode_block(bytes));
    QUERN_CHECK(consensus::check_header(params(), tip_, latest_->head->finalization, committee_, block));
    QUERN_CHECK(consensus::check_not_future(block.header, parts_.clock.now_ms()));
    if (block.header.base_fee_per_gas != latest_->next_base_fee) return fail("block.wrong_base_fee");
    if (!block.withdrawals.empty()) return fail("block.unexpected_withdrawals");

    // Signatures are the slow part and independent of each other.
    prepared.transactions.resize(block.transactions.size());
    std::vector<Status> recovered(block.transactions.size());
    parts_.threads.parallel_for(block.transactions.size(), [&](std::size_t i) {
        auto transaction = types::recover(block.transactions[i]);
        if (transaction)
            prepared.transactions[i] = std::move(*transaction);
        else
            recovered[i] = fail(transaction.error());
    });
    for (const auto& status : recovered)
        if (!status) return fail("block.bad_transaction", status.error().to_string());

    const auto claimed = block.header;
    prepared.block = std::move(block);
    chain::state::Overlay overlay(latest_->state);
    chain::exec::BlockExecution execution(params(), overlay, context_for(claimed), &leaf_timer_);
    execution.begin();
    for (const auto& transaction : prepared.transactions)
        if (const auto result = execution.apply(transaction); !result.in_block())
            return fail("block.bad_transaction", to_hex0x(transaction.hash) + " " + result.to_string());
    QUERN_CHECK(execution.finish());
    QUERN_CHECK(seal(prepared, execution, overlay));
    QUERN_CHECK(compare(claimed, prepared.block.header));
    prepared_ = std::move(prepared);
    return {};
}

Expected<consensus::Tip> Chain::commit(BytesView bytes, const Hash32& hash, const consensus::Certificate& certificate) {
    if (!prepared_ || prepared_->hash != hash) return fail("block.not_prepared", to_hex0x(hash));
    Prepared prepared = std::move(*prepared_);
    prepared_.reset();
    const auto& header = prepared.block.header;
    const chain::store::BlockId id{header.number, hash};
    const Bytes finalization = consensus::encode(certificate);

    auto& batch = prepared.change.batch;
    std::vector<Bytes> receipts;
    for (const auto& receipt : prepared.receipts) receipts.push_back(types::encode_stored(receipt));
    std::vector<Hash32> hashes;
    for (const auto& transaction : prepared.transactions) hashes.push_back(transaction.hash);
    BlockStore::put_block(batch, hash, bytes);
    BlockStore::put_receipts(batch, hash, receipts);
    BlockStore::put_transaction_places(batch, id, hashes);
    BlockStore::put_canonical(batch, id);
    BlockStore::put_finalization(batch, hash, finalization);
    BlockStore::put_head(batch, id);
    leaf_timer_.write(batch);
    QUERN_CHECK(parts_.store.write(batch, true));

    leaf_timer_.publish();
    roots_ = prepared.change.roots;
    const std::uint64_t gas_used = header.gas_used;
    set_head(std::make_shared<chain::api::BlockView>(
        chain::api::BlockView{std::move(prepared.block), hash, bytes.size(), finalization}));
    parts_.pool.on_block(prepared.transactions, latest_->state, tip_.number);
    log::info(log::Category::consensus, "block finalized number={} hash={} txs={} gas={} ms={}", tip_.number,
              to_hex0x(hash), prepared.transactions.size(), gas_used, parts_.clock.monotonic_ms() - prepared.began_ms);
    log_market_events(tip_.number, prepared.receipts);
    return tip_;
}

}  // namespace quern::node
