// Any state of an archive: a store that has the nodes of all blocks' tries under their hashes, so that the roots in a
// block's header are all that it takes. Reads walk the tries; code is the store's.
#pragma once

#include "chain/state/state_at.h"
#include "chain/state/state_layout.h"
#include "chain/state/state_tries.h"

namespace quern::chain::state {

// Into a block's batch: one node of a trie, and those below (and with) a root that the version with this number made.
void archive_node(const Child& child, store::WriteBatch& batch);
void archive_nodes(const Child& root, std::uint64_t version, store::WriteBatch& batch);

class ArchiveState final : public StateAt {
public:
    // `store` outlives this.
    ArchiveState(const store::Reader& store, const Roots& roots) : store_(store), roots_(roots) {}

    [[nodiscard]] Expected<std::optional<Bytes>> get(BytesView key) const override;
    // Of the tables of the state only native objects can be visited. Error state.not_ordered for the others.
    [[nodiscard]] Status for_each(BytesView prefix, BytesView start, const Visitor& visit) const override;

private:
    [[nodiscard]] Expected<std::vector<Bytes>> prove_account(const Hash32& state_root,
                                                             const types::Address& address) const override;
    [[nodiscard]] Expected<std::vector<std::vector<Bytes>>> prove_slots(const Hash32& storage_root,
                                                                        const types::Address& address,
                                                                        std::span<const Hash32> slots) const override;

    const store::Reader& store_;
    Roots roots_;
};

}  // namespace quern::chain::state
