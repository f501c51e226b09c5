#include "chain/state/path_trie.h"

#include <algorithm>

#include "chain/state/nibbles.h"
#include "chain/state/trie.h"
#include "crypto/hash.h"
#include "crypto/keccak.h"

namespace quern::chain::state {
namespace {

using Kind = PathNode::Kind;

Nibbles with(NibblesView path, std::uint8_t nibble) {
    Nibbles longer;
    longer.reserve(path.size() + 1);
    append(longer, path);
    longer.push_back(nibble);
    return longer;
}

// The nodes whose reference is missing, by how many nodes are above them.
using Levels = std::vector<std::vector<Child*>>;

void collect(Child& child, std::size_t depth, Levels& levels) {
    if (child.reference.is_known()) return;
    if (levels.size() <= depth) levels.resize(depth + 1);
    levels[depth].push_back(&child);
    for (Child& below : child.node->children) collect(below, depth + 1, levels);
}

void hash_level(const std::vector<Child*>& level) {
    Bytes encodings;
    std::vector<std::size_t> ends;
    ends.reserve(level.size());
    for (const Child* child : level) {
        append_encoding(*child->node, encodings);
        ends.push_back(encodings.size());
    }
    std::vector<BytesView> messages;
    std::vector<Child*> hashed;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < level.size(); ++i) {
        const BytesView encoding = BytesView(encodings).subspan(begin, ends[i] - begin);
        begin = ends[i];
        if (encoding.size() < Hash32::kSize) {
            level[i]->reference = reference_to(encoding);
            continue;
        }
        messages.push_back(encoding);
        hashed.push_back(level[i]);
    }
    std::vector<Hash32> hashes(messages.size());
    crypto::keccak256_many(messages, hashes);
    for (std::size_t i = 0; i < hashed.size(); ++i) hashed[i]->reference = {hashes[i], NodeReference::kHash};
}

void store_below(const Child& child, Nibbles& path, bool is_root, const PathNodeSink& sink) {
    PathNode& node = *child.node;
    if (node.stored) return;
    const std::size_t length = path.size();
    if (node.kind == Kind::extension) append(path, node.path);
    auto below = node.children.begin();
    for (std::uint8_t nibble = 0; below != node.children.end(); ++nibble) {
        if (node.kind == Kind::branch) {
            if (!node.has(nibble)) continue;
            path.push_back(nibble);
        }
        if (below->node) store_below(*below, path, false, sink);
        if (node.kind == Kind::branch) path.pop_back();
        ++below;
    }
    path.resize(length);
    if (is_root || child.reference.is_hash()) {
        Bytes encoding;
        append_encoding(node, encoding);
        sink(path, std::move(encoding));
    } else {
        sink(path, std::nullopt);  // it lies in its parent now
    }
    node.stored = true;
}

}  // namespace

Expected<Child> PathTrie::load_root(const PathNodeReader& nodes) {
    QUERN_TRY(const auto encoding, nodes.node({}));
    if (!encoding) return Child{};
    QUERN_TRY(auto node, decode_path_node(*encoding));
    return Child{reference_to(*encoding), std::move(node)};
}

Status PathTrie::load(Child& child, NibblesView path) const {
    if (child.node) return {};
    QUERN_TRY(const auto encoding, nodes_.node(path));
    if (!encoding) return fault("trie.missing_node", to_hex0x(child.reference.bytes));
    // What the store says at this place must be what the parent means: anything else is damage, however well-formed.
    if (reference_to(*encoding) != child.reference) return fault("trie.corrupt_node", "another node is stored");
    QUERN_TRY(child.node, decode_path_node(*encoding));
    child.node->used = static_cast<std::uint32_t>(version_);
    return {};
}

PathNode& PathTrie::own(PathNodePtr& node) const {
    if (node->owner != version_) {
        PathNodePtr copy(new PathNode(*node));
        copy->shared = 1;
        copy->owner = version_;
        copy->stored = false;
        node = std::move(copy);
    }
    node->used = static_cast<std::uint32_t>(version_);
    return *node;
}

PathNodePtr PathTrie::make(Kind kind, NibblesView path, BytesView value) const {
    PathNodePtr node(new PathNode);
    node->kind = kind;
    node->owner = version_;
    node->used = static_cast<std::uint32_t>(version_);
    node->path = to_bytes(path);
    node->value = to_bytes(value);
    return node;
}

Status PathTrie::put(NibblesView key, BytesView value) {
    if (key.size() > 2 * kMaxKeyBytes) return fail("trie.key_too_long", std::to_string(key.size()) + " nibbles");
    QUERN_TRY(const auto present, get(key));
    if (present ? equal(*present, value) : value.empty()) return {};
    key_ = key;
    root_.reference.size = NodeReference::kUnknown;
    return value.empty() ? remove(root_.node, key) : insert(root_.node, key, value);
}

Expected<std::optional<Bytes>> PathTrie::get(NibblesView key) {
    NibblesView rest = key;
    Child* child = &root_;
    while (child->node) {
        PathNode& node = *child->node;
        if (node.kind == Kind::leaf)
            return equal(node.path, rest) ? std::optional<Bytes>(node.value) : std::optional<Bytes>();
        if (node.kind == Kind::extension) {
            if (!starts_with(rest, node.path)) return std::optional<Bytes>();
            rest = rest.subspan(node.path.size());
            child = &node.children[0];
        } else {
            if (rest.empty()) return node.value.empty() ? std::optional<Bytes>() : std::optional<Bytes>(node.value);
            if (!node.has(rest[0])) return std::optional<Bytes>();
            child = &node.child(rest[0]);
            rest = rest.subspan(1);
        }
        QUERN_CHECK(load(*child, key.first(key.size() - rest.size())));
    }
    return std::optional<Bytes>();
}

Expected<std::vector<Bytes>> PathTrie::prove(NibblesView key) {
    std::vector<Bytes> proof;
    NibblesView rest = key;
    Child* child = &root_;
    while (child->node) {
        PathNode& node = *child->node;
        if (child == &root_ || child->reference.is_hash()) append_encoding(node, proof.emplace_back());
        if (node.kind == Kind::leaf) break;
        if (node.kind == Kind::extension) {
            if (!starts_with(rest, node.path)) break;
            rest = rest.subspan(node.path.size());
            child = &node.children[0];
        } else {
            if (rest.empty() || !node.has(rest[0])) break;
            child = &node.child(rest[0]);
            rest = rest.subspan(1);
        }
        QUERN_CHECK(load(*child, key.first(key.size() - rest.size())));
    }
    return proof;
}

// The value is not there yet. Children on the way were loaded by get().
Status PathTrie::insert(PathNodePtr& slot, NibblesView rest, BytesView value) {
    if (!slot) {
        slot = make(Kind::leaf, rest, value);
        return {};
    }
    PathNode& node = own(slot);
    if (node.kind == Kind::branch) {
        if (rest.empty()) {
            node.value = to_bytes(value);
            return {};
        }
        Child& child = node.add_child(rest[0]);
        child.reference.size = NodeReference::kUnknown;
        return insert(child.node, rest.subspan(1), value);
    }
    const std::size_t common = common_prefix(node.path, rest);
    if (common == node.path.size()) {
        if (node.kind == Kind::extension) {
            node.children[0].reference.size = NodeReference::kUnknown;
            return insert(node.children[0].node, rest.subspan(common), value);
        }
        if (common == rest.size()) {
            node.value = to_bytes(value);
            return {};
        }
    }
    // The paths part inside or at the end of this node's: a branch goes there.
    PathNodePtr branch = make(Kind::branch, {});
    const NibblesView old_rest = NibblesView(node.path).subspan(common);
    if (old_rest.empty()) {
        branch->value = std::move(node.value);  // a leaf; an extension that is used up was handled above
    } else {
        Child& old = branch->add_child(old_rest[0]);
        const NibblesView tail = old_rest.subspan(1);
        if (node.kind == Kind::leaf) {
            old.node = make(Kind::leaf, tail, node.value);
        } else if (tail.empty()) {
            old = std::move(node.children[0]);  // it keeps its place, so what is stored of it stays good
        } else {
            old.node = make(Kind::extension, tail);
            old.node->children.push_back(std::move(node.children[0]));
        }
    }
    const NibblesView new_rest = rest.subspan(common);
    if (new_rest.empty())
        branch->value = to_bytes(value);
    else
        branch->add_child(new_rest[0]).node = make(Kind::leaf, new_rest.subspan(1), value);
    if (common == 0) {
        slot = std::move(branch);
        return {};
    }
    PathNodePtr extension = make(Kind::extension, rest.first(common));
    extension->children.emplace_back().node = std::move(branch);
    slot = std::move(extension);
    return {};
}

// The value is there.
Status PathTrie::remove(PathNodePtr& slot, NibblesView rest) {
    PathNode& node = own(slot);
    if (node.kind == Kind::leaf) {
        removed_.push_back(to_bytes(before(rest)));
        slot = {};
        return {};
    }
    if (node.kind == Kind::extension) {
        Child& child = node.children[0];
        const NibblesView below = rest.subspan(node.path.size());
        child.reference.size = NodeReference::kUnknown;
        QUERN_CHECK(remove(child.node, below));
        // A branch stays a branch or became a leaf or extension, whose path joins this one.
        if (child.node->kind == Kind::branch) return {};
        removed_.push_back(to_bytes(before(below)));
        PathNodePtr merged = std::move(child.node);
        merged->path = concat(node.path, merged->path);
        slot = std::move(merged);
        return {};
    }
    if (rest.empty()) {
        node.value.clear();
    } else {
        Child& child = node.child(rest[0]);
        child.reference.size = NodeReference::kUnknown;
        QUERN_CHECK(remove(child.node, rest.subspan(1)));
        if (!child.node) node.drop_child(rest[0]);
    }
    return shorten(slot, before(rest));
}

// A branch that is left with one way becomes a leaf or an extension.
Status PathTrie::shorten(PathNodePtr& slot, NibblesView path) {
    PathNode& branch = *slot;
    if (branch.children.size() + (branch.value.empty() ? 0U : 1U) > 1) return {};
    if (branch.children.empty()) {
        branch.kind = Kind::leaf;
        return {};
    }
    const auto nibble = static_cast<std::uint8_t>(std::countr_zero(branch.ways));
    Child only = std::move(branch.children[0]);
    const Nibbles place = with(path, nibble);
    QUERN_CHECK(load(only, place));
    const std::array<std::uint8_t, 1> step = {nibble};
    if (only.node->kind == Kind::branch) {
        slot = make(Kind::extension, step);
        slot->children.push_back(std::move(only));
        return {};
    }
    removed_.push_back(place);
    PathNode& merged = own(only.node);
    merged.path = concat(step, merged.path);
    slot = std::move(only.node);
    return {};
}

void PathTrie::hash() {
    PathTrie* const self = this;
    hash_all(std::span(&self, 1));
}

void PathTrie::hash_all(std::span<PathTrie* const> tries) {
    Levels levels;
    for (PathTrie* trie : tries)
        if (trie->root_.node) collect(trie->root_, 0, levels);
    for (auto level = levels.rbegin(); level != levels.rend(); ++level) hash_level(*level);
}

void store_nodes(const Child& root, const PathNodeSink& sink) {
    Nibbles path;
    if (root.node)
        store_below(root, path, true, sink);
    else
        sink(path, std::nullopt);
}

std::size_t forget_nodes(const Child& root, std::uint32_t used_since) {
    if (!root.node) return 0;
    std::size_t kept = 1;
    for (Child& child : root.node->children) {
        if (!child.node) continue;
        if (child.reference.is_hash() && child.node->stored && child.node->used < used_since)
            child.node = {};
        else
            kept += forget_nodes(child, used_since);
    }
    return kept;
}

Hash32 root_hash(const Child& root) {
    if (!root.node) return empty_trie_root();
    if (root.reference.is_hash()) return root.reference.bytes;
    return crypto::keccak256(root.reference.bytes.view().first(root.reference.size));
}

}  // namespace quern::chain::state
