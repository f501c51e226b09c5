// EIP-1559 in numbers: how the base fee follows the gas used. Used by the executor and the validator. Pure.
#pragma once

#include <cstdint>

#include "base/uint256.h"
#include "chain/params/params.h"

namespace quern::chain::exec {

inline constexpr std::uint64_t kElasticity = 2;            // gas target = gas limit / this
inline constexpr std::uint64_t kBaseFeeChangeDivisor = 8;  // at most 1/8 a block

// How a block's base fees are split: half burned (the odd grain too), half to the jackpot vault.
struct BaseFeeSplit {
    Uint256 burned;
    Uint256 jackpot;
};
[[nodiscard]] inline BaseFeeSplit split_base_fee(const Uint256& total) {
    const Uint256 jackpot = total >> 1;
    return {total - jackpot, jackpot};
}

}  // namespace quern::chain::exec
