// Nodes of the hexary Merkle Patricia trie in memory, and their encoding (Yellow Paper, appendix D):
//
//   leaf      = rlp([hp(path, true), value])
//   extension = rlp([hp(path, false), reference])
//   branch    = rlp([reference x 16, value])
//   reference = "" | the child's encoding itself when it is under 32 bytes | rlp(keccak256(encoding))
//
// Used by trie.cpp only. Not thread-safe as such: a subtree belongs to one thread at a time.
#pragma once

#include <array>
#include <memory>

#include "base/bytes.h"
#include "base/expected.h"

namespace quern::chain::state {

using Nibbles = Bytes;  // one nibble a byte
using NibblesView = BytesView;

struct TrieNode;
using TrieNodePtr = std::unique_ptr<TrieNode>;  // null: the empty trie
using TrieChildren = std::array<TrieNodePtr, 16>;

struct TrieNode {
    enum class Kind : std::uint8_t { unloaded, leaf, extension, branch };

    Kind kind = Kind::unloaded;
    bool stored = false;  // its encoding, and everything below, is in the node store (or inline in a stored node)
    Bytes reference;      // as above; empty when something changed since it was made
    Hash32 hash;          // unloaded: what to load
    Nibbles path;         // leaf, extension
    Bytes value;          // leaf, branch (empty: none)
    TrieNodePtr child;    // extension
    std::unique_ptr<TrieChildren> children;  // branch

    [[nodiscard]] static TrieNodePtr make_unloaded(const Hash32& hash);
    [[nodiscard]] static TrieNodePtr make_leaf(NibblesView path, BytesView value);
    [[nodiscard]] static TrieNodePtr make_extension(NibblesView path, TrieNodePtr child);
    [[nodiscard]] static TrieNodePtr make_branch();

    void mark_changed() {
        reference.clear();
        stored = false;
    }
};

[[nodiscard]] Nibbles to_nibbles(BytesView key);
// Hex-prefix encoding (Yellow Paper, appendix C).
[[nodiscard]] Bytes hex_prefix(NibblesView path, bool is_leaf);

// The node's own encoding; makes the references below it where they are missing. Not for unloaded nodes.
[[nodiscard]] Bytes encode_node(TrieNode& node);
// The node's reference in its parent; made once and kept.
[[nodiscard]] const Bytes& node_reference(TrieNode& node);

// A node from a store or a proof, marked as stored; children are unloaded or inline nodes. Error trie.corrupt_node.
[[nodiscard]] Expected<TrieNodePtr> decode_node(BytesView encoding);

}  // namespace quern::chain::state
