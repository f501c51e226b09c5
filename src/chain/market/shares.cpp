#include "chain/market/shares.h"

#include <algorithm>

namespace quern::chain::market {

Uint256 percent_of(const Uint256& amount, std::uint64_t percent) {
    return mul_div(amount, percent, 100).value_or(amount);
}

SlashSplit split_slash(const params::MarketParams& market, const Uint256& amount, const SlashClaims& claims) {
    SlashSplit split;
    split.to_submitter = percent_of(amount, market.submitter_percent);
    split.burned = percent_of(amount, market.burn_percent);
    split.treasury = amount - split.to_submitter - split.burned;
    const auto take = [&rest = split.treasury](const Uint256& wanted) {
        const Uint256 part = std::min(rest, wanted);
        rest -= part;
        return part;
    };
    if (claims.won) split.dispute_cost = take(market.dispute_cost);
    for (std::size_t i = 0; i < claims.fees; ++i) split.fees.push_back(take(claims.fee));
    if (claims.accused)
        split.bounty = take(std::max(percent_of(claims.proven_cost, market.bounty_cost_percent),
                                     percent_of(amount, market.bounty_slash_percent)));
    return split;
}

BaseFeeSplit split_base_fee(const Uint256& total) {
    const Uint256 jackpot = total >> 1;
    return {total - jackpot, jackpot};
}

Uint256 value_of(const types::ValidatorObject& validator, const Uint256& shares) {
    if (validator.shares.is_zero()) return {};
    return mul_div(shares, validator.stake, validator.shares).value_or(Uint256());
}

Uint256 shares_for(const types::ValidatorObject& validator, const Uint256& amount) {
    if (validator.shares.is_zero()) return amount;
    if (validator.stake.is_zero()) return {};  // all was slashed: old shares are worth nothing, new ones have no price
    return mul_div(amount, validator.shares, validator.stake).value_or(Uint256());
}

Uint256 shares_to_take(const types::ValidatorObject& validator, const Uint256& owned, const Uint256& amount) {
    const Uint256 down = mul_div(amount, validator.shares, validator.stake).value_or(owned);
    const Uint256 up = value_of(validator, down) < amount ? down + Uint256(1) : down;
    const Uint256 taken = std::min(up, owned);
    const types::ValidatorObject rest = [&] {
        auto after = validator;
        after.shares -= taken;
        after.stake -= amount;
        return after;
    }();
    return value_of(rest, owned - taken).is_zero() ? owned : taken;
}

Uint256 slash_of(const params::StakingParams& staking, const types::ValidatorObject& validator, const Uint256& amount) {
    const Uint256 first = mul_div(amount, staking.double_sign_slash_per_mille, 1'000).value_or(amount);
    return first + mul_div(amount - first, validator.correlation, params::kShareUnit).value_or(amount - first);
}

bool is_liable(const types::ValidatorObject& validator, const types::StakeUnbondingEntry& entry) {
    return validator.tombstoned && !entry.slashed && entry.epoch + 1 >= validator.convicted_epoch;
}

Uint256 share_of(const Uint256& weight, const Uint256& total) {
    return mul_div(weight, params::kShareUnit, total).value_or(Uint256(params::kShareUnit));
}

Uint256 correlation_of(const Uint256& convicted_share) {
    return std::min(convicted_share * Uint256(params::kCorrelationFactor), Uint256(params::kShareUnit));
}

StakeSlashSplit split_stake_slash(const params::ChainParams& params, const Uint256& amount) {
    StakeSlashSplit split;
    split.reporter = percent_of(amount, params.staking.reporter_percent);
    split.burned = percent_of(amount, params.market.burn_percent);
    split.treasury = amount - split.reporter - split.burned;
    return split;
}

}  // namespace quern::chain::market
