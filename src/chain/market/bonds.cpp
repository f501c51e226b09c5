#include "chain/market/bonds.h"

#include <algorithm>

#include "chain/market/shares.h"
#include "chain/market/watchers.h"

namespace quern::chain::market {

namespace {

// The least slash that pays `amount` after the submitter and the burn, each of whose parts is rounded down.
std::optional<Uint256> slash_that_pays(const params::MarketParams& market, const Uint256& amount) {
    const std::uint64_t left = 100 - market.submitter_percent - market.burn_percent;  // not 0: check_parameters
    const auto hundredfold = checked_mul(amount, 100);
    const auto raised = hundredfold ? checked_add(*hundredfold, left - 1) : std::nullopt;
    if (!raised) return std::nullopt;
    return *raised / Uint256(left);
}

}  // namespace

std::optional<Uint256> solver_bond(const params::MarketParams& market, const Uint256& reward, std::uint32_t verifiers,
                                   const Uint256& fee) {
    const auto gammas = checked_mul(market.dispute_cost, market.solver_bond_gammas);
    const auto rewards = checked_mul(reward, params::kSolverRewardMultiple);
    const auto fees = checked_mul(fee, verifiers);
    const auto found = fees ? checked_add(*fees, market.dispute_cost) : std::nullopt;
    const auto slash = found ? slash_that_pays(market, *found) : std::nullopt;
    if (!gammas || !rewards || !slash) return std::nullopt;
    return std::max({*gammas, *rewards, *slash});
}

std::optional<Uint256> verifier_bond(const params::MarketParams& market, const Uint256& fee) {
    const auto gammas = checked_mul(market.dispute_cost, market.verifier_bond_gammas);
    const auto fees = checked_mul(fee, market.verifier_bond_fees);
    if (!gammas || !fees) return std::nullopt;
    return std::max(*gammas, *fees);
}

Uint256 solver_bond(const params::MarketParams& market, const types::Task& task) {
    const Uint256 reward = locked_reward(market, price_at_cap(task, task.stretch_work), task.spec.money.tax,
                                         task.stretch_work, task.total_work);
    return solver_bond(market, reward, task.spec.work.verifiers, verifier_fee(task, 0)).value_or(Uint256());
}

Uint256 seat_bond(const params::MarketParams& market, const types::Task& task) {
    return solver_bond(market, task) * Uint256(claims_at_once(stretch_count(task) - task.settled));
}

Uint256 bid_deposit(const params::MarketParams& market, const types::Task& task) {
    return percent_of(seat_bond(market, task), market.bid_deposit_percent);
}

Uint256 verifier_bond(const params::MarketParams& market, const types::Task& task) {
    return verifier_bond(market, verifier_fee(task, 0)).value_or(Uint256());
}

Uint256 profiler_bond(const params::MarketParams& market, const types::Task& task) {
    return verifier_bond(market, profiler_fee(task)).value_or(Uint256());
}

Uint256 weight_of(const types::DrawVersion& version) {
    Uint256 sum;
    for (const auto& weight : version.weights) sum += weight;
    return sum;
}

Uint256 whole_bond(const types::RoleBond& bond) {
    Uint256 whole = bond.bonded;
    for (const auto& entry : bond.unbonding) whole += entry.amount;
    return whole;
}

Uint256 min_bond(const params::MarketParams& market) { return market.dispute_cost * Uint256(market.min_bond_gammas); }

Uint256 challenge_stake(const params::MarketParams& market, const types::Task& task) {
    const Uint256 lock = std::max(solver_bond(market, task), verifier_bond(market, task));
    return std::max(Uint256(market.challenge_stake_gammas) * market.dispute_cost,
                    percent_of(lock, market.challenge_stake_percent));
}

}  // namespace quern::chain::market
