#include "chain/exec/fees.h"

#include <algorithm>

#include "chain/exec/block_executor.h"

namespace quern::chain::exec {

Uint256 next_base_fee(const params::ChainParams& params, std::uint64_t parent_gas_used, std::uint64_t parent_gas_limit,
                      const Uint256& parent_base_fee) {
    const std::uint64_t target = std::max<std::uint64_t>(parent_gas_limit / params::kElasticity, 1);
    const auto change = [&](std::uint64_t distance) {
        const auto scaled = mul_div(parent_base_fee, distance, target);
        return (scaled ? *scaled : parent_base_fee) / Uint256(params::kBaseFeeChangeDivisor);
    };
    Uint256 fee = parent_base_fee;
    if (parent_gas_used > target)
        fee += std::max(change(parent_gas_used - target), Uint256(1));
    else if (parent_gas_used < target)
        fee -= change(target - parent_gas_used);
    return std::max(fee, params.min_base_fee);
}

}  // namespace quern::chain::exec
