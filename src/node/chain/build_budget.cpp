#include "node/chain/build_budget.h"

#include <algorithm>

namespace quern::node {

BuildBudget::BuildBudget(std::uint64_t target_ms, std::size_t max_bytes)
    : target_ms_(static_cast<double>(target_ms)), max_bytes_(max_bytes) {}

double BuildBudget::work_us() const { return share_ * kBuildPart * target_ms_ * 1000; }

std::size_t BuildBudget::bytes() const {
    return static_cast<std::size_t>(std::min(1.0, share_) * static_cast<double>(max_bytes_));
}

bool BuildBudget::is_reached(double filling_us, std::uint64_t gas) const {
    if (gas < kLeastBuiltGas) return false;
    return filling_us + sealing_us_per_gas_ * static_cast<double>(gas) >= work_us();
}

bool BuildBudget::built(double filling_us, double sealing_us, std::uint64_t gas, bool cut_short) {
    if (gas != 0) {
        const double newest = sealing_us / static_cast<double>(gas);
        sealing_us_per_gas_ = sealing_us_per_gas_ == 0
                                  ? newest
                                  : sealing_us_per_gas_ + kNewestSealWeight * (newest - sealing_us_per_gas_);
    }
    return cut_short || filling_us + sealing_us >= kLargeBlock * work_us();
}

void BuildBudget::became_final(double took_ms, bool cut_short) {
    if (took_ms > target_ms_)
        share_ = std::max(kLeastBuildShare, share_ * std::max(kBuildShareLoss, target_ms_ / took_ms));
    else if (cut_short)
        grow(took_ms);
}

void BuildBudget::other_became_final(double took_ms) { grow(took_ms); }

void BuildBudget::grow(double took_ms) {
    if (took_ms >= kWellInTime * target_ms_) return;
    share_ = std::min(kMostBuildShare, share_ * std::clamp(kWellInTime * target_ms_ / std::max(took_ms, 1.0) / 2,
                                                           kBuildShareGrowth, kMostBuildShareGrowth));
}

void BuildBudget::lost() { share_ = std::max(kLeastBuildShare, share_ * kBuildShareLoss); }

}  // namespace quern::node
