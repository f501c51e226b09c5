// One node of a Merkle tree as two parties claim it, and the descent from the root to the first leaf that differs: each
// party posts the descendants of its node a few levels below, they must fold to its node, and the first difference
// becomes the new node. Everything left of it is agreed. Used by dispute_game (chain) and dispute_strategy (workers).
// Pure functions on values; thread-safe.
#pragma once

#include "chain/types/fields.h"
#include "crypto/content_id.h"

namespace quern::compute::core {

inline constexpr unsigned kSplitLevels = 7;                   // levels a post descends
inline constexpr std::size_t kMaxSplit = 1U << kSplitLevels;  // 128 sub-roots

// Level 0 = leaves. At the top the claims are ids, below them bare nodes. A tree that was not committed before
// (trace, micro-trace) starts without nodes: each side's first post defines its top.
struct TreeCursor {
    std::uint8_t tag = 0;  // crypto::MerkleTag of a list, or `bytes` of whole tiles
    std::uint64_t leaf_count = 0;
    bool sealed = true;  // nodes[] are ids still
    std::uint32_t level = 0;
    std::uint64_t index = 0;
    std::vector<Hash32> nodes;  // {defender's, rival's}, or none
    QUERN_FIELDS(v("tag", tag), v("leafCount", leaf_count), v("sealed", sealed), v("level", level), v("index", index),
                 v("nodes", nodes))
};

// Cursors at the top of a tree.
[[nodiscard]] TreeCursor sealed_cursor(crypto::MerkleTag tag, std::uint64_t leaf_count, const Hash32& defender_root,
                                       const Hash32& rival_root);
[[nodiscard]] TreeCursor open_cursor(crypto::MerkleTag tag, std::uint64_t leaf_count);

[[nodiscard]] constexpr bool at_top_of_open_tree(const TreeCursor& cursor) { return cursor.nodes.empty(); }
[[nodiscard]] constexpr bool at_top(const TreeCursor& cursor) { return cursor.sealed || cursor.nodes.empty(); }
[[nodiscard]] constexpr bool at_leaf(const TreeCursor& cursor) { return !at_top(cursor) && cursor.level == 0; }

// The nodes that a post must hold: `count` nodes of `level` from `begin` on.
struct PostRange {
    unsigned level = 0;
    std::uint64_t begin = 0;
    std::uint64_t count = 0;
};
[[nodiscard]] PostRange post_range(const TreeCursor& cursor);
// Error dispute.bad_game: level, index and counts contradict each other.
[[nodiscard]] Status check_cursor(const TreeCursor& cursor);
// The single node that a post of the right count folds to.
[[nodiscard]] Hash32 post_top(const TreeCursor& cursor, std::span<const Hash32> posted);
// side: 0 or 1. Errors: dispute.wrong_node_count, dispute.does_not_fold.
[[nodiscard]] Status check_post(const TreeCursor& cursor, std::size_t side, std::span<const Hash32> posted);
// Whether `leaf` is leaf `index` of the tree whose top the post (at the top) folds to. Where the post holds the leaves
// themselves `path` must be empty. Errors: dispute.not_anchored, dispute.bad_path.
[[nodiscard]] Status check_anchor(const TreeCursor& cursor, std::span<const Hash32> posted, const Hash32& leaf,
                                  std::uint64_t index, std::span<const Hash32> path);
// Moves to the first difference of two checked posts. Error dispute.no_difference: they are equal.
[[nodiscard]] Status descend(TreeCursor& cursor, std::span<const Hash32> defender, std::span<const Hash32> rival);

}  // namespace quern::compute::core
