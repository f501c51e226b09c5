#include "chain/market/custody.h"

#include <algorithm>

namespace quern::chain::market {
namespace {

constexpr std::uint64_t kStatesKept = 3;  // the first and the last of a stretch, and that before its last segment
constexpr unsigned kMibBits = 20;

Uint256 divide_up(const Uint256& value, const Uint256& divisor) { return (value + divisor - Uint256(1)) / divisor; }

}  // namespace

std::size_t receipts_of(const types::Custody& custody, std::uint8_t receipt) {
    return static_cast<std::size_t>(
        std::count_if(custody.custodians.begin(), custody.custodians.end(),
                      [&](const types::Custodian& custodian) { return custodian.receipt == receipt; }));
}

std::optional<std::size_t> place_of(const types::Custody& custody, const types::Address& address) {
    const auto& all = custody.custodians;
    const auto own = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.address == address; });
    return own == all.end() ? std::nullopt : std::optional(static_cast<std::size_t>(own - all.begin()));
}

bool is_denied(const types::Custody& custody) {
    const std::size_t drawn = custody.custodians.size();
    return receipts_of(custody, 2) > drawn - custody_quorum(drawn);
}

bool is_kept(const types::Custody& custody) {
    return receipts_of(custody, 1) >= custody_quorum(custody.custodians.size());
}

Uint256 fragment_bytes(std::uint64_t custodians, std::uint64_t state_bytes, const PlannedWork& plan) {
    if (custody_data(custodians) == 0) return {};
    return divide_up(Uint256(kStatesKept) * Uint256(state_bytes) + Uint256(kHashBytes) * history_hashes(plan),
                     Uint256(custody_data(custodians)));
}

Expected<Uint256> custody_fee(const params::MarketParams& market, const PlannedWork& plan) {
    const Uint256 bytes = fragment_bytes(market.custodians, plan.state, plan);
    const auto fee = checked_mul(market.custody_fee_per_mib, divide_up(bytes, Uint256(1) << kMibBits));
    if (!fee) return fail("task.price_overflow");
    return *fee;
}

}  // namespace quern::chain::market
