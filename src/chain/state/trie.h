// Ethereum's hexary Merkle Patricia trie (Yellow Paper, appendix D), for roots and proofs of accounts, storage, native
// objects, transactions and receipts. State reads do not come here: the flat tables answer them. Changes are collected
// in memory and hashed once, when the root is asked for; commit() hands the new nodes to the caller. A Trie belongs to
// one thread at a time; root() and commit() may use a pool for the hashing. The free functions are thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "chain/state/trie_node.h"

namespace quern::chain::state {

// keccak256(rlp("")): the root of the empty trie.
[[nodiscard]] const Hash32& empty_trie_root();

// Where nodes are loaded from.
class TrieNodeReader {
public:
    virtual ~TrieNodeReader() = default;
    // The encoding whose keccak256 is `hash`. Errors: trie.missing_node, or the store's.
    [[nodiscard]] virtual Expected<Bytes> node(const Hash32& hash) const = 0;
};

class Trie {
public:
    static constexpr std::size_t kMaxKeyBytes = 128;  // bounds the depth of the recursion

    // Receives each new node once.
    using NodeSink = std::function<void(const Hash32& hash, Bytes encoding)>;

    // `nodes` outlives the trie; nothing is loaded before it is needed.
    explicit Trie(const TrieNodeReader& nodes, const Hash32& root = empty_trie_root());
    Trie(Trie&&) noexcept = default;
    Trie& operator=(Trie&&) = delete;

    // An empty value erases, and nodes that are left without use are merged, so the root depends on the content alone.
    // Errors: trie.key_too_long, trie.missing_node, trie.corrupt_node, the store's. After an error the content is
    // unchanged unless the error speaks of the store; then reset().
    [[nodiscard]] Status put(BytesView key, BytesView value);
    [[nodiscard]] Status erase(BytesView key);
    [[nodiscard]] Expected<std::optional<Bytes>> get(BytesView key);

    [[nodiscard]] Hash32 root(ThreadPool* pool = nullptr);
    // The root, after all nodes that are not stored yet went to `sink`; they must be in the store (one batch with the
    // state) before they are loaded again. Nodes stay in memory up to `kMaxCachedNodes`, then all are let go.
    Hash32 commit(const NodeSink& sink, ThreadPool* pool = nullptr);
    // Drops what was not committed and what is cached, and goes on from `root`.
    void reset(const Hash32& root);

    // The encodings of the nodes from the root towards the key, as far as they exist (eth_getProof's form): proves the
    // key's value, or that it has none. Empty for the empty trie.
    [[nodiscard]] Expected<std::vector<Bytes>> prove(BytesView key);

    static constexpr std::size_t kMaxCachedNodes = std::size_t{1} << 19;

private:
    [[nodiscard]] Status load(TrieNodePtr& node);
    [[nodiscard]] Status insert(TrieNodePtr& slot, NibblesView path, BytesView value);
    [[nodiscard]] Expected<bool> remove(TrieNodePtr& slot, NibblesView path);
    [[nodiscard]] Status shorten(TrieNodePtr& branch);
    void hash_in_parallel(ThreadPool& pool);

    const TrieNodeReader& nodes_;
    TrieNodePtr root_;
    std::size_t loaded_ = 0;  // nodes that were loaded or made since the cache was empty
};

// The root of a trie with these pairs, in any order; for keys given twice the last wins. Empty values are skipped.
[[nodiscard]] Hash32 trie_root(std::span<const std::pair<Bytes, Bytes>> pairs);
// The same with keccak256(key) for each key.
[[nodiscard]] Hash32 secure_trie_root(std::span<const std::pair<Bytes, Bytes>> pairs);
// The root over items keyed by rlp(position): transactions, receipts, withdrawals.
[[nodiscard]] Hash32 ordered_trie_root(std::span<const Bytes> items);

// The key's value under `root`, or nullopt when the proof shows that it has none. Every node must be the one that its
// parent refers to, and none may be left over. Errors: trie.bad_proof, trie.corrupt_node.
[[nodiscard]] Expected<std::optional<Bytes>> verify_trie_proof(const Hash32& root, BytesView key,
                                                               std::span<const Bytes> proof);

}  // namespace quern::chain::state
