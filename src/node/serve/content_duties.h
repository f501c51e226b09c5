// Which contents this node has a duty to serve: what tasks and claims of the chain's newest state name, until
// retention_s after the task's end. A void claim is over at once. For content::Store, which lets others go.
// Thread-safe.
#pragma once

#include <set>

#include "chain/params/params.h"
#include "chain/state/flat_state.h"
#include "content/store.h"

namespace quern::node {

// Takes out of `idle` the programs, initial states, data sets, checkpoints, histories and custody manifests of tasks;
// the checkpoints that those histories name (of what is settled the last one, until a later stretch is), and the slots
// of all these states (compute/core/state_content.h), as far as histories and states are here; the shards of data and
// initial states that are here by shard; the fragments that those custody manifests name, as long as the history is
// kept. Each history and each custody manifest is read once, and only what is in `idle` is remembered, however much one
// names. Errors: those of a record that does not decode, and of a history, state or custody manifest that is here and
// damaged (content.corrupt, content.read_failed): then what it names is not known.
//
// Nobody can tell a fragment from another content: a solver that lies may name what it likes, and hold it here until
// its claim is void. Held is what is as large as a fragment of the content that the manifest names it for; and nothing
// unless the manifest has the code of the claim's custodians, k of n, and contents of no more than five states of the
// task's plan, the hashes of a history and 8 MiB, where each counts as 256 KiB at least. So a liar holds n/k of that,
// beside one content that its claim calls a manifest; an honest solver n/k of three states and a history.
[[nodiscard]] Status keep_content_duties(const chain::state::FlatState& state,
                                         const chain::params::MarketParams& market, const content::Store& store,
                                         std::set<Hash32>& idle);

}  // namespace quern::node
