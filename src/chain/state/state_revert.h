// Goes back to one of the newest states for good: the tables, the tries and what they rest on become in the store what
// they were after an older block. For a node whose newest blocks must be executed anew. Pure over the store.
#pragma once

#include "chain/state/state_layout.h"

namespace quern::chain::state {

// Adds to `batch` what makes the store of block `newest` that of block `number`, which is one of the kept.
// The caller checks the roots by StateTries::open. Errors: state.not_kept, store.*, trie.*.
[[nodiscard]] Status revert_state(const store::Reader& store, std::uint64_t newest, std::uint64_t number,
                                  store::WriteBatch& batch);

}  // namespace quern::chain::state
