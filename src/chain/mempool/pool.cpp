#include "chain/mempool/pool.h"

#include <algorithm>

#include "chain/exec/fees.h"
#include "chain/types/abi.h"

namespace quern::chain::mempool {
namespace {

// Gas at the fee cap, plus value; a transaction whose cost overflows failed precheck.
Uint256 cost_of(const types::Transaction& tx) { return tx.max_fee_per_gas * tx.gas_limit + tx.value; }

bool pays_more(const Uint256& fresh, const Uint256& old, std::uint64_t percent) {
    const auto wanted = mul_div(old, 100 + percent, 100);
    return wanted && fresh >= *wanted && fresh > old;
}

bool is_task_submit(const types::Transaction& tx) {
    if (tx.type == types::TxType::native)
        return tx.native_kind == static_cast<std::uint8_t>(types::NativeKind::task_submit);
    if (!tx.to || *tx.to != types::group_address(types::KindGroup::tasks) || tx.data.size() < 4) return false;
    return types::abi::Selector::copy_of(BytesView(tx.data).first(4)) ==
           types::abi::selector(types::NativeKind::task_submit);
}

}  // namespace

std::size_t Pool::Queue::executable() const {
    std::size_t count = 0;
    for (const auto& [nonce, pooled] : by_nonce) {
        if (nonce != account_nonce + count) break;
        ++count;
    }
    return count;
}

bool Pool::Price::operator<(const Price& other) const {
    if (fee_cap != other.fee_cap) return fee_cap < other.fee_cap;
    if (tip_cap != other.tip_cap) return tip_cap < other.tip_cap;
    if (arrival != other.arrival) return arrival > other.arrival;
    return sender < other.sender;
}

Pool::Pool(const params::ChainParams& params, const PoolLimits& limits) : params_(params), limits_(limits) {}

Pool::Price Pool::price_of(const PooledTransaction& pooled) {
    const auto& tx = pooled.transaction.tx;
    // Their number is limited on its own; no other transaction pushes them out.
    if (exec::travels_free(tx)) return {~Uint256(), ~Uint256(), pooled.arrival, pooled.transaction.sender};
    return {tx.max_fee_per_gas, tx.max_priority_fee_per_gas, pooled.arrival, pooled.transaction.sender};
}

void Pool::unlist_tail(const Queue& queue) {
    if (!queue.by_nonce.empty()) tails_.erase(price_of(*queue.by_nonce.rbegin()->second));
}

void Pool::list_tail(const Queue& queue) {
    if (!queue.by_nonce.empty()) tails_.insert(price_of(*queue.by_nonce.rbegin()->second));
}

void Pool::erase(Queues::iterator queue, std::uint64_t nonce) {
    const auto found = queue->second.by_nonce.find(nonce);
    if (found == queue->second.by_nonce.end()) return;
    unlist_tail(queue->second);
    const auto& transaction = found->second->transaction;
    bytes_ -= transaction.encoded.size();
    queue->second.cost -= cost_of(transaction.tx);
    if (exec::travels_free(transaction.tx)) --free_;
    by_hash_.erase(transaction.hash);
    queue->second.by_nonce.erase(found);
    list_tail(queue->second);
    if (queue->second.by_nonce.empty()) queues_.erase(queue);
}

Status Pool::make_room(const PooledTransaction& newcomer, const PooledPtr& replaced) {
    const Price price = price_of(newcomer);
    const std::size_t more = replaced ? 0 : 1;
    const std::size_t freed = replaced ? replaced->transaction.encoded.size() : 0;
    while (by_hash_.size() + more > limits_.max_transactions ||
           bytes_ + newcomer.transaction.encoded.size() > limits_.max_bytes + freed) {
        // The newcomer must beat the cheapest, and not push out its own sender's queue.
        if (tails_.empty() || !(*tails_.begin() < price) || tails_.begin()->sender == newcomer.transaction.sender)
            return fail("txpool is full");
        const auto queue = queues_.find(tails_.begin()->sender);
        erase(queue, queue->second.by_nonce.rbegin()->first);
    }
    return {};
}

Expected<PooledPtr> Pool::add(types::RecoveredTransaction transaction, const state::StateReader& state,
                              std::uint64_t height) {
    {
        const std::lock_guard lock(mutex_);
        if (by_hash_.contains(transaction.hash)) return fail("already known");
    }
    // The slow checks read the state without the lock; what they find can only be older than the pool, and execution
    // decides in the end. A fee below the current base fee may wait for better times, below the least possible one not.
    if (const auto checked = exec::precheck(params_, state, transaction, params_.min_base_fee);
        checked.band != exec::Band::ok)
        return fail(checked.name, checked.detail);
    const auto account = state.account(transaction.sender).value_or(state::empty_account());
    const auto& tx = transaction.tx;
    if (tx.nonce < account.nonce) return fail("nonce too low");
    if (tx.nonce - account.nonce > limits_.max_nonce_gap)
        return fail("nonce too high", "account is at " + std::to_string(account.nonce));

    // Else one that nobody tries to execute would keep its place for ever.
    if (exec::travels_free(tx) && tx.nonce != account.nonce)
        return fail("nonce too high", "a transaction without a fee must be its sender's next");

    const std::lock_guard lock(mutex_);
    // Else a nonce that a block has used in between would hold up its sender's queue.
    if (height < height_) return fail("mempool.stale_state");
    if (by_hash_.contains(transaction.hash)) return fail("already known");
    auto pooled = std::make_shared<const PooledTransaction>(PooledTransaction{std::move(transaction), next_arrival_});
    const auto& fresh = pooled->transaction.tx;
    const types::Address& sender = pooled->transaction.sender;
    const Uint256 cost = cost_of(fresh);

    Uint256 queued_cost;
    PooledPtr replaced;
    if (const auto queue = queues_.find(sender); queue != queues_.end()) {
        queued_cost = queue->second.cost;
        const auto old = queue->second.by_nonce.find(fresh.nonce);
        if (old != queue->second.by_nonce.end()) {
            replaced = old->second;
            const auto& previous = replaced->transaction.tx;
            if (!pays_more(fresh.max_fee_per_gas, previous.max_fee_per_gas, limits_.replacement_percent) ||
                !pays_more(fresh.max_priority_fee_per_gas, previous.max_priority_fee_per_gas,
                           limits_.replacement_percent))
                return fail("replacement transaction underpriced");
            queued_cost -= cost_of(previous);
        } else if (queue->second.by_nonce.size() >= limits_.max_per_sender) {
            return fail("account limit exceeded", std::to_string(limits_.max_per_sender) + " transactions wait");
        }
    }
    const auto total = checked_add(queued_cost, cost);
    if (!total || *total > account.balance)
        return fail("insufficient funds for gas * price + value", "together with the sender's waiting transactions");

    const bool free = exec::travels_free(fresh);
    if (free && free_ >= limits_.max_free) return fail("txpool is full", "transactions without a fee");
    QUERN_CHECK(make_room(*pooled, replaced));
    if (replaced) erase(queues_.find(sender), fresh.nonce);
    Queue& queue = queues_[sender];
    unlist_tail(queue);
    queue.account_nonce = std::max(queue.account_nonce, account.nonce);
    queue.by_nonce[fresh.nonce] = pooled;
    queue.cost += cost;
    list_tail(queue);
    by_hash_.emplace(pooled->transaction.hash, pooled);
    bytes_ += pooled->transaction.encoded.size();
    if (free) ++free_;
    ++next_arrival_;
    return pooled;
}

void Pool::drop_stale(Queues::iterator queue) {
    const types::Address sender = queue->first;
    while (!queue->second.by_nonce.empty()) {
        const std::uint64_t first = queue->second.by_nonce.begin()->first;
        if (first >= queue->second.account_nonce) return;
        erase(queue, first);
        queue = queues_.find(sender);
        if (queue == queues_.end()) return;
    }
}

void Pool::on_block(const std::vector<types::RecoveredTransaction>& included, const state::StateReader& state,
                    std::uint64_t height) {
    const std::lock_guard lock(mutex_);
    height_ = height;
    for (const auto& transaction : included) {
        const auto queue = queues_.find(transaction.sender);
        if (queue == queues_.end()) continue;
        queue->second.account_nonce = state.account(transaction.sender).value_or(state::empty_account()).nonce;
        drop_stale(queue);
    }
    if (free_ > 0) drop_spent_evidence(state);
}

// What offers no fee is worth its place only while it convicts.
void Pool::drop_spent_evidence(const state::StateReader& state) {
    std::vector<std::pair<types::Address, std::uint64_t>> spent;
    for (const auto& [sender, queue] : queues_)
        for (const auto& [nonce, pooled] : queue.by_nonce)
            if (exec::travels_free(pooled->transaction.tx) &&
                exec::precheck(params_, state, pooled->transaction, params_.min_base_fee).band != exec::Band::ok)
                spent.emplace_back(sender, nonce);
    for (const auto& [sender, nonce] : spent) erase(queues_.find(sender), nonce);
}

void Pool::drop(const std::vector<Hash32>& hashes) {
    const std::lock_guard lock(mutex_);
    for (const auto& hash : hashes) {
        const auto found = by_hash_.find(hash);
        if (found == by_hash_.end()) continue;
        const auto pooled = found->second;
        erase(queues_.find(pooled->transaction.sender), pooled->transaction.tx.nonce);
    }
}

PooledPtr Pool::find(const Hash32& hash) const {
    const std::lock_guard lock(mutex_);
    const auto found = by_hash_.find(hash);
    return found == by_hash_.end() ? nullptr : found->second;
}

std::uint64_t Pool::next_nonce(const types::Address& sender, std::uint64_t account_nonce) const {
    const std::lock_guard lock(mutex_);
    const auto queue = queues_.find(sender);
    if (queue == queues_.end()) return account_nonce;
    // The caller's state may be newer than the queue's view of the account.
    std::uint64_t nonce = account_nonce;
    for (auto it = queue->second.by_nonce.lower_bound(account_nonce);
         it != queue->second.by_nonce.end() && it->first == nonce; ++it)
        ++nonce;
    return nonce;
}

std::vector<SenderQueue> Pool::executable() const {
    const std::lock_guard lock(mutex_);
    std::vector<SenderQueue> result;
    for (const auto& [sender, queue] : queues_) {
        SenderQueue ready;
        std::size_t count = queue.executable();
        for (auto it = queue.by_nonce.begin(); count > 0; ++it, --count) ready.push_back(it->second);
        if (!ready.empty()) result.push_back(std::move(ready));
    }
    return result;
}

std::vector<SenderQueue> Pool::waiting() const {
    const std::lock_guard lock(mutex_);
    std::vector<SenderQueue> result;
    result.reserve(queues_.size());
    for (const auto& [sender, queue] : queues_) {
        SenderQueue all;
        all.reserve(queue.by_nonce.size());
        for (const auto& [nonce, pooled] : queue.by_nonce) all.push_back(pooled);
        result.push_back(std::move(all));
    }
    return result;
}

bool Pool::has_executable(const Uint256& base_fee) const {
    const std::lock_guard lock(mutex_);
    return std::any_of(queues_.begin(), queues_.end(), [&](const auto& entry) {
        const auto& [nonce, pooled] = *entry.second.by_nonce.begin();
        return nonce == entry.second.account_nonce && exec::pays_base_fee(pooled->transaction.tx, base_fee);
    });
}

std::vector<PooledPtr> Pool::all() const {
    std::vector<PooledPtr> result;
    {
        const std::lock_guard lock(mutex_);
        result.reserve(by_hash_.size());
        for (const auto& [hash, pooled] : by_hash_) result.push_back(pooled);
    }
    std::sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return a->arrival < b->arrival; });
    return result;
}

std::vector<PooledPtr> Pool::tasks() const {
    auto result = all();
    std::erase_if(result, [](const auto& pooled) { return !is_task_submit(pooled->transaction.tx); });
    return result;
}

PoolStatus Pool::status() const {
    const std::lock_guard lock(mutex_);
    PoolStatus status{by_hash_.size(), 0, bytes_, queues_.size()};
    for (const auto& [sender, queue] : queues_) status.executable += queue.executable();
    return status;
}

}  // namespace quern::chain::mempool
