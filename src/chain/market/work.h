// How much a task is to compute, in work units: of its solver, of each of its verifiers, of a part. Used by execution,
// RPC, wallets and workers. Pure functions; thread-safe.
//
// With N steps, a checkpoint each k steps, W work units a step (program header) and s samples, a verifier computes
// min(s, N / k) segments of k steps again.
#pragma once

#include "base/uint256.h"
#include "chain/params/params.h"
#include "chain/types/native_objects.h"

namespace quern::chain::market {

// N / k; 0 when k is 0 or does not divide N.
[[nodiscard]] constexpr std::uint64_t segment_count(std::uint64_t steps, std::uint64_t interval) {
    return interval == 0 || steps % interval != 0 ? 0 : steps / interval;
}

// The numbers of a task that money depends on.
struct TaskWork {
    std::uint64_t steps = 0;          // N
    std::uint64_t interval = 0;       // k
    std::uint64_t work_per_step = 0;  // W
    std::uint32_t verifiers = 0;      // m
    std::uint32_t samples = 0;        // s, as asked for
};
[[nodiscard]] TaskWork task_work(const types::TaskSubmitPayload& spec, std::uint64_t work_per_step);
[[nodiscard]] TaskWork work_of(const types::Task& task);

[[nodiscard]] std::uint64_t sampled_segments(const TaskWork& work);  // min(s, N / k)
[[nodiscard]] Uint256 total_work(const TaskWork& work);              // N * W; < 2^84
[[nodiscard]] Uint256 work_of_steps(const TaskWork& work, std::uint64_t steps);
[[nodiscard]] Uint256 sampled_work(const TaskWork& work);  // of one verifier: segments * k * W

// MiB that whoever takes part may need, for draws and for workers alike.
[[nodiscard]] inline std::uint64_t memory_mib(const types::TaskSubmitPayload& spec) {
    return spec.memory_mib == 0 ? params::kDefaultMemoryMib : spec.memory_mib;
}

}  // namespace quern::chain::market
