// Which states of a stretch its solver keeps in its node's store, and which it can be asked for: pure rules for
// training_jobs.h and regeneration.h. A solver keeps the first and the newest state, and of those between as many as
// --keep-states-mib holds; drawn ones that it has not kept it regenerates, from the nearest before.
#pragma once

#include <set>

#include "chain/types/native_objects.h"
#include "compute/core/history.h"
#include "compute/worker/publisher.h"

namespace quern::compute::worker {

// States go only as far as the way back to each fits in this part of the windows that it would have to be gone in.
inline constexpr std::uint64_t kReplayShare = 4;

// In the node's store, put there by this worker.
struct KeptState {
    std::uint64_t step = 0;  // after it
    Hash32 content;
    std::vector<Hash32> slots;
    QUERN_FIELDS(v("step", step), v("content", content), v("slots", slots))
};

// Every how many-th checkpoint of `done` that a stretch has come to is kept, the newest besides: a power of two. More
// than there are: none between the first and the newest.
struct Keeping {
    std::uint64_t bytes = 0;        // for those between
    std::uint64_t state_bytes = 1;  // of one
    std::uint64_t segment_ms = 0;   // that a segment took this worker at most
};
[[nodiscard]] std::uint64_t kept_spacing(const chain::types::TaskClaim& live, std::uint64_t done,
                                         const Keeping& keeping);
// Takes out of `kept` (ascending; the newest is its last one) what this spacing leaves out; where there are custodians
// never the state before a whole stretch's last one, which they are to have.
[[nodiscard]] std::vector<KeptState> take_spare(const chain::types::TaskClaim& live, std::uint64_t spacing,
                                                std::vector<KeptState>& kept);

// The steps after which the states stand that a claim's verifiers ask for, the last one besides: with which the
// segments begin that they were drawn for, the stretch and its last segment.
[[nodiscard]] std::set<std::uint64_t> drawn_steps(const chain::types::TaskClaim& live);

}  // namespace quern::compute::worker
