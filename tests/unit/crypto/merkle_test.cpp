#include "crypto/merkle.h"

#include <gtest/gtest.h>

#include "crypto/hash.h"
#include "crypto/merkle_range.h"

namespace quern::crypto {
namespace {

std::vector<Hash32> make_leaves(std::size_t count) {
    std::vector<Hash32> leaves;
    for (std::size_t i = 0; i < count; ++i) leaves.push_back(merkle_leaf(as_bytes(std::to_string(i))));
    return leaves;
}

TEST(Merkle, nodes_follow_the_written_grammar) {
    const auto leaves = make_leaves(3);
    EXPECT_EQ(leaves[0], sha256(Bytes{'0', 0x00}));
    const Hash32 pair = sha256({leaves[0], leaves[1], Bytes{0x01}});
    EXPECT_EQ(merkle_inner(leaves[0], leaves[1]), pair);
    const Hash32 top = sha256({pair, leaves[2], Bytes{0x01}});
    EXPECT_EQ(merkle_top(leaves), top);
    EXPECT_EQ(list_id_of(MerkleTag::history, leaves), sha256({Bytes{0, 0, 0, 0, 0, 0, 0, 3}, top, Bytes{0x05}}));
    EXPECT_EQ(bytes_id(0x010203, top), sha256({Bytes{0, 0, 0, 0, 0, 1, 2, 3}, top, Bytes{0x02}}));
    EXPECT_TRUE(merkle_top({}).is_zero());
    EXPECT_EQ(merkle_top(make_leaves(1)), leaves[0]);
}

TEST(Merkle, every_leaf_of_every_size_has_a_proof_that_proves_nothing_else) {
    for (std::size_t count = 1; count <= 33; ++count) {
        const auto leaves = make_leaves(count);
        const Hash32 root = list_id_of(MerkleTag::state, leaves);
        for (std::uint64_t i = 0; i < count; ++i) {
            auto path = merkle_path(leaves, i);
            ASSERT_TRUE(check_list_path(MerkleTag::state, root, leaves[i], i, count, path).has_value());
            EXPECT_FALSE(check_list_path(MerkleTag::trace, root, leaves[i], i, count, path).has_value());
            EXPECT_FALSE(check_list_path(MerkleTag::state, root, leaves[i], i, count + 1, path).has_value());
            EXPECT_FALSE(check_list_path(MerkleTag::state, root, merkle_leaf({}), i, count, path).has_value());
            if (count > 1) {
                EXPECT_FALSE(
                    check_list_path(MerkleTag::state, root, leaves[i], (i + 1) % count, count, path).has_value());
                auto damaged = path;
                damaged[0].data[7] ^= 1;
                EXPECT_EQ(check_list_path(MerkleTag::state, root, leaves[i], i, count, damaged).error().name,
                          "merkle.proof_mismatch");
                damaged = path;
                damaged.pop_back();
                EXPECT_EQ(check_list_path(MerkleTag::state, root, leaves[i], i, count, damaged).error().name,
                          "merkle.wrong_path_length");
            }
            path.push_back(root);
            EXPECT_EQ(check_list_path(MerkleTag::state, root, leaves[i], i, count, path).error().name,
                      "merkle.wrong_path_length");
        }
        EXPECT_EQ(merkle_top_from_path(leaves[0], count, count, {}).error().name, "merkle.index_out_of_range");
    }
}

TEST(Merkle, levels_have_the_stated_widths_and_fold_to_their_parents) {
    for (std::uint64_t count = 1; count <= 40; ++count) {
        const auto leaves = make_leaves(count);
        const unsigned height = merkle_height(count);
        for (unsigned level = 0; level <= height; ++level) {
            const auto nodes = merkle_level(leaves, level);
            ASSERT_EQ(nodes.size(), merkle_level_width(count, level));
            for (unsigned up = 0; level + up <= height; ++up) {
                const auto parents = merkle_level(leaves, level + up);
                for (std::size_t i = 0; i < parents.size(); ++i) {
                    const std::size_t first = i << up;
                    const std::size_t last = std::min<std::size_t>(nodes.size(), (i + 1) << up);
                    const auto part = std::span(nodes).subspan(first, last - first);
                    ASSERT_EQ(merkle_fold(part, up), parents[i]) << count << " " << level << " " << up << " " << i;
                }
            }
        }
        EXPECT_EQ(merkle_level(leaves, height).size(), 1U);
    }
    EXPECT_TRUE(merkle_fold({}, 1).is_zero());
    EXPECT_TRUE(merkle_fold(make_leaves(3), 1).is_zero());
}

TEST(Merkle, neighbours_of_any_number_are_opened_together) {
    for (std::size_t count = 1; count <= 19; ++count) {
        const auto leaves = make_leaves(count);
        const Hash32 top = merkle_top(leaves);
        for (std::size_t first = 0; first < count; ++first) {
            EXPECT_EQ(merkle_range_siblings(leaves, first, 1), merkle_path(leaves, first));
            for (std::size_t length = 1; length <= count - first; ++length) {
                std::vector<Hash32> range(leaves.begin() + static_cast<std::ptrdiff_t>(first),
                                          leaves.begin() + static_cast<std::ptrdiff_t>(first + length));
                auto siblings = merkle_range_siblings(leaves, first, length);
                EXPECT_EQ(siblings.size(), merkle_range_sibling_count(first, length, count));
                EXPECT_EQ(merkle_top_from_range(range, first, count, siblings).value(), top)
                    << count << " " << first << " " << length;
                range.back().data[3] ^= 1;
                EXPECT_NE(merkle_top_from_range(range, first, count, siblings).value(), top);
                range.back().data[3] ^= 1;
                if (!siblings.empty()) {
                    siblings.back().data[3] ^= 1;
                    EXPECT_NE(merkle_top_from_range(range, first, count, siblings).value(), top);
                }
                siblings.push_back(top);
                EXPECT_EQ(merkle_top_from_range(range, first, count, siblings).error().name,
                          "merkle.wrong_path_length");
            }
        }
        EXPECT_EQ(merkle_top_from_range(leaves, 1, count, {}).error().name, "merkle.index_out_of_range");
        EXPECT_EQ(merkle_top_from_range({}, 0, count, {}).error().name, "merkle.index_out_of_range");
        EXPECT_EQ(merkle_top_from_range(leaves, ~std::uint64_t{0}, count, {}).error().name,
                  "merkle.index_out_of_range");
        EXPECT_EQ(merkle_range_sibling_count(0, count + 1, count), 0U);
    }
}

}  // namespace
}  // namespace quern::crypto
