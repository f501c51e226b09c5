// What a profiler takes on (doc/tolerance.md, "Profilers"): which draws are worth it, and which of them the verifier
// bond can answer for: a commitment locks a part of it, after the work is done, so that none is begun that could not be
// committed to. What was drawn first comes first. Belongs to one thread.
#pragma once

#include <functional>
#include <map>

#include "chain/market/bonds.h"
#include "compute/worker/decide.h"
#include "compute/worker/live_tasks.h"

namespace quern::compute::worker {

// This verifier among the profilers of a task that is being profiled, whose draw has been made; null: it is none.
[[nodiscard]] const chain::types::TaskProfiler* own_profiler(const Task& task, const Address& address);

// Gas of a profiler's two transactions, about.
inline constexpr std::uint64_t kProfileGas = 300'000;
// Why this worker would not profile the task, which costs it nothing; empty: it would.
[[nodiscard]] std::string reason_not_to_profile(const Me& me, const Task& task, const Uint256& gas_price);

class ProfileCover {
public:
    using Is = std::function<bool(const chain::types::Task&)>;
    // With each block: the tasks that wait for a commitment of this worker, which of them are worth it, and the free
    // part of the bond. What was taken once stays so for as long as it waits.
    void update(const chain::params::MarketParams& market, const LiveTasks::Tasks& tasks, const Uint256& free_part,
                const Is& waits, const Is& pays);
    [[nodiscard]] bool covers(std::uint64_t task) const { return needs_.contains(task); }

private:
    std::map<std::uint64_t, Uint256> needs_;  // by task: what its commitment will lock
};

}  // namespace quern::compute::worker
