#include "compute/worker/profile_cover.h"

#include <algorithm>

#include "chain/market/escrow.h"

namespace quern::compute::worker {

const chain::types::TaskProfiler* own_profiler(const Task& task, const Address& address) {
    for (const auto& profiler : task.profiling.profilers)
        if (profiler.address == address) return &profiler;
    return nullptr;
}

std::string reason_not_to_profile(const Me& me, const Task& task, const Uint256& gas_price) {
    if (chain::market::memory_mib(task.spec) > me.max_memory_mib) return "needs more memory than allowed";
    if (task.spec.money.price_cap < me.bid_price) return "pays a profiler less than this worker's price";
    if (chain::market::profiler_fee(task) < Uint256(kProfileGas) * gas_price)
        return "pays a profiler less than its transactions cost";
    return {};
}

void ProfileCover::update(const chain::params::MarketParams& market, const LiveTasks::Tasks& tasks,
                          const Uint256& free_part, const Is& waits, const Is& pays) {
    Uint256 rest = free_part;
    std::map<std::uint64_t, Uint256> needs;
    std::map<std::uint64_t, Uint256> others;
    for (const auto& [id, live] : tasks) {
        if (!waits(live->task)) continue;
        const Uint256 need = chain::market::profiler_bond(market, live->task);
        if (needs_.contains(id)) {
            rest -= std::min(rest, need);
            needs[id] = need;
        } else if (pays(live->task)) {
            others[id] = need;
        }
    }
    for (const auto& [id, need] : others) {
        if (rest < need) continue;
        rest -= need;
        needs[id] = need;
    }
    needs_ = std::move(needs);
}

}  // namespace quern::compute::worker
