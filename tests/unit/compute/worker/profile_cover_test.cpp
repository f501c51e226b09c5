// A verifier bond that several profiles count on.
#include "compute/worker/profile_cover.h"

#include <gtest/gtest.h>

namespace quern::compute::worker {
namespace {

using chain::types::Task;
using chain::types::TaskClaim;

class ProfileCoverTest : public ::testing::Test {
protected:
    ProfileCoverTest() {
        market_.dispute_cost = 1;
        market_.verifier_bond_gammas = 100;  // what a commitment locks
    }
    void add(std::uint64_t id, std::uint64_t pays = 1) {
        TaskClaim live;
        live.task.id = id;
        live.task.spec.money.price_cap = pays;
        tasks_[id] = std::make_shared<const TaskClaim>(std::move(live));
    }
    void update(const Uint256& free_part) {
        cover_.update(
            market_, tasks_, free_part, [](const Task&) { return true; },
            [&](const Task& task) { return task.spec.money.price_cap >= price_; });
    }

    chain::params::MarketParams market_;
    LiveTasks::Tasks tasks_;
    Uint256 price_ = 1;
    ProfileCover cover_;
};

TEST_F(ProfileCoverTest, no_more_are_begun_than_can_be_committed_to) {
    for (std::uint64_t id = 1; id <= 100; ++id) add(id);
    update(99);
    EXPECT_FALSE(cover_.covers(1));
    update(250);
    EXPECT_TRUE(cover_.covers(1));
    EXPECT_TRUE(cover_.covers(2));
    for (std::uint64_t id = 3; id <= 100; ++id) EXPECT_FALSE(cover_.covers(id)) << id;
}

TEST_F(ProfileCoverTest, what_was_begun_is_not_given_up_for_what_comes_later) {
    add(5);
    update(100);
    EXPECT_TRUE(cover_.covers(5));
    add(1);
    add(9);
    update(100);
    EXPECT_TRUE(cover_.covers(5));
    EXPECT_FALSE(cover_.covers(1));
    // Nor when something else has taken the bond, or it pays too little now.
    price_ = 2;
    update(0);
    EXPECT_TRUE(cover_.covers(5));
    tasks_.erase(5);
    update(100);
    EXPECT_FALSE(cover_.covers(5));
    EXPECT_FALSE(cover_.covers(1));
}

TEST_F(ProfileCoverTest, what_pays_too_little_takes_nothing_of_the_bond) {
    price_ = 2;
    for (std::uint64_t id = 1; id <= 50; ++id) add(id);
    add(60, 2);
    update(100);
    EXPECT_FALSE(cover_.covers(1));
    EXPECT_TRUE(cover_.covers(60));
}

}  // namespace
}  // namespace quern::compute::worker
