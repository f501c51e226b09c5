#include "node/chain/build_budget.h"

#include <algorithm>

namespace quern::node {

bool BuildBudget::is_reached(double filling_us, std::uint64_t gas) const {
    // Gas that takes far longer than it should is somebody's doing.
    if (gas != 0 && filling_us >= target_ms_ * 1000) return true;
    if (gas < kLeastBuiltGas) return false;
    if (gas >= gas_) return true;
    return filling_us + sealing_us_per_gas_ * static_cast<double>(gas) >= kBuildPart * target_ms_ * 1000;
}

bool BuildBudget::built(double sealing_us, std::uint64_t gas, bool cut_short) {
    if (gas != 0) {
        const double newest = sealing_us / static_cast<double>(gas);
        sealing_us_per_gas_ = sealing_us_per_gas_ == 0
                                  ? newest
                                  : sealing_us_per_gas_ + kNewestSealWeight * (newest - sealing_us_per_gas_);
    }
    return cut_short || static_cast<double>(gas) >= kLargeBlock * static_cast<double>(gas_);
}

void BuildBudget::became_final(double took_ms, std::uint64_t gas, bool cut_short) {
    if (took_ms > target_ms_)
        scale(std::min(gas_, gas), std::max(kBuildLoss, target_ms_ / took_ms));
    else if (cut_short)
        grow(took_ms, kMostBuiltGas);
}

void BuildBudget::other_became_final(double took_ms, std::uint64_t gas) {
    grow(took_ms, std::max(gas_, static_cast<std::uint64_t>(kBuildGrowth * static_cast<double>(gas))));
}

void BuildBudget::lost() { scale(gas_, kBuildLoss); }

void BuildBudget::grow(double took_ms, std::uint64_t most) {
    if (took_ms >= kWellInTime * target_ms_) return;
    scale(gas_, std::clamp(kWellInTime * target_ms_ / std::max(took_ms, 1.0) / 2, kBuildGrowth, kMostBuildGrowth));
    gas_ = std::min(gas_, most);
}

void BuildBudget::scale(std::uint64_t gas, double factor) {
    gas_ = std::clamp(static_cast<std::uint64_t>(static_cast<double>(gas) * factor), kLeastBuiltGas, kMostBuiltGas);
}

}  // namespace quern::node
