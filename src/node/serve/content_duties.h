// Which contents this node has a duty to serve: what tasks and claims of the chain's newest state name, until
// retention_s after the task's end. A void claim is over at once. For content::Store, which lets others go.
// Thread-safe.
#pragma once

#include <set>

#include "chain/params/params.h"
#include "chain/state/flat_state.h"
#include "content/store.h"

namespace quern::node {

// Takes out of `idle` the programs, initial states, data sets, checkpoints and histories of tasks, the checkpoints that
// those histories name (of what is settled the last one, until a later stretch is), and the slots of all these states
// (compute/core/state_content.h), as far as histories and states are here, and the shards of data and initial states
// that are here by shard. Each history is read once, and only what is
// in `idle` is remembered, however much a history names. Errors: those of a record that does not decode, and of a
// history or state that is here and damaged (content.corrupt, content.read_failed): then what it names is not known.
[[nodiscard]] Status keep_content_duties(const chain::state::FlatState& state,
                                         const chain::params::MarketParams& market, const content::Store& store,
                                         std::set<Hash32>& idle);

}  // namespace quern::node
