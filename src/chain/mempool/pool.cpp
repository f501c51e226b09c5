#include "chain/mempool/pool.h"

#include <algorithm>

#include "chain/exec/fees.h"
#include "chain/exec/outlay.h"

namespace quern::chain::mempool {
namespace {

bool pays_more(const Uint256& fresh, const Uint256& old, std::uint64_t percent) {
    const auto wanted = mul_div(old, 100 + percent, 100);
    return wanted && fresh >= *wanted && fresh > old;
}

}  // namespace

Pool::Pool(const params::ChainParams& params, const PoolLimits& limits) : params_(params), limits_(limits) {}

Pool::SenderEntry* Pool::find_sender(const types::Address& address) const {
    const auto found = by_sender_.find(address);
    return found == by_sender_.end() ? nullptr : found->second.get();
}

exec::Result Pool::check_place(const Candidate& candidate, const SenderEntry* sender, bool parks) const {
    const auto& fresh = candidate.pooled->transaction.tx;
    const AccountView& account = candidate.account;
    const auto at = [&] { return "account is at " + std::to_string(account.nonce); };
    if (fresh.nonce < account.nonce) return exec::refuse(exec::kNonceTooLow, at());
    if (fresh.nonce - account.nonce > limits_.max_nonce_gap) return exec::refuse(exec::kNonceTooHigh, at());
    const bool free = exec::travels_free(fresh);
    // Else one that nobody tries to execute would keep its place for ever.
    if (free && fresh.nonce != account.nonce)
        return exec::refuse(exec::kNonceTooHigh, "a transaction without a fee must be its sender's next");

    Uint256 queued;
    const AccountQueue::Slot* replaced = nullptr;
    if (sender != nullptr) {
        const AccountQueue& queue = sender->queue;
        queued = queue.cost();
        replaced = queue.find(fresh.nonce);
        if (replaced != nullptr) {
            const auto& previous = replaced->pooled->transaction.tx;
            if (!pays_more(fresh.max_fee_per_gas, previous.max_fee_per_gas, limits_.replacement_percent) ||
                !pays_more(fresh.max_priority_fee_per_gas, previous.max_priority_fee_per_gas,
                           limits_.replacement_percent))
                return exec::refuse(exec::kReplacementUnderpriced);
            queued -= replaced->cost;
        } else if (parks && queue.parked() >= limits_.max_parked_per_sender) {
            return exec::refuse(exec::kAccountLimit,
                                std::to_string(limits_.max_parked_per_sender) + " wait for a nonce or for money");
        } else if (queue.slots().size() >= limits_.max_per_sender && (parks || queue.parked() == 0)) {
            return exec::refuse(exec::kAccountLimit, std::to_string(limits_.max_per_sender) + " transactions wait");
        }
    }
    const auto total = checked_add(queued, cost_of(*candidate.pooled));
    if (!total || *total > account.balance)
        return exec::refuse(exec::kInsufficientFunds, "together with the sender's waiting transactions");
    if (free && replaced == nullptr && free_.size() >= limits_.max_free)
        return exec::refuse(exec::kPoolFull, "transactions without a fee");
    return exec::ok();
}

Admitted Pool::add_one(const Candidate& candidate, std::uint64_t height) {
    PooledTransaction& fresh = *candidate.pooled;
    const types::Address& address = fresh.transaction.sender;
    const std::uint64_t nonce = fresh.transaction.tx.nonce;
    if (by_hash_.find(fresh.transaction.hash)) return {exec::refuse(exec::kAlreadyKnown), nullptr};
    if (auto* const known = find_sender(address)) set_account(*known, candidate.account, height);
    trim_parked();
    SenderEntry* sender = find_sender(address);
    const bool parks = sender != nullptr ? sender->queue.has_gap_before(nonce) : nonce != candidate.account.nonce;
    if (auto result = check_place(candidate, sender, parks); !result.in_block()) return {std::move(result), nullptr};

    fresh.arrival = next_arrival_;
    fresh.height = height_;
    const auto* slot = sender != nullptr ? sender->queue.find(nonce) : nullptr;
    const PooledPtr replaced = slot != nullptr ? slot->pooled : nullptr;
    if (!make_room(fresh, parks, replaced)) return {exec::refuse(exec::kPoolFull), nullptr};
    // Its place is worth more than that of the sender's last one, which is parked.
    sender = find_sender(address);
    if (!replaced && sender != nullptr && sender->queue.slots().size() >= limits_.max_per_sender)
        erase(address, sender->queue.slots().back().nonce());

    ++next_arrival_;
    sender = find_sender(address);
    if (sender == nullptr) {
        sender = by_sender_.emplace(address, std::make_unique<SenderEntry>()).first->second.get();
        sender->address = address;
        set_account(*sender, candidate.account, height);
    } else if (const auto* old = sender->queue.find(nonce)) {
        forget(*old);
    }
    (void)sender->queue.put(candidate.pooled);
    remember(candidate.pooled);
    relist(*sender);
    return {exec::ok(), candidate.pooled};
}

std::vector<Admitted> Pool::add(std::vector<Candidate> candidates, std::uint64_t height) {
    std::vector<Admitted> admitted;
    admitted.reserve(candidates.size());
    const MutexLock lock(mutex_);
    // Else a nonce that a block has used in between would hold up its sender's queue.
    if (height < height_) return admitted;
    for (const Candidate& candidate : candidates) admitted.push_back(add_one(candidate, height));
    return admitted;
}

Admitted Pool::add(types::RecoveredTransaction transaction, const state::StateReader& state, std::uint64_t height,
                   const Source& source) {
    // A fee below the current base fee may wait for better times, below the least possible one not.
    if (auto checked = exec::precheck(params_, state, height + 1, transaction, params_.min_base_fee);
        !checked.in_block())
        return {std::move(checked), nullptr};
    const auto account = state.account(transaction.sender).value_or(state::empty_account());
    auto pooled = std::make_shared<PooledTransaction>();
    pooled->bytes = footprint(transaction);
    pooled->outlay = exec::outlay_of(params_, transaction.tx);
    pooled->transaction = std::move(transaction);
    pooled->source = source;
    auto admitted = add({Candidate{std::move(pooled), {account.nonce, account.balance}}}, height);
    if (admitted.empty()) return {exec::retry("mempool.stale_state"), nullptr};
    return std::move(admitted.front());
}

void Pool::on_block(std::span<const AccountAfter> senders, const state::StateReader& state, std::uint64_t height) {
    const MutexLock lock(mutex_);
    height_ = height;
    for (const AccountAfter& after : senders)
        if (auto* const sender = find_sender(after.address)) set_account(*sender, after.account, height);
    if (!free_.empty()) drop_spent_evidence(state);
    drop_expired();
    if (height >= next_sweep_) look_again_at_unpayable(state);
    trim_parked();
}

void Pool::drop(const std::vector<Hash32>& hashes) {
    const MutexLock lock(mutex_);
    for (const auto& hash : hashes)
        if (const auto pooled = by_hash_.find(hash)) erase(pooled->transaction.sender, pooled->transaction.tx.nonce);
    trim_parked();
}

PooledPtr Pool::find(const Hash32& hash) const {
    const MutexLock lock(mutex_);
    return by_hash_.find(hash);
}

PooledPtr Pool::find_short(const FixedBytes<8>& id) const {
    const MutexLock lock(mutex_);
    return by_hash_.find_short(id);
}

std::vector<PooledPtr> Pool::find(std::span<const Hash32> hashes) const {
    std::vector<PooledPtr> found;
    found.reserve(hashes.size());
    const MutexLock lock(mutex_);
    for (const auto& hash : hashes) found.push_back(by_hash_.find(hash));
    return found;
}

std::uint64_t Pool::next_nonce(const types::Address& sender, std::uint64_t account_nonce) const {
    const MutexLock lock(mutex_);
    const auto* entry = find_sender(sender);
    // The caller's state may be newer than the queue's view of the account.
    std::uint64_t nonce = account_nonce;
    if (entry == nullptr) return nonce;
    while (entry->queue.find(nonce) != nullptr) ++nonce;
    return nonce;
}

bool Pool::has_executable(const Uint256& base_fee) const {
    const MutexLock lock(mutex_);
    return !head_fees_.empty() && *head_fees_.rbegin() >= base_fee;
}

std::vector<PooledPtr> Pool::tasks() const {
    std::vector<PooledPtr> result;
    const MutexLock lock(mutex_);
    for (const auto& [arrival, pooled] : tasks_) result.push_back(pooled);
    return result;
}

std::vector<PooledPtr> Pool::arrived_after(std::uint64_t arrival, std::size_t limit, std::size_t bytes) const {
    std::vector<PooledPtr> result;
    const MutexLock lock(mutex_);
    for (auto it = by_arrival_.upper_bound(arrival); it != by_arrival_.end() && result.size() < limit; ++it) {
        const std::size_t size = it->second->transaction.encoded.size();
        if (size > bytes && !result.empty()) break;
        bytes -= std::min(bytes, size);
        result.push_back(it->second);
    }
    return result;
}

std::vector<PooledPtr> Pool::latest(std::size_t limit, std::size_t bytes) const {
    std::vector<PooledPtr> result;
    const MutexLock lock(mutex_);
    for (auto it = by_arrival_.rbegin(); it != by_arrival_.rend() && result.size() < limit; ++it) {
        const std::size_t size = it->second->transaction.encoded.size();
        if (size > bytes) break;
        bytes -= size;
        result.push_back(it->second);
    }
    return result;
}

std::uint64_t Pool::last_arrival() const {
    const MutexLock lock(mutex_);
    return next_arrival_ - 1;
}

PoolStatus Pool::status() const {
    const MutexLock lock(mutex_);
    return {by_arrival_.size(), ready_, bytes_, by_sender_.size()};
}

std::size_t Pool::parked() const {
    const MutexLock lock(mutex_);
    return parked_.size();
}

}  // namespace quern::chain::mempool
