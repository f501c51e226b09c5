#include "chain/mempool/selection.h"

#include <algorithm>

#include "chain/exec/fees.h"

namespace quern::chain::mempool {

Selection::Selection(const Pool& pool, const Uint256& base_fee, Ahead ahead)
    : pool_(pool), base_fee_(base_fee), ahead_(std::move(ahead)) {}

std::optional<std::uint64_t> Selection::next_nonce(const Pool::SenderEntry& sender) const {
    if (const auto ahead = ahead_.find(sender.address); ahead != ahead_.end()) return ahead->second;
    if (sender.queue.ready() == 0) return std::nullopt;
    return sender.queue.account().nonce;
}

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

std::vector<std::vector<PooledPtr>> Selection::next_moves(std::size_t limit) {
    std::vector<std::vector<PooledPtr>> runs;
    const MutexLock lock(pool_.mutex_);
    for (auto at = pool_.moves_.upper_bound(last_move_); at != pool_.moves_.end() && runs.size() < limit; ++at) {
        last_move_ = at->first;
        const auto* const sender = pool_.find_sender(at->second->transaction.sender);
        if (sender == nullptr || !movers_.insert(sender->address).second) continue;
        auto nonce = next_nonce(*sender);
        std::vector<PooledPtr> run;
        for (; nonce; ++*nonce) {
            const auto* const slot = sender->queue.find(*nonce);
            if (slot == nullptr || !is_dispute_move(slot->pooled->transaction.tx) ||
                !exec::pays_base_fee(slot->pooled->transaction.tx, base_fee_))
                break;
            run.push_back(slot->pooled);
        }
        if (!run.empty()) runs.push_back(std::move(run));
    }
    return runs;
}

void Selection::took(const types::Address& sender, std::uint64_t next_nonce) { ahead_[sender] = next_nonce; }

}  // namespace quern::chain::mempool
