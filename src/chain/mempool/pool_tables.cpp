// How the pool's tables follow its queues, and whether they do.
#include <algorithm>

#include "base/ensure.h"
#include "chain/exec/fees.h"
#include "chain/mempool/pool.h"

namespace quern::chain::mempool {

void Pool::set_account(SenderEntry& sender, const AccountView& account, std::uint64_t height) {
    if (height < sender.known_at) return;
    sender.known_at = height;
    if (sender.queue.account() == account) return;
    const auto stale = sender.queue.set_account(account);
    for (const auto& slot : stale) forget(slot);
    // One that was made just now and has nothing yet stays.
    if (!stale.empty() || !sender.queue.slots().empty()) relist(sender);
}

void Pool::relist(SenderEntry& sender) {
    auto& slots = sender.queue.slots();
    for (std::size_t i = 0; i < slots.size(); ++i) {
        AccountQueue::Slot& slot = slots[i];
        const bool parked = i >= sender.queue.ready();
        if (slot.listed && slot.parked == parked) continue;
        if (slot.listed && slot.parked) parked_.erase(*slot.pooled);
        if (slot.listed && !slot.parked) --ready_;
        if (parked) {
            parked_.insert(*slot.pooled);
            slot.parked_at = height_;
        } else {
            ++ready_;
        }
        slot.listed = true;
        slot.parked = parked;
    }
    list_ends(sender);
    if (slots.empty()) by_sender_.erase(types::Address(sender.address));
}

void Pool::list_ends(SenderEntry& sender) {
    AccountQueue& queue = sender.queue;
    const std::size_t ready = queue.ready();
    const PooledPtr head = ready == 0 ? nullptr : queue.slots().front().pooled;
    const PooledPtr tail = ready == 0 ? nullptr : queue.slots()[ready - 1].pooled;
    if (head != queue.listed_head) {
        if (queue.listed_head) {
            const Price old = price_of(*queue.listed_head);
            heads_.erase({old.tip_cap, old.arrival, nullptr});
            head_fees_.erase(head_fees_.find(old.fee_cap));
            move_heads_.erase({old.fee_cap, old.arrival, nullptr});
        }
        if (head) {
            const Price price = price_of(*head);
            heads_.insert({price.tip_cap, price.arrival, &sender});
            head_fees_.insert(price.fee_cap);
            if (is_dispute_move(head->transaction.tx)) move_heads_.insert({price.fee_cap, price.arrival, &sender});
        }
        queue.listed_head = head;
    }
    if (tail != queue.listed_tail) {
        if (queue.listed_tail) tails_.erase({price_of(*queue.listed_tail), nullptr});
        if (tail) tails_.insert({price_of(*tail), &sender});
        queue.listed_tail = tail;
    }
}

void Pool::remember(const PooledPtr& pooled) {
    const auto& tx = pooled->transaction.tx;
    by_hash_.insert(pooled);
    by_arrival_.emplace_hint(by_arrival_.end(), pooled->arrival, pooled);
    if (is_task_submit(tx)) tasks_.emplace(pooled->arrival, pooled);
    if (exec::travels_free(tx)) free_.emplace(pooled->arrival, pooled);
    bytes_ += pooled->bytes;
}

void Pool::forget(const AccountQueue::Slot& slot) {
    const PooledTransaction& pooled = *slot.pooled;
    if (slot.listed && slot.parked) parked_.erase(pooled);
    if (slot.listed && !slot.parked) --ready_;
    by_hash_.erase(pooled.transaction.hash);
    tasks_.erase(pooled.arrival);
    free_.erase(pooled.arrival);
    deduct(bytes_, pooled.bytes);
    by_arrival_.erase(pooled.arrival);
}

void Pool::erase(const types::Address& address, std::uint64_t nonce) {
    auto* const sender = find_sender(address);
    const auto* const slot = sender != nullptr ? sender->queue.find(nonce) : nullptr;
    if (slot == nullptr) return;
    forget(*slot);
    const PooledPtr removed = sender->queue.take(nonce);
    relist(*sender);
}

Status Pool::check() const {
    const MutexLock lock(mutex_);
    const auto broken = [](const char* what) { return fault("mempool.broken", what); };
    std::size_t count = 0;
    std::size_t bytes = 0;
    std::size_t ready = 0;
    std::size_t parked = 0;
    std::size_t heads = 0;
    std::size_t moves = 0;
    std::size_t free = 0;
    for (const auto& [address, sender] : by_sender_) {
        const AccountQueue& queue = sender->queue;
        const auto& slots = queue.slots();
        if (slots.empty()) return broken("an empty queue");
        if (slots.size() > limits_.max_per_sender) return broken("too many of a sender");
        Uint256 cost;
        for (std::size_t i = 0; i < slots.size(); ++i) {
            const auto& slot = slots[i];
            const PooledTransaction& pooled = *slot.pooled;
            if (pooled.transaction.sender != address) return broken("another sender's");
            if (i > 0 && slots[i - 1].nonce() >= slot.nonce()) return broken("order of nonces");
            if (slot.nonce() < queue.account().nonce) return broken("a used nonce");
            const bool is_ready = i < queue.ready();
            cost += slot.cost;
            if (is_ready && (slot.nonce() != queue.account().nonce + i || cost > queue.account().balance))
                return broken("ready without nonce or money");
            if (!slot.listed || slot.parked == is_ready) return broken("a slot's listing");
            if (by_hash_.find(pooled.transaction.hash) != slot.pooled) return broken("not by hash");
            const auto arrived = by_arrival_.find(pooled.arrival);
            if (arrived == by_arrival_.end() || arrived->second != slot.pooled) return broken("not by arrival");
            bytes += pooled.bytes;
            free += exec::travels_free(pooled.transaction.tx) ? 1 : 0;
        }
        if (cost != queue.cost()) return broken("a queue's cost");
        count += slots.size();
        ready += queue.ready();
        parked += queue.parked();
        if (queue.ready() == 0) {
            if (queue.listed_head || queue.listed_tail) return broken("ends of what is not ready");
            continue;
        }
        ++heads;
        const Price price = price_of(*slots.front().pooled);
        const auto head = heads_.find({price.tip_cap, price.arrival, nullptr});
        if (head == heads_.end() || head->sender != sender.get() || !head_fees_.contains(price.fee_cap))
            return broken("a head");
        if (is_dispute_move(slots.front().pooled->transaction.tx)) {
            const auto move = move_heads_.find({price.fee_cap, price.arrival, nullptr});
            if (move == move_heads_.end() || move->sender != sender.get()) return broken("a move");
            ++moves;
        }
        const auto tail = tails_.find({price_of(*slots[queue.ready() - 1].pooled), nullptr});
        if (tail == tails_.end() || tail->sender != sender.get()) return broken("a tail");
    }
    if (count != by_hash_.size() || count != by_arrival_.size()) return broken("count");
    if (bytes != bytes_ || ready != ready_ || parked != parked_.size() || free != free_.size()) return broken("totals");
    if (heads != heads_.size() || heads != head_fees_.size() || heads != tails_.size() || moves != move_heads_.size())
        return broken("ends");
    if (count > limits_.max_transactions || bytes > limits_.max_bytes) return broken("above the pool's limits");
    if (parked > limits_.max_parked || parked_.bytes() > limits_.max_parked_bytes || free > limits_.max_free)
        return broken("above a quota");
    return {};
}

}  // namespace quern::chain::mempool
