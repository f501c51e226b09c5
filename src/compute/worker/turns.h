// Whose turn it is: jobs share a thread in slices of time, and one whose single step takes longer than a slice must not
// keep the others from theirs. Pure; used by one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace quern::compute::worker {

class Turns {
public:
    // `ids` (ascending) in the order in which they may run now: behind the one that ran last comes the next higher.
    [[nodiscard]] std::vector<std::uint64_t> order(std::vector<std::uint64_t> ids) const {
        std::rotate(ids.begin(), std::upper_bound(ids.begin(), ids.end(), last_), ids.end());
        return ids;
    }
    void ran(std::uint64_t id) { last_ = id; }

private:
    std::uint64_t last_ = 0;
};

}  // namespace quern::compute::worker
