#include "node/chain/build_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace quern::node {
namespace {

constexpr std::uint64_t kTargetMs = 200;
constexpr std::uint64_t kTransfer = 21'000;

// A network in which a block of `count` transfers takes this long.
struct World {
    double fill_us = 10;   // a transfer
    double seal_us = 15;   // a transfer
    double others_us = 0;  // a transfer: sent, executed by others, committed
    double fixed_ms = 5;

    // Builds one block from a pool that never ends; the number of its transfers.
    std::size_t step(BuildBudget& budget, double* took = nullptr) const {
        std::size_t count = 0;
        while (!budget.is_reached(static_cast<double>(count) * fill_us, count * kTransfer) && count < 100'000) ++count;
        const double sealing = static_cast<double>(count) * seal_us;
        const double ms = fixed_ms + (static_cast<double>(count) * (fill_us + others_us) + sealing) / 1000;
        if (took != nullptr) *took = ms;
        if (budget.built(sealing, count * kTransfer, true)) budget.became_final(ms, count * kTransfer, true);
        return count;
    }
};

TEST(BuildBudget, finds_the_size_at_which_blocks_become_final_in_time) {
    for (const double others : {0.0, 20.0, 100.0, 150.0}) {
        BuildBudget budget(kTargetMs);
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

TEST(BuildBudget, no_block_is_late_before_it_knows_the_network) {
    BuildBudget budget(kTargetMs);
    const World slow{20, 30, 120, 10};
    for (int i = 0; i < 20; ++i) {
        double took = 0;
        (void)slow.step(budget, &took);
        EXPECT_LE(took, 1.2 * kTargetMs) << i;
    }
}

TEST(BuildBudget, finds_the_size_of_a_fast_network_within_four_blocks) {
    BuildBudget budget(kTargetMs);
    const World fast{5, 5, 5, 5};
    for (int i = 0; i < 3; ++i) (void)fast.step(budget);
    EXPECT_GE(fast.step(budget), 5'000U);
}

TEST(BuildBudget, time_bounds_what_gas_does_not) {
    BuildBudget budget(kTargetMs);
    const World heavy{1'000, 0, 0, 5};  // a millisecond for 21,000 gas
    const auto most = static_cast<std::size_t>(kBuildPart * kTargetMs);
    EXPECT_EQ(heavy.step(budget), kTargetMs) << "fewer than are never cut short for anything but this";
    EXPECT_TRUE(budget.is_reached(kTargetMs * 1000, 1));
    EXPECT_FALSE(budget.is_reached(kTargetMs * 1000, 0)) << "at least one transaction";
    EXPECT_TRUE(budget.is_reached(static_cast<double>(most) * 1000, kLeastBuiltGas));
    EXPECT_FALSE(budget.is_reached(static_cast<double>(most) * 999, kLeastBuiltGas - 1));
}

TEST(BuildBudget, counts_what_follows_after_a_block_is_filled) {
    BuildBudget budget(kTargetMs);
    EXPECT_FALSE(budget.is_reached(1'000, kLeastBuiltGas));
    ASSERT_TRUE(budget.built(kBuildPart * kTargetMs * 1000, kLeastBuiltGas, true));
    EXPECT_TRUE(budget.is_reached(1'000, kLeastBuiltGas));
}

TEST(BuildBudget, a_large_block_that_is_lost_halves_the_next) {
    BuildBudget budget(kTargetMs);
    budget.became_final(1, kFirstBuiltGas, true);
    budget.became_final(1, kFirstBuiltGas, true);
    ASSERT_EQ(budget.gas(), 4 * kFirstBuiltGas);
    budget.lost();
    EXPECT_EQ(budget.gas(), 2 * kFirstBuiltGas);
    for (int i = 0; i < 100; ++i) budget.lost();
    EXPECT_EQ(budget.gas(), kLeastBuiltGas);
    EXPECT_FALSE(budget.is_reached(0, 0)) << "a block is never empty for want of time";
}

TEST(BuildBudget, a_late_block_cuts_the_next_in_proportion_to_what_it_held) {
    BuildBudget budget(kTargetMs);
    for (int i = 0; i < 4; ++i) budget.became_final(1, budget.gas(), true);
    budget.became_final(1.25 * kTargetMs, 100'000'000, true);
    EXPECT_EQ(budget.gas(), 80'000'000U);
    budget.became_final(10 * kTargetMs, 80'000'000, false);
    EXPECT_EQ(budget.gas(), 40'000'000U) << "and by half at most";
}

TEST(BuildBudget, does_not_shrink_to_nothing_where_even_empty_blocks_are_late) {
    BuildBudget budget(kTargetMs);
    const World overloaded{30, 45, 0, 500};  // half a second for a block without transactions
    std::size_t count = 0;
    for (int i = 0; i < 50; ++i) count = overloaded.step(budget);
    EXPECT_GE(count, 300U);
}

TEST(BuildBudget, finds_its_way_back_within_five_blocks_of_its_own) {
    BuildBudget budget(kTargetMs);
    for (int i = 0; i < 10; ++i) budget.lost();
    ASSERT_EQ(budget.gas(), kLeastBuiltGas);
    const World world{10, 15, 0, 5};
    for (int i = 0; i < 5; ++i) (void)world.step(budget);
    EXPECT_GT(budget.gas(), 4 * kFirstBuiltGas);
}

TEST(BuildBudget, learns_from_the_blocks_of_others_that_it_may_build_larger_ones_and_never_smaller_ones) {
    BuildBudget budget(kTargetMs);
    EXPECT_FALSE(budget.is_as_large(kFirstBuiltGas - 1));
    EXPECT_TRUE(budget.is_as_large(kFirstBuiltGas));
    constexpr std::uint64_t kLarge = 100'000'000;
    for (int i = 0; i < 10; ++i) budget.other_became_final(10 * kTargetMs, kLarge);
    budget.other_became_final(kWellInTime * kTargetMs, kLarge);
    EXPECT_EQ(budget.gas(), kFirstBuiltGas);
    budget.other_became_final(0.7 * kTargetMs, kLarge);
    EXPECT_EQ(budget.gas(), static_cast<std::uint64_t>(kBuildGrowth * kFirstBuiltGas));
    // To a quarter more than it held itself.
    for (int i = 0; i < 100; ++i) budget.other_became_final(1, kLarge);
    EXPECT_EQ(budget.gas(), 125'000'000U);
    budget.other_became_final(10 * kTargetMs, kLarge);
    budget.other_became_final(1, kFirstBuiltGas);
    EXPECT_EQ(budget.gas(), 125'000'000U);
}

TEST(BuildBudget, five_hundred_transfers_are_too_many_only_when_filling_alone_takes_the_whole_time) {
    BuildBudget budget(kTargetMs);
    for (int i = 0; i < 10; ++i) budget.lost();
    EXPECT_FALSE(budget.is_reached(kTargetMs * 1000 - 1, 499 * kTransfer));
    EXPECT_TRUE(budget.is_reached(kTargetMs * 1000, 499 * kTransfer));
    EXPECT_TRUE(budget.is_reached(0, 500 * kTransfer));
}

TEST(BuildBudget, small_blocks_say_nothing_about_size) {
    BuildBudget budget(kTargetMs);
    EXPECT_FALSE(budget.built(1'000, kTransfer, false));
    EXPECT_TRUE(budget.built(1'000, kFirstBuiltGas / 2, false));
    EXPECT_TRUE(budget.built(1'000, kTransfer, true));
    // One in time that held all that waited is no reason to grow.
    budget.became_final(20, kFirstBuiltGas, false);
    EXPECT_EQ(budget.gas(), kFirstBuiltGas);
}

}  // namespace
}  // namespace quern::node
