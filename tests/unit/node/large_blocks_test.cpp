#include "node/chain/large_blocks.h"

#include <gtest/gtest.h>

namespace quern::node {
namespace {

constexpr std::uint64_t kTargetMs = 400;

Hash32 hash(std::uint8_t number) {
    Hash32 hash;
    hash.data[0] = number;
    return hash;
}

TEST(LargeBlocks, one_height_is_lost_once_however_many_views_had_a_block) {
    LargeBlocks blocks(kTargetMs);
    for (std::uint8_t height = 1; height < 4; ++height) {
        blocks.built(hash(height), {height, blocks.budget().gas(), 0}, 0, true);
        blocks.committed(height, hash(height), 1);
    }
    const std::uint64_t gas = blocks.budget().gas();
    ASSERT_EQ(gas, 8 * kFirstBuiltGas);
    for (std::uint8_t view = 10; view < 15; ++view) blocks.built(hash(view), {4, gas, 0}, 0, true);
    blocks.built(hash(20), {5, gas, 0}, 0, true);
    blocks.committed(4, hash(99), 100);
    EXPECT_EQ(blocks.budget().gas(), gas / 2);
    blocks.committed(5, hash(98), 200);  // the one above waited on
    EXPECT_EQ(blocks.budget().gas(), gas / 4);
    blocks.committed(6, hash(97), 300);
    EXPECT_EQ(blocks.budget().gas(), gas / 4);
}

TEST(LargeBlocks, a_late_one_that_became_final_in_the_end_cuts_by_what_it_held) {
    LargeBlocks blocks(kTargetMs);
    blocks.built(hash(1), {1, 20'000'000, 1'000}, 0, true);
    blocks.committed(1, hash(1), 1'000 + kTargetMs * 5 / 4);
    EXPECT_EQ(blocks.budget().gas(), 16'000'000U);
}

TEST(LargeBlocks, those_of_others_count_when_they_became_final_after_somebody_was_asked_about_them) {
    LargeBlocks blocks(kTargetMs);
    blocks.committed(1, hash(1), 1);  // executed for its commit alone: nobody waited for that
    EXPECT_EQ(blocks.budget().gas(), kFirstBuiltGas);
    blocks.executed(hash(2), {2, kFirstBuiltGas, 10});
    blocks.executed(hash(3), {2, kFirstBuiltGas, 10});
    blocks.committed(2, hash(3), 11);
    EXPECT_GT(blocks.budget().gas(), kFirstBuiltGas);
    const std::uint64_t gas = blocks.budget().gas();
    blocks.committed(3, hash(2), 12);  // it is not there any more
    EXPECT_EQ(blocks.budget().gas(), gas);
    blocks.executed(hash(4), {4, gas, 10});
    blocks.committed(4, hash(5), 11);  // somebody else's loss
    EXPECT_EQ(blocks.budget().gas(), gas);
}

TEST(LargeBlocks, remembers_so_many_while_nothing_becomes_final) {
    LargeBlocks blocks(kTargetMs);
    for (std::uint8_t i = 0; i < 200; ++i) blocks.executed(hash(i), {1, kFirstBuiltGas, 0});
    blocks.built(hash(250), {1, kFirstBuiltGas, 0}, 0, true);  // others' left room
    blocks.committed(1, hash(199), 1);                         // beyond the limit: unknown
    EXPECT_EQ(blocks.budget().gas(), kLeastBuiltGas) << "its own is lost";
}

}  // namespace
}  // namespace quern::node
