// The descent to the first leaf that differs, on trees of awkward sizes.
#include "compute/core/tree_cursor.h"

#include <gtest/gtest.h>

namespace quern::compute::core {
namespace {

using crypto::MerkleTag;

std::vector<Hash32> make_leaves(std::uint64_t count) {
    std::vector<Hash32> leaves(count);
    for (std::uint64_t i = 0; i < count; ++i)
        for (std::size_t b = 0; b < 8; ++b) leaves[i].data[b] = static_cast<std::uint8_t>((i + 1) >> (8 * b));
    return leaves;
}

std::vector<Hash32> post_of(const TreeCursor& cursor, const std::vector<Hash32>& leaves) {
    const PostRange range = post_range(cursor);
    const auto level = crypto::merkle_level(leaves, range.level);
    return {level.begin() + static_cast<std::ptrdiff_t>(range.begin),
            level.begin() + static_cast<std::ptrdiff_t>(range.begin + range.count)};
}

TEST(TreeCursor, DescentFindsTheFirstDifferenceInTreesOfAnySize) {
    for (const std::uint64_t count :
         {1ULL, 2ULL, 3ULL, 5ULL, 127ULL, 128ULL, 129ULL, 255ULL, 257ULL, 1000ULL, 16384ULL, 16385ULL, 20001ULL}) {
        const std::vector<Hash32> ours = make_leaves(count);
        for (const std::uint64_t at : {std::uint64_t{0}, count / 3, count / 2, count - 1}) {
            std::vector<Hash32> theirs = ours;
            theirs[at].data[31] = 9;
            theirs[count - 1].data[30] = 7;  // later differences do not matter
            for (const MerkleTag tag : {MerkleTag::state, MerkleTag::bytes, MerkleTag::trace}) {
                TreeCursor cursor = open_cursor(tag, count);
                if (tag == MerkleTag::state)
                    cursor = sealed_cursor(tag, count, crypto::list_id_of(tag, ours), crypto::list_id_of(tag, theirs));
                if (tag == MerkleTag::bytes)
                    cursor = sealed_cursor(tag, count, crypto::content_id_of_tiles(ours),
                                           crypto::content_id_of_tiles(theirs));
                unsigned rounds = 0;
                while (!at_leaf(cursor)) {
                    ASSERT_TRUE(check_cursor(cursor).has_value());
                    const auto first = post_of(cursor, ours);
                    const auto second = post_of(cursor, theirs);
                    ASSERT_LE(first.size(), kMaxSplit);
                    ASSERT_TRUE(check_post(cursor, 0, first).has_value());
                    ASSERT_TRUE(check_post(cursor, 1, second).has_value());
                    if (!at_top_of_open_tree(cursor)) {
                        EXPECT_FALSE(check_post(cursor, 0, second).has_value());
                    }
                    ASSERT_TRUE(descend(cursor, first, second).has_value());
                    ++rounds;
                }
                EXPECT_EQ(cursor.index, at);
                EXPECT_EQ(cursor.nodes[0], ours[at]);
                EXPECT_EQ(cursor.nodes[1], theirs[at]);
                EXPECT_LE(rounds, 3U);
            }
        }
    }
}

TEST(TreeCursor, WrongPostsAreNamed) {
    const auto leaves = make_leaves(300);
    auto other = leaves;
    other[299].data[5] = 1;
    TreeCursor cursor = sealed_cursor(MerkleTag::state, 300, crypto::list_id_of(MerkleTag::state, leaves),
                                      crypto::list_id_of(MerkleTag::state, other));
    auto post = post_of(cursor, leaves);
    EXPECT_EQ(descend(cursor, post, post).error().name, "dispute.no_difference");
    std::swap(post[0], post[1]);
    EXPECT_EQ(check_post(cursor, 0, post).error().name, "dispute.does_not_fold");
    post.pop_back();
    EXPECT_EQ(check_post(cursor, 0, post).error().name, "dispute.wrong_node_count");
    EXPECT_EQ(check_post(cursor, 0, {}).error().name, "dispute.wrong_node_count");
    // The same leaves of another tree are another root.
    for (const MerkleTag tag : {MerkleTag::history, MerkleTag::bytes}) {
        TreeCursor tagged = cursor;
        tagged.tag = static_cast<std::uint8_t>(tag);
        EXPECT_EQ(check_post(tagged, 0, post_of(cursor, leaves)).error().name, "dispute.does_not_fold");
    }
}

TEST(TreeCursor, AnchorsAreLeavesOfThePostedTree) {
    for (const std::uint64_t count : {1ULL, 100ULL, 128ULL, 129ULL, 700ULL}) {
        const auto leaves = make_leaves(count);
        const TreeCursor cursor = open_cursor(MerkleTag::trace, count);
        const auto post = post_of(cursor, leaves);
        const bool holds_leaves = post_range(cursor).level == 0;
        for (const std::uint64_t at : {std::uint64_t{0}, count / 2, count - 1}) {
            const auto path = holds_leaves ? std::vector<Hash32>{} : crypto::merkle_path(leaves, at);
            EXPECT_TRUE(check_anchor(cursor, post, leaves[at], at, path).has_value());
            EXPECT_EQ(check_anchor(cursor, post, Hash32{}, at, path).error().name, "dispute.not_anchored");
            auto longer = path;
            longer.push_back({});
            EXPECT_EQ(check_anchor(cursor, post, leaves[at], at, longer).error().name, "dispute.bad_path");
        }
        EXPECT_EQ(check_anchor(cursor, post, leaves[0], count, {}).error().name, "dispute.not_anchored");
    }
}

TEST(TreeCursor, ContradictoryCursorsAreRefused) {
    const Hash32 one{{1}};
    const Hash32 two{{2}};
    TreeCursor cursor = sealed_cursor(MerkleTag::state, 300, one, two);
    EXPECT_TRUE(check_cursor(cursor).has_value());
    TreeCursor bad = cursor;
    bad.level = 60;
    EXPECT_FALSE(check_cursor(bad).has_value());
    bad = cursor;
    bad.index = 1;
    EXPECT_FALSE(check_cursor(bad).has_value());
    bad = cursor;
    bad.level = 3;
    EXPECT_FALSE(check_cursor(bad).has_value());
    bad = cursor;
    bad.nodes.pop_back();
    EXPECT_FALSE(check_cursor(bad).has_value());
    bad = cursor;
    bad.nodes.clear();
    EXPECT_FALSE(check_cursor(bad).has_value());
    bad = cursor;
    bad.leaf_count = 0;
    EXPECT_FALSE(check_cursor(bad).has_value());
}

}  // namespace
}  // namespace quern::compute::core
