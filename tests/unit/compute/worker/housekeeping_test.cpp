#include <gtest/gtest.h>

#include <filesystem>

#include "compute/worker/context.h"
#include "compute/worker/workspace.h"

namespace quern::compute::worker {
namespace {

TEST(Turns, a_job_that_outlasts_its_slice_goes_behind_the_others) {
    Turns turns;
    const std::vector<std::uint64_t> ids{3, 5, 9};
    EXPECT_EQ(turns.order(ids), (std::vector<std::uint64_t>{3, 5, 9}));
    turns.ran(3);
    EXPECT_EQ(turns.order(ids), (std::vector<std::uint64_t>{5, 9, 3}));
    turns.ran(5);
    EXPECT_EQ(turns.order(ids), (std::vector<std::uint64_t>{9, 3, 5}));
    turns.ran(9);
    EXPECT_EQ(turns.order(ids), (std::vector<std::uint64_t>{3, 5, 9}));
    EXPECT_TRUE(turns.order({}).empty());
}

TEST(Turns, everyone_gets_a_turn_when_each_takes_the_whole_slice) {
    Turns turns;
    std::map<std::uint64_t, int> runs;
    for (int i = 0; i < 30; ++i) {
        const auto first = turns.order({1, 2, 7}).front();
        ++runs[first];
        turns.ran(first);
    }
    EXPECT_EQ(runs, (std::map<std::uint64_t, int>{{1, 10}, {2, 10}, {7, 10}}));
}

class WorkspaceTest : public testing::Test {
protected:
    WorkspaceTest() { std::filesystem::remove_all(directory_); }
    ~WorkspaceTest() override { std::filesystem::remove_all(directory_); }
    void make(std::uint64_t id, std::uint8_t round, std::size_t bytes) {
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
