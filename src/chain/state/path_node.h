// Nodes of the tries that the state is kept in. Their content is that of trie_node.h; in addition a version of a trie
// shares with the one before it what did not change: a node that two versions can reach is never changed, only copied,
// so that blocks on one parent, and a block and its children, have tries side by side. Used by path_trie.cpp and
// state_tries.cpp. The count of references is not atomic: one thread at a time has a node's trie (a part of the
// accounts' trie counts as a trie of its own).
#pragma once

#include <bit>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/expected.h"
#include "chain/state/trie_node.h"

namespace quern::chain::state {

struct PathNode;

// Shared ownership of a node.
class PathNodePtr {
public:
    PathNodePtr() = default;
    explicit PathNodePtr(PathNode* node) : node_(node) { add(); }
    PathNodePtr(const PathNodePtr& other) : node_(other.node_) { add(); }
    PathNodePtr(PathNodePtr&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
    PathNodePtr& operator=(PathNodePtr other) noexcept {
        std::swap(node_, other.node_);
        return *this;
    }
    ~PathNodePtr();
    [[nodiscard]] PathNode& operator*() const { return *node_; }
    [[nodiscard]] PathNode* operator->() const { return node_; }
    [[nodiscard]] PathNode* get() const { return node_; }
    [[nodiscard]] explicit operator bool() const { return node_ != nullptr; }

private:
    void add();
    PathNode* node_ = nullptr;
};

// What a node's encoding holds in place of a child: its encoding when that is under 32 bytes, else its keccak256.
struct NodeReference {
    static constexpr std::uint8_t kHash = 32;
    static constexpr std::uint8_t kUnknown = 255;  // the child changed since

    Hash32 bytes;
    std::uint8_t size = kUnknown;  // of `bytes`; below 32: the encoding itself

    [[nodiscard]] bool is_known() const { return size != kUnknown; }
    [[nodiscard]] bool is_hash() const { return size == kHash; }
    bool operator==(const NodeReference&) const = default;
};

struct Child {
    NodeReference reference;
    PathNodePtr node;  // null: not loaded (its reference is a hash), or, at the top of a trie, no node at all
};

struct PathNode {
    enum class Kind : std::uint8_t { leaf, extension, branch };

    std::uint32_t shared = 0;  // pointers to this node
    std::uint32_t used = 0;    // when it was changed or made last, in the owner's numbers
    std::uint64_t owner = 0;   // the version that made it and may still change it; 0: none
    Kind kind = Kind::leaf;
    bool stored = false;          // the store has it, and everything below it, at its path
    std::uint16_t ways = 0;       // branch: bit n is set when there is a child n
    Nibbles path;                 // leaf, extension
    Bytes value;                  // leaf, branch (empty: none)
    std::vector<Child> children;  // branch: of its ways, ascending; extension: one

    // A branch's child. has() first.
    [[nodiscard]] bool has(std::uint8_t nibble) const { return (ways >> nibble & 1U) != 0; }
    [[nodiscard]] std::size_t place_of(std::uint8_t nibble) const {
        return static_cast<std::size_t>(std::popcount(static_cast<unsigned>(ways) & ((1U << nibble) - 1U)));
    }
    [[nodiscard]] Child& child(std::uint8_t nibble) { return children[place_of(nibble)]; }
    // The child, made empty when there was none.
    Child& add_child(std::uint8_t nibble);
    void drop_child(std::uint8_t nibble);
};

inline void PathNodePtr::add() {
    if (node_ != nullptr) ++node_->shared;
}
inline PathNodePtr::~PathNodePtr() {
    if (node_ != nullptr && --node_->shared == 0) delete node_;
}

// Appends the node's encoding (trie_node.h). All references below it are known.
void append_encoding(const PathNode& node, Bytes& out);
// The reference to a node with this encoding.
[[nodiscard]] NodeReference reference_to(BytesView encoding);
// A node as stored, with its inline children. Error trie.corrupt_node (a fault).
[[nodiscard]] Expected<PathNodePtr> decode_path_node(BytesView encoding);

}  // namespace quern::chain::state
