// A training as a task in tolerance mode: what is submitted, limits that are profiled once, and training here.
#include "compute/client/tolerance.h"

#include <algorithm>

#include "chain/types/native_tx.h"
#include "compute/client/local.h"
#include "compute/client/result.h"
#include "compute/program/safetensors.h"
#include "compute/program/state_file.h"
#include "crypto/content_id.h"
#include "small_training.h"

namespace quern::compute::client {
namespace {

class ToleranceTest : public test::SmallTraining {
protected:
    ToleranceTest() {
        options_.tolerance.on = true;
        options_.tolerance.backends = [this](const vm::tensor::Program& program, const vm::tensor::DataSource& data,
                                             const vm::tensor::Tensor& seed,
                                             std::size_t) -> Expected<std::vector<tolerance::profile::Profiler>> {
            ++made_;
            std::vector<tolerance::profile::Profiler> backends;
            for (std::uint32_t off : {1U, 0U, 2U})  // of words that rounding may differ in
                backends.push_back({std::to_string(off), [&, off](vm::tensor::State& state) -> Status {
                                        return step(program, data, seed, off, state);
                                    }});
            return backends;
        };
    }
    static Status step(const vm::tensor::Program& program, const vm::tensor::DataSource& data,
                       const vm::tensor::Tensor& seed, std::uint32_t off, vm::tensor::State& state) {
        vm::tensor::Executor executor(program, vm::tensor::arith::Backend::scalar, nullptr);
        EXPECT_TRUE(executor.step(state, data, seed));
        QUERN_TRY(const auto classes, tolerance::distance::classify(program));
        for (std::size_t s = 0; s < state.size(); ++s)
            if (classes[s] != tolerance::distance::Class::exact)
                for (std::uint32_t& word : state[s].words) word ^= off;
        return {};
    }
    Expected<Training> prepare_told(const std::atomic<bool>* stop = nullptr) {
        events_.clear();
        const Console console{[this](const Event& event) { events_.emplace_back(event.name); }, {}};
        return prepare_training(options_, job_folder(options_.out), stop, machine_memory(), &console);
    }
    [[nodiscard]] std::size_t told(const std::string& name) const {
        return static_cast<std::size_t>(std::count(events_.begin(), events_.end(), name));
    }
    std::vector<std::string> events_;
    int made_ = 0;  // sets of backends
};

TEST_F(ToleranceTest, makes_a_judged_task_of_segments) {
    const auto training = prepare_told();
    ASSERT_TRUE(training) << training.error().to_string();
    ASSERT_TRUE(training->tolerant);
    const auto& spec = training->spec;
    EXPECT_EQ(spec.work.mode, chain::types::TaskMode::tolerance);
    EXPECT_EQ(training->tolerant->k, 2U);  // 40 steps in 20 segments
    EXPECT_EQ(spec.work.interval, 3U);
    EXPECT_EQ(spec.work.stride, 3U);
    EXPECT_EQ(training->programs.plan.steps(), 60U);
    const auto found = tolerance::judge::recognise(training->programs);
    ASSERT_TRUE(found) << found.error().to_string();
    EXPECT_EQ(found->k, 2U);
    EXPECT_EQ(found->segments, 20U);
    EXPECT_EQ(found->programs.rows, 20U);
    EXPECT_TRUE(tolerance::judge::check_first_state(found->programs, training->initial));
    EXPECT_EQ(spec.init_root, vm::tensor::state_root(training->initial));
    ASSERT_EQ(spec.data_roots.size(), 3U);
    const Bytes limits = *fs::read_file(training->tolerant->limits, 100);
    EXPECT_TRUE(tolerance::decode_limits(limits));
    EXPECT_EQ(spec.data_roots[1], crypto::content_id_of(limits));
    EXPECT_TRUE(spec.data_roots[2].is_zero());
    EXPECT_EQ(training->made_data(), std::vector{training->tolerant->limits});
    const auto initial = program::read_state(training->programs.any(), *fs::read_file(training->files.init, 1 << 20));
    ASSERT_TRUE(initial);
    EXPECT_EQ(*initial, training->initial);
}

TEST_F(ToleranceTest, profiles_once_what_limits_depend_on) {
    const auto one = prepare_told();
    ASSERT_TRUE(one) << one.error().to_string();
    EXPECT_EQ(told("profiling"), 24U);
    EXPECT_EQ(told("limits"), 1U);
    const auto two = prepare_told();
    ASSERT_TRUE(two);
    EXPECT_EQ(told("profiling"), 0U);
    EXPECT_EQ(made_, 1);
    EXPECT_EQ(training_id(one->spec), training_id(two->spec));
    options_.tolerance.terms.range = 32;
    const auto wider = prepare_told();
    ASSERT_TRUE(wider);
    EXPECT_EQ(told("profiling"), 24U);
    EXPECT_NE(training_id(one->spec), training_id(wider->spec));
    // A file that holds no limits is made anew.
    EXPECT_TRUE(fs::write_file_atomic(wider->tolerant->limits, Bytes(28, 0xff)));
    const auto mended = prepare_told();
    ASSERT_TRUE(mended);
    EXPECT_EQ(told("profiling"), 24U);
    EXPECT_EQ(training_id(mended->spec), training_id(wider->spec));
}

TEST_F(ToleranceTest, stretches_have_rows_of_their_own) {
    options_.terms.defaults.work.interval = 4;
    options_.terms.defaults.work.tranche = 20;
    const auto training = prepare_told();
    ASSERT_TRUE(training) << training.error().to_string();
    EXPECT_EQ(training->tolerant->programs.rows, 5U);
    EXPECT_EQ(training->tolerant->segments, 10U);
    EXPECT_EQ(training->spec.work.interval, 5U);
    EXPECT_EQ(training->spec.work.tranche, 25U);
}

TEST_F(ToleranceTest, asks_before_it_profiles) {
    std::vector<std::string> said;
    const Console console{[&](const Event& event) { said.emplace_back(event.name); }, {}};
    const auto prepare = [&](const Preparation& asks) {
        return prepare_training(options_, job_folder(options_.out), nullptr, machine_memory(), &console, asks);
    };
    Hash32 priced;
    const auto question = [&](const Training& so_far) -> Status {
        said.emplace_back("question");
        priced = so_far.spec.data_roots[1];
        return {};
    };
    const auto declined = prepare({{}, [](const Training&) -> Status { return fail("test.declined"); }});
    ASSERT_FALSE(declined);
    EXPECT_EQ(declined.error().name, "test.declined");
    EXPECT_EQ(said, std::vector<std::string>());
    const auto other = prepare({[](const auto&) -> Status { return fail("test.other"); }, question});
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().name, "test.other");
    EXPECT_EQ(said, std::vector<std::string>());
    EXPECT_TRUE(std::filesystem::is_empty(job_folder(options_.out))) << "nothing was replaced";
    const auto made = prepare({{}, question});
    ASSERT_TRUE(made) << made.error().to_string();
    ASSERT_EQ(said.size(), 26U);
    EXPECT_EQ(said.front(), "question");
    EXPECT_EQ(said.back(), "limits");
    EXPECT_NE(made->spec.data_roots[1], priced);
    said.clear();
    ASSERT_TRUE(prepare({{}, question}));
    EXPECT_EQ(said, std::vector<std::string>()) << "the limits are there";
}

TEST_F(ToleranceTest, tells_that_there_is_one_segment_alone) {
    options_.updates = 23;
    ASSERT_TRUE(prepare_told());
    EXPECT_EQ(told("oneSegment"), 1U);
    options_.updates = 22;
    ASSERT_TRUE(prepare_told());
    EXPECT_EQ(told("oneSegment"), 0U);
    options_.terms.defaults.work.interval = 22;
    ASSERT_TRUE(prepare_told());
    EXPECT_EQ(told("oneSegment"), 0U) << "it was asked for";
}

TEST_F(ToleranceTest, says_what_it_cannot_make) {
    const auto error = [&] { return prepare_told().error(); };
    auto& work = options_.terms.defaults.work;
    work.interval = 7;
    EXPECT_EQ(error().name, "train.uneven");
    work.interval = 4;
    work.tranche = 6;
    EXPECT_EQ(error().name, "train.uneven");
    work.tranche = 0;
    options_.tolerance.loose = {"nothing"};
    EXPECT_EQ(error().name, "tolerance.unknown_parameter");
    options_.tolerance.loose.clear();
    options_.tolerance.terms.range = 0.5F;
    EXPECT_EQ(error().name, "tolerance.bad_terms");
    EXPECT_EQ(made_, 0) << "before anything is profiled";
    options_.tolerance.terms.range = 16;
    options_.tolerance.terms.cap = 1e-30F;
    EXPECT_EQ(error().name, "tolerance.cap_too_low");
    options_.tolerance.terms.cap = 1e-2F;
    const auto backends = std::exchange(options_.tolerance.backends, {});
    EXPECT_EQ(error().name, "train.no_backends");
    options_.tolerance.backends = [](const auto&, const auto&, const auto&, std::size_t) {
        return std::vector<tolerance::profile::Profiler>();
    };
    EXPECT_EQ(error().name, "train.no_backends");
    options_.tolerance.backends = [](const auto&, const auto&, const auto&, std::size_t) {
        return Expected<std::vector<tolerance::profile::Profiler>>(fail("torch.no_module", "why"));
    };
    EXPECT_EQ(error().to_string(), "torch.no_module: why");
    options_.tolerance.backends = backends;
    std::string model = test::model_text();
    model.insert(model.size() - 1, R"(,"accumulate":2)");
    options_.model = write("accumulates.json", as_bytes(model));
    EXPECT_EQ(error().name, "train.accumulates");
}

TEST_F(ToleranceTest, leaves_the_limits_to_profilers) {
    options_.terms.profilers = 5;
    options_.terms.profile_window_s = 77;
    options_.tolerance.terms.range = 32;
    const auto training = prepare();
    ASSERT_TRUE(training) << training.error().to_string();
    EXPECT_EQ(made_, 0) << "nothing is profiled here";
    EXPECT_TRUE(training->made_data().empty());
    const auto& spec = training->spec;
    EXPECT_EQ(spec.profiling.profilers, 5U);
    EXPECT_EQ(spec.profiling.segments, options_.tolerance.profiled);
    EXPECT_EQ(spec.profiling.window_s, 77U);
    EXPECT_EQ(spec.profiling.range, 0x42000000U);
    ASSERT_EQ(spec.data_roots.size(), 3U);
    EXPECT_FALSE(spec.data_roots[0].is_zero());
    EXPECT_TRUE(spec.data_roots[1].is_zero());
    EXPECT_TRUE(spec.data_roots[2].is_zero());
    // Once they are found the task names them, and is the one that was submitted.
    chain::types::Task task;
    task.spec = spec;
    EXPECT_TRUE(check_task(task, spec));
    task.profiling.limits = tolerance::encode_limits({});
    EXPECT_EQ(check_task(task, spec).error().name, kNotTheTask);
    task.spec.data_roots[1] = crypto::content_id_of(task.profiling.limits);
    EXPECT_TRUE(check_task(task, spec));
    task.spec.data_roots[0] = crypto::content_id_of(task.profiling.limits);
    EXPECT_EQ(check_task(task, spec).error().name, kNotTheTask);
}

TEST_F(ToleranceTest, trains_here_by_the_fastest_backend) {
    const auto run = [&](std::uint64_t stop_at) -> Status {
        std::atomic<bool> stop{false};
        const Console console{[&](const Event& event) {
                                  const auto step = event.data.get_u64("step");
                                  if (step && *step >= stop_at) stop = true;
                              },
                              {}};
        QUERN_TRY(JobFile file, JobFile::open(options_.out));
        QUERN_TRY(const Training training, prepare());
        return train_here(options_, training, file, console, stop);
    };
    options_.local = true;
    EXPECT_EQ(run(17).error().name, kStopped);
    EXPECT_EQ(made_, 1) << "nothing is profiled: nobody judges";
    for (const auto& entry : std::filesystem::directory_iterator(job_folder(options_.out)))
        EXPECT_EQ(entry.path().filename().string().find("limits"), std::string::npos);
    const Status done = run(~std::uint64_t{0});
    ASSERT_TRUE(done) << done.error().to_string();
    const auto training = prepare();
    ASSERT_TRUE(training);
    vm::tensor::State state = tolerance::judge::training_state(training->tolerant->programs, training->initial);
    const vm::tensor::MemoryData data({*fs::read_file(options_.data[0], 1'000)});
    for (std::uint64_t i = 0; i < test::kSteps; ++i)
        ASSERT_TRUE(
            step(training->tolerant->training, data, vm::tensor::seed_tensor(*local_beacon(options_)), 1, state));
    const auto written =
        program::read_state(training->programs.any(), *fs::read_file(state_path(job_folder(options_.out)), 1 << 20));
    ASSERT_TRUE(written);
    EXPECT_EQ(*written, *tolerance::judge::state_after(training->tolerant->programs, state, 20));
    // The model has the training's parameters and none of the judge's slots.
    const auto model = program::read_safetensors(*fs::read_file(options_.out, 1 << 20));
    ASSERT_TRUE(model);
    std::size_t parameters = 0;
    for (const auto& slot : training->tolerant->training.slots) parameters += slot.flags;
    EXPECT_EQ(model->tensors.size(), parameters);
}

}  // namespace
}  // namespace quern::compute::client
