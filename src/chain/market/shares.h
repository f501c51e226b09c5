// How money is divided: percentages, a slash among those who share in it, a block's base fees, and a validator's pool
// among its delegators. Used by execution, RPC and invariants. Pure functions; thread-safe.
//
// Rounding in a pool is always in its favour, never in that of who moves: shares issued are rounded down, shares taken
// are rounded up, and what is slashed is rounded down at each step. What the roundings leave belongs to those who stay;
// with the last share the last grain leaves too. No grain comes into being or is lost.
#pragma once

#include <vector>

#include "chain/params/params.h"
#include "chain/types/native_objects.h"

namespace quern::chain::market {

// percent of amount, rounded down. percent <= 100, or the product below 2^256.
[[nodiscard]] Uint256 percent_of(const Uint256& amount, std::uint64_t percent);

// --- A role's slash --------------------------------------------------------------------------------------------------
// What is asked for out of a slash beside the burn and the submitter's part, in the order in which it is served, each
// as far as there is something left.
struct SlashClaims {
    bool won = false;      // somebody has won a game, which cost γ
    Uint256 fee;           // of each of ...
    std::size_t fees = 0;  // ... so many verifiers
    bool accused = false;  // there is somebody to get a bounty ...
    Uint256 proven_cost;   // ... for having computed this
};
struct SlashSplit {
    Uint256 to_submitter;
    Uint256 burned;
    Uint256 dispute_cost;
    std::vector<Uint256> fees;
    Uint256 bounty;
    Uint256 treasury;  // the rest
};
// The parts add up to `amount`.
[[nodiscard]] SlashSplit split_slash(const params::MarketParams& market, const Uint256& amount,
                                     const SlashClaims& claims);

// --- A block's base fees ---------------------------------------------------------------------------------------------
// Half burned (the odd grain too), half to the jackpot vault.
struct BaseFeeSplit {
    Uint256 burned;
    Uint256 jackpot;
};
[[nodiscard]] BaseFeeSplit split_base_fee(const Uint256& total);

// --- A validator's pool ----------------------------------------------------------------------------------------------
// What shares of a pool are worth, rounded down.
[[nodiscard]] Uint256 value_of(const types::ValidatorObject& validator, const Uint256& shares);
// The shares that a deposit gets; zero when it is worth less than one.
[[nodiscard]] Uint256 shares_for(const types::ValidatorObject& validator, const Uint256& amount);
// The shares that pay for `amount` out of `owned` ones: all when nothing of worth would be left. The amount is at most
// their value.
[[nodiscard]] Uint256 shares_to_take(const types::ValidatorObject& validator, const Uint256& owned,
                                     const Uint256& amount);

// What the validator's conviction takes of an amount that was staked when it offended.
[[nodiscard]] Uint256 slash_of(const params::StakingParams& staking, const types::ValidatorObject& validator,
                               const Uint256& amount);
// Whether an entry that left the pool before the conviction still answers for it.
[[nodiscard]] bool is_liable(const types::ValidatorObject& validator, const types::StakeUnbondingEntry& entry);
// A weight's share of `total`, in 1 / kShareUnit; total is not zero.
[[nodiscard]] Uint256 share_of(const Uint256& weight, const Uint256& total);
// The second part of a slash: kCorrelationFactor times the share that was convicted together, at most all of it.
[[nodiscard]] Uint256 correlation_of(const Uint256& convicted_share);

struct StakeSlashSplit {
    Uint256 reporter;
    Uint256 burned;
    Uint256 treasury;  // the rest
};
[[nodiscard]] StakeSlashSplit split_stake_slash(const params::ChainParams& params, const Uint256& amount);

}  // namespace quern::chain::market
