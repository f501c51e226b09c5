// Binary Merkle trees over 32-byte nodes with domain tags (doc/verification.md, "Commitments"). SHA-256 throughout.
//
//   leaf(bytes)    = H(0x00 || bytes)
//   inner(l, r)    = H(0x01 || l || r)
//   root(tag, ...) = H(tag || leaf count, 8 bytes big endian || context || top)
//
// Level 0 holds the leaves' nodes. Where a leaf is itself a tagged root (a state in a history, a slot in a state, an
// output in a trace) that root is the node, else leaf(bytes). On each level an odd last node moves up unchanged.
// The top of an empty tree is the zero hash. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/expected.h"

namespace quern::crypto {

enum class MerkleTag : std::uint8_t {
    leaf = 0x00,
    inner = 0x01,
    tensor = 0x02,
    trace = 0x03,
    state = 0x04,
    history = 0x05,
    program = 0x06,
    micro = 0x07,
    probes = 0x08,
    content = 0x09,
};

[[nodiscard]] Hash32 merkle_leaf(BytesView bytes);
[[nodiscard]] Hash32 merkle_inner(const Hash32& left, const Hash32& right);
[[nodiscard]] Hash32 merkle_top(std::span<const Hash32> leaves);
// `context` binds what else the root speaks of (a tensor's dtype and dims); empty for most tags.
[[nodiscard]] Hash32 merkle_seal(MerkleTag tag, std::uint64_t leaf_count, BytesView context, const Hash32& top);
[[nodiscard]] Hash32 merkle_root(MerkleTag tag, std::span<const Hash32> leaves, BytesView context = {});

// Number of nodes on `level` of a tree with `leaf_count` leaves.
[[nodiscard]] std::uint64_t merkle_level_width(std::uint64_t leaf_count, unsigned level);
// Levels above the leaves until one node is left; 0 for one leaf.
[[nodiscard]] unsigned merkle_height(std::uint64_t leaf_count);
// The nodes of `level` (0 = the leaves themselves).
[[nodiscard]] std::vector<Hash32> merkle_level(std::span<const Hash32> leaves, unsigned level);
// Folds the consecutive nodes of one level up to the single node that covers them. The first of them must have an
// index that is a multiple of 2^levels on its level. This is how the chain checks a split: the sub-roots posted for a
// node fold to that node.
[[nodiscard]] Hash32 merkle_fold(std::span<const Hash32> nodes, unsigned levels);

// Siblings from the leaf to the top; levels at which the node moves up unchanged contribute none.
[[nodiscard]] std::vector<Hash32> merkle_path(std::span<const Hash32> leaves, std::uint64_t index);
// The top that (leaf, index, path) implies. Errors: merkle.index_out_of_range, merkle.wrong_path_length.
[[nodiscard]] Expected<Hash32> merkle_top_from_path(const Hash32& leaf, std::uint64_t index, std::uint64_t leaf_count,
                                                    std::span<const Hash32> path);
// Error merkle.proof_mismatch when the path does not lead to `root`.
[[nodiscard]] Status merkle_verify(MerkleTag tag, const Hash32& root, const Hash32& leaf, std::uint64_t index,
                                   std::uint64_t leaf_count, std::span<const Hash32> path, BytesView context = {});

}  // namespace quern::crypto
