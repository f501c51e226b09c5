#include "chain/ethereum/fees.h"

#include <algorithm>

namespace quern::chain::ethereum {
namespace {

constexpr std::uint64_t kInitialBaseFee = 1'000'000'000;
constexpr std::uint64_t kElasticity = 2;
constexpr std::uint64_t kBaseFeeChangeDenominator = 8;
constexpr std::uint64_t kBlobBaseCost = std::uint64_t{1} << 13;  // EIP-7918

}  // namespace

Uint256 next_base_fee(const Header& parent) {
    if (!parent.base_fee) return kInitialBaseFee;
    const Uint256& fee = *parent.base_fee;
    const std::uint64_t target = parent.gas_limit / kElasticity;
    if (parent.gas_used == target || target == 0) return fee;
    const bool rises = parent.gas_used > target;
    const std::uint64_t distance = rises ? parent.gas_used - target : target - parent.gas_used;
    const Uint256 change = fee * Uint256(distance) / Uint256(target) / Uint256(kBaseFeeChangeDenominator);
    return rises ? fee + std::max(change, Uint256(1)) : fee - change;
}

std::uint64_t next_excess_blob_gas(const Fork& fork, const Header& parent) {
    const std::uint64_t excess = parent.excess_blob_gas.value_or(0);
    const std::uint64_t used = parent.blob_gas_used.value_or(0);
    const std::uint64_t target = fork.blobs.target * kBlobGas;
    if (excess + used < target) return 0;
    if (fork.revision >= Revision::osaka) {
        const Uint256 reserve = Uint256(kBlobBaseCost) * parent.base_fee.value_or(Uint256());
        if (reserve > Uint256(kBlobGas) * blob_base_fee(excess, fork.blobs.base_fee_update_fraction))
            return excess + used * (fork.blobs.max - fork.blobs.target) / fork.blobs.max;
    }
    return excess + used - target;
}

Uint256 blob_base_fee(const Uint256& excess_blob_gas, const Uint256& update_fraction) {
    constexpr Uint256 kAll{~0ULL, ~0ULL, ~0ULL, ~0ULL};
    if (update_fraction.is_zero()) return kAll;
    Uint256 sum;
    Uint256 term = update_fraction;
    for (Uint256 i = 1; !term.is_zero(); i += 1) {
        const auto added = checked_add(sum, term);
        const auto product = checked_mul(term, excess_blob_gas);
        if (!added || !product) return kAll;
        sum = *added;
        term = *product / (update_fraction * i);
    }
    return sum / update_fraction;
}

}  // namespace quern::chain::ethereum
