#include "compute/worker/bid_cover.h"

#include <algorithm>

#include "chain/market/delays.h"

namespace quern::compute::worker {

void BidCover::update(const LiveTasks::Tasks& tasks, const chain::types::Address& bidder, const Uint256& free_part,
                      std::uint64_t market_ms) {
    free_ = free_part;
    std::map<std::uint64_t, Uint256> needs;
    for (const auto& [id, live] : tasks) {
        const auto& task = live->task;
        const auto own = std::find_if(task.bids.begin(), task.bids.end(),
                                      [&](const chain::types::TaskBid& bid) { return bid.bidder == bidder; });
        const bool takes_bids =
            task.state == chain::types::TaskState::open && market_ms < chain::market::bids_until(task);
        if (own != task.bids.end()) {
            const Uint256 seat = chain::market::seat_bond(market_, task);
            needs[id] = seat - std::min(seat, own->deposit);
        } else if (const auto sent = needs_.find(id); takes_bids && sent != needs_.end()) {
            needs[id] = sent->second;
        }
    }
    needs_ = std::move(needs);
}

bool BidCover::covers(const chain::types::Task& task) const {
    Uint256 rest = free_;
    for (const auto& [id, need] : needs_) {
        if (id == task.id) continue;
        if (rest < need) return false;
        rest -= need;
    }
    return rest >= chain::market::seat_bond(market_, task);
}

void BidCover::add(const chain::types::Task& task) { needs_[task.id] = chain::market::seat_bond(market_, task); }

}  // namespace quern::compute::worker
