#include "chain/state/trie.h"

#include <algorithm>

#include "base/rlp.h"
#include "chain/state/nibbles.h"
#include "chain/state/path_trie.h"
#include "crypto/hash.h"

namespace quern::chain::state {
namespace {

using Kind = TrieNode::Kind;

class NoNodes final : public TrieNodeReader {
public:
    Expected<Bytes> node(const Hash32& hash) const override { return fault("trie.missing_node", to_hex0x(hash)); }
};

// Hands every node that is not stored to the sink and marks it. References are made already.
void store_nodes(TrieNode& node, const Trie::NodeSink& sink, bool is_root) {
    if (node.stored) return;
    if (node.child) store_nodes(*node.child, sink, false);
    if (node.children)
        for (auto& child : *node.children)
            if (child) store_nodes(*child, sink, false);
    const bool has_hash = node_reference(node).size() > Hash32::kSize;
    if (has_hash) {
        sink(Hash32::copy_of(BytesView(node.reference).subspan(1)), encode_node(node));
    } else if (is_root) {
        Bytes encoding = encode_node(node);
        const Hash32 hash = crypto::keccak256(encoding);
        sink(hash, std::move(encoding));
    }
    node.stored = true;
}

}  // namespace

const Hash32& empty_trie_root() {
    static const Hash32 root = [] {
        const std::array<std::uint8_t, 1> empty_string = {0x80};
        return crypto::keccak256(empty_string);
    }();
    return root;
}

Trie::Trie(const TrieNodeReader& nodes, const Hash32& root) : nodes_(nodes) { reset(root); }

void Trie::reset(const Hash32& root) {
    root_ = root == empty_trie_root() ? nullptr : TrieNode::make_unloaded(root);
    loaded_ = 0;
}

Status Trie::load(TrieNodePtr& node) {
    if (!node || node->kind != Kind::unloaded) return {};
    QUERN_TRY(const Bytes encoding, nodes_.node(node->hash));
    QUERN_TRY(TrieNodePtr loaded, decode_node(encoding));
    loaded->reference = std::move(node->reference);
    node = std::move(loaded);
    ++loaded_;
    return {};
}

Status Trie::put(BytesView key, BytesView value) {
    if (value.empty()) return erase(key);
    if (key.size() > kMaxKeyBytes) return fail("trie.key_too_long", std::to_string(key.size()) + " bytes");
    return insert(root_, to_nibbles(key), value);
}

Status Trie::erase(BytesView key) {
    if (key.size() > kMaxKeyBytes) return fail("trie.key_too_long", std::to_string(key.size()) + " bytes");
    auto removed = remove(root_, to_nibbles(key));
    if (!removed) return fail(std::move(removed).error());
    return {};
}

Status Trie::insert(TrieNodePtr& slot, NibblesView path, BytesView value) {
    if (!slot) {
        slot = TrieNode::make_leaf(path, value);
        ++loaded_;
        return {};
    }
    QUERN_CHECK(load(slot));
    TrieNode& node = *slot;
    if (node.kind == Kind::branch) {
        if (path.empty())
            node.value = to_bytes(value);
        else
            QUERN_CHECK(insert((*node.children)[path[0]], path.subspan(1), value));
        node.mark_changed();
        return {};
    }
    const std::size_t common = common_prefix(node.path, path);
    if (common == node.path.size()) {
        if (node.kind == Kind::extension) {
            QUERN_CHECK(insert(node.child, path.subspan(common), value));
            node.mark_changed();
            return {};
        }
        if (common == path.size()) {
            node.value = to_bytes(value);
            node.mark_changed();
            return {};
        }
    }
    // The paths part inside or at the end of this node's: a branch goes there.
    TrieNodePtr branch = TrieNode::make_branch();
    const NibblesView old_rest = NibblesView(node.path).subspan(common);
    if (old_rest.empty()) {
        branch->value = std::move(node.value);  // a leaf; an extension that is used up was handled above
    } else {
        TrieNodePtr& old_slot = (*branch->children)[old_rest[0]];
        const NibblesView old_tail = old_rest.subspan(1);
        if (node.kind == Kind::leaf)
            old_slot = TrieNode::make_leaf(old_tail, node.value);
        else if (old_tail.empty())
            old_slot = std::move(node.child);
        else
            old_slot = TrieNode::make_extension(old_tail, std::move(node.child));
    }
    const NibblesView new_rest = path.subspan(common);
    if (new_rest.empty())
        branch->value = to_bytes(value);
    else
        (*branch->children)[new_rest[0]] = TrieNode::make_leaf(new_rest.subspan(1), value);
    slot = common == 0 ? std::move(branch) : TrieNode::make_extension(path.first(common), std::move(branch));
    loaded_ += 3;
    return {};
}

// True when something was removed.
Expected<bool> Trie::remove(TrieNodePtr& slot, NibblesView path) {
    if (!slot) return false;
    QUERN_CHECK(load(slot));
    TrieNode& node = *slot;
    switch (node.kind) {
        case Kind::leaf: {
            if (!equal(node.path, path)) return false;
            slot.reset();
            return true;
        }
        case Kind::extension: {
            if (!starts_with(path, node.path)) return false;
            QUERN_TRY(const bool removed, remove(node.child, path.subspan(node.path.size())));
            if (!removed) return false;
            if (!node.child) return fault("trie.corrupt_node", "extension without a branch");
            // A branch stays a branch or became a leaf or extension, whose path joins this one.
            if (node.child->kind != Kind::branch) {
                node.child->path = concat(node.path, node.child->path);
                TrieNodePtr merged = std::move(node.child);
                slot = std::move(merged);
            }
            slot->mark_changed();
            return true;
        }
        case Kind::branch: {
            if (path.empty()) {
                if (node.value.empty()) return false;
                // A failed load of the last child must leave the content as it was.
                Bytes old_value = std::move(node.value);
                node.value.clear();
                auto shortened = shorten(slot);
                if (!shortened) {
                    node.value = std::move(old_value);
                    return fail(std::move(shortened).error());
                }
            } else {
                QUERN_TRY(const bool removed, remove((*node.children)[path[0]], path.subspan(1)));
                if (!removed) return false;
                QUERN_CHECK(shorten(slot));
            }
            slot->mark_changed();
            return true;
        }
        case Kind::unloaded:
            break;
    }
    return fault("trie.corrupt_node", "unloaded");
}

// A branch that is left with one way becomes a leaf or an extension.
Status Trie::shorten(TrieNodePtr& branch) {
    branch->mark_changed();
    std::size_t used = 0;
    std::uint8_t last = 0;
    for (std::uint8_t i = 0; i < 16; ++i) {
        if (!(*branch->children)[i]) continue;
        ++used;
        last = i;
    }
    if (used + (branch->value.empty() ? 0U : 1U) > 1) return {};
    if (used == 0) {
        branch = TrieNode::make_leaf({}, branch->value);
        return {};
    }
    TrieNodePtr& only = (*branch->children)[last];
    QUERN_CHECK(load(only));
    const std::array<std::uint8_t, 1> nibble = {last};
    TrieNodePtr merged;
    if (only->kind == Kind::branch) {
        merged = TrieNode::make_extension(nibble, std::move(only));
    } else {
        merged = std::move(only);
        merged->path = concat(nibble, merged->path);
        merged->mark_changed();
    }
    branch = std::move(merged);
    return {};
}

Expected<std::optional<Bytes>> Trie::get(BytesView key) {
    const Nibbles nibbles = to_nibbles(key);
    NibblesView path = nibbles;
    TrieNodePtr* slot = &root_;
    while (*slot) {
        QUERN_CHECK(load(*slot));
        TrieNode& node = **slot;
        if (node.kind == Kind::leaf)
            return equal(node.path, path) ? std::optional<Bytes>(node.value) : std::optional<Bytes>();
        if (node.kind == Kind::extension) {
            if (!starts_with(path, node.path)) return std::optional<Bytes>();
            path = path.subspan(node.path.size());
            slot = &node.child;
            continue;
        }
        if (path.empty()) return node.value.empty() ? std::optional<Bytes>() : std::optional<Bytes>(node.value);
        slot = &(*node.children)[path[0]];
        path = path.subspan(1);
    }
    return std::optional<Bytes>();
}

// Subtrees below the topmost branch share nothing, so their references can be made side by side.
void Trie::hash_in_parallel(ThreadPool& pool) {
    TrieNode* top = root_.get();
    if (top->kind == Kind::extension) top = top->child.get();
    if (top->kind != Kind::branch || !top->reference.empty()) return;
    pool.parallel_for(16, [top](std::size_t i) {
        if ((*top->children)[i]) (void)node_reference(*(*top->children)[i]);
    });
}

Hash32 Trie::root(ThreadPool* pool) {
    if (!root_) return empty_trie_root();
    if (root_->kind == Kind::unloaded) return root_->hash;
    if (pool != nullptr) hash_in_parallel(*pool);
    const Bytes& reference = node_reference(*root_);
    if (reference.size() > Hash32::kSize) return Hash32::copy_of(BytesView(reference).subspan(1));
    return crypto::keccak256(reference);  // a root under 32 bytes is hashed all the same
}

Hash32 Trie::commit(const NodeSink& sink, ThreadPool* pool) {
    const Hash32 hash = root(pool);
    if (root_) store_nodes(*root_, sink, true);
    if (loaded_ > kMaxCachedNodes) reset(hash);
    return hash;
}

Expected<std::vector<Bytes>> Trie::prove(BytesView key) {
    std::vector<Bytes> proof;
    const Nibbles nibbles = to_nibbles(key);
    NibblesView path = nibbles;
    TrieNodePtr* slot = &root_;
    while (*slot) {
        QUERN_CHECK(load(*slot));
        TrieNode& node = **slot;
        // An inline node is inside its parent's encoding.
        if (slot == &root_ || node_reference(node).size() > Hash32::kSize) proof.push_back(encode_node(node));
        if (node.kind == Kind::leaf) break;
        if (node.kind == Kind::extension) {
            if (!starts_with(path, node.path)) break;
            path = path.subspan(node.path.size());
            slot = &node.child;
            continue;
        }
        if (path.empty()) break;
        slot = &(*node.children)[path[0]];
        path = path.subspan(1);
    }
    return proof;
}

Hash32 trie_root(std::span<const std::pair<Bytes, Bytes>> pairs) {
    static const NoNodes none;
    Trie trie(none);
    for (const auto& [key, value] : pairs) (void)trie.put(key, value);  // nothing is loaded, so only the key can be bad
    return trie.root();
}

Hash32 secure_trie_root(std::span<const std::pair<Bytes, Bytes>> pairs) {
    static const NoNodes none;
    Trie trie(none);
    for (const auto& [key, value] : pairs) (void)trie.put(crypto::keccak256(key), value);
    return trie.root();
}

Hash32 ordered_trie_root(std::span<const Bytes> items) {
    class NoPlaces final : public PathNodeReader {
    public:
        Expected<std::optional<Bytes>> node(NibblesView) const override { return std::optional<Bytes>(); }
    };
    static const NoPlaces none;
    PathTrie trie(none, {}, 1);  // its nodes are hashed side by side
    for (std::size_t i = 0; i < items.size(); ++i) {
        rlp::Writer key;
        key.integer(std::uint64_t{i});
        (void)trie.put(to_nibbles(std::move(key).finish()), items[i]);  // nothing is loaded and the keys are short
    }
    trie.hash();
    return root_hash(trie.root());
}

Expected<std::optional<Bytes>> verify_trie_proof(const Hash32& root, BytesView key, std::span<const Bytes> proof) {
    if (root == empty_trie_root()) {
        if (!proof.empty()) return fail("trie.bad_proof", "nodes of an empty trie");
        return std::optional<Bytes>();
    }
    const Nibbles nibbles = to_nibbles(key);
    NibblesView path = nibbles;
    std::size_t used = 0;
    std::optional<Bytes> value;
    // Owns the decoded nodes on the way, since inline children live inside their parents.
    std::vector<TrieNodePtr> decoded;
    TrieNodePtr start = TrieNode::make_unloaded(root);
    const TrieNode* node = start.get();
    while (node != nullptr) {
        if (node->kind == Kind::unloaded) {
            if (used == proof.size()) return fail("trie.bad_proof", "a node is missing");
            if (crypto::keccak256(proof[used]) != node->hash) return fail("trie.bad_proof", "wrong node");
            auto next = decode_node(proof[used]);
            // The proof is its sender's, no store's.
            if (!next) return fail(next.error().name, next.error().detail);
            ++used;
            decoded.push_back(std::move(*next));
            node = decoded.back().get();
            continue;
        }
        if (node->kind == Kind::leaf) {
            if (equal(node->path, path)) value = node->value;
            break;
        }
        if (node->kind == Kind::extension) {
            if (!starts_with(path, node->path)) break;
            path = path.subspan(node->path.size());
            node = node->child.get();
            continue;
        }
        if (path.empty()) {
            if (!node->value.empty()) value = node->value;
            break;
        }
        node = (*node->children)[path[0]].get();
        path = path.subspan(1);
    }
    if (used != proof.size()) return fail("trie.bad_proof", "nodes are left over");
    return value;
}

}  // namespace quern::chain::state
