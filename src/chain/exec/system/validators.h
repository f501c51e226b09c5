// Validators' records and the order of their stakes. A validator that may be in a committee has a second object whose
// key sorts by falling stake and then by rising address, so that the strongest are found without reading all. Used by
// genesis, the staking handlers and the steps of epochs, by one thread.
#pragma once

#include "chain/params/params.h"
#include "chain/state/overlay.h"

namespace quern::chain::exec::system {

// Nothing when the address is no validator. Error state.corrupt_object.
[[nodiscard]] Expected<std::optional<types::ValidatorObject>> find_validator(const state::Overlay& state,
                                                                             const types::Address& address);
// Writes the record and keeps its place in the order. Error state.corrupt_object.
[[nodiscard]] Status store_validator(const params::StakingParams& staking, state::Overlay& state,
                                     const types::ValidatorObject& validator);
// The most staked validators that may vote, ascending by address: at most `max_validators`. Errors
// state.corrupt_object.
[[nodiscard]] Expected<std::vector<types::CommitteeEntry>> strongest_validators(const params::StakingParams& staking,
                                                                                const state::StateReader& state);

}  // namespace quern::chain::exec::system
