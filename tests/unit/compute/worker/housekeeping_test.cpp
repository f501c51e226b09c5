#include <gtest/gtest.h>

#include <filesystem>

#include "compute/worker/context.h"
#include "compute/worker/workspace.h"

namespace quern::compute::worker {
namespace {

Turn turn(std::uint64_t task, std::uint64_t due) { return {{task, 0}, due}; }

// Who gets `slices` slices, one after the other.
std::vector<std::uint64_t> slices(const std::vector<Turn>& waiting, std::size_t count) {
    Turns turns;
    std::vector<std::uint64_t> got;
    while (got.size() < count) got.push_back(turns.next(waiting).value_or(JobId{}).task);
    return got;
}

TEST(Turns, who_is_due_first_goes_before_all_others) {
    EXPECT_EQ(slices({turn(3, 50), turn(5, 20), turn(9, 30)}, 3), (std::vector<std::uint64_t>{5, 5, 5}));
    EXPECT_EQ(Turns().next({}), std::nullopt);
}

TEST(Turns, those_that_are_due_together_take_turns) {
    EXPECT_EQ(slices({turn(3, 20), turn(5, 20), turn(7, 21), turn(9, 20)}, 7),
              (std::vector<std::uint64_t>{3, 5, 9, 3, 5, 9, 3}));
    Turns turns;
    EXPECT_EQ(turns.next({turn(3, 20), turn(5, 20)}), JobId{3});
    EXPECT_EQ(turns.next({turn(3, 20), turn(5, 20), turn(4, 10)}), JobId{4}) << "one that is due earlier comes between";
    EXPECT_EQ(turns.next({turn(3, 20), turn(5, 20)}), JobId{5});
    EXPECT_EQ(turns.next({{{5, 0}, 20}, {{5, 1}, 20}}), (JobId{5, 1})) << "stretches of one task are two jobs";
}

// Two trainings whose steps outlast a slice: 6 s of work every 10 s, and 20 s within 60 s. Taking turns step by step
// the first would need 12 s.
TEST(Turns, jobs_with_long_steps_meet_their_deadlines_when_there_is_time_for_both) {
    constexpr std::uint64_t kStep = 2'000;
    struct Job {
        std::uint64_t due, window, interval, left, steps;
    };
    std::map<std::uint64_t, Job> jobs{{1, {60'000, 60'000, 10, 10, 10}}, {2, {10'000, 10'000, 3, 12, 12}}};
    Turns turns;
    for (std::uint64_t now = 0;
         std::any_of(jobs.begin(), jobs.end(), [](const auto& each) { return each.second.left != 0; });) {
        std::vector<Turn> waiting;
        for (const auto& [id, job] : jobs)
            if (job.left != 0) waiting.push_back(turn(id, job.due));
        Job& job = jobs.at(turns.next(waiting)->task);
        now += kStep;
        ASSERT_LT(now, job.due);
        if (--job.left % job.interval == 0) job.due = now + job.window;
    }
}

class WorkspaceTest : public testing::Test {
protected:
    WorkspaceTest() { std::filesystem::remove_all(directory_); }
    ~WorkspaceTest() override { std::filesystem::remove_all(directory_); }
    void make(std::uint64_t id, std::uint32_t round, std::size_t bytes) {
        chain::types::Task task;
        task.id = id;
        task.round = round;
        const auto workspace = Workspace::open(directory_, task);
        ASSERT_TRUE(workspace);
        ASSERT_TRUE(fs::write_file_atomic(workspace->directory() + "/training.rlp", Bytes(bytes)));
    }
    const std::string directory_ = testing::TempDir() + "/quern-workspace-test";
};

TEST_F(WorkspaceTest, counts_its_bytes_and_removes_those_of_ended_tasks) {
    EXPECT_EQ(*Workspace::used_bytes(directory_), 0U);
    EXPECT_EQ(*Workspace::remove_all_but(directory_, {}), 0U);
    make(1, 0, 100);
    make(1, 1, 200);
    make(2, 0, 400);
    ASSERT_TRUE(fs::create_directories(directory_ + "/tasks/notes"));
    EXPECT_EQ(*Workspace::used_bytes(directory_), 700U);
    EXPECT_EQ(*Workspace::remove_all_but(directory_, {1}), 1U);
    EXPECT_EQ(*Workspace::used_bytes(directory_), 300U);
    EXPECT_EQ(*Workspace::remove_all_but(directory_, {2}), 2U);
    EXPECT_EQ(*Workspace::used_bytes(directory_), 0U);
    EXPECT_TRUE(fs::exists(directory_ + "/tasks/notes"));  // nobody's but a person's
}

}  // namespace
}  // namespace quern::compute::worker
