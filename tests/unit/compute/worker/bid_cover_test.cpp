// A bond that several bids count on.
#include "compute/worker/bid_cover.h"

#include <gtest/gtest.h>

namespace quern::compute::worker {
namespace {

using chain::types::Address;
using chain::types::TaskClaim;
using chain::types::TaskState;

class BidCoverTest : public ::testing::Test {
protected:
    BidCoverTest() {
        market_.dispute_cost = 1;
        market_.solver_bond_gammas = 100;  // what a seat locks
        me_.data[0] = 1;
        other_.data[0] = 2;
    }
    TaskClaim& task(std::uint64_t id) {
        auto& live = tasks_[id];
        live.task.id = id;
        live.task.steps = 1;
        live.task.spec.windows.bid_s = 10;
        return live;
    }
    void bid(std::uint64_t id, const Address& who) {
        chain::types::TaskBid placed;
        placed.bidder = who;
        placed.deposit = 10;
        task(id).task.bids.push_back(placed);
    }
    void update(const Uint256& free_part, std::uint64_t market_ms = 0) {
        LiveTasks::Tasks told;
        for (const auto& [id, live] : tasks_) told[id] = std::make_shared<const TaskClaim>(live);
        cover().update(told, me_, free_part, market_ms);
    }
    BidCover& cover() {
        if (!cover_) cover_.emplace(market_);
        return *cover_;
    }
    bool covers(std::uint64_t id) { return cover().covers(task(id).task); }

    chain::params::MarketParams market_;
    Address me_;
    Address other_;
    std::map<std::uint64_t, TaskClaim> tasks_;
    std::optional<BidCover> cover_;
};

TEST_F(BidCoverTest, a_bid_needs_the_whole_of_its_seats_lock) {
    task(1);
    update(99);
    EXPECT_FALSE(covers(1));
    update(100);
    EXPECT_TRUE(covers(1));
}

TEST_F(BidCoverTest, what_other_bids_may_still_lock_is_not_there_for_this_one) {
    bid(1, me_);
    bid(2, other_);
    task(3);
    update(189);
    EXPECT_FALSE(covers(3)) << "ninety for the one, when it wins";
    update(190);
    EXPECT_TRUE(covers(3)) << "the others' are not this worker's trouble";
    task(1).task.state = TaskState::assigned;  // to somebody else, and its turn may come
    update(189);
    EXPECT_FALSE(covers(3));
    task(1).task.bids.clear();  // begun
    update(100);
    EXPECT_TRUE(covers(3));
}

TEST_F(BidCoverTest, a_bid_on_its_way_counts_until_bidding_is_over) {
    task(1);
    task(2);
    update(199);
    ASSERT_TRUE(covers(1));
    cover().add(task(1).task);
    EXPECT_FALSE(covers(2)) << "both would be sent with the same block";
    EXPECT_TRUE(covers(1)) << "it does not stand in its own way";
    update(199, 9'999);
    EXPECT_FALSE(covers(2));
    update(199, 10'000);
    EXPECT_TRUE(covers(2)) << "it has not come in";
}

TEST_F(BidCoverTest, a_bid_that_has_come_in_counts_as_it_is) {
    task(1);
    task(2);
    update(200);
    cover().add(task(1).task);
    bid(1, me_);
    update(190, 10'000);
    EXPECT_TRUE(covers(2));
    update(189, 10'000);
    EXPECT_FALSE(covers(2));
}

}  // namespace
}  // namespace quern::compute::worker
