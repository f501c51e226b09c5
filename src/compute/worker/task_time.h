// What this machine's profile says that a task takes here (compute/cost): a solver leaves alone what it could not do in
// time, and logs tell how long a training or a replay will take. Pure; thread-safe.
#pragma once

#include <span>

#include "chain/market/work.h"
#include "chain/types/native_objects.h"
#include "compute/cost/predict.h"

namespace quern::compute::worker {

// Of a segment's seconds there must be so many times as many between two checkpoints, as windows are at least for who
// has declared a speed (chain/market/windows.h).
inline constexpr double kTimeMargin = 2;

// Whether the segments of `interval` steps of the stretch, each with its commitments, take half of `heartbeat_s` at
// most; the first and the last are looked at. Each is done `times` times. Error: worker.too_slow, which says how long
// one takes.
[[nodiscard]] Status check_time(const core::TaskPrograms& programs, const chain::types::Task& task,
                                const chain::market::Stretch& stretch, const cost::Profile& profile, double times = 1);
// Whether the segments that the task's profilers measure can be computed in its profiling's window, once each. Error:
// worker.too_slow.
[[nodiscard]] Status check_profiling_time(const core::TaskPrograms& programs, const chain::types::Task& task,
                                          const cost::Profile& profile);
// Seconds of the stretch's steps with their commitments.
[[nodiscard]] double training_time(const core::TaskPrograms& programs, const chain::types::Task& task,
                                   const chain::market::Stretch& stretch, const cost::Profile& profile);
// Seconds of so many of its segments, of which `probes` tiles are kept.
[[nodiscard]] double replay_time(const core::TaskPrograms& programs, const chain::types::Task& task,
                                 const chain::market::Stretch& stretch, std::span<const std::uint64_t> segments,
                                 std::size_t probes, const cost::Profile& profile);

}  // namespace quern::compute::worker
