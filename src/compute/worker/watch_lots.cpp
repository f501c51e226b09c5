#include "compute/worker/watch_lots.h"

#include "chain/market/watchers.h"

namespace quern::compute::worker {

void WatchLots::set_bonds(const Uint256& own, const Uint256& total) {
    own_ = own;
    total_ = total;
}

bool WatchLots::watches(const chain::types::TaskClaim& live, Rng& rng) {
    if (own_.is_zero()) return false;  // of a bond that comes, or is told, later: the lot is drawn then
    const auto [at, is_new] = lots_.try_emplace(JobId{live.task.id, live.claim.id.stretch});
    Lot& lot = at->second;
    if (is_new || lot.round != live.claim.id.round) {
        Hash32 drawn;
        rng.fill(drawn.data);
        lot.round = live.claim.id.round;
        lot.watches = total_.is_zero() || chain::market::is_watcher(drawn, own_, total_);
    }
    return lot.watches;
}

void WatchLots::keep(const std::set<JobId>& claims) {
    std::erase_if(lots_, [&](const auto& entry) { return !claims.contains(entry.first); });
}

}  // namespace quern::compute::worker
