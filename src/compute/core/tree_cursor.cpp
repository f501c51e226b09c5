#include "compute/core/tree_cursor.h"

#include <algorithm>

namespace quern::compute::core {

using crypto::MerkleTag;

TreeCursor sealed_cursor(MerkleTag tag, std::uint64_t leaf_count, const Hash32& defender_root,
                         const Hash32& rival_root) {
    TreeCursor cursor;
    cursor.tag = static_cast<std::uint8_t>(tag);
    cursor.leaf_count = leaf_count;
    cursor.level = crypto::merkle_height(leaf_count);
    cursor.nodes = {defender_root, rival_root};
    return cursor;
}

TreeCursor open_cursor(MerkleTag tag, std::uint64_t leaf_count) {
    TreeCursor cursor;
    cursor.tag = static_cast<std::uint8_t>(tag);
    cursor.leaf_count = leaf_count;
    cursor.sealed = false;
    cursor.level = crypto::merkle_height(leaf_count);
    return cursor;
}

namespace {

// No product overflows: a shape that was decoded has at most 2^31 tiles.
Hash32 id_over(const TreeCursor& cursor, const Hash32& top) {
    const auto tag = static_cast<MerkleTag>(cursor.tag);
    if (tag == MerkleTag::bytes) return crypto::bytes_id(cursor.leaf_count * crypto::kContentTileBytes, top);
    return crypto::list_id(tag, cursor.leaf_count, top);
}

}  // namespace

PostRange post_range(const TreeCursor& cursor) {
    const unsigned down = std::min<unsigned>(kSplitLevels, cursor.level);
    PostRange range;
    range.level = cursor.level - down;
    range.begin = cursor.index << down;
    const std::uint64_t width = crypto::merkle_level_width(cursor.leaf_count, range.level);
    range.count = range.begin < width ? std::min<std::uint64_t>(width - range.begin, 1ULL << down) : 0;
    return range;
}

Status check_cursor(const TreeCursor& cursor) {
    if (cursor.level > crypto::merkle_height(cursor.leaf_count) ||
        cursor.index >= crypto::merkle_level_width(cursor.leaf_count, cursor.level))
        return fail("dispute.bad_game", "the cursor is outside its tree");
    if (at_top(cursor) && cursor.level != crypto::merkle_height(cursor.leaf_count))
        return fail("dispute.bad_game", "the cursor's top is not at the top");
    if (cursor.nodes.size() > 2) return fail("dispute.bad_game", "the cursor's nodes");
    if (cursor.sealed && cursor.nodes.size() != 2) return fail("dispute.bad_game", "a sealed tree without roots");
    return {};
}

Hash32 post_top(const TreeCursor& cursor, std::span<const Hash32> descendants) {
    return crypto::merkle_fold(descendants, cursor.level - post_range(cursor).level);
}

namespace {

Status check_folded(const TreeCursor& cursor, std::size_t side, const Hash32& top) {
    if (side >= cursor.nodes.size()) return {};
    if ((cursor.sealed ? id_over(cursor, top) : top) != cursor.nodes[side]) return fail("dispute.does_not_fold");
    return {};
}

// Siblings from the right of a path are the sides' own; those from the left must be the same in both.
Status check_left_siblings(std::uint64_t index, std::uint64_t width, const Pick& pick) {
    std::size_t sibling = 0;
    for (; width > 1; index /= 2, width = (width + 1) / 2) {
        const bool is_left = index % 2 == 1;
        if (!is_left && index + 1 == width) continue;  // moves up unchanged
        if (is_left && pick.defender_path[sibling] != pick.rival_path[sibling]) return fail("dispute.not_first");
        ++sibling;
    }
    return {};
}

}  // namespace

Status check_post(const TreeCursor& cursor, std::size_t side, std::span<const Hash32> descendants) {
    const PostRange range = post_range(cursor);
    if (descendants.size() != range.count)
        return fail("dispute.wrong_node_count",
                    "expected " + std::to_string(range.count) + ", got " + std::to_string(descendants.size()));
    return check_folded(cursor, side, post_top(cursor, descendants));
}

Status check_anchor(const TreeCursor& cursor, const Hash32& top, const Hash32& leaf, std::uint64_t index,
                    std::span<const Hash32> path) {
    const Expected<Hash32> found = crypto::merkle_top_from_path(leaf, index, cursor.leaf_count, path);
    if (!found) return fail("dispute.bad_path", found.error().to_string());
    if (*found != top) return fail("dispute.not_anchored");
    return {};
}

Expected<PickedTops> check_pick(const TreeCursor& cursor, const Pick& pick) {
    const PostRange range = post_range(cursor);
    if (pick.position >= range.count || pick.nodes.size() != 2) return fail("dispute.bad_pick");
    if (pick.nodes[0] == pick.nodes[1]) return fail("dispute.no_difference");
    const auto defender = crypto::merkle_top_from_path(pick.nodes[0], pick.position, range.count, pick.defender_path);
    const auto rival = crypto::merkle_top_from_path(pick.nodes[1], pick.position, range.count, pick.rival_path);
    if (!defender) return fail("dispute.bad_path", defender.error().to_string());
    if (!rival) return fail("dispute.bad_path", rival.error().to_string());
    QUERN_CHECK(check_left_siblings(pick.position, range.count, pick));
    QUERN_CHECK(check_folded(cursor, 0, *defender));
    QUERN_CHECK(check_folded(cursor, 1, *rival));
    return PickedTops{*defender, *rival};
}

void descend(TreeCursor& cursor, const Pick& pick) {
    const PostRange range = post_range(cursor);
    cursor.sealed = false;
    cursor.level = range.level;
    cursor.index = range.begin + pick.position;
    cursor.nodes = pick.nodes;
    // On a ragged right edge a node with one child is that child: nothing needs to be posted for it.
    while (cursor.level > 0 &&
           2 * cursor.index + 1 >= crypto::merkle_level_width(cursor.leaf_count, cursor.level - 1)) {
        --cursor.level;
        cursor.index *= 2;
    }
}

std::optional<Pick> first_difference(std::span<const Hash32> defender, std::span<const Hash32> rival) {
    std::size_t first = 0;
    while (first < defender.size() && first < rival.size() && defender[first] == rival[first]) ++first;
    if (first == defender.size() || first == rival.size()) return std::nullopt;
    return Pick{first,
                {defender[first], rival[first]},
                crypto::merkle_path(defender, first),
                crypto::merkle_path(rival, first)};
}

}  // namespace quern::compute::core
