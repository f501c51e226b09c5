// What is shown of a task's training: its states, its steps and what was paid.
#include "compute/client/progress.h"

#include <gtest/gtest.h>

#include <bit>

#include "chain/types/json_codec.h"

namespace quern::compute::client {
namespace {

namespace types = chain::types;

// A running task of 40 steps whose first of two stretches is settled, as the node tells of it.
class LookTest : public ::testing::Test {
protected:
    LookTest() {
        task_.id = 3;
        task_.submitter.data[0] = 1;
        task_.steps = 40;
        task_.spec.work.interval = 10;
        task_.spec.work.tranche = 20;
        task_.state = types::TaskState::running;
        task_.settled = 1;
        task_.escrow = Uint256(600);
        claim_.id.task = 3;
        claim_.id.stretch = 1;
        claim_.state = types::ClaimState::working;
        claim_.reason = "started";
        claim_.step = 30;
        claim_.loss = std::bit_cast<std::uint32_t>(2.0F);
        job_.escrow = Uint256(1'000);
    }
    [[nodiscard]] Look look() const {
        json::Value told = types::to_json(task_);
        told.set("stateName", "running");
        told.set("claim", types::to_json(claim_));
        told.set("nextClaim", json::Value());
        const auto read = read_look(told);
        EXPECT_TRUE(read) << read.error().to_string();
        return read.value_or(Look{});
    }
    types::Task task_;
    types::Claim claim_;
    Job job_;
};

TEST_F(LookTest, tells_a_change_once) {
    Follower follower(job_, 40);
    auto news = follower.take(look(), 1'000);
    ASSERT_EQ(news.size(), 2U);
    EXPECT_EQ(news[0].name, "state");
    EXPECT_EQ(news[0].data.dump(), R"({"task":3,"state":"working","reason":"started","round":0})");
    EXPECT_EQ(news[1].name, "progress");
    EXPECT_EQ(news[1].data.dump(), R"({"step":30,"steps":40,"loss":2.0,"etaS":null,"stretchesSettled":1,)"
                                   R"("stretches":2,"paid":"400"})");
    EXPECT_TRUE(follower.take(look(), 2'000).empty());
    claim_.step = 40;
    news = follower.take(look(), 3'000);
    ASSERT_EQ(news.size(), 1U);
    EXPECT_EQ(news[0].name, "progress");
    task_.round = 1;
    EXPECT_EQ(follower.take(look(), 4'000).front().name, "state") << "the same state in another round";
}

TEST_F(LookTest, counts_steps_of_settled_stretches_and_of_the_next_claim) {
    EXPECT_EQ(step_of(look()), 30U);
    claim_.state = types::ClaimState::voided;
    EXPECT_EQ(step_of(look()), 20U);
    Look two = look();
    two.claim.state = types::ClaimState::proved;
    two.next = two.claim;
    two.next->step = 37;
    EXPECT_EQ(step_of(two), 37U);
    task_.state = types::TaskState::settled;
    EXPECT_EQ(step_of(look()), 40U);
    task_.state = types::TaskState::open;
    EXPECT_EQ(step_of(look()), 20U);
    task_.settled = 0;
    EXPECT_EQ(step_of(look()), 0U);
}

TEST_F(LookTest, a_loss_of_a_stretch_without_a_checkpoint_is_none) {
    EXPECT_TRUE(loss_of(look()));
    claim_.step = 20;
    EXPECT_FALSE(loss_of(look()));
}

TEST_F(LookTest, what_comes_back_is_not_paid) {
    EXPECT_EQ(paid(look(), job_.escrow), Uint256(400));
    task_.payments = {{task_.submitter, Uint256(70), "refund"},
                      {task_.submitter, Uint256(5), "solver_reward"},
                      {types::Address{}, Uint256(9), "refund"}};
    claim_.payments = {{task_.submitter, Uint256(30), "refund"}};
    EXPECT_EQ(refunded(look()), Uint256(100));
    EXPECT_EQ(paid(look(), job_.escrow), Uint256(300));
    EXPECT_EQ(paid(look(), Uint256(10)), Uint256()) << "never below nothing";
}

TEST_F(LookTest, the_curve_has_what_was_before_the_first_look) {
    Follower follower(job_, 40);
    const PastCheckpoint past[] = {{10, std::bit_cast<std::uint32_t>(4.0F)}, {20, std::bit_cast<std::uint32_t>(3.0F)}};
    follower.recall(past);
    const auto news = follower.take(look(), 1'000);
    ASSERT_EQ(news.size(), 2U);
    EXPECT_NE(news[1].text.find("loss 2  █▅▁"), std::string::npos) << news[1].text;
}

TEST(CheckpointLogsTest, a_later_round_stands_for_what_it_did_again) {
    const auto log = [](std::uint64_t step, float loss) {
        Bytes data;
        append(data, Uint256(step).to_be32().view());
        append(data, Hash32{}.view());
        append(data, Uint256(std::bit_cast<std::uint32_t>(loss)).to_be32().view());
        return json::Value::object({{"data", to_hex0x(data)}});
    };
    const auto past =
        read_checkpoints(json::Value::array({log(10, 4.0F), log(20, 9.0F), log(30, 9.0F), log(20, 3.0F)}));
    ASSERT_TRUE(past) << past.error().to_string();
    ASSERT_EQ(past->size(), 2U);
    EXPECT_EQ((*past)[1].step, 20U);
    EXPECT_EQ(std::bit_cast<float>((*past)[1].loss), 3.0F);
    for (const json::Value& wrong :
         {json::Value(), json::Value::array({json::Value::object({{"data", "0x00"}})}), json::Value::array({1})}) {
        const auto none = read_checkpoints(wrong);
        ASSERT_FALSE(none);
        EXPECT_TRUE(none.error().is_busy());
    }
}

TEST_F(LookTest, nonsense_is_the_nodes_fault) {
    json::Value told = types::to_json(task_);
    told.erase("steps");
    const auto read = read_look(told);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().name, "train.bad_answer");
    EXPECT_TRUE(read.error().is_busy());
}

}  // namespace
}  // namespace quern::compute::client
