// What this worker's solver bond must be able to cover: a bid that wins locks the rest of its seat's bond at once, and
// one that is not covered then loses its deposit. So a bid is sent only when the free part covers it beside all others
// that may win, those on their way included. Belongs to one thread.
#pragma once

#include "chain/market/bonds.h"
#include "compute/worker/live_tasks.h"

namespace quern::compute::worker {

class BidCover {
public:
    explicit BidCover(const chain::params::MarketParams& market) : market_(market) {}

    // With each block: what is left of the bids, and the free part of the bond. A bond that is read later than the
    // tasks errs on the safe side.
    void update(const LiveTasks::Tasks& tasks, const chain::types::Address& bidder, const Uint256& free_part,
                std::uint64_t market_ms);
    // Whether a bid on the task, which has none of this worker's in its list, would be covered whatever else is won.
    [[nodiscard]] bool covers(const chain::types::Task& task) const;
    // A bid on it is sent: counted until bidding is over, whatever becomes of the transaction.
    void add(const chain::types::Task& task);

private:
    chain::params::MarketParams market_;
    Uint256 free_;
    std::map<std::uint64_t, Uint256> needs_;  // by task: what must be free when the bid wins
};

}  // namespace quern::compute::worker
