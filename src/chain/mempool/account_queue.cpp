#include "chain/mempool/account_queue.h"

#include <algorithm>

namespace quern::chain::mempool {

std::vector<AccountQueue::Slot>::iterator AccountQueue::lower_bound(std::uint64_t nonce) {
    if (!slots_.empty() && slots_.back().nonce() < nonce) return slots_.end();
    return std::lower_bound(slots_.begin(), slots_.end(), nonce,
                            [](const Slot& slot, std::uint64_t wanted) { return slot.nonce() < wanted; });
}

const AccountQueue::Slot* AccountQueue::find(std::uint64_t nonce) const {
    const auto found = const_cast<AccountQueue*>(this)->lower_bound(nonce);
    return found != slots_.end() && found->nonce() == nonce ? &*found : nullptr;
}

std::vector<AccountQueue::Slot> AccountQueue::set_account(const AccountView& account) {
    if (account == account_) return {};
    account_ = account;
    const auto first = lower_bound(account.nonce);
    std::vector<Slot> stale(std::make_move_iterator(slots_.begin()), std::make_move_iterator(first));
    slots_.erase(slots_.begin(), first);
    for (const Slot& slot : stale) cost_ -= slot.cost;
    recount();
    return stale;
}

bool AccountQueue::has_gap_before(std::uint64_t nonce) const {
    // The nonces of the first slots, payable or not, follow each other from the account's on until the first gap.
    if (nonce == account_.nonce) return false;
    if (nonce < account_.nonce || slots_.empty() || slots_.front().nonce() != account_.nonce) return true;
    std::uint64_t next = account_.nonce + ready_;
    for (std::size_t i = ready_; next < nonce && i < slots_.size() && slots_[i].nonce() == next; ++i) ++next;
    return nonce > next;
}

PooledPtr AccountQueue::put(PooledPtr pooled) {
    Slot slot{std::move(pooled), {}, false, false, 0};
    slot.cost = cost_of(*slot.pooled);
    cost_ += slot.cost;
    const auto place = lower_bound(slot.nonce());
    if (place != slots_.end() && place->nonce() == slot.nonce()) {
        cost_ -= place->cost;
        PooledPtr old = std::move(place->pooled);
        *place = std::move(slot);
        recount();
        return old;
    }
    const bool last = place == slots_.end();
    const bool follows = last && ready_ == slots_.size() && slot.nonce() == account_.nonce + ready_;
    slots_.insert(place, std::move(slot));
    if (follows) {
        // All of them are ready, so that the sum of all is what the last one needs.
        if (cost_ <= account_.balance) ++ready_;
    } else if (!last || ready_ + 1 != slots_.size()) {
        recount();
    }
    return nullptr;
}

PooledPtr AccountQueue::take(std::uint64_t nonce) {
    const auto place = lower_bound(nonce);
    if (place == slots_.end() || place->nonce() != nonce) return nullptr;
    cost_ -= place->cost;
    PooledPtr pooled = std::move(place->pooled);
    slots_.erase(place);
    recount();
    return pooled;
}

void AccountQueue::recount() {
    ready_ = 0;
    Uint256 needed;
    while (ready_ < slots_.size() && slots_[ready_].nonce() == account_.nonce + ready_) {
        needed += slots_[ready_].cost;
        if (needed > account_.balance) return;
        ++ready_;
    }
}

}  // namespace quern::chain::mempool
