#include "node/chain/build_budget.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace quern::node {
namespace {

constexpr std::uint64_t kTargetMs = 200;
constexpr std::size_t kBytes = 8'000'000;

// A network in which a block of `count` transfers takes this long.
struct World {
    double fill_us = 10;   // a transfer
    double seal_us = 15;   // a transfer
    double others_us = 0;  // a transfer: sent, executed by others, committed
    double fixed_ms = 5;

    // Builds one block from a pool that never ends; the number of its transfers.
    std::size_t step(BuildBudget& budget, double* took = nullptr) const {
        std::size_t count = 0;
        while (!budget.is_reached(static_cast<double>(count) * fill_us, count * 21'000) && count < 100'000) count += 8;
        const double filling = static_cast<double>(count) * fill_us;
        const double sealing = static_cast<double>(count) * seal_us;
        const double ms = fixed_ms + (filling + sealing + static_cast<double>(count) * others_us) / 1000;
        if (took != nullptr) *took = ms;
        if (budget.built(filling, sealing, count * 21'000, true)) budget.became_final(ms, true);
        return count;
    }
};

TEST(BuildBudget, finds_the_size_at_which_blocks_become_final_in_time) {
    for (const double others : {0.0, 20.0, 100.0, 150.0}) {
        BuildBudget budget(kTargetMs, kBytes);
        const World world{10, 15, others, 5};
        for (int i = 0; i < 50; ++i) (void)world.step(budget);
        double worst = 0;
        std::size_t least = SIZE_MAX;
        for (int i = 0; i < 200; ++i) {
            double took = 0;
            least = std::min(least, world.step(budget, &took));
            worst = std::max(worst, took);
        }
        EXPECT_LE(worst, 1.15 * kTargetMs) << others;
        // And not smaller than need be: half of what the time allows at most, whether build or others take it.
        const double fits = std::min(kBuildPart * kTargetMs * 1000 / 25, 195'000 / (25 + others));
        EXPECT_GE(static_cast<double>(least), 0.5 * fits) << others;
    }
}

TEST(BuildBudget, counts_what_follows_after_a_block_is_filled) {
    BuildBudget budget(kTargetMs, kBytes);
    const World world{10, 90, 0, 5};
    (void)world.step(budget);  // has to learn it first
    const double share = budget.share();
    const std::size_t count = world.step(budget);
    EXPECT_NEAR(static_cast<double>(count), kBuildPart * kTargetMs * 1000 / 100 * share, 50.0);
}

TEST(BuildBudget, a_large_block_that_is_lost_halves_the_next_and_bytes_go_with_it) {
    BuildBudget budget(kTargetMs, kBytes);
    EXPECT_EQ(budget.bytes(), kBytes);
    ASSERT_TRUE(budget.built(10'000, 10'000, 21'000'000, true));
    budget.lost();
    EXPECT_EQ(budget.share(), 0.5);
    EXPECT_EQ(budget.bytes(), kBytes / 2);
    for (int i = 0; i < 100; ++i) budget.lost();
    EXPECT_EQ(budget.share(), kLeastBuildShare);
    EXPECT_FALSE(budget.is_reached(0, 0)) << "a block is never empty for want of time";
}

TEST(BuildBudget, recovers_when_the_network_does) {
    BuildBudget budget(kTargetMs, kBytes);
    for (int i = 0; i < 10; ++i) budget.lost();
    const World world{10, 15, 0, 5};
    for (int i = 0; i < 60; ++i) (void)world.step(budget);
    EXPECT_GT(budget.share(), 0.8);
}

TEST(BuildBudget, does_not_shrink_to_nothing_where_even_empty_blocks_are_late) {
    BuildBudget budget(kTargetMs, kBytes);
    const World overloaded{30, 45, 0, 500};  // half a second for a block without transactions
    std::size_t count = 0;
    for (int i = 0; i < 50; ++i) count = overloaded.step(budget);
    EXPECT_GE(count, 300U);
}

TEST(BuildBudget, finds_its_way_back_within_five_blocks_of_its_own) {
    BuildBudget budget(kTargetMs, kBytes);
    for (int i = 0; i < 10; ++i) budget.lost();
    ASSERT_EQ(budget.share(), kLeastBuildShare);
    const World world{10, 15, 0, 5};
    for (int i = 0; i < 5; ++i) (void)world.step(budget);
    EXPECT_GT(budget.share(), 1.0);
}

TEST(BuildBudget, learns_from_the_blocks_of_others_that_it_may_build_larger_ones_and_never_smaller_ones) {
    BuildBudget budget(kTargetMs, kBytes);
    for (int i = 0; i < 10; ++i) budget.lost();
    ASSERT_EQ(budget.share(), kLeastBuildShare);
    const double work_us = kLeastBuildShare * kBuildPart * kTargetMs * 1000;
    EXPECT_FALSE(budget.is_as_large(work_us - 1));
    EXPECT_TRUE(budget.is_as_large(work_us));
    for (int i = 0; i < 10; ++i) budget.other_became_final(10 * kTargetMs);
    budget.other_became_final(kWellInTime * kTargetMs);
    EXPECT_EQ(budget.share(), kLeastBuildShare);
    budget.other_became_final(0.7 * kTargetMs);
    EXPECT_EQ(budget.share(), kLeastBuildShare * kBuildShareGrowth);
    for (int i = 0; i < 10; ++i) budget.other_became_final(1);
    EXPECT_EQ(budget.share(), kMostBuildShare);
    budget.other_became_final(10 * kTargetMs);
    EXPECT_EQ(budget.share(), kMostBuildShare);
}

TEST(BuildBudget, five_hundred_transfers_are_never_too_many) {
    BuildBudget budget(kTargetMs, kBytes);
    for (int i = 0; i < 10; ++i) budget.lost();
    EXPECT_FALSE(budget.is_reached(1'000'000, 499 * 21'000));
    EXPECT_TRUE(budget.is_reached(1'000'000, 500 * 21'000));
}

TEST(BuildBudget, small_blocks_say_nothing_about_size) {
    BuildBudget budget(kTargetMs, kBytes);
    EXPECT_FALSE(budget.built(1'000, 1'000, 21'000, false));
    EXPECT_TRUE(budget.built(30'000, 30'000, 21'000, false));
    EXPECT_TRUE(budget.built(1'000, 1'000, 21'000, true));
    // One in time that held all that waited is no reason to grow.
    budget.lost();
    budget.became_final(20, false);
    EXPECT_EQ(budget.share(), 0.5);
}

}  // namespace
}  // namespace quern::node
