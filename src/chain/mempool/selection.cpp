#include "chain/mempool/selection.h"

#include <algorithm>

#include "chain/exec/fees.h"

namespace quern::chain::mempool {

Selection::Selection(const Pool& pool, const Uint256& base_fee, Ahead ahead)
    : pool_(pool), base_fee_(base_fee), ahead_(std::move(ahead)) {}

void Selection::offer(const Pool::SenderEntry& sender, std::uint64_t nonce) {
    const auto* const slot = sender.queue.find(nonce);
    if (slot == nullptr || closed_.contains(sender.address)) return;
    // On the committed state the pool knows what can be paid; on another one only execution does.
    if (slot->parked && !ahead_.contains(sender.address)) return;
    const auto& tx = slot->pooled->transaction.tx;
    if (!exec::pays_base_fee(tx, base_fee_)) return;
    // What pays nothing is of use to all: it comes first.
    const Uint256 tip = exec::travels_free(tx) ? ~Uint256() : types::effective_gas_price(tx, base_fee_) - base_fee_;
    next_.push({tip, slot->pooled->arrival, slot->pooled});
}

void Selection::begin() {
    begun_ = true;
    for (const auto& [address, nonce] : ahead_)
        if (const auto* const sender = pool_.find_sender(address)) offer(*sender, nonce);
}

// A tip is at most what the sender offers for it, by which the pool has the heads in order: those below the best that
// is known need not be looked at yet.
void Selection::offer_heads() {
    auto head = last_ ? pool_.heads_.upper_bound(*last_) : pool_.heads_.begin();
    while (head != pool_.heads_.end() && (next_.empty() || !(head->tip_cap < next_.top().tip))) {
        last_ = *head;
        if (!ahead_.contains(head->sender->address)) offer(*head->sender, head->sender->queue.account().nonce);
        ++head;
    }
}

std::vector<PooledPtr> Selection::pull(std::size_t count) {
    std::vector<PooledPtr> pulled;
    const MutexLock lock(pool_.mutex_);
    if (!begun_) begin();
    while (pulled.size() < count) {
        offer_heads();
        if (next_.empty()) break;
        PooledPtr best = next_.top().pooled;
        next_.pop();
        const auto& transaction = best->transaction;
        if (closed_.contains(transaction.sender)) continue;
        if (const auto* const sender = pool_.find_sender(transaction.sender)) offer(*sender, transaction.tx.nonce + 1);
        pulled.push_back(std::move(best));
    }
    return pulled;
}

std::vector<PooledPtr> Selection::run_of_moves(const Pool::SenderEntry& sender, std::uint64_t nonce) const {
    std::vector<PooledPtr> run;
    for (; run.size() < kMaxMovesInRun; ++nonce) {
        const auto* const slot = sender.queue.find(nonce);
        if (slot == nullptr || !is_dispute_move(slot->pooled->transaction.tx) ||
            !exec::pays_base_fee(slot->pooled->transaction.tx, base_fee_))
            break;
        run.push_back(slot->pooled);
    }
    return run;
}

std::vector<std::vector<PooledPtr>> Selection::next_moves(std::size_t limit) {
    if (!movers_ahead_) movers_ahead_.emplace(ahead_.begin(), ahead_.end());
    std::vector<std::vector<PooledPtr>> runs;
    const auto look_at = [&](std::vector<PooledPtr> run) {
        ++moves_looked_at_;
        --limit;
        if (!run.empty()) runs.push_back(std::move(run));
    };
    const MutexLock lock(pool_.mutex_);
    for (; limit != 0 && !movers_ahead_->empty(); movers_ahead_->pop_back()) {
        const auto& [address, nonce] = movers_ahead_->back();
        const auto* const sender = pool_.find_sender(address);
        look_at(sender != nullptr ? run_of_moves(*sender, nonce) : std::vector<PooledPtr>());
    }
    // Whoever cannot pay, and all after it, are not looked at.
    auto at = last_move_ ? pool_.move_heads_.upper_bound(*last_move_) : pool_.move_heads_.begin();
    for (; limit != 0 && at != pool_.move_heads_.end() && at->fee_cap >= base_fee_; ++at) {
        last_move_ = *at;
        const bool is_ahead = ahead_.contains(at->sender->address);  // looked at above
        look_at(is_ahead ? std::vector<PooledPtr>() : run_of_moves(*at->sender, at->sender->queue.account().nonce));
    }
    moves_ended_ = limit != 0;
    return runs;
}

void Selection::took(const types::Address& sender, std::uint64_t next_nonce) { ahead_[sender] = next_nonce; }

}  // namespace quern::chain::mempool
