#include "chain/market/work.h"

#include <algorithm>

namespace quern::chain::market {

TaskWork task_work(const types::TaskSubmitPayload& spec, const PlannedWork& plan) {
    return {plan, spec.verifiers, spec.samples};
}

TaskWork work_of(const types::Task& task) {
    return task_work(task.spec, {task.steps, task.spec.interval, task.work_units, task.segment_work, task.total_work});
}

std::uint64_t sampled_segments(const TaskWork& work) {
    return std::min<std::uint64_t>(work.samples, segment_count(work.plan.steps, work.plan.interval));
}

Uint256 sampled_work(const TaskWork& work) { return Uint256(sampled_segments(work)) * work.plan.segment; }

}  // namespace quern::chain::market
