#include "chain/market/work.h"

#include <algorithm>

namespace quern::chain::market {

TaskWork task_work(const types::TaskSubmitPayload& spec, std::uint64_t work_per_step) {
    return {spec.steps, spec.interval, work_per_step, spec.verifiers, spec.samples};
}

TaskWork work_of(const types::Task& task) { return task_work(task.spec, task.work_units); }

std::uint64_t sampled_segments(const TaskWork& work) {
    return std::min<std::uint64_t>(work.samples, segment_count(work.steps, work.interval));
}

Uint256 total_work(const TaskWork& work) { return work_of_steps(work, work.steps); }

Uint256 work_of_steps(const TaskWork& work, std::uint64_t steps) {
    return Uint256(steps) * Uint256(work.work_per_step);
}

Uint256 sampled_work(const TaskWork& work) {
    return Uint256(sampled_segments(work)) * Uint256(work.interval) * Uint256(work.work_per_step);
}

}  // namespace quern::chain::market
