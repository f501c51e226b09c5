// Steps from a state file on, however often they are stopped.
#include "compute/program/step_run.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/fs.h"
#include "compute/program/architecture.h"
#include "compute/program/initial_state.h"
#include "compute/program/replay.h"
#include "compute/program/state_file.h"

namespace quern::compute::program {
namespace {

using vm::tensor::State;

constexpr std::uint64_t kSteps = 12;

class StepRuns : public testing::Test {
protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "quern-run-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        directory_ = pattern;
        make(0);
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    void make(std::uint32_t accumulate) {
        accumulate_ = accumulate;
        Architecture architecture;
        architecture.model = TransformerSpec{1, 16, 2, 12, 2, 20};
        architecture.data[0].elements = 9 * 12 + 1;
        architecture.batch = 3;
        architecture.accumulate = accumulate;
        auto built = build_training_programs(architecture);
        ASSERT_TRUE(built) << built.error().to_string();
        first_ = initial_state(built->programs.front(), 7);
        std::vector<Program> programs;
        for (BuiltProgram& each : built->programs) programs.push_back(std::move(each.program));
        auto made = core::TaskPrograms::make(std::move(programs), built->body(kSteps));
        ASSERT_TRUE(made) << made.error().to_string();
        programs_.emplace(std::move(*made));
        data_.assign(1, {});
        for (std::uint32_t i = 0; i < architecture.data[0].elements; ++i)
            data_[0].push_back(static_cast<std::uint8_t>(i * 7 % 20));
    }

    // Stops once so many steps are done.
    Status run(std::uint64_t steps, std::uint64_t stop_at = ~std::uint64_t{0}, std::string arithmetic = "canonical",
               std::uint64_t seed = 3) {
        std::atomic<bool> stop{false};
        names_.clear();
        std::uint64_t done = 0;
        const Stepper canonical = canonical_stepper(nullptr);
        const Stepper counted = [&](const Program& program, const vm::tensor::DataSource& data,
                                    const vm::tensor::Tensor& words) -> Expected<StepFunction> {
            QUERN_TRY(StepFunction step, canonical(program, data, words));
            return [&, step = std::move(step)](State& state) {
                if (++done >= stop_at) stop = true;
                return step(state);
            };
        };
        Progress progress(steps);
        return run_steps({*programs_, steps, accumulate_, first_, data_, beacon_of_seed(seed), std::move(arithmetic),
                          counted, out(), pause_ms_},
                         nullptr, progress, stop, [&](const Event& event) {
                             names_.emplace_back(event.name);
                             last_ = event.data;
                         });
    }
    [[nodiscard]] std::string out() const { return directory_ + "/state.safetensors"; }
    [[nodiscard]] std::string root() const {
        const auto text = last_.get_string("stateRoot");
        return text ? std::string(*text) : "none";
    }
    [[nodiscard]] State kept() const { return *read_state(programs_->any(), *fs::read_file(out(), 1 << 24)); }
    [[nodiscard]] State expected(std::uint64_t steps) const {
        State state = first_;
        EXPECT_TRUE(replay(*programs_, state, vm::tensor::MemoryData(data_), vm::tensor::seed_tensor(beacon_of_seed(3)),
                           1, steps, nullptr));
        return state;
    }
    void expect_refused(const Status& status, std::string_view name) {
        ASSERT_FALSE(status);
        EXPECT_EQ(status.error().name, name) << status.error().to_string();
    }

    std::string directory_;
    std::uint32_t accumulate_ = 0;
    std::optional<core::TaskPrograms> programs_;
    State first_;
    std::vector<Bytes> data_;
    std::uint64_t pause_ms_ = 1'000'000;
    std::vector<std::string> names_;
    json::Value last_;
};

TEST_F(StepRuns, do_what_a_replay_does) {
    for (const std::uint32_t accumulate : {0U, 2U}) {
        make(accumulate);
        (void)fs::remove_file(out());
        const Status done = run(kSteps - 1);  // of turns of three it ends within one
        ASSERT_TRUE(done) << done.error().to_string();
        const State wanted = expected(kSteps - 1);
        EXPECT_FALSE(difference(programs_->any(), kept(), wanted));
        EXPECT_EQ(root(), to_hex0x(vm::tensor::state_root(wanted)));
        EXPECT_EQ(names_.back(), "result");
        EXPECT_EQ(names_[names_.size() - 2], "progress");
    }
}

TEST_F(StepRuns, go_on_where_they_were_stopped) {
    expect_refused(run(kSteps, 5), kRunStopped);
    EXPECT_FALSE(difference(programs_->any(), kept(), expected(5)));
    expect_refused(run(kSteps, 3), kRunStopped);
    EXPECT_EQ(names_.front(), "resumed");
    EXPECT_FALSE(difference(programs_->any(), kept(), expected(8)));
    ASSERT_TRUE(run(kSteps));
    EXPECT_EQ(root(), to_hex0x(vm::tensor::state_root(expected(kSteps))));
    // Done is done; more steps go on behind them.
    ASSERT_TRUE(run(kSteps));
    EXPECT_EQ(names_, (std::vector<std::string>{"resumed", "result"}));
    (void)fs::remove_file(out());
    ASSERT_TRUE(run(4));
    ASSERT_TRUE(run(kSteps));
    EXPECT_EQ(root(), to_hex0x(vm::tensor::state_root(expected(kSteps))));
    expect_refused(run(kSteps - 1), "run.beyond");
}

TEST_F(StepRuns, do_no_step_for_a_place_that_cannot_be_written) {
    std::uint64_t steps = 0;
    const Stepper counts = [&](const Program&, const vm::tensor::DataSource&,
                               const vm::tensor::Tensor&) -> Expected<StepFunction> {
        return [&](State&) {
            ++steps;
            return Status();
        };
    };
    Progress progress(kSteps);
    const std::atomic<bool> stop{false};
    const Status done = run_steps({*programs_, kSteps, 0, first_, data_, beacon_of_seed(3), "canonical", counts,
                                   directory_ + "/none/state.safetensors"},
                                  nullptr, progress, stop, [](const Event&) {});
    ASSERT_FALSE(done);
    EXPECT_TRUE(done.error().name.starts_with("fs.")) << done.error().to_string();
    EXPECT_EQ(steps, 0U);
}

TEST_F(StepRuns, save_on_their_way) {
    pause_ms_ = 0;
    std::uint64_t failing = 0;
    const Stepper canonical = canonical_stepper(nullptr);
    const Stepper fails = [&](const Program& program, const vm::tensor::DataSource& data,
                              const vm::tensor::Tensor& words) -> Expected<StepFunction> {
        QUERN_TRY(StepFunction step, canonical(program, data, words));
        return [&, step = std::move(step)](State& state) -> Status {
            if (++failing == 6) return fail("step.no_data");
            return step(state);
        };
    };
    Progress progress(kSteps);
    const std::atomic<bool> stop{false};
    expect_refused(run_steps({*programs_, kSteps, 0, first_, data_, beacon_of_seed(3), "canonical", fails, out(), 0},
                             nullptr, progress, stop, [](const Event&) {}),
                   "step.no_data");
    EXPECT_FALSE(difference(programs_->any(), kept(), expected(5))) << "what was done is not lost";
}

TEST_F(StepRuns, take_no_file_of_something_else) {
    ASSERT_TRUE(run(4));
    const Bytes before = *fs::read_file(out(), 1 << 24);
    expect_refused(run(kSteps, ~std::uint64_t{0}, "torch"), "run.other_run");
    expect_refused(run(kSteps, ~std::uint64_t{0}, "canonical", 4), "run.other_run");
    data_[0][3] ^= 1U;
    expect_refused(run(kSteps), "run.other_run");
    data_[0][3] ^= 1U;
    first_.back().words.front() ^= 1U;
    expect_refused(run(kSteps), "run.other_run");
    first_.back().words.front() ^= 1U;
    EXPECT_EQ(*fs::read_file(out(), 1 << 24), before);
    for (const Bytes& planted : {*write_state(programs_->any(), first_), Bytes{'m', 'i', 'n', 'e'}}) {
        ASSERT_TRUE(fs::write_file_atomic(out(), planted));
        expect_refused(run(kSteps), "run.other_run");
        EXPECT_EQ(*fs::read_file(out(), 1 << 24), planted);
    }
}

}  // namespace
}  // namespace quern::compute::program
