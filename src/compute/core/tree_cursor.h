// One node of a Merkle tree as two parties claim it, and the descent from the root to the first leaf that differs: the
// defender posts the descendants of its node a few levels below, which must fold to its node; the rival picks the first
// of them that differs from its own, and both become the new nodes. Everything left of it is agreed. Used by
// dispute_game (chain) and dispute_strategy (workers). Pure functions on values; thread-safe.
#pragma once

#include <optional>

#include "chain/types/fields.h"
#include "crypto/content_id.h"

namespace quern::compute::core {

inline constexpr unsigned kSplitLevels = 7;                   // levels a post descends
inline constexpr std::size_t kMaxSplit = 1U << kSplitLevels;  // 128 sub-roots

// Level 0 = leaves. At the top the claims are ids, below them bare nodes. A tree that was not committed before
// (trace, micro-trace) starts without nodes: the first post and the first pick define the sides' tops.
struct TreeCursor {
    std::uint8_t tag = 0;  // crypto::MerkleTag of a list, or `bytes` of whole tiles
    std::uint64_t leaf_count = 0;
    bool sealed = true;  // nodes[] are ids still
    std::uint32_t level = 0;
    std::uint64_t index = 0;
    std::vector<Hash32> nodes;  // {defender's, rival's}; of an open tree none, then {defender's}, until the first pick
    QUERN_FIELDS(v("tag", tag), v("leafCount", leaf_count), v("sealed", sealed), v("level", level), v("index", index),
                 v("nodes", nodes))
};

// Cursors at the top of a tree.
[[nodiscard]] TreeCursor sealed_cursor(crypto::MerkleTag tag, std::uint64_t leaf_count, const Hash32& defender_root,
                                       const Hash32& rival_root);
[[nodiscard]] TreeCursor open_cursor(crypto::MerkleTag tag, std::uint64_t leaf_count);

[[nodiscard]] constexpr bool at_top(const TreeCursor& cursor) { return cursor.sealed || cursor.nodes.size() < 2; }
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
// The single node that descendants of the right count fold to.
[[nodiscard]] Hash32 post_top(const TreeCursor& cursor, std::span<const Hash32> descendants);
// Whether these are descendants of the side's node (0: the defender's, 1: the rival's), as far as it has one. Errors:
// dispute.wrong_node_count, dispute.does_not_fold.
[[nodiscard]] Status check_post(const TreeCursor& cursor, std::size_t side, std::span<const Hash32> descendants);
// Whether `leaf` is leaf `index` of the tree with this top. Errors: dispute.not_anchored, dispute.bad_path.
[[nodiscard]] Status check_anchor(const TreeCursor& cursor, const Hash32& top, const Hash32& leaf, std::uint64_t index,
                                  std::span<const Hash32> path);

// Descendant `position` of those that a post holds, of each side, with its siblings up to the side's node.
struct Pick {
    std::uint64_t position = 0;
    std::vector<Hash32> nodes;  // {defender's, rival's}
    std::vector<Hash32> defender_path;
    std::vector<Hash32> rival_path;
    QUERN_FIELDS(v("position", position), v("nodes", nodes), v("defenderPath", defender_path),
                 v("rivalPath", rival_path))

    bool operator==(const Pick&) const = default;
};
// What a pick leads to: the sides' nodes above the two descendants.
struct PickedTops {
    Hash32 defender;
    Hash32 rival;
};
// Whether the pick is the first difference: the two descendants differ, all siblings left of them are the same in both
// paths, and the paths lead to the sides' nodes (an open tree's rival has none before). Errors: dispute.bad_pick,
// dispute.bad_path, dispute.no_difference, dispute.not_first, dispute.does_not_fold.
[[nodiscard]] Expected<PickedTops> check_pick(const TreeCursor& cursor, const Pick& pick);
// Moves to a checked pick.
void descend(TreeCursor& cursor, const Pick& pick);
// The first difference of two lists of descendants of the right count; nullopt: they are equal.
[[nodiscard]] std::optional<Pick> first_difference(std::span<const Hash32> defender, std::span<const Hash32> rival);

}  // namespace quern::compute::core
