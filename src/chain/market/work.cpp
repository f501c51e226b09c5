#include "chain/market/work.h"

#include <algorithm>

namespace quern::chain::market {
namespace {

// Times a window, for two claims, it is below 2^64, and more than the longest window: what is above is as bad.
constexpr unsigned kMostSegmentBits = 40;

}  // namespace

TaskWork task_work(const types::TaskSubmitPayload& spec, const PlannedWork& plan) {
    return {plan,
            spec.work.verifiers,
            spec.work.samples + spec.work.largest,
            0,
            {},
            spec.profiling.profilers,
            spec.profiling.segments};
}

TaskWork work_of(const types::Task& task) {
    TaskWork work = task_work(
        task.spec, {task.steps, task.spec.work.interval, task.spec.work.stride, task.work_units, task.commit_work,
                    task.segment_work, task.total_work, task.spec.work.tranche, task.stretch_work, task.trace_work, 0});
    work.custodians = task.custodians;
    work.custody_fee = task.custody_fee;
    if (task.state != types::TaskState::profiling) work.profilers = 0;
    return work;
}

void set_plan(types::Task& task, const PlannedWork& plan) {
    task.steps = plan.steps;
    task.work_units = plan.step;
    task.commit_work = plan.commit;
    task.segment_work = plan.segment;
    task.total_work = plan.total;
    task.stretch_work = plan.stretch;
    task.trace_work = plan.trace;
}

Uint256 history_hashes(const PlannedWork& plan) {
    const std::uint64_t steps = tranche_steps(plan.steps, plan.tranche);
    return Uint256(stride_count(steps, plan.stride)) + Uint256(segment_count(steps, plan.interval)) + Uint256(2);
}

std::uint64_t sampled_segments(const TaskWork& work, std::uint64_t steps) {
    return std::min<std::uint64_t>(work.samples, segment_count(steps, work.plan.interval));
}

Uint256 sampled_work(const TaskWork& work, std::uint64_t steps) {
    return Uint256(sampled_segments(work, steps)) * work.plan.segment;
}

std::uint64_t sampled_segments(const TaskWork& work) {
    return sampled_segments(work, tranche_steps(work.plan.steps, work.plan.tranche));
}

Uint256 sampled_work(const TaskWork& work) {
    return sampled_work(work, tranche_steps(work.plan.steps, work.plan.tranche));
}

Uint256 profiled_work(const TaskWork& work) { return Uint256(2 * std::uint64_t{work.profiled}) * work.plan.segment; }

std::uint64_t largest_step(const PlannedWork& plan) { return plan.step + plan.commit; }

std::uint64_t dispute_segments(const PlannedWork& plan) {
    if (plan.segment.is_zero()) return 1;
    Uint256 dispute(plan.trace);
    if (plan.stride > 1) {
        const Uint256 commits = Uint256(stride_count(plan.interval, plan.stride)) * Uint256(plan.commit);
        dispute += Uint256(2) * (plan.segment - commits) + Uint256(plan.stride) * Uint256(plan.commit);
    }
    // Of the mean segment, which is none above the largest: `segment` may be far above it, and would leave no time.
    const Uint256 run = Uint256(plan.interval) * plan.total;
    Uint256 segments = (dispute * Uint256(plan.steps) + run - Uint256(1)) / run;
    if (plan.stride <= 1) segments += Uint256(1);
    return segments.bit_length() > kMostSegmentBits ? std::uint64_t{1} << kMostSegmentBits : segments.low_u64();
}

}  // namespace quern::chain::market
