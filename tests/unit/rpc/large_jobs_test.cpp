#include "rpc/large_jobs.h"

#include <gtest/gtest.h>

namespace quern::rpc {
namespace {

// What was called, in order: "a1" began, "!a1" was refused.
class LargeJobsTest : public ::testing::Test {
protected:
    void ask(const std::string& name) {
        call(jobs.ask({name.substr(0, 1), [this, name] { log += name + " "; },
                       [this, name] { log += "!" + name + " "; }, owner}));
    }
    void end(const std::string& host) { call(jobs.ended(host)); }
    std::size_t forget(const std::string& host) { return jobs.forget(host, owner).size(); }
    std::string said() { return std::exchange(log, {}); }

    LargeJobs jobs{3, 4};
    const void* owner = nullptr;  // of what is asked now

private:
    static void call(const std::function<void()>& what) {
        if (what) what();
    }
    std::string log;
};

TEST_F(LargeJobsTest, a_host_has_all_places_but_one) {
    for (const char* name : {"a1", "a2", "a3", "b1"}) ask(name);
    EXPECT_EQ(said(), "a1 a2 b1 ");
    EXPECT_EQ(jobs.running(), 3U);
    end("b");
    EXPECT_EQ(said(), "");  // the place stays free for others
    ask("c1");
    EXPECT_EQ(said(), "c1 ");
    end("a");
    EXPECT_EQ(said(), "a3 ");
}

TEST_F(LargeJobsTest, whoever_runs_least_comes_next_then_whoever_waits_longest) {
    for (const char* name : {"a1", "a2", "b1", "a3", "b2", "c1", "d1"}) ask(name);
    EXPECT_EQ(said(), "a1 a2 b1 ");
    end("a");
    EXPECT_EQ(said(), "c1 ");
    end("c");
    EXPECT_EQ(said(), "d1 ");
    end("d");
    EXPECT_EQ(said(), "a3 ");  // as many run of a as of b, and it came earlier
    end("b");
    EXPECT_EQ(said(), "b2 ");
    for (int i = 0; i < 2; ++i) end("a");
    end("b");
    EXPECT_EQ(jobs.running() + jobs.waiting(), 0U);
}

TEST_F(LargeJobsTest, too_many_push_out_the_newest_of_the_host_that_waits_with_most) {
    for (const char* name : {"a1", "a2", "b1", "a3", "a4", "b2", "c1"}) ask(name);
    EXPECT_EQ(said(), "a1 a2 b1 ");
    ask("a5");
    EXPECT_EQ(said(), "!a5 ");
    ask("d1");
    EXPECT_EQ(said(), "!a4 ");
    ask("e1");  // all wait with one
    EXPECT_EQ(said(), "!e1 ");
    EXPECT_EQ(jobs.waiting(), 4U);
}

TEST_F(LargeJobsTest, what_is_forgotten_neither_begins_nor_takes_a_place) {
    for (const char* name : {"a1", "a2", "a3", "b1"}) ask(name);
    const int gone = 0;
    owner = &gone;
    for (const char* name : {"a4", "b2"}) ask(name);
    EXPECT_EQ(said(), "a1 a2 b1 ");
    EXPECT_EQ(forget("c"), 0U);
    EXPECT_EQ(forget("a"), 1U);
    EXPECT_EQ(forget("a"), 0U);
    EXPECT_EQ(jobs.waiting(), 2U);
    EXPECT_EQ(forget("b"), 1U);
    owner = nullptr;
    EXPECT_EQ(jobs.waiting(), 1U);
    for (int i = 0; i < 2; ++i) end("a");
    EXPECT_EQ(said(), "a3 ");
    EXPECT_EQ(jobs.running(), 2U);
}

TEST_F(LargeJobsTest, an_end_that_nobody_began_changes_nothing) {
    end("a");
    ask("a1");
    end("b");
    EXPECT_EQ(jobs.running(), 1U);
    LargeJobs one(1, 1);  // a single place is everybody's
    EXPECT_TRUE(one.ask({"a", [] {}, [] {}}));
    EXPECT_EQ(one.running(), 1U);
}

}  // namespace
}  // namespace quern::rpc
