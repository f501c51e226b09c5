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
    if (!cursor.nodes.empty() && cursor.nodes.size() != 2) return fail("dispute.bad_game", "the cursor's nodes");
    if (cursor.sealed && cursor.nodes.empty()) return fail("dispute.bad_game", "a sealed tree without roots");
    return {};
}

Hash32 post_top(const TreeCursor& cursor, std::span<const Hash32> posted) {
    return crypto::merkle_fold(posted, cursor.level - post_range(cursor).level);
}

Status check_post(const TreeCursor& cursor, std::size_t side, std::span<const Hash32> posted) {
    const PostRange range = post_range(cursor);
    if (posted.size() != range.count)
        return fail("dispute.wrong_node_count",
                    "expected " + std::to_string(range.count) + ", got " + std::to_string(posted.size()));
    if (at_top_of_open_tree(cursor)) return {};
    const Hash32 top = post_top(cursor, posted);
    if ((cursor.sealed ? id_over(cursor, top) : top) != cursor.nodes[side]) return fail("dispute.does_not_fold");
    return {};
}

Status check_anchor(const TreeCursor& cursor, std::span<const Hash32> posted, const Hash32& leaf, std::uint64_t index,
                    std::span<const Hash32> path) {
    if (index >= cursor.leaf_count) return fail("dispute.not_anchored", "there is no such leaf");
    if (post_range(cursor).level == 0) {
        if (!path.empty()) return fail("dispute.bad_path", "the leaf is posted itself");
        if (posted[index] != leaf) return fail("dispute.not_anchored");
        return {};
    }
    const Expected<Hash32> top = crypto::merkle_top_from_path(leaf, index, cursor.leaf_count, path);
    if (!top) return fail("dispute.bad_path", top.error().to_string());
    if (*top != post_top(cursor, posted)) return fail("dispute.not_anchored");
    return {};
}

Status descend(TreeCursor& cursor, std::span<const Hash32> defender, std::span<const Hash32> rival) {
    const PostRange range = post_range(cursor);
    std::uint64_t first = 0;
    while (first < defender.size() && first < rival.size() && defender[first] == rival[first]) ++first;
    if (first == defender.size() || first == rival.size()) return fail("dispute.no_difference");
    cursor.sealed = false;
    cursor.level = range.level;
    cursor.index = range.begin + first;
    cursor.nodes = {defender[first], rival[first]};
    // On a ragged right edge a node with one child is that child: nothing needs to be posted for it.
    while (cursor.level > 0 &&
           2 * cursor.index + 1 >= crypto::merkle_level_width(cursor.leaf_count, cursor.level - 1)) {
        --cursor.level;
        cursor.index *= 2;
    }
    return {};
}

}  // namespace quern::compute::core
