// Which claims a whistleblower looks at that does so while few do: for each it draws a lot that nobody else can know,
// so that no solver knows whether its claim is looked at. One thread at a time.
#pragma once

#include <map>
#include <set>

#include "base/rng.h"
#include "base/uint256.h"
#include "compute/worker/context.h"

namespace quern::compute::worker {

class WatchLots {
public:
    // The chance is a watcher's (chain/market/watchers.h): every claim while half of what whistleblowers have bonded
    // is `own`, the fewer the more others have; none without a bond. Zero of `total`: it is not known; every claim.
    void set_bonds(const Uint256& own, const Uint256& total);
    // Of one claim the same whenever it is asked for, whatever becomes of the bonds.
    [[nodiscard]] bool watches(const chain::types::TaskClaim& live, Rng& rng);
    // Forgets the lots of all claims but these.
    void keep(const std::set<JobId>& claims);

private:
    struct Lot {
        std::uint32_t round = 0;
        bool watches = false;
    };
    Uint256 own_;
    Uint256 total_;
    std::map<JobId, Lot> lots_;
};

}  // namespace quern::compute::worker
