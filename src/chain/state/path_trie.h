// A trie that is stored by path: the store has one node at each place, and a newer one overwrites it, so what is stored
// is always the tree of one block and old state is gone by construction. Between two stores any number of versions live
// in memory, sharing what is the same (path_node.h). A PathTrie makes the next version from one; it is used once.
//
// A stored node is found by its path from the trie's root, and checked against the hash by which its parent knows it.
// After an error the trie must be dropped; the version that it started from is as it was. Used by one thread.
#pragma once

#include <functional>
#include <optional>

#include "chain/state/path_node.h"

namespace quern::chain::state {

// Where one trie's nodes are loaded from.
class PathNodeReader {
public:
    virtual ~PathNodeReader() = default;
    // What is stored at a path; nullopt when nothing is. Errors: the store's.
    [[nodiscard]] virtual Expected<std::optional<Bytes>> node(NibblesView path) const = 0;
};

// What must become of the stored nodes: absent means erased. A later change of a path wins.
using PathNodeSink = std::function<void(NibblesView path, std::optional<Bytes> encoding)>;

class PathTrie {
public:
    static constexpr std::size_t kMaxKeyBytes = 128;  // bounds the depth of the recursion

    // The trie as it is stored, from its root down. Errors: trie.corrupt_node, the store's.
    [[nodiscard]] static Expected<Child> load_root(const PathNodeReader& nodes);

    // The next version of the one with this root. `version` is not 0 and no other trie's over the same nodes.
    PathTrie(const PathNodeReader& nodes, Child root, std::uint64_t version)
        : nodes_(nodes), root_(std::move(root)), version_(version) {}

    // Keys are in nibbles. An empty value erases. What changes nothing leaves the nodes alone. Errors:
    // trie.key_too_long, trie.missing_node, trie.corrupt_node, the store's.
    [[nodiscard]] Status put(NibblesView key, BytesView value);
    [[nodiscard]] Expected<std::optional<Bytes>> get(NibblesView key);
    // The encodings from the root towards the key, without those of inline nodes. The references are known (hash()).
    [[nodiscard]] Expected<std::vector<Bytes>> prove(NibblesView key);

    // Makes every reference that is missing, each node's once.
    void hash();
    // The same for several tries, whose nodes are hashed side by side.
    static void hash_all(std::span<PathTrie* const> tries);
    // The version's root; its reference is known after hash(). A null node: the empty trie.
    [[nodiscard]] const Child& root() const { return root_; }
    // Places that a node left for good or until a later version puts one there again: to be erased before the nodes of
    // this version, or of a later one, are stored.
    [[nodiscard]] std::vector<Nibbles> take_removed() { return std::move(removed_); }

private:
    [[nodiscard]] Status load(Child& child, NibblesView path) const;
    [[nodiscard]] PathNode& own(PathNodePtr& node) const;
    [[nodiscard]] PathNodePtr make(PathNode::Kind kind, NibblesView path, BytesView value = {}) const;
    // `rest` is a tail of key_: what comes before it is the path of `node`.
    [[nodiscard]] Status insert(PathNodePtr& node, NibblesView rest, BytesView value);
    [[nodiscard]] Status remove(PathNodePtr& node, NibblesView rest);
    [[nodiscard]] Status shorten(PathNodePtr& branch, NibblesView path);
    [[nodiscard]] NibblesView before(NibblesView rest) const { return key_.first(key_.size() - rest.size()); }

    const PathNodeReader& nodes_;
    Child root_;
    std::uint64_t version_;
    NibblesView key_;  // of the running change
    std::vector<Nibbles> removed_;
};

// Hands over what the store must change to hold this version, after the places that were removed since the version that
// it holds, and marks its nodes as stored. Nodes under 32 bytes lie in their parents, but the root has a place always.
void store_nodes(const Child& root, const PathNodeSink& sink);

// Lets go of stored nodes below the root that were not used since `used_since`, and counts those that stay. Versions
// that share them load them again when they need them.
std::size_t forget_nodes(const Child& root, std::uint32_t used_since);

// keccak256 of the root's encoding, however short; that of the empty trie for a null node.
[[nodiscard]] Hash32 root_hash(const Child& root);

}  // namespace quern::chain::state
