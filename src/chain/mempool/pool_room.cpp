// Who leaves the pool when it is full, and what leaves it with time.
#include <algorithm>
#include <queue>

#include "chain/mempool/pool.h"

namespace quern::chain::mempool {
namespace {

constexpr std::uint64_t kSweepBlocks = 16;    // from one look at the parked ones to the next
constexpr std::size_t kMaxAccountsRead = 64;  // in one look

}  // namespace

void Pool::evict_parked(const Source& source) {
    const auto place = parked_.cheapest(source).second;
    erase(place.sender, place.nonce);
}

bool Pool::own_gives_way(const PooledTransaction& newcomer) {
    if (parked_.of_source(newcomer.source) == 0) return false;
    if (!(parked_.cheapest(newcomer.source).first < price_of(newcomer))) return false;
    evict_parked(newcomer.source);
    return true;
}

bool Pool::make_parking_room(const PooledTransaction& newcomer, const PooledPtr& replaced) {
    if (newcomer.bytes > limits_.max_parked_bytes || newcomer.bytes > limits_.max_bytes) return false;
    for (;;) {
        // What is replaced may have been evicted on the way.
        const PooledPtr still = replaced ? by_hash_.find(replaced->transaction.hash) : nullptr;
        const std::size_t more = still ? 0 : 1;
        const std::size_t freed = still ? still->bytes : 0;
        if (parked_.of_source(newcomer.source) + more > limits_.max_parked_per_source) {
            if (!own_gives_way(newcomer)) return false;
            continue;
        }
        if (parked_.size() + more <= limits_.max_parked &&
            parked_.bytes() + newcomer.bytes <= limits_.max_parked_bytes + freed &&
            by_arrival_.size() + more <= limits_.max_transactions &&
            bytes_ + newcomer.bytes <= limits_.max_bytes + freed)
            return true;
        // The source that has most gives first, so that one cannot take what the others have.
        const Source* const largest = parked_.largest();
        if (largest == nullptr) return false;
        if (parked_.of_source(*largest) > parked_.of_source(newcomer.source))
            evict_parked(Source(*largest));
        else if (!own_gives_way(newcomer))
            return false;
    }
}

std::optional<std::vector<ParkedTable::Place>> Pool::cheaper_than(const PooledTransaction& newcomer,
                                                                  Excess excess) const {
    struct Victim {
        Price price;
        const SenderEntry* sender;
        std::size_t index;  // of the slot
    };
    const auto dearer = [](const Victim& a, const Victim& b) { return b.price < a.price; };
    std::priority_queue<Victim, std::vector<Victim>, decltype(dearer)> next(dearer);
    const Price price = price_of(newcomer);
    std::vector<ParkedTable::Place> places;
    auto tail = tails_.begin();
    while (!excess.none()) {
        if (tail != tails_.end() && (next.empty() || tail->price < next.top().price)) {
            next.push({tail->price, tail->sender, tail->sender->queue.ready() - 1});
            ++tail;
        }
        if (next.empty()) return std::nullopt;
        const Victim victim = next.top();
        next.pop();
        // The newcomer must beat it, and not push out its own sender's.
        if (!(victim.price < price) || victim.sender->address == newcomer.transaction.sender) return std::nullopt;
        const auto& slot = victim.sender->queue.slots()[victim.index];
        places.push_back({victim.sender->address, slot.nonce()});
        excess.count -= std::min<std::size_t>(excess.count, 1);
        excess.bytes -= std::min(excess.bytes, slot.pooled->bytes);
        if (victim.index == 0) continue;
        const auto& before = victim.sender->queue.slots()[victim.index - 1];
        next.push({price_of(*before.pooled), victim.sender, victim.index - 1});
    }
    return places;
}

Pool::Excess Pool::excess(const PooledTransaction& newcomer, const PooledPtr& replaced, std::size_t count_off,
                          std::size_t bytes_off) const {
    // What is replaced may have been evicted on the way.
    const PooledPtr still = replaced ? by_hash_.find(replaced->transaction.hash) : nullptr;
    const std::size_t count = by_arrival_.size() + (still ? 0 : 1);
    const std::size_t bytes = bytes_ + newcomer.bytes;
    return {count - std::min(count, limits_.max_transactions + count_off),
            bytes - std::min(bytes, limits_.max_bytes + bytes_off + (still ? still->bytes : 0))};
}

bool Pool::make_room(const PooledTransaction& newcomer, bool parks, const PooledPtr& replaced) {
    if (parks) return make_parking_room(newcomer, replaced);
    if (excess(newcomer, replaced, 0, 0).none()) return true;
    // First whether it will fit, so that nobody leaves for nothing.
    const auto cheaper = cheaper_than(newcomer, excess(newcomer, replaced, parked_.size(), parked_.bytes()));
    if (!cheaper) return false;
    while (!excess(newcomer, replaced, 0, 0).none()) {
        const Source* const largest = parked_.largest();
        if (largest == nullptr) break;
        evict_parked(Source(*largest));
    }
    for (const auto& place : *cheaper) erase(place.sender, place.nonce);
    // What is replaced may have been among the parked ones that left; its place must then be made, too.
    const auto rest = cheaper_than(newcomer, excess(newcomer, replaced, 0, 0));
    if (!rest) return false;
    for (const auto& place : *rest) erase(place.sender, place.nonce);
    return true;
}

// What lost its money or the one before it, by a block or a refusal.
void Pool::trim_parked() {
    while (parked_.size() > limits_.max_parked || parked_.bytes() > limits_.max_parked_bytes)
        evict_parked(Source(*parked_.largest()));
}

// What offers no fee is worth its place only while it convicts.
void Pool::drop_spent_evidence(const state::StateReader& state) {
    std::vector<PooledPtr> spent;
    for (const auto& [arrival, pooled] : free_)
        if (!exec::precheck(params_, state, height_ + 1, pooled->transaction, params_.min_base_fee).in_block())
            spent.push_back(pooled);
    for (const auto& pooled : spent) erase(pooled->transaction.sender, pooled->transaction.tx.nonce);
}

void Pool::drop_expired() {
    while (!by_arrival_.empty() && by_arrival_.begin()->second->height + limits_.waiting_blocks < height_) {
        const PooledPtr oldest = by_arrival_.begin()->second;
        erase(oldest->transaction.sender, oldest->transaction.tx.nonce);
    }
    if (height_ < next_sweep_) return;
    for (const auto& place : parked_.all()) {
        const auto* const sender = find_sender(place.sender);
        const auto* const slot = sender != nullptr ? sender->queue.find(place.nonce) : nullptr;
        if (slot != nullptr && slot->parked && slot->parked_at + limits_.parked_blocks < height_)
            erase(place.sender, place.nonce);
    }
}

// Money may have come to a sender without a transaction of its own.
void Pool::look_again_at_unpayable(const state::StateReader& state) {
    next_sweep_ = height_ + kSweepBlocks;
    std::size_t read = 0;
    for (const auto& place : parked_.all()) {
        auto* const sender = find_sender(place.sender);
        if (sender == nullptr) continue;
        const AccountQueue& queue = sender->queue;
        if (queue.parked() == 0 || queue.slots()[queue.ready()].nonce() != queue.account().nonce + queue.ready())
            continue;
        if (++read > kMaxAccountsRead) return;
        const auto account = state.account(place.sender).value_or(state::empty_account());
        set_account(*sender, {account.nonce, account.balance}, height_);
    }
}

}  // namespace quern::chain::mempool
