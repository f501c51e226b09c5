#include "sim/market/purse.h"

#include "sim/market/money.h"

namespace quern::sim::market {

double Ledger::money() const { return to_qrn(after) - to_qrn(before); }
double Ledger::profit() const { return money() - to_qrn(cost); }

Uint256 sum(const std::map<std::string, Uint256>& amounts) {
    Uint256 total;
    for (const auto& [reason, amount] : amounts) total += amount;
    return total;
}

double to_qrn(const Uint256& grains) {
    const auto [whole, rest] = Uint256::divmod(grains, Uint256(kGrains));
    return static_cast<double>(whole.low_u64()) + static_cast<double>(rest.low_u64()) / static_cast<double>(kGrains);
}

Uint256 from_qrn(double qrn) {
    constexpr std::uint64_t kMicro = 1'000'000;
    return Uint256(static_cast<std::uint64_t>(qrn * static_cast<double>(kMicro))) * Uint256(kGrains / kMicro);
}

}  // namespace quern::sim::market
