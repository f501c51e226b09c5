// Roots of the state after a block: the accounts' trie (Ethereum's, storage tries below it) and the native objects'
// trie. Roots are known before anything is stored, so that they go into the header.
//
// The tries of every block that is executed and not dropped are StateVersions in memory, which share what is the same.
// The store has the accounts' trie in 256 parts (by the first byte of the hashed address; the two levels above them are
// made from their roots), and the native trie as one more. Each part is stored as of a block of its own, at or behind
// the newest: commit() adds to a block's batch what the block changed and what was there before, take_due_parts() gives
// the parts whose turn it is, to be written after that block. At start the parts are brought to the newest block by
// those changes and the flat tables; older states are read by them backwards (past_state.h). The layout and why it
// survives a crash anywhere are in doc/chain.md, "The tries on disk". Storage tries are stored with the block that
// changes them. Used by one thread.
#pragma once

#include <memory>
#include <span>

#include "base/thread_pool.h"
#include "chain/state/cached_state.h"
#include "chain/state/overlay.h"
#include "chain/state/state_layout.h"
#include "chain/state/trie.h"

namespace quern::chain::state {

struct Roots {
    Hash32 state_root = empty_trie_root();
    Hash32 native_root = empty_trie_root();
    bool operator==(const Roots&) const = default;
};

// Changes of parts that are not stored yet, counted once a block: they bound the time that a start takes, and the more
// of them wait, the fewer nodes are written a change.
inline constexpr std::size_t kMaxChangesBehind = 300'000;
// At least one part is stored in so many blocks: so no part is further behind than kTrieParts times that.
inline constexpr std::uint64_t kBlocksAPart = 4;
// Nodes kept in memory; above it those go that were not used since their part was stored last.
inline constexpr std::size_t kMaxCachedNodes = std::size_t{1} << 19;

// The tries after one block. Immutable to those who hold one.
struct StateVersion {
    Roots roots;
    std::vector<Child> parts = std::vector<Child>(kTrieParts);
    std::array<Child, 16> above;  // of the accounts' trie: by the first nibble
    Child top;
    // Since the parent's version:
    struct Changes {
        std::size_t part = 0;   // or kAbovePart
        std::size_t count = 0;  // of accounts or native objects
        Bytes before;           // append_change
    };
    std::vector<Changes> changes;
    std::vector<std::pair<std::size_t, Nibbles>> removed;  // part and place of nodes that are gone
};
using StateVersionPtr = std::shared_ptr<const StateVersion>;

// What a block does to the state: its tries, and the batch (flat tables, code, storage tries) that makes it so.
struct StateChange {
    Roots roots;
    StateVersionPtr version;
    std::shared_ptr<const AccountTable> accounts;  // those that changed, as they are now
    store::WriteBatch batch;
};

// Parts as of one block, for the store. To be written after that block, and after those that were taken before.
struct DueParts {
    std::uint64_t block = 0;
    std::vector<std::size_t> parts;
    store::WriteBatch batch;
};

// Adds to the batch what no state that is kept needs any more of the parts' changes, and writes it. May run on another
// thread than the tries'. Errors: store.*.
[[nodiscard]] Status write_parts(store::Store& store, DueParts& due, bool sync);

class StateTries {
public:
    struct Limits {
        std::size_t changes_behind = kMaxChangesBehind;
        std::size_t cached_nodes = kMaxCachedNodes;
        bool archive = false;  // each block's batch has the new nodes of all tries under their hashes (archive_state.h)
    };
    // The tries of the newest block in the store, which outlives this. Errors: store.corrupt (what is stored does not
    // give these roots), trie.*, store.*.
    [[nodiscard]] static Expected<std::unique_ptr<StateTries>> open(const store::Reader& store, std::uint64_t number,
                                                                    const Roots& roots, ThreadPool* pool,
                                                                    const Limits& limits);
    [[nodiscard]] static Expected<std::unique_ptr<StateTries>> open(const store::Reader& store, std::uint64_t number,
                                                                    const Roots& roots, ThreadPool* pool = nullptr) {
        return open(store, number, roots, pool, Limits{});
    }

    // Of the newest committed block.
    [[nodiscard]] const StateVersionPtr& head() const { return head_; }
    // The change from the state of `parent` over which `overlay` lies; `state` reads that state's tables. Nothing is
    // stored, and any number of changes may be computed from one parent. Errors: trie.*, store.*.
    [[nodiscard]] Expected<StateChange> compute(const Overlay& overlay, const StateVersion& parent,
                                                const store::Reader& state, ThreadPool* pool = nullptr);
    // Makes `version` the newest committed one, as that of the block with this number, and adds to the block's batch
    // what must be written with it. A batch that is not written after all leaves nothing to go on with.
    void commit(StateVersionPtr version, std::uint64_t number, store::WriteBatch& batch);
    // The parts whose turn it is, as of the newest committed block: to be asked once after each.
    [[nodiscard]] DueParts take_due_parts();
    // All of them: the first state of a chain, and tools.
    [[nodiscard]] DueParts take_all_parts();
    // What was taken is in the store: so their nodes need not all stay in memory.
    void parts_stored(const std::vector<std::size_t>& parts);

    [[nodiscard]] std::size_t cached_nodes() const;
    [[nodiscard]] std::size_t changes_behind() const { return behind_; }

private:
    struct Update {
        Hash32 key;
        Bytes value;  // empty: erased
    };
    // Of one part that is stored.
    struct Part {
        std::uint64_t stored_at = 0;  // the block as of which it is stored
        std::size_t changes = 0;      // since then
        std::size_t nodes = 0;        // in memory, when it was stored last
        std::uint32_t used_since = 0;
        std::size_t unwritten = 0;     // how often it was taken and is not in the store yet
        std::vector<Nibbles> removed;  // since then
    };

    StateTries(const store::Reader& store, const Limits& limits) : store_(store), limits_(limits) {}
    [[nodiscard]] Status load_parts(StateVersion& version);
    // The changes of the blocks behind which parts are stored.
    [[nodiscard]] Status replay(StateVersion& version, std::uint64_t number, ThreadPool* pool);
    [[nodiscard]] Status update(StateVersion& version, std::vector<Update> accounts,
                                std::span<const std::pair<Bytes, Bytes>> natives, ThreadPool* pool);
    void join_above(StateVersion& version, const std::array<bool, 16>& changed) const;
    [[nodiscard]] Expected<Hash32> update_storage(const types::Address& address, const Hash32& root,
                                                  std::span<const Overlay::StorageChange> changes,
                                                  const store::Reader& state, store::WriteBatch& batch);
    // The nodes above the parts that are others than the parent's, into the version's changes and the batch.
    void note_above(StateVersion& version, const StateVersion& parent, store::WriteBatch& batch) const;
    void take_part(std::size_t number, DueParts& due);

    const store::Reader& store_;
    Limits limits_;
    StateVersionPtr head_;
    std::uint64_t head_number_ = 0;
    std::uint64_t next_version_ = 1;
    std::array<Part, kTrieParts> parts_;
    std::size_t next_part_ = 0;  // whose turn it is to be stored
    std::size_t behind_ = 0;     // sum of the parts' changes
};

// Writes a change at once and gives its roots: genesis and tests. The store's tries are those of `parent`.
[[nodiscard]] Expected<Roots> commit_overlay(const Overlay& overlay, const Roots& parent, store::Store& store);

}  // namespace quern::chain::state
