#include "crypto/merkle.h"

#include <algorithm>

#include "base/big_endian.h"
#include "crypto/sha256_batch.h"

namespace quern::crypto {
namespace {

// number (8) || top || domain
Hash32 sealed(std::uint64_t number, const Hash32& top, MerkleTag domain) {
    std::array<std::uint8_t, 41> message;
    std::memcpy(message.data(), be64(number).data.data(), 8);
    std::memcpy(message.data() + 8, top.data.data(), 32);
    message[40] = static_cast<std::uint8_t>(domain);
    return sha256(message);
}

// left (32) || right (32) || domain
using InnerMessage = std::array<std::uint8_t, 65>;

void write_inner(InnerMessage& message, const Hash32& left, const Hash32& right) {
    std::memcpy(message.data(), left.data.data(), 32);
    std::memcpy(message.data() + 32, right.data.data(), 32);
    message[64] = static_cast<std::uint8_t>(MerkleTag::inner);
}

// Replaces a level by the one above it.
void ascend(std::vector<Hash32>& nodes) {
    const std::size_t pairs = nodes.size() / 2;
    std::array<InnerMessage, kHashLanes> messages;
    std::array<BytesView, kHashLanes> views;
    for (std::size_t first = 0; first < pairs; first += kHashLanes) {
        const std::size_t count = std::min(kHashLanes, pairs - first);
        for (std::size_t i = 0; i < count; ++i) {
            write_inner(messages[i], nodes[2 * (first + i)], nodes[2 * (first + i) + 1]);
            views[i] = messages[i];
        }
        sha256_batch(std::span(views).first(count), std::span(nodes).subspan(first, count));
    }
    if (nodes.size() % 2 != 0) nodes[pairs] = nodes.back();
    nodes.resize(nodes.size() - pairs);
}

}  // namespace

Hash32 merkle_leaf(BytesView bytes) {
    constexpr std::array<std::uint8_t, 1> kDomain{static_cast<std::uint8_t>(MerkleTag::leaf)};
    return sha256({bytes, kDomain});
}

Hash32 merkle_inner(const Hash32& left, const Hash32& right) {
    InnerMessage message;
    write_inner(message, left, right);
    return sha256(message);
}

Hash32 merkle_top(std::span<const Hash32> leaves) {
    if (leaves.empty()) return {};
    std::vector<Hash32> nodes(leaves.begin(), leaves.end());
    while (nodes.size() > 1) ascend(nodes);
    return nodes.front();
}

Hash32 bytes_id(std::uint64_t size, const Hash32& top) { return sealed(size, top, MerkleTag::bytes); }

Hash32 list_id(MerkleTag tag, std::uint64_t count, const Hash32& top) { return sealed(count, top, tag); }

Hash32 list_id_of(MerkleTag tag, std::span<const Hash32> leaves) {
    return list_id(tag, leaves.size(), merkle_top(leaves));
}

std::uint64_t merkle_level_width(std::uint64_t leaf_count, unsigned level) {
    std::uint64_t width = leaf_count;
    for (unsigned i = 0; i < level && width > 1; ++i) width = width / 2 + width % 2;
    return width;
}

unsigned merkle_height(std::uint64_t leaf_count) {
    unsigned height = 0;
    for (std::uint64_t width = leaf_count; width > 1; width = width / 2 + width % 2) ++height;
    return height;
}

std::vector<Hash32> merkle_level(std::span<const Hash32> leaves, unsigned level) {
    std::vector<Hash32> nodes(leaves.begin(), leaves.end());
    for (unsigned i = 0; i < level && nodes.size() > 1; ++i) ascend(nodes);
    return nodes;
}

Hash32 merkle_fold(std::span<const Hash32> nodes, unsigned levels) {
    std::vector<Hash32> level(nodes.begin(), nodes.end());
    for (unsigned i = 0; i < levels && level.size() > 1; ++i) ascend(level);
    return level.size() == 1 ? level.front() : Hash32{};
}

std::vector<Hash32> merkle_path(std::span<const Hash32> leaves, std::uint64_t index) {
    std::vector<Hash32> path;
    std::vector<Hash32> nodes(leaves.begin(), leaves.end());
    while (nodes.size() > 1) {
        const std::uint64_t sibling = index ^ 1;
        if (sibling < nodes.size()) path.push_back(nodes[sibling]);
        ascend(nodes);
        index /= 2;
    }
    return path;
}

Expected<Hash32> merkle_top_from_path(const Hash32& leaf, std::uint64_t index, std::uint64_t leaf_count,
                                      std::span<const Hash32> path) {
    if (index >= leaf_count) return fail("merkle.index_out_of_range");
    Hash32 node = leaf;
    std::size_t used = 0;
    for (std::uint64_t width = leaf_count; width > 1; width = width / 2 + width % 2, index /= 2) {
        const std::uint64_t sibling = index ^ 1;
        if (sibling >= width) continue;
        if (used == path.size()) return fail("merkle.wrong_path_length", "too short");
        node = index % 2 == 0 ? merkle_inner(node, path[used]) : merkle_inner(path[used], node);
        ++used;
    }
    if (used != path.size()) return fail("merkle.wrong_path_length", "too long");
    return node;
}

Status check_list_path(MerkleTag tag, const Hash32& id, const Hash32& leaf, std::uint64_t index, std::uint64_t count,
                       std::span<const Hash32> path) {
    QUERN_TRY(const Hash32 top, merkle_top_from_path(leaf, index, count, path));
    if (list_id(tag, count, top) != id) return fail("merkle.proof_mismatch");
    return {};
}

}  // namespace quern::crypto
