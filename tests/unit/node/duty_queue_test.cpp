#include "node/net/duty_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "node/net/answer_budget.h"

namespace quern::node {
namespace {

Bytes20 peer(std::uint8_t number) {
    Bytes20 address;
    address.data[0] = number;
    return address;
}

class DutyQueueTest : public ::testing::Test {
protected:
    // Holds the queue's thread until released, so that what is posted meanwhile waits.
    void hold() {
        queue_.start();
        std::promise<void> held;
        auto is_held = held.get_future();
        ASSERT_TRUE(queue_.post_own([&held, released = released_.get_future().share()] {
            held.set_value();
            released.wait();
        }));
        is_held.wait();
    }
    // Lets it go on and waits until all that was posted has run. A last question waits with the others: posted after
    // the release it would find a place or none, as the thread was quick or slow.
    void release() {
        std::promise<void> asked;
        auto is_asked = asked.get_future();
        queue_.post_for(peer(255), [&asked](bool) { asked.set_value(); });
        released_.set_value();
        is_asked.wait();
        while (queue_.waiting() != 0) std::this_thread::yield();
        std::promise<void> last;
        auto is_last = last.get_future();
        ASSERT_TRUE(queue_.post_own([&last] { last.set_value(); }));
        is_last.wait();
    }

    ManualClock clock_;
    DutyQueue queue_{clock_};
    std::promise<void> released_;
};

TEST_F(DutyQueueTest, does_what_is_next_without_its_thread_too) {
    std::string order;
    for (std::uint8_t i = 1; i <= 2; ++i) queue_.post_for(peer(1), [&](bool in_time) { order += in_time ? 'q' : 'r'; });
    EXPECT_TRUE(queue_.post_own([&] { order += 'o'; }));
    EXPECT_TRUE(queue_.run_one());
    EXPECT_TRUE(queue_.run_one());
    EXPECT_EQ(order, "oq");
    clock_.advance(kServeDeadlineMs + 1);
    EXPECT_TRUE(queue_.run_one());
    EXPECT_EQ(order, "oqr");
    EXPECT_FALSE(queue_.run_one());
    EXPECT_TRUE(queue_.post_own([&] { order += 'o'; }));
    queue_.stop();
    EXPECT_FALSE(queue_.run_one());
    EXPECT_EQ(order, "oqr");
}

TEST_F(DutyQueueTest, a_flood_of_questions_neither_delays_nor_displaces_the_nodes_own_duties) {
    hold();
    std::string order;  // written by the queue's thread alone
    std::size_t refused = 0;
    for (std::size_t i = 0; i < 2 * kMaxServedJobs; ++i)
        queue_.post_for(peer(static_cast<std::uint8_t>(1 + i % 64)), [&](bool in_time) {
            if (in_time)
                order += 'q';
            else
                ++refused;
        });
    EXPECT_TRUE(queue_.post_own([&] { order += 'd'; }));
    release();
    EXPECT_EQ(order[0], 'd');
    EXPECT_EQ(refused, kMaxServedJobs + 1) << "the last one for the question of release()";
    EXPECT_EQ(order.size(), kMaxServedJobs);
}

TEST_F(DutyQueueTest, one_peer_has_its_share_and_others_their_turn) {
    hold();
    std::string order;
    std::size_t refused = 0;
    for (std::size_t i = 0; i < kMaxServedJobsPerPeer + 5; ++i)
        queue_.post_for(peer(1), [&](bool in_time) {
            if (in_time)
                order += 'a';
            else
                ++refused;
        });
    queue_.post_for(peer(2), [&](bool) { order += 'b'; });
    EXPECT_EQ(refused, 5U) << "at once";
    release();
    EXPECT_LE(order.find('b'), 1U);
    EXPECT_EQ(order.size(), kMaxServedJobsPerPeer + 1);
}

TEST_F(DutyQueueTest, when_all_places_are_taken_whoever_has_most_gives_way) {
    hold();
    std::map<std::uint8_t, std::size_t> refused;
    const auto ask = [&](std::uint8_t who) {
        queue_.post_for(peer(who), [&refused, who](bool in_time) { refused[who] += in_time ? 0 : 1; });
    };
    for (std::size_t i = 0; i < kMaxServedJobs; ++i) ask(static_cast<std::uint8_t>(1 + i / kMaxServedJobsPerPeer));
    EXPECT_TRUE(refused.empty());
    ask(100);
    std::size_t all = 0;
    for (const auto& [who, count] : refused) all += count;
    EXPECT_EQ(all, 1U);
    EXPECT_EQ(refused[100], 0U);
    release();
}

TEST_F(DutyQueueTest, a_question_that_waited_too_long_is_refused_and_that_of_one_who_left_forgotten) {
    hold();
    int late = 0;
    int gone = 0;
    queue_.post_for(peer(1), [&](bool in_time) { late += in_time ? 0 : 1; });
    queue_.post_for(peer(2), [&](bool) { ++gone; });
    queue_.forget(peer(2));
    clock_.advance(kServeDeadlineMs + 1);
    release();
    EXPECT_EQ(late, 1);
    EXPECT_EQ(gone, 0);
}

TEST_F(DutyQueueTest, takes_nothing_after_its_end) {
    queue_.start();
    queue_.stop();
    EXPECT_FALSE(queue_.post_own([] {}));
    queue_.post_for(peer(1), [](bool) { ADD_FAILURE(); });
    EXPECT_EQ(queue_.waiting(), 0U);
}

TEST_F(DutyQueueTest, holds_a_bounded_number_of_duties) {
    for (std::size_t i = 0; i < kMaxOwnJobs; ++i) EXPECT_TRUE(queue_.post_own([] {}));
    EXPECT_FALSE(queue_.post_own([] {}));
}

TEST(AnswerBudgetTest, who_does_not_read_gets_no_more_and_all_of_them_leave_room_for_the_committee) {
    const auto budget = std::make_shared<AnswerBudget>();
    constexpr std::size_t kAnswer = 1U << 20;
    std::vector<std::shared_ptr<AnswerBudget::Place>> places;
    for (std::uint8_t who = 1; who <= 60; ++who) {
        std::size_t given = 0;
        for (int i = 0; i < 4; ++i)
            if (auto place = AnswerBudget::reserve(budget, peer(who), 9 * kAnswer)) {
                place->shrink(kAnswer);
                places.push_back(std::move(place));
                ++given;
            }
        EXPECT_LE(given, 2U) << "its share";
    }
    EXPECT_LE(budget->used(), kMaxStrangersAnswerBytes);
    EXPECT_GE(budget->used(), kMaxStrangersAnswerBytes - 10 * kAnswer);
    budget->set_committee({peer(200)});
    EXPECT_EQ(AnswerBudget::reserve(budget, peer(201), 9 * kAnswer), nullptr);
    EXPECT_NE(AnswerBudget::reserve(budget, peer(200), 9 * kAnswer), nullptr);
    places.clear();
    EXPECT_EQ(budget->used(), 0U);
    EXPECT_NE(AnswerBudget::reserve(budget, peer(201), 9 * kAnswer), nullptr);
}

TEST(AnswerBudgetTest, nobody_passes_the_limit_of_all) {
    const auto budget = std::make_shared<AnswerBudget>();
    std::set<Bytes20> members;
    for (std::uint8_t who = 1; who <= 100; ++who) members.insert(peer(who));
    budget->set_committee(members);
    std::vector<std::shared_ptr<AnswerBudget::Place>> places;
    for (const auto& member : members)
        if (auto place = AnswerBudget::reserve(budget, member, 2U << 20)) places.push_back(std::move(place));
    EXPECT_EQ(budget->used(), kMaxAnswerBytes);
}

}  // namespace
}  // namespace quern::node
