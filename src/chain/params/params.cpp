#include "chain/params/params.h"

#include <algorithm>

#include "chain/types/native_kinds.h"

namespace quern::chain::params {
namespace {

constexpr std::uint64_t kSolverRewardMultiple = 2;

}  // namespace

// Fixed parts follow what a kind does at worst: draws over all verifiers' bonds for ticks, hashing of Merkle paths for
// proofs, one executed tile element for a leaf. Payload bytes are hashed and, for disputes, stored in the game.
NativeGas native_gas(types::NativeKind kind) {
    using types::NativeKind;
    switch (kind) {
        case NativeKind::create_validator:
            return {60'000, 8};
        case NativeKind::delegate:
        case NativeKind::undelegate:
        case NativeKind::withdraw_stake:
            return {15'000, 8};
        case NativeKind::evidence:
            return {60'000, 8};
        case NativeKind::bond:
        case NativeKind::unbond:
        case NativeKind::withdraw:
        case NativeKind::declare_capacity:
            return {10'000, 8};
        case NativeKind::task_submit:
            return {100'000, 16};
        case NativeKind::task_cancel:
        case NativeKind::task_bid:
        case NativeKind::task_start:
        case NativeKind::task_abandon:
            return {20'000, 8};
        case NativeKind::task_checkpoint:
        case NativeKind::task_prove:
            return {30'000, 8};
        case NativeKind::custody_receipt:
        case NativeKind::verify_commit:
            return {15'000, 8};
        case NativeKind::verify_reveal:
            return {30'000, 8};
        case NativeKind::challenge_commit:
            return {20'000, 8};
        case NativeKind::challenge_reveal:
            return {60'000, 8};
        case NativeKind::dispute_split:
            return {40'000, 8};
        case NativeKind::dispute_prove_leaf:
            return {150'000, 8};
        case NativeKind::dispute_concede:
            return {40'000, 8};
        case NativeKind::tick:
            return {60'000, 8};
    }
    return {};
}

std::optional<Uint256> solver_bond(const MarketParams& market, const Uint256& reward) {
    const auto gammas = checked_mul(market.dispute_cost, market.solver_bond_gammas);
    const auto rewards = checked_mul(reward, kSolverRewardMultiple);
    if (!gammas || !rewards) return std::nullopt;
    return std::max(*gammas, *rewards);
}

std::optional<Uint256> verifier_bond(const MarketParams& market, const Uint256& fee) {
    const auto gammas = checked_mul(market.dispute_cost, market.verifier_bond_gammas);
    const auto fees = checked_mul(fee, market.verifier_bond_fees);
    if (!gammas || !fees) return std::nullopt;
    return std::max(*gammas, *fees);
}

Uint256 min_bond(const MarketParams& market) { return market.dispute_cost * Uint256(market.min_bond_gammas); }

types::Address reserved_address(types::NativeKind kind) { return types::group_address(types::group_of(kind)); }

bool is_reserved(const types::Address& address) { return types::group_at(address).has_value(); }

}  // namespace quern::chain::params
