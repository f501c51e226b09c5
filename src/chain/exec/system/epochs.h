// The steps of epochs that each block ends with: the last block of epoch e freezes the committee of epoch e+2, and the
// block two thirds into epoch e gives epoch e+1 its seed, so that nobody knows the masters' order while stakes can
// still move. Used by BlockExecution::finish, by one thread.
#pragma once

#include "chain/params/params.h"
#include "chain/state/overlay.h"

namespace quern::chain::exec::system {

// An epoch whose votes may still be brought as evidence keeps its object. Errors state.corrupt_object.
[[nodiscard]] Status end_block(const params::ChainParams& params, state::Overlay& state, std::uint64_t height,
                               const Hash32& beacon);

}  // namespace quern::chain::exec::system
