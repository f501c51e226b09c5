// Roots of the state after a block: the accounts' trie (Ethereum's, storage tries below it) and the native objects'
// trie. Roots are known before anything is stored, so that they go into the header.
//
// The tries of every block that is executed and not dropped are StateVersions in memory, which share what is the same.
// The store has the accounts' trie in 256 parts (by the first byte of the hashed address; the two levels above them are
// made from their roots), and the native trie as one more. Each part is stored as of a block of its own, at or behind
// the newest: commit() adds to a block's batch the parts whose turn it is, and the list of what the block changed. At
// start the parts are brought to the newest block by those lists and the flat tables. The layout and why it survives a
// crash anywhere are in doc/chain.md, "The tries on disk". Storage tries are stored with the block that changes them.
// Used by one thread.
#pragma once

#include <memory>
#include <span>

#include "base/thread_pool.h"
#include "chain/state/cached_state.h"
#include "chain/state/overlay.h"
#include "chain/state/path_trie.h"
#include "chain/state/trie.h"
#include "chain/store/kv.h"

namespace quern::chain::state {

struct Roots {
    Hash32 state_root = empty_trie_root();
    Hash32 native_root = empty_trie_root();
    bool operator==(const Roots&) const = default;
};

inline constexpr std::size_t kAccountParts = 256;
inline constexpr std::size_t kNativePart = kAccountParts;  // number of the native trie's part
inline constexpr std::size_t kTrieParts = kAccountParts + 1;
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
    std::vector<types::Address> accounts;
    std::vector<Bytes> natives;
    std::array<std::uint32_t, kTrieParts> changes{};       // how many in each part
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

class StateTries {
public:
    struct Limits {
        std::size_t changes_behind = kMaxChangesBehind;
        std::size_t cached_nodes = kMaxCachedNodes;
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
    // what the tries need. A batch that is not written after all leaves nothing to go on with.
    void commit(StateVersionPtr version, std::uint64_t number, store::WriteBatch& batch);
    // The same, storing all parts: the first state of a chain, and tools.
    void commit_whole(StateVersionPtr version, std::uint64_t number, store::WriteBatch& batch);

    // The account's proof under a version's state root (eth_getProof's form), from the committed store or one that
    // holds the same parts. Errors: trie.*, store.*.
    [[nodiscard]] Expected<std::vector<Bytes>> prove_account(const StateVersion& version,
                                                             const types::Address& address);

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
    void adopt(StateVersionPtr version);
    void store_part(std::size_t number, std::uint64_t block, store::WriteBatch& batch);
    void forget_changes(store::WriteBatch& batch);

    const store::Reader& store_;
    Limits limits_;
    StateVersionPtr head_;
    std::uint64_t next_version_ = 1;
    std::array<Part, kTrieParts> parts_;
    std::size_t next_part_ = 0;        // whose turn it is to be stored
    std::size_t behind_ = 0;           // sum of the parts' changes
    std::uint64_t oldest_change_ = 1;  // the first block whose list is still in the store
};

// Writes a change at once and gives its roots: genesis and tests. The store's tries are those of `parent`.
[[nodiscard]] Expected<Roots> commit_overlay(const Overlay& overlay, const Roots& parent, store::Store& store);

}  // namespace quern::chain::state
