// Roots of the state after a block: the accounts' trie (Ethereum's, storage tries below it) and the native objects'
// trie. Roots are known before anything is stored, so that they go into the header; what must be stored comes with them
// as one batch. Keeps recently used nodes between blocks. Used by one thread.
#pragma once

#include <memory>

#include "base/thread_pool.h"
#include "chain/state/overlay.h"
#include "chain/state/trie.h"
#include "chain/store/kv.h"

namespace quern::chain::state {

struct Roots {
    Hash32 state_root = empty_trie_root();
    Hash32 native_root = empty_trie_root();
    bool operator==(const Roots&) const = default;
};

// Nodes of one trie, in one of the store's tables.
class StoredNodes final : public TrieNodeReader {
public:
    StoredNodes(const store::Reader& reader, bool native) : reader_(reader), native_(native) {}
    [[nodiscard]] Expected<Bytes> node(const Hash32& hash) const override;

private:
    const store::Reader& reader_;
    bool native_;
};

// What a block does to the store's state: roots, and the batch (new trie nodes, flat tables, code) that makes them so.
struct StateChange {
    Roots roots;
    store::WriteBatch batch;
};

class StateTries {
public:
    // `reader` outlives this.
    StateTries(const store::Reader& reader, const Roots& roots);

    // The change from the state with these roots, over which `overlay` lies. Nothing is stored. When another change
    // from the same parent (or one after it) is asked for next, that is the caller's choice; cached nodes never leak
    // from a change that was dropped. Errors: trie.*, store.*.
    [[nodiscard]] Expected<StateChange> compute(const Overlay& overlay, const Roots& parent,
                                                ThreadPool* pool = nullptr);

private:
    [[nodiscard]] Expected<StateChange> compute_from(const Overlay& overlay, ThreadPool* pool);
    // `changes` are one account's.
    [[nodiscard]] Expected<Hash32> update_storage(const Hash32& root, std::span<const Overlay::StorageChange> changes,
                                                  store::WriteBatch& batch) const;

    StoredNodes state_nodes_;
    StoredNodes native_nodes_;
    Trie state_;
    Trie native_;
    Roots current_;
};

// Writes a change at once and gives its roots: genesis and tests.
[[nodiscard]] Expected<Roots> commit_overlay(const Overlay& overlay, const Roots& parent, store::Store& store);

}  // namespace quern::chain::state
