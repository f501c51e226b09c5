// Validators' pools of stake: shares, the unbonding queue, and what a conviction takes. Used by the staking and
// evidence handlers, by one thread.
//
// Rounding is always in favour of the pool, never of who moves: shares issued are rounded down, shares taken are
// rounded up, and what is slashed is rounded down at each step. What the roundings leave belongs to those who stay;
// with the last share the last grain leaves too. No grain comes into being or is lost.
#pragma once

#include "chain/exec/handlers/context.h"
#include "chain/exec/system/validators.h"

namespace quern::chain::exec::handlers {

inline constexpr std::uint64_t kShareUnit = 1'000'000'000'000'000'000;  // of correlations and committee shares

// Error validator.unknown.
[[nodiscard]] Expected<types::ValidatorObject> load_validator(const Context& context, const types::Address& address);
[[nodiscard]] Status store_validator(Context& context, const types::ValidatorObject& validator);

[[nodiscard]] Bytes delegation_key(const types::Address& validator, const types::Address& delegator);
[[nodiscard]] Bytes unbonding_key(const types::Address& validator, const types::Address& delegator);
// Without shares or entries when there are none.
[[nodiscard]] Expected<types::StakeDelegation> load_delegation(const Context& context, const types::Address& validator,
                                                               const types::Address& delegator);
void store_delegation(Context& context, const types::StakeDelegation& delegation);  // erases an empty one
[[nodiscard]] Expected<types::StakeUnbonding> load_unbonding(const Context& context, const types::Address& validator,
                                                             const types::Address& delegator);
void store_unbonding(Context& context, const types::StakeUnbonding& unbonding);  // erases an empty one

// What shares of a pool are worth, rounded down.
[[nodiscard]] Uint256 value_of(const types::ValidatorObject& validator, const Uint256& shares);
// The shares that a deposit gets; zero when it is worth less than one.
[[nodiscard]] Uint256 shares_for(const types::ValidatorObject& validator, const Uint256& amount);
// The shares that pay for `amount` out of `owned` ones: all when nothing of worth would be left. The amount is at most
// their value.
[[nodiscard]] Uint256 shares_to_take(const types::ValidatorObject& validator, const Uint256& owned,
                                     const Uint256& amount);

// First height at which stake can be withdrawn that leaves at `height`. In the epoch e of that height it is already in
// the committees of e and e+1, and in no later one: it answers for them through the evidence window of e+1's last
// block.
[[nodiscard]] std::uint64_t matures_at(const params::ChainParams& params, std::uint64_t height);
// What the validator's conviction takes of an amount that was staked when it offended.
[[nodiscard]] Uint256 slash_of(const params::StakingParams& staking, const types::ValidatorObject& validator,
                               const Uint256& amount);
// Whether an entry that left the pool before the conviction still answers for it.
[[nodiscard]] bool is_liable(const types::ValidatorObject& validator, const types::StakeUnbondingEntry& entry);
// Reporter's part, burned part, rest to the treasury vault.
[[nodiscard]] Status distribute_slash(Context& context, const types::Address& reporter, const Uint256& amount);

}  // namespace quern::chain::exec::handlers
