// Which contents this node has a duty to serve: what tasks and claims of the chain's newest state name, as long as
// these are in the state, which is until retention_s after their end. For content::Store, which lets others go.
// Thread-safe.
#pragma once

#include <set>

#include "chain/state/flat_state.h"
#include "content/store.h"

namespace quern::node {

// Programs, initial states, data sets, checkpoints and histories of all tasks, and the checkpoints that those histories
// name which are here. Errors: those of a record that does not decode, and of a history that is here and damaged
// (content.corrupt, content.read_failed): then what it names is not known.
[[nodiscard]] Expected<std::set<Hash32>> content_duties(const chain::state::FlatState& state,
                                                        const content::Store& store);

}  // namespace quern::node
