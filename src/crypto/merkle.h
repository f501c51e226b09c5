// Binary Merkle trees over 32-byte nodes, and the ids over them (doc/verification.md, "Commitments"). SHA-256
// throughout; the last byte of what is hashed is the domain, so that a tile's 4,096 bytes stay aligned to H's blocks.
//
//   leaf(bytes)     = H(bytes || 00)
//   inner(l, r)     = H(l || r || 01)
//   bytes_id        = H(size, 8 bytes big endian || top || 02)         of any bytes (crypto/content_id.h)
//   list_id(tag, n) = H(n, 8 bytes big endian || top || tag)           of n ids or leaves
//
// Level 0 holds the leaves' nodes. Where a leaf is itself an id (a state in a history, a slot in a state, an output in
// a trace) that id is the node, else leaf(bytes). On each level an odd last node moves up unchanged. The top of an
// empty tree is the zero hash. Pure functions; thread-safe.
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
    bytes = 0x02,
    // Lists.
    trace = 0x03,
    state = 0x04,
    history = 0x05,
    program = 0x06,
    micro = 0x07,
    report = 0x08,
    steps = 0x09,  // the states of the steps in a stride; of it no id is made
    slots = 0x0a,  // the records of a program's slots
};

[[nodiscard]] Hash32 merkle_leaf(BytesView bytes);
[[nodiscard]] Hash32 merkle_inner(const Hash32& left, const Hash32& right);
[[nodiscard]] Hash32 merkle_top(std::span<const Hash32> leaves);
[[nodiscard]] Hash32 bytes_id(std::uint64_t size, const Hash32& top);
// `tag` is a list's.
[[nodiscard]] Hash32 list_id(MerkleTag tag, std::uint64_t count, const Hash32& top);
[[nodiscard]] Hash32 list_id_of(MerkleTag tag, std::span<const Hash32> leaves);

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
// Whether `leaf` is item `index` of the list with this id. Error merkle.proof_mismatch when the path does not lead to
// it, and merkle_top_from_path's.
[[nodiscard]] Status check_list_path(MerkleTag tag, const Hash32& id, const Hash32& leaf, std::uint64_t index,
                                     std::uint64_t count, std::span<const Hash32> path);

}  // namespace quern::crypto
