// The step of market time that each block begins with: deadlines and clocks of the market count it and not the time of
// day, so that after a halt of the chain everybody has about as long left as before it. Used by BlockExecution::begin
// and by simulations of a next block, by one thread.
#pragma once

#include "chain/params/params.h"
#include "chain/state/overlay.h"

namespace quern::chain::exec::system {

// Adds what a block brings whose timestamp is `elapsed_ms` above its parent's; the block's market time. Errors of the
// state.
[[nodiscard]] Expected<std::uint64_t> advance_market_time(const params::ChainParams& params, state::Overlay& state,
                                                          std::uint64_t elapsed_ms);

}  // namespace quern::chain::exec::system
