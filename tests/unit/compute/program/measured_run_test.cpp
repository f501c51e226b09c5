// Trainings that are measured as they go: what is measured, and that an interruption changes nothing.
#include "compute/program/measured_run.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/fs.h"
#include "compute/program/initial_state.h"
#include "compute/program/state_file.h"
#include "vm/tensor/executor.h"

namespace quern::compute::program {
namespace {

using vm::tensor::State;
using vm::tensor::Tensor;

constexpr std::uint32_t kContext = 12;
constexpr std::uint32_t kVocabulary = 20;

Bytes tokens(std::uint32_t windows, std::uint32_t factor) {
    Bytes bytes;
    for (std::uint32_t i = 0; i < windows * kContext + 1; ++i)
        bytes.push_back(static_cast<std::uint8_t>(i * factor % kVocabulary));
    return bytes;
}

// Steps in the canonical arithmetic; `before` is called before each.
Stepper canonical(std::function<Status()> before = [] { return Status(); }) {
    return [before](const Program& program, const vm::tensor::DataSource& data, const Tensor& seed) {
        const auto executor =
            std::make_shared<vm::tensor::Executor>(program, vm::tensor::arith::best_backend(), nullptr);
        return [executor, before, &data, &seed](State& state) -> Status {
            QUERN_CHECK(before());
            return executor->step(state, data, seed) ? Status() : fail("step.no_data");
        };
    };
}

class MeasuredRuns : public testing::Test {
protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "quern-measured-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        directory_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    // Of 12 steps, measured each 3.
    [[nodiscard]] MeasuredRun make(const char* name) const {
        MeasuredRun run;
        run.architecture.model = TransformerSpec{1, 16, 2, kContext, 2, kVocabulary};
        run.data = {tokens(9, 7)};
        run.architecture.data[0].elements = run.data[0].size();
        run.architecture.batch = 3;
        run.held_out = {tokens(5, 3)};
        run.folder = directory_ + "/" + name;
        run.arithmetic = "canonical";
        run.stepper = canonical();
        run.seed = 7;
        run.steps = 12;
        run.interval = 3;
        return run;
    }

    std::vector<Measure> told_;
    std::atomic<bool> stop_{false};

    Status go(const MeasuredRun& run) {
        return run_measured(run, nullptr, stop_, [&](const Measure& found) { told_.push_back(found); });
    }
    std::string error(const MeasuredRun& run) {
        const Status status = go(run);
        return status ? "none" : std::string(status.error().name);
    }
    [[nodiscard]] static std::string log_of(const MeasuredRun& run) {
        auto text = fs::read_text_file(run.folder + "/log.csv", 1 << 20);
        return text ? *text : text.error().to_string();
    }
    [[nodiscard]] static Bytes state_of(const MeasuredRun& run) {
        auto bytes = fs::read_file(run.folder + "/state.safetensors", 1 << 24);
        return bytes ? *bytes : Bytes{};
    }
    static void put(const std::string& path, const std::string& text) {
        ASSERT_TRUE(fs::write_file_atomic(path, as_bytes(text)));
    }

private:
    std::string directory_;
};

TEST_F(MeasuredRuns, measure_what_evaluate_says_of_the_state_at_each_interval) {
    const MeasuredRun run = make("run");
    ASSERT_TRUE(go(run));
    const auto built = build_training_program(run.architecture);
    ASSERT_TRUE(built);
    const Tensor seed = vm::tensor::seed_tensor(beacon_of_seed(run.seed));
    const vm::tensor::MemoryData data(run.data);
    const vm::tensor::MemoryData held_out(run.held_out);
    Architecture over_held_out = run.architecture;
    over_held_out.data[0].elements = run.held_out[0].size();
    State state = initial_state(*built, run.seed);
    vm::tensor::Executor executor(built->program, vm::tensor::arith::best_backend(), nullptr);
    ASSERT_EQ(told_.size(), 4U);
    std::uint64_t rows = 0;
    for (std::uint64_t step = 1; step <= run.steps; ++step) {
        ASSERT_TRUE(executor.step(state, data, seed));
        if (step % run.interval != 0) continue;
        const auto wanted = evaluate(over_held_out, built->program, state, held_out, nullptr);
        ASSERT_TRUE(wanted);
        const Measure& found = told_[rows++];
        EXPECT_EQ(found.step, step);
        EXPECT_EQ(found.held_out.loss, wanted->loss);
        EXPECT_EQ(found.held_out.accuracy, wanted->accuracy);
        EXPECT_EQ(found.held_out.examples, 5U);
        const std::uint32_t word = state[built->program.header.loss_slot].words[0];
        EXPECT_EQ(found.batch_loss, static_cast<double>(__builtin_bit_cast(float, word)));
    }
    EXPECT_LT(told_.back().batch_loss, told_.front().batch_loss);
    const std::string log = log_of(run);
    EXPECT_TRUE(log.starts_with("step,batch_loss,held_out_loss,held_out_accuracy\n3,")) << log;
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 5);
    const auto written = write_state(built->program, state);
    ASSERT_TRUE(written);
    EXPECT_EQ(state_of(run), *written);
}

TEST_F(MeasuredRuns, give_the_same_files_wherever_they_were_stopped) {
    const MeasuredRun whole = make("whole");
    ASSERT_TRUE(go(whole));
    for (const int steps : {0, 1, 3, 5, 11}) {
        told_.clear();
        MeasuredRun run = make(("stopped-" + std::to_string(steps)).c_str());
        int left = steps;
        run.stepper = canonical([&] {
            stop_ = --left <= 0;
            return Status();
        });
        stop_ = steps == 0;
        EXPECT_EQ(error(run), "measure.stopped") << steps;
        stop_ = false;
        int done = 0;
        run.stepper = canonical([&] {
            ++done;
            return Status();
        });
        ASSERT_TRUE(go(run)) << steps;
        EXPECT_EQ(done, 12 - steps) << "it goes on from where it was stopped";
        EXPECT_EQ(told_.size(), 4U) << "each measure is told of once";
        EXPECT_EQ(log_of(run), log_of(whole)) << steps;
        EXPECT_EQ(state_of(run), state_of(whole)) << steps;
    }
}

TEST_F(MeasuredRuns, do_a_measure_again_that_was_logged_without_its_state) {
    const MeasuredRun whole = make("whole");
    ASSERT_TRUE(go(whole));
    MeasuredRun run = make("run");
    run.steps = 6;
    ASSERT_TRUE(go(run));
    put(run.folder + "/log.csv", log_of(run) + "9,1,2,0.5\n12,half of a ro");
    run.steps = 12;
    ASSERT_TRUE(go(run));
    EXPECT_EQ(log_of(run), log_of(whole));
    EXPECT_EQ(state_of(run), state_of(whole));
}

TEST_F(MeasuredRuns, go_on_from_the_newest_measure_when_a_step_fails) {
    const MeasuredRun whole = make("whole");
    ASSERT_TRUE(go(whole));
    MeasuredRun run = make("run");
    int left = 8;
    run.stepper = canonical([&] { return --left == 0 ? fail("test.broken") : Status(); });
    EXPECT_EQ(error(run), "test.broken");
    EXPECT_NE(state_of(run), state_of(whole));
    run.stepper = canonical();
    ASSERT_TRUE(go(run));
    EXPECT_EQ(log_of(run), log_of(whole));
    EXPECT_EQ(state_of(run), state_of(whole));
}

TEST_F(MeasuredRuns, have_nothing_left_to_do_when_they_are_done) {
    MeasuredRun run = make("run");
    ASSERT_TRUE(go(run));
    run.stepper = canonical([] { return fail("test.one_step_too_many"); });
    EXPECT_EQ(error(run), "none");
    EXPECT_EQ(told_.size(), 4U);
}

TEST_F(MeasuredRuns, refuse_a_folder_of_another_run) {
    const MeasuredRun run = make("run");
    ASSERT_TRUE(go(run));
    const std::string log = log_of(run);
    const auto refused = [&](const auto& change) {
        MeasuredRun other = run;
        change(other);
        EXPECT_EQ(error(other), "measure.other_run");
        EXPECT_EQ(log_of(run), log);
    };
    refused([](MeasuredRun& other) { other.seed = 8; });
    refused([](MeasuredRun& other) { other.interval = 4; });
    refused([](MeasuredRun& other) { other.arithmetic = "libtorch"; });
    refused([](MeasuredRun& other) { ++other.data[0][0]; });
    refused([](MeasuredRun& other) { other.held_out[0].resize(2 * kContext + 1); });
    refused([](MeasuredRun& other) { other.architecture.optimizer.learning_rate *= 2; });
}

TEST_F(MeasuredRuns, refuse_a_log_that_does_not_fit_the_state) {
    const MeasuredRun run = make("run");
    ASSERT_TRUE(go(run));
    const std::string path = run.folder + "/log.csv";
    const std::string log = log_of(run);
    const auto refused = [&](const std::string& text) {
        put(path, text);
        EXPECT_EQ(error(run), "measure.bad_log") << text;
    };
    refused("");
    refused("S" + log.substr(1));                  // another header
    refused(log.substr(log.find('\n') + 1));       // no header
    refused(std::string(kMeasureHeader) + "\n");   // no rows
    refused(log.substr(0, log.size() - 1));        // half of a row
    refused(log.substr(0, log.find("\n6,") + 1));  // fewer rows
    refused(log.substr(0, log.find("\n6,") + 1) + "7,1,1,\n" + log.substr(log.find("\n9,") + 1));
    refused(log.substr(0, log.find("\n6,") + 1) + "x\n" + log.substr(log.find("\n9,") + 1));
    ASSERT_TRUE(fs::remove_file(path));
    EXPECT_EQ(error(run), "measure.bad_log");
    put(path, log);
    EXPECT_EQ(error(run), "none");
}

TEST_F(MeasuredRuns, refuse_what_they_cannot_do) {
    const auto refused = [&](const char* name, const auto& change) {
        MeasuredRun run = make("run");
        change(run);
        EXPECT_EQ(error(run), name);
        EXPECT_FALSE(fs::exists(run.folder));
    };
    refused("measure.accumulates", [](MeasuredRun& run) { run.architecture.accumulate = 2; });
    refused("measure.uneven", [](MeasuredRun& run) { run.interval = 5; });
    refused("measure.uneven", [](MeasuredRun& run) { run.interval = 0; });
    refused("measure.uneven", [](MeasuredRun& run) { run.steps = 0; });
    refused("measure.wrong_data", [](MeasuredRun& run) { run.data[0].pop_back(); });
    refused("measure.wrong_data", [](MeasuredRun& run) { run.data.clear(); });
    refused("measure.wrong_data", [](MeasuredRun& run) { run.held_out.push_back({1}); });
    refused("measure.wrong_data", [](MeasuredRun& run) {
        run.architecture.data[0] = {vm::tensor::DataType::u16, 9 * kContext + 1};
        run.data[0].resize(2 * (9 * kContext + 1));  // the held-out tokens have an odd number of bytes
    });
    refused("arch.out_of_range", [](MeasuredRun& run) { run.held_out[0].resize(kContext); });
    MeasuredRun run = make("run");
    ASSERT_TRUE(fs::create_directories(run.folder));
    const auto lock = fs::LockFile::acquire(run.folder + "/lock");
    ASSERT_TRUE(lock);
    EXPECT_EQ(error(run), "fs.locked");
}

TEST_F(MeasuredRuns, take_their_order_from_the_seed) {
    const Hash32 beacon = beacon_of_seed(0x0102030405060708);
    for (std::size_t i = 0; i < beacon.data.size(); ++i) EXPECT_EQ(beacon.data[i], i >= 8 && i < 16 ? i - 7 : 0) << i;
    MeasuredRun one = make("one");
    MeasuredRun other = make("other");
    other.seed = 8;
    ASSERT_TRUE(go(one));
    ASSERT_TRUE(go(other));
    EXPECT_NE(log_of(one), log_of(other));
}

}  // namespace
}  // namespace quern::compute::program
