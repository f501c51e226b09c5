#include "crypto/merkle.h"

#include "crypto/hash.h"

namespace quern::crypto {
namespace {

std::array<std::uint8_t, 1> byte_of(MerkleTag tag) { return {static_cast<std::uint8_t>(tag)}; }

// Replaces a level by the one above it.
void ascend(std::vector<Hash32>& nodes) {
    std::size_t out = 0;
    for (std::size_t i = 0; i < nodes.size(); i += 2)
        nodes[out++] = i + 1 < nodes.size() ? merkle_inner(nodes[i], nodes[i + 1]) : nodes[i];
    nodes.resize(out);
}

}  // namespace

Hash32 merkle_leaf(BytesView bytes) {
    Sha256 hasher;
    hasher.update(byte_of(MerkleTag::leaf));
    hasher.update(bytes);
    return hasher.finish();
}

Hash32 merkle_inner(const Hash32& left, const Hash32& right) {
    std::array<std::uint8_t, 65> message;
    message[0] = static_cast<std::uint8_t>(MerkleTag::inner);
    std::memcpy(message.data() + 1, left.data.data(), 32);
    std::memcpy(message.data() + 33, right.data.data(), 32);
    return sha256(message);
}

Hash32 merkle_top(std::span<const Hash32> leaves) {
    if (leaves.empty()) return {};
    std::vector<Hash32> nodes(leaves.begin(), leaves.end());
    while (nodes.size() > 1) ascend(nodes);
    return nodes.front();
}

Hash32 merkle_seal(MerkleTag tag, std::uint64_t leaf_count, BytesView context, const Hash32& top) {
    std::array<std::uint8_t, 8> count;
    for (std::size_t i = 0; i < 8; ++i) count[i] = static_cast<std::uint8_t>(leaf_count >> (56 - 8 * i));
    Sha256 hasher;
    hasher.update(byte_of(tag));
    hasher.update(count);
    hasher.update(context);
    hasher.update(top);
    return hasher.finish();
}

Hash32 merkle_root(MerkleTag tag, std::span<const Hash32> leaves, BytesView context) {
    return merkle_seal(tag, leaves.size(), context, merkle_top(leaves));
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

Status merkle_verify(MerkleTag tag, const Hash32& root, const Hash32& leaf, std::uint64_t index,
                     std::uint64_t leaf_count, std::span<const Hash32> path, BytesView context) {
    QUERN_TRY(const Hash32 top, merkle_top_from_path(leaf, index, leaf_count, path));
    if (merkle_seal(tag, leaf_count, context, top) != root) return fail("merkle.proof_mismatch");
    return {};
}

}  // namespace quern::crypto
