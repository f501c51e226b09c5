#include "chain/state/path_node.h"

#include <algorithm>

#include "base/big_endian.h"
#include "base/rlp.h"
#include "crypto/hash.h"

namespace quern::chain::state {
namespace {

constexpr std::size_t kShortPayload = 55;
constexpr std::uint8_t kStringPrefix = 0x80;
constexpr std::uint8_t kListPrefix = 0xc0;
constexpr std::uint8_t kOddFlag = 0x10;
constexpr std::uint8_t kLeafFlag = 0x20;
constexpr int kMaxInlineDepth = 16;  // an inline node has under 32 bytes, so nests less than this

std::size_t length_bytes(std::size_t size) {
    std::size_t count = 0;
    for (; size != 0; size >>= 8) ++count;
    return count;
}

std::size_t header_size(std::size_t payload) { return payload <= kShortPayload ? 1 : 1 + length_bytes(payload); }

void append_header(Bytes& out, std::uint8_t prefix, std::size_t payload) {
    if (payload <= kShortPayload) {
        out.push_back(static_cast<std::uint8_t>(prefix + payload));
        return;
    }
    const std::size_t count = length_bytes(payload);
    out.push_back(static_cast<std::uint8_t>(prefix + kShortPayload + count));
    append_big_endian(out, payload, count);
}

bool is_single_byte(BytesView value) { return value.size() == 1 && value[0] < kStringPrefix; }

std::size_t string_size(BytesView value) {
    return is_single_byte(value) ? 1 : header_size(value.size()) + value.size();
}

void append_string(Bytes& out, BytesView value) {
    if (!is_single_byte(value)) append_header(out, kStringPrefix, value.size());
    append(out, value);
}

std::size_t reference_size(const NodeReference& reference) {
    return reference.is_hash() ? 1U + Hash32::kSize : reference.size;
}

void append_reference(Bytes& out, const NodeReference& reference) {
    if (reference.is_hash()) out.push_back(kStringPrefix + Hash32::kSize);
    append(out, reference.bytes.view().first(reference.size));
}

tl::unexpected<Error> corrupt(std::string why) { return fault("trie.corrupt_node", std::move(why)); }

Expected<PathNodePtr> decode_at_depth(BytesView encoding, int depth);

Status decode_child(const rlp::Item& item, int depth, Child& child) {
    if (item.is_list) {
        if (item.whole.size() >= Hash32::kSize) return corrupt("inline node too large");
        QUERN_TRY(child.node, decode_at_depth(item.whole, depth + 1));
        child.reference = reference_to(item.whole);
        return {};
    }
    if (item.payload.size() != Hash32::kSize) return corrupt("reference length");
    child.reference = {Hash32::copy_of(item.payload), NodeReference::kHash};
    return {};
}

Status decode_branch(const std::vector<rlp::Item>& items, int depth, PathNode& node) {
    node.kind = PathNode::Kind::branch;
    for (std::uint8_t i = 0; i < 16; ++i)
        if (items[i].is_list || !items[i].payload.empty())
            QUERN_CHECK(decode_child(items[i], depth, node.add_child(i)));
    if (items[16].is_list) return corrupt("branch value");
    node.value = to_bytes(items[16].payload);
    if (node.children.size() + (node.value.empty() ? 0 : 1) < 2) return corrupt("branch with a single way");
    return {};
}

Status decode_short(const std::vector<rlp::Item>& items, int depth, PathNode& node) {
    const BytesView path = items[0].payload;
    if (path.empty()) return corrupt("empty path");
    if ((path[0] & 0xf0 & ~(kOddFlag | kLeafFlag)) != 0) return corrupt("path flags");
    const bool odd = (path[0] & kOddFlag) != 0;
    if (!odd && (path[0] & 0x0f) != 0) return corrupt("path padding");
    if (odd) node.path.push_back(path[0] & 0x0f);
    append(node.path, to_nibbles(path.subspan(1)));
    if ((path[0] & kLeafFlag) != 0) {
        if (items[1].is_list || items[1].payload.empty()) return corrupt("leaf value");
        node.value = to_bytes(items[1].payload);
        return {};
    }
    node.kind = PathNode::Kind::extension;
    if (node.path.empty()) return corrupt("extension without a path");
    if (!items[1].is_list && items[1].payload.empty()) return corrupt("extension without a child");
    node.children.resize(1);
    QUERN_CHECK(decode_child(items[1], depth, node.children[0]));
    return {};
}

Expected<PathNodePtr> decode_at_depth(BytesView encoding, int depth) {
    if (depth > kMaxInlineDepth) return corrupt("too deep");
    const auto list = rlp::decode_list(encoding);
    if (!list) return corrupt(list.error().to_string());
    rlp::Reader in = *list;
    std::vector<rlp::Item> items;
    items.reserve(17);
    while (!in.at_end()) {
        if (items.size() == 17) return corrupt("too many items");
        const auto item = in.next();
        if (!item) return corrupt(item.error().to_string());
        items.push_back(*item);
    }
    PathNodePtr node(new PathNode);
    if (items.size() == 17)
        QUERN_CHECK(decode_branch(items, depth, *node));
    else if (items.size() == 2 && !items[0].is_list)
        QUERN_CHECK(decode_short(items, depth, *node));
    else
        return corrupt("item count");
    node->stored = true;
    return node;
}

}  // namespace

Child& PathNode::add_child(std::uint8_t nibble) {
    const auto at = children.begin() + static_cast<std::ptrdiff_t>(place_of(nibble));
    if (has(nibble)) return *at;
    ways = static_cast<std::uint16_t>(ways | 1U << nibble);
    return *children.emplace(at);
}

void PathNode::drop_child(std::uint8_t nibble) {
    children.erase(children.begin() + static_cast<std::ptrdiff_t>(place_of(nibble)));
    ways = static_cast<std::uint16_t>(ways & ~(1U << nibble));
}

void append_encoding(const PathNode& node, Bytes& out) {
    if (node.kind == PathNode::Kind::branch) {
        std::size_t payload = 16 - node.children.size() + string_size(node.value);
        for (const Child& child : node.children) payload += reference_size(child.reference);
        append_header(out, kListPrefix, payload);
        auto child = node.children.begin();
        for (std::uint8_t nibble = 0; nibble < 16; ++nibble) {
            if (node.has(nibble))
                append_reference(out, (child++)->reference);
            else
                out.push_back(kStringPrefix);
        }
        append_string(out, node.value);
        return;
    }
    const bool is_leaf = node.kind == PathNode::Kind::leaf;
    const Bytes path = hex_prefix(node.path, is_leaf);
    const std::size_t rest = is_leaf ? string_size(node.value) : reference_size(node.children[0].reference);
    append_header(out, kListPrefix, string_size(path) + rest);
    append_string(out, path);
    if (is_leaf)
        append_string(out, node.value);
    else
        append_reference(out, node.children[0].reference);
}

NodeReference reference_to(BytesView encoding) {
    if (encoding.size() >= Hash32::kSize) return {crypto::keccak256(encoding), NodeReference::kHash};
    NodeReference reference{{}, static_cast<std::uint8_t>(encoding.size())};
    std::copy(encoding.begin(), encoding.end(), reference.bytes.data.begin());
    return reference;
}

Expected<PathNodePtr> decode_path_node(BytesView encoding) { return decode_at_depth(encoding, 0); }

}  // namespace quern::chain::state
