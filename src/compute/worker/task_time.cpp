#include "compute/worker/task_time.h"

#include <algorithm>
#include <cstdio>

#include "compute/core/history.h"

namespace quern::compute::worker {
namespace {

double segment_time(const cost::TaskTime& time, const chain::types::Task& task, const chain::market::Stretch& stretch,
                    std::uint64_t segment) {
    const core::SegmentSteps steps = core::segment_steps(segment, task.spec.work.interval, stretch.before);
    return time.training(steps.first, std::min(steps.last, stretch.last()), task.spec.work.stride);
}

}  // namespace

Status check_time(const core::TaskPrograms& programs, const chain::types::Task& task,
                  const chain::market::Stretch& stretch, const cost::Profile& profile, double times) {
    const std::uint64_t segments = core::segment_count(stretch.steps, task.spec.work.interval);
    if (segments == 0) return {};
    const cost::TaskTime time(programs, profile);
    const double longest =
        times * std::max(segment_time(time, task, stretch, 0), segment_time(time, task, stretch, segments - 1));
    if (kTimeMargin * longest <= static_cast<double>(task.spec.windows.heartbeat_s)) return {};
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.3g", longest);
    return fail("worker.too_slow", std::string("a segment takes this machine ") + seconds + " s, of the " +
                                       std::to_string(task.spec.windows.heartbeat_s) +
                                       " s between two checkpoints half are for it");
}

Status check_profiling_time(const core::TaskPrograms& programs, const chain::types::Task& task,
                            const cost::Profile& profile) {
    const auto& profiling = task.spec.profiling;
    const double all = training_time(programs, task, {0, profiling.segments * task.spec.work.interval}, profile);
    if (all <= static_cast<double>(profiling.window_s)) return {};
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.3g", all);
    return fail("worker.too_slow", std::string("the profile takes this machine ") + seconds + " s, of " +
                                       std::to_string(profiling.window_s) + " s");
}

double training_time(const core::TaskPrograms& programs, const chain::types::Task& task,
                     const chain::market::Stretch& stretch, const cost::Profile& profile) {
    return cost::TaskTime(programs, profile).training(stretch.before + 1, stretch.last(), task.spec.work.stride);
}

double replay_time(const core::TaskPrograms& programs, const chain::types::Task& task,
                   const chain::market::Stretch& stretch, std::span<const std::uint64_t> segments, std::size_t probes,
                   const cost::Profile& profile) {
    const cost::TaskTime time(programs, profile);
    double seconds = time.replay(1, 0, 1, probes);
    for (const std::uint64_t segment : segments) seconds += segment_time(time, task, stretch, segment);
    return seconds;
}

}  // namespace quern::compute::worker
