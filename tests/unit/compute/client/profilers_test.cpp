// What a submitter is told of those who find its task's limits.
#include "compute/client/profilers.h"

#include <gtest/gtest.h>

#include "compute/client/progress.h"
#include "compute/tolerance/limits.h"

namespace quern::compute::client {
namespace {

namespace types = chain::types;

const types::Address kSubmitter{{1}};

json::Value bond(std::uint8_t owner, std::uint64_t weight, std::uint64_t free) {
    return json::Value::object({{"address", to_hex0x(types::Address{{owner}})},
                                {"weight", Uint256(weight).to_hex_quantity()},
                                {"free", Uint256(free).to_hex_quantity()}});
}

TEST(AbleProfilersTest, counts_what_is_free_of_bonds_that_are_in_the_table) {
    const auto bonds = json::Value::array({bond(1, 100, 100),                                     // the submitter
                                           bond(2, 100, 100), bond(3, 50, 50), bond(4, 100, 49),  // locked
                                           bond(5, 0, 100),  // not in the table yet
                                           bond(6, 49, 100)});
    EXPECT_EQ(count_able(bonds, Uint256(50), kSubmitter).value_or(99), 2U);
    EXPECT_EQ(count_able(bonds, Uint256(51), kSubmitter).value_or(99), 1U);
    EXPECT_EQ(count_able(bonds, Uint256(50), types::Address{}).value_or(99), 3U);
    for (const json::Value& wrong :
         {json::Value(), json::Value::array({1}), json::Value::array({json::Value::object({})})})
        EXPECT_EQ(count_able(wrong, Uint256(1), kSubmitter).error().name, "train.bad_answer");
}

TEST(AbleProfilersTest, a_task_that_could_not_find_enough_is_refused) {
    types::ProfilingTerms terms{8, 9, 90};
    EXPECT_TRUE(check_able(terms, 5, Uint256(1)));
    const auto refused = check_able(terms, 4, Uint256(1));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().name, "train.too_few_profilers");
    EXPECT_NE(refused.error().detail.find("5 of 8 profilers must agree, and 4 verifiers"), std::string::npos)
        << refused.error().detail;
    terms.profilers = 3;
    EXPECT_TRUE(check_able(terms, 3, Uint256(1)));
    EXPECT_FALSE(check_able(terms, 2, Uint256(1))) << "never fewer than three";
    const Event told = able_event(terms, 7, Uint256(11), Uint256(5));
    EXPECT_EQ(told.data.dump(), R"({"able":7,"asked":3,"needed":3,"bond":"11"})");
    EXPECT_NE(told.text.find("first 9 segments within 1:30"), std::string::npos) << told.text;
}

class ProfiledTaskTest : public ::testing::Test {
protected:
    ProfiledTaskTest() {
        task_.id = 3;
        task_.state = types::TaskState::profiling;
        task_.reason = "submitted";
        task_.steps = 40;
        task_.spec.work.interval = 5;
        task_.spec.profiling = {4, 8, 60};
    }
    void draw() {
        for (std::uint8_t each = 1; each <= 4; ++each) task_.profiling.profilers.push_back({{{each}}, {}, {}, {}, {}});
        task_.reason = "profilers_drawn";
        task_.deadline = 60'000;
    }
    [[nodiscard]] std::vector<Event> take(std::uint64_t market_ms) {
        return follower_.take({task_, {}, {}, market_ms}, market_ms);
    }
    types::Task task_;
    Job job_;
    Follower follower_{job_, 40};
};

TEST_F(ProfiledTaskTest, tells_how_far_they_are_and_no_step) {
    auto news = take(0);
    ASSERT_EQ(news.size(), 2U);
    EXPECT_EQ(news[1].name, "profilers");
    EXPECT_EQ(news[1].text, "profiling: 4 verifiers are to be drawn");
    draw();
    news = take(3'000);
    ASSERT_EQ(news.size(), 1U);
    EXPECT_EQ(news[0].text, "profiling: 0 of 4 have measured, 3 must agree; 0:57 left");
    EXPECT_TRUE(take(4'000).empty()) << "time alone is no news";
    task_.profiling.profilers[2].commitment = Hash32{{1}};
    news = take(61'000);
    ASSERT_EQ(news.size(), 1U);
    EXPECT_EQ(news[0].data.dump(), R"({"task":3,"drawn":4,"committed":1,"shown":0,"needed":3,"leftS":0})");
    for (auto& each : task_.profiling.profilers) each.commitment = Hash32{{1}};
    task_.profiling.revealing = true;
    task_.profiling.profilers[0].replay = Hash32{{1}};
    news = take(1'000);
    ASSERT_EQ(news.size(), 1U);
    EXPECT_EQ(news[0].text, "profiling: 1 of 4 have shown what they measured, 3 must agree; 0:59 left");
}

TEST_F(ProfiledTaskTest, tells_once_what_they_have_found) {
    (void)take(0);
    task_.state = types::TaskState::open;
    task_.reason = "profiled";
    task_.profiling.limits = tolerance::encode_limits({1, 2, 3, 4, 5, 0x3f000000, 0x40000000});
    const auto news = take(1'000);
    ASSERT_EQ(news.size(), 3U);
    EXPECT_EQ(news[1].name, "limits");
    EXPECT_EQ(*news[1].data.find("task")->as_u64(), 3U);
    EXPECT_NE(news[1].text.find("0.5 to 2"), std::string::npos) << news[1].text;
    EXPECT_EQ(news[2].name, "progress");
    task_.reason = "bid_not_covered";
    task_.round = 1;
    EXPECT_EQ(take(2'000).size(), 1U);
}

TEST_F(ProfiledTaskTest, says_what_to_do_where_no_limits_are_found) {
    const auto advice = [&](const char* reason) {
        task_.reason = reason;
        return advice_without_limits(task_);
    };
    EXPECT_NE(advice("no_profilers").find("3 of 4 profilers must agree"), std::string::npos);
    EXPECT_NE(advice("profilers_silent").find("within 1:00"), std::string::npos);
    EXPECT_NE(advice("profilers_silent").find("--profile-window"), std::string::npos);
    EXPECT_NE(advice("profiles_differ"), "");
    EXPECT_NE(advice("tolerance.cap_too_low").find("--cap"), std::string::npos);
    EXPECT_NE(advice("tolerance.not_reproducible").find("--loose"), std::string::npos);
    EXPECT_EQ(advice("no_bids"), "");
    task_.spec.profiling = {};
    EXPECT_EQ(advice("profilers_silent"), "");
}

}  // namespace
}  // namespace quern::compute::client
