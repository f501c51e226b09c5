// Where the state's parts, nodes and changes lie in the store (doc/chain.md, "The tries on disk"): shared by what
// writes them (state_tries.cpp) and what reads older states (past_state.cpp, archive_state.cpp). Pure; thread-safe.
#pragma once

#include <functional>
#include <map>

#include "chain/state/overlay.h"
#include "chain/state/path_trie.h"
#include "chain/store/kv.h"
#include "chain/store/tables.h"

namespace quern::chain::state {

inline constexpr std::size_t kAccountParts = 256;
inline constexpr std::size_t kNativePart = kAccountParts;  // number of the native trie's part
inline constexpr std::size_t kTrieParts = kAccountParts + 1;
inline constexpr std::size_t kAbovePart = kTrieParts;  // no part: whose changes are those of the nodes above the parts
inline constexpr std::size_t kTopNibbles = 2;          // of an account's path, above its part
inline constexpr std::uint8_t kTopNode = 16;           // number of the accounts' root, after those below it
// Newest blocks whose states can be read and gone back to; the chain's history is kept for longer with an archive.
inline constexpr std::uint64_t kKeptStates = 128;

// The key under which the nodes of a part begin.
[[nodiscard]] Bytes part_prefix(std::size_t part);
[[nodiscard]] Bytes storage_trie_prefix(const types::Address& address);
// -> the number of the block as of which a part is stored.
[[nodiscard]] Bytes mark_key(std::size_t part);
// -> changes of one part by one block; without a block: where all of the part begin.
[[nodiscard]] Bytes changes_key(std::size_t part);
[[nodiscard]] Bytes changes_key(std::size_t part, std::uint64_t block);
// -> a node above the parts, as the newest block has it: kTopNode, or one of those below it.
[[nodiscard]] Bytes above_key(std::uint8_t number);
// -> a node of an archive.
[[nodiscard]] Bytes archive_key(const Hash32& hash);

// The part of the accounts' trie in which an address lies.
[[nodiscard]] std::size_t part_of(const types::Address& address);
// The part whose changes tell what a key of the tables (account, storage, native, nodes above the parts) was; nullopt
// for keys of other tables.
[[nodiscard]] std::optional<std::size_t> part_of_key(BytesView key);

// Whether keys that begin so are of the tables that part_of_key names.
[[nodiscard]] bool is_of_state(BytesView prefix);

// Nodes under one prefix of a store's keys.
class NodesUnder final : public PathNodeReader {
public:
    // `reader` outlives this.
    NodesUnder(const store::Reader& reader, Bytes prefix) : reader_(reader), prefix_(std::move(prefix)) {}
    [[nodiscard]] Expected<std::optional<Bytes>> node(NibblesView path) const override;

private:
    const store::Reader& reader_;
    Bytes prefix_;
};

// Writes nodes under a prefix. Both outlive the sink.
[[nodiscard]] PathNodeSink into(store::WriteBatch& batch, const Bytes& prefix);

// A slot's value as the storage trie holds it: rlp(integer).
[[nodiscard]] Bytes storage_value(const Hash32& value);

// One part's changes by one block: for each key of the tables that the block changed, what was there before (nothing:
// absent). An account without code and storage is rlp([nonce, balance]) there.
void append_change(Bytes& changes, const types::Address& address, const std::optional<Account>& before);
void append_change(Bytes& changes, BytesView key, const std::optional<Bytes>& before);  // any other key
// False from the visitor stops. Error store.corrupt.
using ChangeVisitor = std::function<bool(BytesView key, const std::optional<Bytes>& before)>;
[[nodiscard]] Status visit_changes(BytesView changes, const ChangeVisitor& visit);

// The changes of one part by the blocks after `from` up to `to`, oldest block first. Errors: store.*.
using BlockChangeVisitor = std::function<bool(std::uint64_t block, BytesView key, const std::optional<Bytes>& before)>;
[[nodiscard]] Status visit_changes(const store::Reader& reader, std::size_t part, std::uint64_t from, std::uint64_t to,
                                   const BlockChangeVisitor& visit);

// The oldest block whose state can be read in a store of block `newest`: less than kKeptStates below it, and none that
// was forgotten before the store went back (state_revert.h). Errors: store.*.
[[nodiscard]] Expected<std::uint64_t> oldest_state(const store::Reader& reader, std::uint64_t newest);

// The block as of which a part is stored; 0 when nothing was ever stored. Errors: store.*.
[[nodiscard]] Expected<std::uint64_t> stored_at(const store::Reader& reader, std::size_t part);

}  // namespace quern::chain::state
