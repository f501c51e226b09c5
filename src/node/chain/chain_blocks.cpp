// Making and checking blocks on any parent whose state is known.
#include "base/log.h"
#include "chain/exec/block_sealer.h"
#include "chain/exec/block_validation.h"
#include "chain/exec/invariants/invariants.h"
#include "chain/mempool/dispute_lane.h"
#include "chain/store/block_store.h"
#include "node/chain/chain.h"
#include "node/chain/market_events.h"

namespace quern::node {

namespace types = chain::types;
namespace consensus = chain::consensus;
namespace mempool = chain::mempool;
namespace exec = chain::exec;

namespace {

Status given_up_block() { return busy("block.given_up"); }

// Each sender once.
std::vector<mempool::AccountAfter> accounts_after(const std::vector<IndexedSender>& all,
                                                  const chain::state::Overlay& overlay) {
    std::vector<types::Address> senders;
    senders.reserve(all.size());
    for (const IndexedSender& sender : all) senders.push_back(sender.address);
    std::sort(senders.begin(), senders.end());
    senders.erase(std::unique(senders.begin(), senders.end()), senders.end());
    std::vector<mempool::AccountAfter> after;
    after.reserve(senders.size());
    for (const auto& sender : senders) {
        const auto account = overlay.account_or_empty(sender);
        after.push_back({sender, {account.nonce, account.balance}});
    }
    return after;
}

}  // namespace

Expected<Chain::Base> Chain::base_for(const Hash32& parent) {
    if (parent == tip_.hash)
        return Base{&latest_->head->block.header, latest_->reader.get(), tries_->head().get(), {}, true};
    const PreparedBlock* prepared = prepared_.find(parent);
    if (prepared == nullptr) return busy("block.unknown_parent", to_hex0x(parent));
    const auto& state = prepared_.state_after(parent);
    return Base{&prepared->block.header, &state, prepared->change.version.get(), prepared_.changed_accounts(parent),
                false};
}

mempool::Selection Chain::transactions_for(const Base& base, const Hash32& parent, const Uint256& base_fee) const {
    mempool::Selection::Ahead ahead;
    if (!base.committed) {
        // What a block that is not final yet includes is passed over, not dropped: it may never become final.
        const PreparedBlock* prepared = prepared_.find(parent);
        for (; prepared != nullptr; prepared = prepared_.find(prepared->block.header.parent_hash))
            for (const auto& after : prepared->senders) ahead.try_emplace(after.address, after.account.nonce);
    }
    return {parts_.pool, base_fee, std::move(ahead)};
}

void Chain::drop_refused(const mempool::FilledBlock& filled) {
    if (filled.refused.empty()) return;
    const chain::state::FlatState committed(*latest_->reader);
    std::vector<Hash32> dropped;
    for (const auto& refused : filled.refused) {
        const auto& transaction = refused.transaction->transaction;
        if (!mempool::refused_for_good(params(), committed, latest_->head->block.header.number + 1, transaction))
            continue;
        log::debug(log::Category::mempool, "dropped tx={} sender={} reason={}", to_hex0x(transaction.hash),
                   to_hex0x(transaction.sender), refused.result.to_string());
        dropped.push_back(transaction.hash);
    }
    if (committed.status()) parts_.pool.drop(dropped);
}

Expected<std::size_t> Chain::find_breaker(const Base& base, const types::BlockHeader& header,
                                          const std::vector<mempool::PooledPtr>& transactions) const {
    std::size_t holds = 0;  // after this many transactions every invariant holds
    std::size_t broken = transactions.size();
    while (broken - holds > 1) {
        const std::size_t middle = holds + (broken - holds) / 2;
        const auto state = state_of(base);
        chain::state::Overlay overlay(state);
        exec::BlockExecution execution(params(), overlay, exec::context_of(*base.header, header));
        execution.begin();
        for (std::size_t i = 0; i < middle; ++i) (void)execution.apply(transactions[i]->transaction);
        const auto finished = execution.finish();
        QUERN_CHECK(state.status());
        (finished ? holds : broken) = middle;
    }
    return broken - 1;
}

void Chain::reject_breaker(const types::RecoveredTransaction& transaction, const Error& error) {
    log::error(log::Category::consensus, "left out a transaction that breaks the state: tx={} sender={} error={}",
               to_hex0x(transaction.hash), to_hex0x(transaction.sender), error.to_string());
    if (breakers_.size() >= kMaxBreakersRemembered) breakers_.clear();
    breakers_.insert(transaction.hash);
    parts_.pool.drop({transaction.hash});
}

Status Chain::seal(PreparedBlock& prepared, const Base& base, exec::BlockExecution& execution,
                   const chain::state::Overlay& overlay, const chain::state::CachedState& state,
                   const std::vector<IndexedSender>& senders) {
    // A read that the store failed looked like a missing object: nothing that came of it may be used.
    QUERN_CHECK(state.status());
    QUERN_TRY(prepared.change, tries_->compute(overlay, *base.tries, *base.state, &parts_.threads));
    prepared.receipts = execution.take_receipts();
    prepared.leaf_times = leaf_timer_.take();
    prepared.senders = accounts_after(senders, overlay);
    QUERN_CHECK(put_activity(prepared.change.batch, prepared.block.header.number, senders, prepared.receipts, overlay));
    QUERN_CHECK(state.status());
    exec::fill_results(prepared.block, prepared.receipts, execution.gas_used(), prepared.change.roots);
    prepared.hash = types::hash_of(prepared.block.header);
    return {};
}

Expected<consensus::BuiltBlock> Chain::build_block(const consensus::sdbft::BlockRequest& request) {
    const std::uint64_t began_ms = parts_.clock.monotonic_ms();
    QUERN_TRY(const Base base, base_for(request.parent.hash));
    PreparedBlock prepared;
    auto& header = prepared.block.header;
    header = exec::header_for(request, *base.header, params(), parts_.beneficiary);
    prepared.block.parent_certificate = request.parent_certificate;

    const auto spent_us = [&] { return static_cast<double>(parts_.clock.monotonic_ms() - began_ms) * 1000; };
    double filling_us = 0;
    bool cut_short = false;
    const auto state = state_of(base);
    for (std::size_t repairs = 0;; ++repairs) {
        leaf_timer_.discard();
        chain::state::Overlay overlay(state);
        exec::BlockExecution execution(params(), overlay, exec::context_of(*base.header, header), &leaf_timer_);
        execution.begin();
        auto selection = transactions_for(base, request.parent.hash, header.base_fee_per_gas);
        mempool::FilledBlock filled;
        if (repairs < kMaxBuildRepairs)
            filled = mempool::fill_block(
                execution, selection,
                {.gas_limit = header.gas_limit,
                 .max_bytes = mempool::kMaxBlockTransactionBytes,
                 .enough = [&](std::uint64_t gas, std::size_t) { return large_.budget().is_reached(spent_us(), gas); },
                 .leave_out = [this](const Hash32& hash) { return breakers_.contains(hash); }},
                [&](const types::RecoveredTransaction& transaction) {
                    return mempool::due_dispute_move(overlay, transaction);
                });
        filling_us = spent_us();
        if (const auto finished = execution.finish(); !finished) {
            QUERN_CHECK(state.status());
            if (finished.error().name != exec::invariants::kInvariantBroken || filled.included.empty())
                return fail(finished.error());
            QUERN_TRY(const std::size_t breaker, find_breaker(base, header, filled.included));
            reject_breaker(filled.included[breaker]->transaction, finished.error());
            continue;
        }
        drop_refused(filled);
        std::vector<IndexedSender> senders;
        senders.reserve(filled.included.size());
        prepared.hashes.reserve(filled.included.size());
        prepared.block.transactions.reserve(filled.included.size());
        for (const auto& pooled : filled.included) {
            prepared.block.transactions.push_back(pooled->transaction.encoded);
            prepared.hashes.push_back(pooled->transaction.hash);
            senders.push_back({pooled->transaction.sender, is_native_call(pooled->transaction.tx)});
        }
        QUERN_CHECK(seal(prepared, base, execution, overlay, state, senders));
        cut_short = filled.cut_short;
        break;
    }
    prepared.encoded = types::encode(prepared.block);
    large_.built(prepared.hash, {header.number, header.gas_used, began_ms}, spent_us() - filling_us, cut_short);
    prepared.spent_ms = parts_.clock.monotonic_ms() - began_ms;
    consensus::BuiltBlock built{prepared.hash, prepared.encoded};
    QUERN_CHECK(prepared_.add(std::move(prepared), forgotten_));
    return built;
}

Expected<std::vector<Chain::RecoveredPtr>> Chain::recover_all(const std::vector<Bytes>& encoded,
                                                              const GivenUp& given_up) const {
    // Signatures are the slow part and independent of each other; those of the pool were checked already.
    std::vector<Hash32> hashes(encoded.size());
    parts_.threads.parallel_for(encoded.size(),
                                [&](std::size_t i) { hashes[i] = types::transaction_hash(encoded[i]); });
    const auto pooled = parts_.pool.find(hashes);
    std::vector<RecoveredPtr> transactions(encoded.size());
    std::vector<Status> recovered(encoded.size());
    parts_.threads.parallel_for(encoded.size(), [&](std::size_t i) {
        if (given_up && given_up()) {
            recovered[i] = given_up_block();
        } else if (pooled[i]) {
            transactions[i] = {pooled[i], &pooled[i]->transaction};
        } else if (auto transaction = parts_.pool.senders().recover(encoded[i], hashes[i])) {
            transactions[i] = std::make_shared<const types::RecoveredTransaction>(std::move(*transaction));
        } else {
            recovered[i] = fail(transaction.error());
        }
    });
    for (const auto& status : recovered) {
        if (status) continue;
        if (status.error().is_busy()) return fail(status.error());
        return fail("block.bad_transaction", status.error().to_string());
    }
    return transactions;
}

Status Chain::validate_block(const Hash32& hash, BytesView bytes, const GivenUp& given_up) {
    if (const PreparedBlock* known = prepared_.find(hash))
        return equal(known->encoded, bytes) ? Status() : Status(fail("block.other_bytes", to_hex0x(hash)));
    auto prepared = prepare(hash, bytes, given_up);
    if (const PreparedBlock* done = prepared_.find(hash); prepared && done != nullptr) {
        // Building it cost its maker about as much time before, as executing it did here.
        const auto& header = done->block.header;
        large_.executed(hash,
                        {header.number, header.gas_used, done->began_ms - std::min(done->began_ms, done->spent_ms)});
    }
    if (prepared || prepared.error().name != "block.unknown_parent") return prepared;
    // The question may have been overtaken by the block's own commit.
    QUERN_TRY(const auto block, types::decode_block(bytes));
    QUERN_TRY(const auto committed, chain::store::BlockStore(parts_.store).canonical_hash(block.header.number));
    return committed == hash ? Status() : prepared;
}

Status Chain::prepare(const Hash32& hash, BytesView bytes, const GivenUp& given_up) {
    const std::uint64_t began_ms = parts_.clock.monotonic_ms();
    PreparedBlock prepared;
    QUERN_TRY(prepared.block, types::decode_block(bytes));
    const auto claimed = prepared.block.header;
    if (types::hash_of(claimed) != hash) return fail("block.wrong_hash", to_hex0x(hash));
    QUERN_TRY(const Base base, base_for(claimed.parent_hash));
    QUERN_CHECK(exec::check_header(params(), *base.header, claimed));
    QUERN_CHECK(exec::check_body(prepared.block));
    QUERN_TRY(const auto transactions, recover_all(prepared.block.transactions, given_up));

    leaf_timer_.discard();
    const auto state = state_of(base);
    chain::state::Overlay overlay(state);
    exec::BlockExecution execution(params(), overlay, exec::context_of(*base.header, claimed), &leaf_timer_);
    execution.begin();
    std::vector<IndexedSender> senders;
    senders.reserve(transactions.size());
    prepared.hashes.reserve(transactions.size());
    for (const auto& transaction : transactions) {
        if (given_up && given_up()) return given_up_block();
        if (const auto result = execution.apply(*transaction); !result.in_block()) {
            QUERN_CHECK(state.status());
            return fail("block.bad_transaction", to_hex0x(transaction->hash) + " " + result.to_string());
        }
        senders.push_back({transaction->sender, is_native_call(transaction->tx)});
        prepared.hashes.push_back(transaction->hash);
    }
    if (const auto finished = execution.finish(); !finished) {
        QUERN_CHECK(state.status());
        return fail(finished.error());
    }
    QUERN_CHECK(seal(prepared, base, execution, overlay, state, senders));
    QUERN_CHECK(exec::check_results(claimed, prepared.block.header));
    prepared.encoded = to_bytes(bytes);
    prepared.began_ms = began_ms;
    prepared.spent_ms = parts_.clock.monotonic_ms() - began_ms;
    return prepared_.add(std::move(prepared), forgotten_);
}

}  // namespace quern::node
