#include "chain/market/watchers.h"

#include <algorithm>

#include "base/big_endian.h"

namespace quern::chain::market {

bool is_watcher(const Hash32& output, const Uint256& weight, const Uint256& total) {
    if (total.is_zero()) return false;
    // The output's first 64 bits as a fraction of 2^64. Larger sums than any genesis mints are cut alike, so that
    // nothing overflows.
    Uint256 part = std::min(weight, total);
    Uint256 whole = total;
    while (whole > (Uint256(1) << 128)) {
        part = part >> 1;
        whole = whole >> 1;
    }
    const Uint256 lot(from_big_endian(output.view().first(8)));
    return lot * whole < ((part * Uint256(params::kWatchersPerReport)) << 64);
}

Uint256 tax_due(const Uint256& tax, const Uint256& settled_work, const Uint256& total_work) {
    if (settled_work >= total_work) return tax;
    return mul_div(tax, settled_work, total_work).value_or(tax);
}

Uint256 locked_reward(const params::MarketParams& market, const Uint256& reward, const Uint256& tax,
                      const Uint256& largest, const Uint256& total) {
    static_assert(100 % params::kSolverRewardMultiple == 0);
    // Those that begin with what the claim ends with are void, too; what is due of each may be a grain more.
    const Uint256 fallen(types::kMaxUnsettled);
    const Uint256 most = tax_due(tax, std::min(total, largest * fallen), total) + fallen;
    const Uint256 burned = most * Uint256(100 / params::kSolverRewardMultiple) / Uint256(market.burn_percent);
    return std::max(reward, burned + Uint256(1));
}

Uint256 jackpot(const params::MarketParams& market, const Uint256& stretch_tax, std::uint32_t verifiers) {
    return stretch_tax * Uint256(market.forced_error_inverse) / Uint256(std::max<std::uint32_t>(verifiers, 1));
}

Uint256 jackpot_share(const Uint256& jackpot, std::uint32_t found) {
    return found == 0 ? Uint256() : jackpot >> (found - 1);
}

}  // namespace quern::chain::market
