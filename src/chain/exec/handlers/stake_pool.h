// Validators' pools of stake in the state: delegations and the unbonding queue. What they are worth and what a
// conviction takes: chain/market/shares.h. Used by the staking and evidence handlers, by one thread.
#pragma once

#include "chain/exec/handlers/context.h"
#include "chain/exec/system/validators.h"

namespace quern::chain::exec::handlers {

// Error validator.unknown.
[[nodiscard]] Expected<types::ValidatorObject> load_validator(const Context& context, const types::Address& address);
[[nodiscard]] Status store_validator(Context& context, const types::ValidatorObject& validator);

// Without shares or entries when there are none.
[[nodiscard]] Expected<types::StakeDelegation> load_delegation(const Context& context, const types::Address& validator,
                                                               const types::Address& delegator);
void store_delegation(Context& context, const types::StakeDelegation& delegation);  // erases an empty one
[[nodiscard]] Expected<types::StakeUnbonding> load_unbonding(const Context& context, const types::Address& validator,
                                                             const types::Address& delegator);
void store_unbonding(Context& context, const types::StakeUnbonding& unbonding);  // erases an empty one

// First height at which stake can be withdrawn that leaves at `height`. In the epoch e of that height it is already in
// the committees of e and e+1, and in no later one: it answers for them through the evidence window of e+1's last
// block.
[[nodiscard]] std::uint64_t matures_at(const params::ChainParams& params, std::uint64_t height);
// Reporter's part, burned part, rest to the treasury vault; with it the reporter's when there is none (zero).
[[nodiscard]] Status distribute_slash(Context& context, const types::Address& reporter, const Uint256& amount);

}  // namespace quern::chain::exec::handlers
