#include "chain/state/trie_node.h"

#include "base/rlp.h"
#include "crypto/hash.h"

namespace quern::chain::state {
namespace {

constexpr std::uint8_t kOddFlag = 0x10;
constexpr std::uint8_t kLeafFlag = 0x20;
constexpr int kMaxInlineDepth = 16;  // an inline node has under 32 bytes, so nests less than this

struct Path {
    Nibbles nibbles;
    bool is_leaf = false;
};

tl::unexpected<Error> corrupt(std::string why) { return fault("trie.corrupt_node", std::move(why)); }

Expected<Path> decode_hex_prefix(BytesView encoded) {
    if (encoded.empty()) return corrupt("empty path");
    const std::uint8_t flags = encoded[0] & 0xf0;
    if ((flags & ~(kOddFlag | kLeafFlag)) != 0) return corrupt("path flags");
    Path path;
    path.is_leaf = (flags & kLeafFlag) != 0;
    if ((flags & kOddFlag) != 0)
        path.nibbles.push_back(encoded[0] & 0x0f);
    else if ((encoded[0] & 0x0f) != 0)
        return corrupt("path padding");
    for (const auto byte : encoded.subspan(1)) {
        path.nibbles.push_back(byte >> 4);
        path.nibbles.push_back(byte & 0x0f);
    }
    return path;
}

Expected<TrieNodePtr> decode_at_depth(BytesView encoding, int depth);

Expected<TrieNodePtr> decode_reference(const rlp::Item& item, int depth) {
    if (item.is_list) {
        if (item.whole.size() >= Hash32::kSize) return corrupt("inline node too large");
        QUERN_TRY(TrieNodePtr node, decode_at_depth(item.whole, depth + 1));
        node->reference = to_bytes(item.whole);
        return node;
    }
    if (item.payload.empty()) return TrieNodePtr();
    if (item.payload.size() != Hash32::kSize) return corrupt("reference length");
    return TrieNode::make_unloaded(Hash32::copy_of(item.payload));
}

Expected<TrieNodePtr> decode_branch(const std::vector<rlp::Item>& items, int depth) {
    TrieNodePtr node = TrieNode::make_branch();
    std::size_t used = 0;
    for (std::size_t i = 0; i < 16; ++i) {
        QUERN_TRY((*node->children)[i], decode_reference(items[i], depth));
        if ((*node->children)[i]) ++used;
    }
    if (items[16].is_list) return corrupt("branch value");
    node->value = to_bytes(items[16].payload);
    if (used + (node->value.empty() ? 0 : 1) < 2) return corrupt("branch with a single way");
    return node;
}

Expected<TrieNodePtr> decode_at_depth(BytesView encoding, int depth) {
    if (depth > kMaxInlineDepth) return corrupt("too deep");
    const auto list = rlp::decode_list(encoding);
    if (!list) return corrupt(list.error().to_string());
    rlp::Reader in = *list;
    std::vector<rlp::Item> items;
    while (!in.at_end()) {
        if (items.size() == 17) return corrupt("too many items");
        const auto item = in.next();
        if (!item) return corrupt(item.error().to_string());
        items.push_back(*item);
    }
    TrieNodePtr node;
    if (items.size() == 17) {
        QUERN_TRY(node, decode_branch(items, depth));
    } else if (items.size() == 2 && !items[0].is_list) {
        QUERN_TRY(const Path path, decode_hex_prefix(items[0].payload));
        if (path.is_leaf) {
            if (items[1].is_list || items[1].payload.empty()) return corrupt("leaf value");
            node = TrieNode::make_leaf(path.nibbles, items[1].payload);
        } else {
            QUERN_TRY(TrieNodePtr child, decode_reference(items[1], depth));
            if (!child || path.nibbles.empty()) return corrupt("extension");
            node = TrieNode::make_extension(path.nibbles, std::move(child));
        }
    } else {
        return corrupt("item count");
    }
    node->stored = true;
    return node;
}

}  // namespace

TrieNodePtr TrieNode::make_unloaded(const Hash32& hash) {
    auto node = std::make_unique<TrieNode>();
    node->hash = hash;
    node->stored = true;
    node->reference.reserve(1 + Hash32::kSize);
    node->reference.push_back(0x80 + Hash32::kSize);
    append(node->reference, hash);
    return node;
}

TrieNodePtr TrieNode::make_leaf(NibblesView path, BytesView value) {
    auto node = std::make_unique<TrieNode>();
    node->kind = Kind::leaf;
    node->path = to_bytes(path);
    node->value = to_bytes(value);
    return node;
}

TrieNodePtr TrieNode::make_extension(NibblesView path, TrieNodePtr child) {
    auto node = std::make_unique<TrieNode>();
    node->kind = Kind::extension;
    node->path = to_bytes(path);
    node->child = std::move(child);
    return node;
}

TrieNodePtr TrieNode::make_branch() {
    auto node = std::make_unique<TrieNode>();
    node->kind = Kind::branch;
    node->children = std::make_unique<TrieChildren>();
    return node;
}

Nibbles to_nibbles(BytesView key) {
    Nibbles nibbles;
    nibbles.reserve(2 * key.size());
    for (const auto byte : key) {
        nibbles.push_back(byte >> 4);
        nibbles.push_back(byte & 0x0f);
    }
    return nibbles;
}

Bytes hex_prefix(NibblesView path, bool is_leaf) {
    Bytes encoded;
    encoded.reserve(path.size() / 2 + 1);
    auto first = static_cast<std::uint8_t>(is_leaf ? kLeafFlag : 0);
    if (path.size() % 2 != 0) {
        first = static_cast<std::uint8_t>(first | kOddFlag | path[0]);
        path = path.subspan(1);
    }
    encoded.push_back(first);
    for (std::size_t i = 0; i < path.size(); i += 2)
        encoded.push_back(static_cast<std::uint8_t>(path[i] << 4 | path[i + 1]));
    return encoded;
}

Bytes encode_node(TrieNode& node) {
    rlp::Writer out;
    out.begin_list();
    switch (node.kind) {
        case TrieNode::Kind::leaf:
            out.bytes(hex_prefix(node.path, true)).bytes(node.value);
            break;
        case TrieNode::Kind::extension:
            out.bytes(hex_prefix(node.path, false)).raw(node_reference(*node.child));
            break;
        case TrieNode::Kind::branch:
            for (auto& child : *node.children) {
                if (child)
                    out.raw(node_reference(*child));
                else
                    out.bytes({});
            }
            out.bytes(node.value);
            break;
        case TrieNode::Kind::unloaded:
            break;
    }
    out.end_list();
    return std::move(out).finish();
}

const Bytes& node_reference(TrieNode& node) {
    if (!node.reference.empty()) return node.reference;
    Bytes encoding = encode_node(node);
    if (encoding.size() < Hash32::kSize) {
        node.reference = std::move(encoding);
    } else {
        node.reference.push_back(0x80 + Hash32::kSize);
        append(node.reference, crypto::keccak256(encoding));
    }
    return node.reference;
}

Expected<TrieNodePtr> decode_node(BytesView encoding) { return decode_at_depth(encoding, 0); }

}  // namespace quern::chain::state
