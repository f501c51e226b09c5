// How much a task is to compute, in work units: of its solver, of each of its verifiers, of a part. Used by execution,
// RPC, wallets and workers. Pure functions; thread-safe.
//
// With N steps, a commitment to the state each u of them, a checkpoint each k steps, stretches of T steps that are
// verified and paid for one by one, and s samples beside Q of the largest segments, a verifier computes min(s + Q, T /
// k) segments of k steps of a stretch again, of which none is more than the plan's largest.
#pragma once

#include <concepts>

#include "base/uint256.h"
#include "chain/params/params.h"
#include "chain/types/native_objects.h"

namespace quern::chain::market {

// N / k; 0 when k is 0 or does not divide N.
[[nodiscard]] constexpr std::uint64_t segment_count(std::uint64_t steps, std::uint64_t interval) {
    return interval == 0 || steps % interval != 0 ? 0 : steps / interval;
}

// N / u: states after S_0 that a history of N steps commits to; 0 when u is 0 or does not divide N.
[[nodiscard]] constexpr std::uint64_t stride_count(std::uint64_t steps, std::uint64_t stride) {
    return segment_count(steps, stride);
}

// Steps of a stretch: T, or N where the whole run is one.
[[nodiscard]] constexpr std::uint64_t tranche_steps(std::uint64_t steps, std::uint64_t tranche) {
    return tranche == 0 || tranche > steps ? steps : tranche;
}
// ceil(N / T).
[[nodiscard]] constexpr std::uint64_t stretch_count(std::uint64_t steps, std::uint64_t tranche) {
    const std::uint64_t each = tranche_steps(steps, tranche);
    return each == 0 ? 0 : (steps - 1) / each + 1;
}
// Claims that a solver has at once, of so many stretches that are left.
[[nodiscard]] constexpr std::uint64_t claims_at_once(std::uint64_t stretches) {
    return stretches < types::kMaxUnsettled ? stretches : types::kMaxUnsettled;
}
// Steps `before` + 1 to last() of the plan.
struct Stretch {
    std::uint64_t before = 0;
    std::uint64_t steps = 0;
    [[nodiscard]] constexpr std::uint64_t last() const { return before + steps; }
};
// Of number `stretch`, below stretch_count. The last one ends with N.
[[nodiscard]] constexpr Stretch stretch_of(std::uint64_t steps, std::uint64_t tranche, std::uint32_t stretch) {
    const std::uint64_t each = tranche_steps(steps, tranche);
    const std::uint64_t before = stretch * each;
    return {before, each < steps - before ? each : steps - before};
}
[[nodiscard]] inline Stretch stretch_of(const types::Task& task, std::uint32_t stretch) {
    return stretch_of(task.steps, task.spec.work.tranche, stretch);
}
// Of a task and a claim together.
template <class Live>
requires requires(const Live& live) {
    { live.claim.id } -> std::convertible_to<types::ClaimId>;
}
[[nodiscard]] Stretch stretch_of(const Live& live) { return stretch_of(live.task, live.claim.id.stretch); }
[[nodiscard]] inline std::uint64_t stretch_count(const types::Task& task) {
    return stretch_count(task.steps, task.spec.work.tranche);
}

// What a task's plan comes to (compute/core/task_plan.h), in work units.
struct PlannedWork {
    std::uint64_t steps = 0;     // N
    std::uint64_t interval = 0;  // k
    std::uint64_t stride = 1;    // u
    std::uint64_t step = 0;      // of the largest step, without a commitment
    std::uint64_t commit = 0;    // of hashing one state
    Uint256 segment;             // at least that of the largest segment, its k / u commitments included
    Uint256 total;               // of all steps and N / u commitments; < 2^106
    std::uint64_t tranche = 0;   // T; 0: N
    Uint256 stretch;             // at least that of the largest stretch; `total` of a single one
    std::uint64_t trace = 0;     // of hashing what any step computes, at most
    std::uint64_t state = 0;     // bytes of one state; of an accepted task not kept
};
// States and contents that the history of T steps names, by kHashBytes each.
inline constexpr std::uint64_t kHashBytes = 32;
[[nodiscard]] Uint256 history_hashes(const PlannedWork& plan);

// The numbers of a task that money depends on.
struct TaskWork {
    PlannedWork plan;
    std::uint32_t verifiers = 0;   // m
    std::uint32_t samples = 0;     // s + Q, as asked for
    std::uint64_t custodians = 0;  // of each claim
    Uint256 custody_fee = {};      // of each of these for a stretch
    std::uint32_t profilers = 0;   // that are still to be paid, and ...
    std::uint32_t profiled = 0;    // ... the segments of each
};
[[nodiscard]] TaskWork task_work(const types::TaskSubmitPayload& spec, const PlannedWork& plan);
[[nodiscard]] TaskWork work_of(const types::Task& task);
// What a task keeps of its plan beside its spec, which says interval, stride and tranche.
void set_plan(types::Task& task, const PlannedWork& plan);

// Of one verifier of a stretch of so many steps: min(s + Q, steps / k) segments, and their work, at most.
[[nodiscard]] std::uint64_t sampled_segments(const TaskWork& work, std::uint64_t steps);
[[nodiscard]] Uint256 sampled_work(const TaskWork& work, std::uint64_t steps);
// Of the stretches of T steps, which are the most.
[[nodiscard]] std::uint64_t sampled_segments(const TaskWork& work);
[[nodiscard]] Uint256 sampled_work(const TaskWork& work);
// Of one profiler, who trains these segments and replays them, at most.
[[nodiscard]] Uint256 profiled_work(const TaskWork& work);
// The most that one step can cost whoever runs it: with its commitment. A program's header keeps it below 2^64.
[[nodiscard]] std::uint64_t largest_step(const PlannedWork& plan);

// What a party of a dispute may have to compute before it can move, in times of a segment with its commitments, rounded
// up: the segment, and what a step of it computes, which is hashed. With strides it runs the segment twice, to the
// stride and to the step, and hashes the stride's states one by one.
[[nodiscard]] std::uint64_t dispute_segments(const PlannedWork& plan);

// MiB that whoever takes part may need, for draws and for workers alike.
[[nodiscard]] inline std::uint64_t memory_mib(const types::TaskSubmitPayload& spec) {
    return spec.classes.memory_mib == 0 ? params::kDefaultMemoryMib : spec.classes.memory_mib;
}

}  // namespace quern::chain::market
