// Takes a chain's database back to an older block, whose state is one of those that are kept: for a node whose newest
// blocks must be loaded and executed anew. Belongs to the thread that opens the store, before Chain::open.
#pragma once

#include "chain/store/kv.h"

namespace quern::node {

// One synced batch; nothing is written unless the state has the roots of that block. Errors: node.cannot_revert (not
// below the newest block), state.not_kept, store.*, trie.*.
[[nodiscard]] Status revert_chain(chain::store::Store& store, std::uint64_t number);

}  // namespace quern::node
