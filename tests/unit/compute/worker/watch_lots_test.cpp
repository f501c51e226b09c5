#include "compute/worker/watch_lots.h"

#include <gtest/gtest.h>

namespace quern::compute::worker {
namespace {

using chain::types::TaskClaim;

TaskClaim claim(std::uint64_t task, std::uint32_t stretch = 0, std::uint32_t round = 0) {
    TaskClaim live;
    live.task.id = task;
    live.claim.id.task = task;
    live.claim.id.stretch = stretch;
    live.claim.id.round = round;
    return live;
}

std::size_t watched(WatchLots& lots, Rng& rng, std::uint64_t claims) {
    std::size_t count = 0;
    for (std::uint64_t task = 1; task <= claims; ++task) count += lots.watches(claim(task), rng) ? 1 : 0;
    return count;
}

TEST(WatchLots, watches_everything_while_half_of_the_bonds_is_its_own) {
    SeededRng rng(1);
    WatchLots lots;
    lots.set_bonds(100, 200);
    EXPECT_EQ(watched(lots, rng, 1'000), 1'000U);
}

TEST(WatchLots, watches_its_part_where_others_do) {
    SeededRng rng(2);
    WatchLots lots;
    lots.set_bonds(100, 2'000);  // two watchers of twenty
    const std::size_t count = watched(lots, rng, 10'000);
    EXPECT_GT(count, 850U);
    EXPECT_LT(count, 1'150U);
}

TEST(WatchLots, watches_nothing_without_a_bond_and_everything_where_bonds_are_not_told) {
    SeededRng rng(3);
    WatchLots lots;
    EXPECT_EQ(watched(lots, rng, 100), 0U);
    lots.set_bonds(100, 100);
    EXPECT_EQ(watched(lots, rng, 100), 100U) << "nothing was drawn while there was no bond";
    WatchLots untold;
    untold.set_bonds(100, 0);
    EXPECT_EQ(watched(untold, rng, 100), 100U);
}

TEST(WatchLots, draws_once_for_each_claim) {
    SeededRng rng(4);
    WatchLots lots;
    lots.set_bonds(100, 800);
    std::vector<bool> first;
    for (std::uint64_t task = 1; task <= 200; ++task) first.push_back(lots.watches(claim(task), rng));
    lots.set_bonds(100, 100);
    for (std::uint64_t task = 1; task <= 200; ++task) EXPECT_EQ(lots.watches(claim(task), rng), first[task - 1]);
    // Another stretch or round is another claim.
    for (std::uint64_t task = 1; task <= 200; ++task) {
        EXPECT_TRUE(lots.watches(claim(task, 1), rng));
        EXPECT_TRUE(lots.watches(claim(task, 0, 1), rng));
    }
}

TEST(WatchLots, forgets_claims_that_are_gone) {
    SeededRng rng(5);
    WatchLots lots;
    lots.set_bonds(1, 1'000'000);
    EXPECT_EQ(watched(lots, rng, 20), 0U);
    lots.keep({{7, 0}});
    lots.set_bonds(1, 1);
    EXPECT_EQ(watched(lots, rng, 20), 19U);
}

}  // namespace
}  // namespace quern::compute::worker
