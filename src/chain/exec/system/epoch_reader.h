// What consensus reads from the committed state: an epoch's committee and seed. Pure; as thread-safe as the state.
#pragma once

#include "chain/consensus/sdbft/epoch.h"
#include "chain/state/overlay.h"

namespace quern::chain::exec::system {

// The state knows the epochs of the evidence window, the present one and the next ones. Errors: epoch.unknown,
// committee.*, state.corrupt_object.
[[nodiscard]] Expected<consensus::Committee> committee_of_epoch(const state::StateReader& state, std::uint64_t epoch);
// Of an epoch whose members, and those of the next one, are frozen in `state`. Errors as above.
[[nodiscard]] Expected<consensus::sdbft::EpochSetup> read_epoch_setup(const state::StateReader& state,
                                                                      std::uint64_t epoch);

}  // namespace quern::chain::exec::system
