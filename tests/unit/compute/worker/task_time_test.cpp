// What a profile says that a task takes: with made-up profiles, nothing is timed here.
#include "compute/worker/task_time.h"

#include <gtest/gtest.h>

#include "lifecycle_fixture.h"

namespace quern::compute::worker::test {
namespace {

using namespace chain::exec::test;

constexpr std::uint64_t kSteps = 1'000;
constexpr std::uint64_t kInterval = 250;

chain::types::Task task_of(std::uint64_t heartbeat_s) {
    chain::types::Task task;
    task.steps = kSteps;
    task.spec.work.interval = kInterval;
    task.spec.work.stride = 10;
    task.spec.windows.heartbeat_s = heartbeat_s;
    return task;
}

// A step of the tiny program takes so long.
cost::Profile profile_of(double step_seconds) {
    cost::Profile profile;
    profile.nanoseconds.fill(1);
    const cost::StepTime one = cost::predict_step(tiny().programs(kSteps).any(), profile);
    profile.nanoseconds.fill(step_seconds / (one.step + one.commit / 10));
    return profile;
}

TEST(TaskTime, is_enough_where_a_segment_takes_half_of_it) {
    const auto programs = tiny().programs(kSteps);
    const auto verdict = [&](std::uint64_t heartbeat_s, const chain::market::Stretch& stretch) {
        const Status checked = check_time(programs, task_of(heartbeat_s), stretch, profile_of(0.1));
        return checked ? std::string() : checked.error().to_string();
    };
    EXPECT_EQ(verdict(51, {0, kSteps}), "") << "250 steps are 25 s";
    EXPECT_EQ(verdict(49, {0, kSteps}).substr(0, 50), "worker.too_slow: a segment takes this machine 25 s");
    EXPECT_EQ(verdict(51, {750, kInterval}), "");
    EXPECT_NE(verdict(49, {750, kInterval}), "");
    EXPECT_EQ(verdict(1, {kSteps, 0}), "") << "there is nothing to train";
}

TEST(TaskTime, of_a_profile_is_its_window) {
    const auto programs = tiny().programs(kSteps);
    auto task = task_of(60);
    task.spec.profiling.segments = 3;
    task.spec.profiling.window_s = 76;
    EXPECT_TRUE(check_profiling_time(programs, task, profile_of(0.1))) << "750 steps are 75 s";
    task.spec.profiling.window_s = 74;
    const Status checked = check_profiling_time(programs, task, profile_of(0.1));
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().to_string(), "worker.too_slow: the profile takes this machine 75 s, of 74 s");
}

TEST(TaskTime, of_a_stretch_is_that_of_its_steps) {
    const auto programs = tiny().programs(kSteps);
    const cost::Profile profile = profile_of(0.1);
    EXPECT_NEAR(training_time(programs, task_of(60), {0, kSteps}, profile), 100, 1e-6);
    EXPECT_NEAR(training_time(programs, task_of(60), {250, 500}, profile), 50, 1e-6);
}

TEST(TaskTime, of_a_replay_is_that_of_its_segments_and_probes) {
    const auto programs = tiny().programs(kSteps);
    const cost::Profile profile = profile_of(0.1);
    const std::vector<std::uint64_t> segments{0, 3};
    const double plain = replay_time(programs, task_of(60), {0, kSteps}, segments, 0, profile);
    EXPECT_NEAR(plain, 50, 1e-6);
    const cost::StepTime one = cost::predict_step(programs.any(), profile);
    EXPECT_NEAR(replay_time(programs, task_of(60), {0, kSteps}, segments, 4, profile),
                plain + 4 * (one.tapped - one.step), 1e-6);
    EXPECT_GT(one.tapped, one.step);
}

}  // namespace
}  // namespace quern::compute::worker::test
