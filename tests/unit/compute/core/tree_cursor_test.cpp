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
                    if (!cursor.nodes.empty()) {
                        EXPECT_FALSE(check_post(cursor, 0, second).has_value());
                    }
                    const auto pick = first_difference(first, second);
                    ASSERT_TRUE(pick);
                    const auto tops = check_pick(cursor, *pick);
                    ASSERT_TRUE(tops) << tops.error().to_string();
                    EXPECT_EQ(tops->defender, post_top(cursor, first));
                    EXPECT_EQ(tops->rival, post_top(cursor, second));
                    descend(cursor, *pick);
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
    EXPECT_FALSE(first_difference(post, post));
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

TEST(TreeCursor, APickIsTheFirstDifferenceOrRefused) {
    // The last descendants, of an odd number, have fewer siblings.
    for (const std::uint64_t count : {2ULL, 3ULL, 7ULL, 100ULL, 128ULL, 129ULL, 300ULL}) {
        const auto ours = make_leaves(count);
        auto theirs = ours;
        for (std::uint64_t i = count / 2; i < count; ++i) theirs[i].data[31] = 9;
        const TreeCursor cursor = sealed_cursor(MerkleTag::state, count, crypto::list_id_of(MerkleTag::state, ours),
                                                crypto::list_id_of(MerkleTag::state, theirs));
        const auto first = post_of(cursor, ours);
        const auto second = post_of(cursor, theirs);
        const auto good = first_difference(first, second);
        ASSERT_TRUE(good);
        for (std::uint64_t at = 0; at < first.size(); ++at) {
            const Pick pick{
                at, {first[at], second[at]}, crypto::merkle_path(first, at), crypto::merkle_path(second, at)};
            const auto checked = check_pick(cursor, pick);
            if (at == good->position)
                EXPECT_TRUE(checked);
            else
                EXPECT_EQ(checked.error().name, at < good->position ? "dispute.no_difference" : "dispute.not_first")
                    << at << " of " << first.size();
        }
        const auto refused = [&](auto change) {
            Pick pick = *good;
            change(pick);
            const auto checked = check_pick(cursor, pick);
            return checked ? std::string_view("accepted") : checked.error().name;
        };
        EXPECT_EQ(refused([&](Pick& pick) { pick.position = first.size(); }), "dispute.bad_pick");
        EXPECT_EQ(refused([](Pick& pick) { pick.nodes.pop_back(); }), "dispute.bad_pick");
        EXPECT_EQ(refused([](Pick& pick) { pick.nodes.emplace_back(); }), "dispute.bad_pick");
        EXPECT_EQ(refused([](Pick& pick) { pick = {}; }), "dispute.bad_pick");
        EXPECT_EQ(refused([](Pick& pick) { std::swap(pick.nodes[0], pick.nodes[1]); }), "dispute.does_not_fold");
        EXPECT_EQ(refused([](Pick& pick) { pick.nodes[0] = Hash32{{1}}; }), "dispute.does_not_fold");
        EXPECT_EQ(refused([](Pick& pick) { pick.nodes[1] = Hash32{{1}}; }), "dispute.does_not_fold");
        EXPECT_EQ(refused([](Pick& pick) { pick.defender_path.pop_back(); }), "dispute.bad_path");
        EXPECT_EQ(refused([](Pick& pick) { pick.rival_path.emplace_back(); }), "dispute.bad_path");
    }
}

TEST(TreeCursor, AnOpenTreesPickDefinesTheRivalsTop) {
    const auto ours = make_leaves(200);
    auto theirs = ours;
    theirs[150].data[31] = 9;
    TreeCursor cursor = open_cursor(MerkleTag::trace, 200);
    const auto first = post_of(cursor, ours);
    const auto second = post_of(cursor, theirs);
    cursor.nodes = {post_top(cursor, first)};
    ASSERT_TRUE(check_cursor(cursor));
    ASSERT_TRUE(at_top(cursor));
    EXPECT_EQ(check_post(cursor, 0, second).error().name, "dispute.does_not_fold");
    EXPECT_TRUE(check_post(cursor, 1, second));
    const Pick pick = *first_difference(first, second);
    EXPECT_EQ(check_pick(cursor, pick)->rival, crypto::merkle_top(theirs));
    EXPECT_EQ(check_pick(cursor, *first_difference(second, first)).error().name, "dispute.does_not_fold");
    descend(cursor, pick);
    EXPECT_FALSE(at_top(cursor));
}

TEST(TreeCursor, AnchorsAreLeavesUnderTheTop) {
    for (const std::uint64_t count : {1ULL, 100ULL, 128ULL, 129ULL, 700ULL}) {
        const auto leaves = make_leaves(count);
        const TreeCursor cursor = open_cursor(MerkleTag::trace, count);
        const Hash32 top = crypto::merkle_top(leaves);
        for (const std::uint64_t at : {std::uint64_t{0}, count / 2, count - 1}) {
            const auto path = crypto::merkle_path(leaves, at);
            EXPECT_TRUE(check_anchor(cursor, top, leaves[at], at, path).has_value());
            EXPECT_EQ(check_anchor(cursor, top, Hash32{}, at, path).error().name, "dispute.not_anchored");
            auto longer = path;
            longer.push_back({});
            EXPECT_EQ(check_anchor(cursor, top, leaves[at], at, longer).error().name, "dispute.bad_path");
        }
        EXPECT_EQ(check_anchor(cursor, top, leaves[0], count, {}).error().name, "dispute.bad_path");
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
