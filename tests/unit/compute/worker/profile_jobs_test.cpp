// A profiler's job with the worker's own code: the first segments of a judged task's training, what is written down
// before it is told, restarts, and what is given up.
#include "compute/worker/profile_jobs.h"

#include <filesystem>

#include "compute/core/profiling.h"
#include "compute/program/state_file.h"
#include "compute/tolerance/judge/judge_program.h"
#include "content_node.h"
#include "lifecycle_fixture.h"
#include "support/training_game.h"

namespace quern::compute::worker::test {
namespace {

using namespace chain::exec::test;
namespace judge = tolerance::judge;
using tensor::State;
using tensor::arith::Backend;
using tolerance::Measure;

constexpr std::uint64_t kSteps = 2;  // of a segment, without the judging one
constexpr std::uint64_t kSegments = 20;
constexpr std::uint32_t kProfiled = 8;
const Address kMe = address(60);

// Canonical steps that are a little off.
class RoughSteps final : public FastSteps {
public:
    RoughSteps(const tensor::Program& program, std::uint32_t bits, std::size_t& steps, std::size_t fails_at,
               const std::function<void()>& told = {})
        : classes_(*tolerance::distance::classify(program)),
          executor_(program, Backend::scalar, nullptr),
          bits_(bits),
          steps_(steps),
          fails_at_(fails_at),
          told_(told) {}
    Status step(State& state, const tensor::DataSource& data, const tensor::Tensor& seed) override {
        if (++steps_ == fails_at_) return fail("torch.failed", "out of memory");
        if (told_) told_();
        if (!executor_.step(state, data, seed)) return fail("test.no_data");
        for (std::size_t slot = 0; slot < classes_.size(); ++slot)
            if (classes_[slot] != judge::Class::exact)
                for (std::uint32_t& word : state[slot].words) word |= bits_;
        return {};
    }

private:
    std::vector<judge::Class> classes_;
    tensor::Executor executor_;
    const std::uint32_t bits_;
    std::size_t& steps_;
    const std::size_t fails_at_;
    const std::function<void()> told_;
};

class ProfilingJob : public ::testing::Test {
protected:
    ProfilingJob() {
        options.datadir = testing::TempDir() + "/quern-profile-jobs-test";
        (void)Workspace::remove_all_but(options.datadir, {});
        be_rough(3);
        training = quern::test::train(quern::test::small_architecture(), 1);
        judged = *judge::build_judged_programs(training.program(), kSegments);
        programs = std::make_shared<const core::TaskPrograms>(*judged.task(kSteps, kSegments));
        submit(*judge::first_state(judged, training.states.front()));
    }
    void be_rough(std::uint32_t bits, std::size_t fails_at = 0) {
        options.fast_steps = [this, bits, fails_at](const tensor::Program& program) -> std::unique_ptr<FastSteps> {
            return std::make_unique<RoughSteps>(program, bits, fast_steps, fails_at, when_stepping);
        };
    }
    // The task, its profilers drawn.
    void submit(const State& init) {
        TaskClaim live;
        auto& task = live.task;
        task.id = 1;
        task.spec = spec_of(*programs, kSteps + 1);
        task.spec.work.mode = chain::types::TaskMode::tolerance;
        task.spec.work.stride = kSteps + 1;
        task.spec.init_root = tensor::state_root(init);
        task.spec.profiling.profilers = 3;
        task.spec.profiling.segments = kProfiled;
        task.state = TaskState::profiling;
        chain::market::set_plan(task, programs->plan.planned(kSteps + 1, kSteps + 1));
        task.spec.contents.programs.clear();
        for (const auto& program : programs->programs)
            task.spec.contents.programs.push_back(put(tensor::encode(program)));
        task.spec.contents.init = put(*program::write_state(judged.training, init));
        task.spec.data_roots.clear();
        for (const Bytes& set : training.data.sets()) task.spec.data_roots.push_back(put(set));
        task.spec.data_roots.resize(programs->any().header.data.size());
        task.start_root = task.spec.init_root;
        task.deadline = 1'000'000;
        task.profiling.beacon = training.beacon;
        for (std::uint64_t i = 0; i < 3; ++i) task.profiling.profilers.push_back({address(60 + i), {}, {}, {}, {}});
        order = {std::make_shared<const TaskClaim>(std::move(live))};
    }
    template <class Change>
    void change_task(Change&& change) {
        TaskClaim live = *order.live;
        change(live.task);
        order = {std::make_shared<const TaskClaim>(std::move(live))};
    }
    Hash32 put(Bytes content) { return *context.node->put_content(content); }

    // A process of its own; what it has found after so many slices.
    [[nodiscard]] Profiled run(Context& in, int slices = 50) {
        Board<ProfileOrder, Profiled> board(news);
        ProfileJobs jobs(in, board, kMe);
        board.give({{order.id(), order}});
        for (int i = 0; i < slices; ++i) (void)jobs.work(1);
        return board.facts(order);
    }
    [[nodiscard]] Profiled run() { return run(context); }
    [[nodiscard]] std::unique_ptr<Context> another(InputStore& store, std::size_t threads = 1) {
        return std::unique_ptr<Context>(new Context{options, clock, store, stop, context.connect,
                                                    std::make_unique<ContentNode>(contents),
                                                    std::make_shared<ThreadPool>(threads), std::make_unique<OsRng>()});
    }
    [[nodiscard]] static tolerance::Profile decoded(const Profiled& told) {
        return *core::decode_profile(told.found->measures, kProfiled);
    }

    quern::test::Training training;
    judge::JudgedPrograms judged;
    std::shared_ptr<const core::TaskPrograms> programs;
    std::size_t fast_steps = 0;
    std::function<void()> when_stepping;
    Contents contents;
    WorkerOptions options;
    ManualClock clock{1'000};
    InputStore inputs{InputLimits{}};
    std::atomic<bool> stop{false};
    Bell news;
    ProfileOrder order;
    Context context{options,
                    clock,
                    inputs,
                    stop,
                    [this] { return std::make_unique<ContentNode>(contents); },
                    std::make_unique<ContentNode>(contents),
                    std::make_shared<ThreadPool>(1),
                    std::make_unique<OsRng>()};
};

TEST_F(ProfilingJob, measures_the_first_segments_against_their_replay) {
    const Profiled told = run();
    ASSERT_NE(told.found, nullptr);
    EXPECT_EQ(fast_steps, kProfiled * kSteps);
    // The training alone, in order from its first state.
    const auto segment = *tolerance::distance::build_segment_programs(training.program());
    tolerance::profile::Meter meter(training.program(), segment, training.data, training.seed, nullptr);
    std::size_t steps = 0;
    RoughSteps rough(training.program(), 3, steps, 0);
    const std::vector<tolerance::profile::Profiler> one{
        {"", [&](State& state) { return rough.step(state, training.data, training.seed); }}};
    const auto expected = tolerance::profile::profile_segments(meter, one, training.states.front(), kSteps, kProfiled);
    ASSERT_TRUE(expected);
    EXPECT_EQ(told.found->measures, core::encode_profile(expected->front()));
    for (const auto& measured : decoded(told)) {
        EXPECT_NE(measured[Measure::l2], 0U);
        EXPECT_NE(measured[Measure::movement], 0U);
    }
    EXPECT_FALSE(told.found->salt.is_zero());
}

// What the chain believes profilers by.
TEST_F(ProfilingJob, moves_like_anybody_elses_bit_by_bit) {
    std::set<Hash32> replays;
    std::set<Bytes> measures;
    std::size_t profiles = 0;
    for (const Backend backend : {Backend::scalar, Backend::avx2, Backend::avx512, Backend::neon, Backend::vnni}) {
        if (!tensor::arith::available(backend)) continue;
        for (const std::size_t threads : {1U, 2U}) {
            for (const std::uint32_t bits : {0U, 1U, 3U}) {  // 0: as exact as the canonical arithmetic
                be_rough(bits);
                options.backend = backend;
                (void)Workspace::remove_all_but(options.datadir, {});
                InputStore store{InputLimits{}};
                const auto own = another(store, threads);
                const Profiled told = run(*own);
                ASSERT_NE(told.found, nullptr);
                replays.insert(core::replay_hash(decoded(told)));
                measures.insert(told.found->measures);
                ++profiles;
                for (const auto& measured : decoded(told)) EXPECT_EQ(measured[Measure::l2] == 0, bits == 0);
            }
        }
    }
    EXPECT_GE(profiles, 6U);
    EXPECT_EQ(replays.size(), 1U);
    EXPECT_EQ(measures.size(), 3U) << "what they trained differs";
}

// A word of one that trains canonically would be that nothing rounds.
TEST_F(ProfilingJob, says_nothing_where_nothing_is_faster) {
    options.fast_steps = {};
    EXPECT_EQ(run().found, nullptr);
    EXPECT_TRUE(contents.asked.empty()) << "nor is anything fetched for it";
    options.fast_steps = [](const tensor::Program&) { return nullptr; };  // as of a program that libtorch cannot run
    EXPECT_EQ(run().found, nullptr);
}

TEST_F(ProfilingJob, is_of_the_seed_that_the_draw_gives) {
    const Profiled told = run();
    change_task([](Task& task) { task.profiling.beacon = Hash32{{9}}; });
    const Profiled other = run();
    ASSERT_NE(other.found, nullptr);
    EXPECT_NE(core::replay_hash(decoded(other)), core::replay_hash(decoded(told)));
}

TEST_F(ProfilingJob, goes_on_after_a_restart_with_what_it_has_written) {
    const Profiled told = run();
    ASSERT_NE(told.found, nullptr);
    const std::size_t steps = fast_steps;
    InputStore fresh{InputLimits{}};
    const auto restarted = another(fresh);
    contents.files.clear();  // nothing of the task is looked at
    change_task([&](Task& task) {
        task.profiling.profilers[0].commitment = core::profile_commitment(kMe, told.found->measures, told.found->salt);
    });
    const Profiled again = run(*restarted);
    ASSERT_NE(again.found, nullptr);
    EXPECT_EQ(again.found->measures, told.found->measures);
    EXPECT_EQ(again.found->salt, told.found->salt);
    EXPECT_EQ(fast_steps, steps);
}

TEST_F(ProfilingJob, tells_nothing_that_is_not_written) {
    Board<ProfileOrder, Profiled> board(news);
    ProfileJobs jobs(context, board, kMe);
    board.give({{order.id(), order}});
    (void)jobs.work(0);
    std::filesystem::remove_all(options.datadir + "/tasks/1-0");
    for (int i = 0; i < 50; ++i) (void)jobs.work(0);
    EXPECT_EQ(fast_steps, kProfiled * kSteps);
    EXPECT_EQ(board.facts(order).found, nullptr);
    // Once there is a place, it is told without being computed again.
    std::filesystem::create_directories(options.datadir + "/tasks/1-0");
    clock.advance(10'000);
    board.give({{order.id(), order}});
    for (int i = 0; i < 50; ++i) (void)jobs.work(0);
    EXPECT_NE(board.facts(order).found, nullptr);
    EXPECT_EQ(fast_steps, kProfiled * kSteps);
}

TEST_F(ProfilingJob, commits_to_nothing_else_where_its_file_is_gone) {
    change_task([](Task& task) { task.profiling.profilers[0].commitment = Hash32{{1}}; });
    EXPECT_EQ(run().found, nullptr);
    EXPECT_EQ(fast_steps, 0U);
}

// As of another worker with the same key.
TEST_F(ProfilingJob, shows_nothing_that_it_has_not_committed_to) {
    ASSERT_NE(run().found, nullptr);
    change_task([](Task& task) { task.profiling.profilers[0].commitment = Hash32{{1}}; });
    EXPECT_EQ(run().found, nullptr);
}

// Orders are looked at between two slices: what was not wanted in one of them alone is told again.
TEST_F(ProfilingJob, tells_again_what_was_forgotten_meanwhile) {
    Board<ProfileOrder, Profiled> board(news);
    ProfileJobs jobs(context, board, kMe);
    board.give({{order.id(), order}});
    for (int i = 0; i < 50; ++i) (void)jobs.work(1);
    const Profiled told = board.facts(order);
    ASSERT_NE(told.found, nullptr);
    board.give({});
    board.give({{order.id(), order}});
    EXPECT_EQ(board.facts(order).found, nullptr);
    (void)jobs.work(0);
    ASSERT_NE(board.facts(order).found, nullptr);
    EXPECT_EQ(board.facts(order).found->salt, told.found->salt);
    // So is what came to an end while nobody wanted it.
    change_task([](Task& task) { task.profiling.beacon = Hash32{{9}}; });
    when_stepping = [&] {
        board.give({});
        board.give({{order.id(), order}});
    };
    board.give({{order.id(), order}});
    for (int i = 0; i < 50; ++i) (void)jobs.work(1);
    EXPECT_NE(board.facts(order).found, nullptr);
}

TEST_F(ProfilingJob, keeps_no_memory_while_nobody_sends_its_data) {
    contents.unreadable = Error{kContentNotFound, {}};
    Board<ProfileOrder, Profiled> board(news);
    ProfileJobs jobs(context, board, kMe);
    board.give({{order.id(), order}});
    for (int i = 0; i < 5; ++i) (void)jobs.work(1);
    EXPECT_NE(inputs.hold(InputLimits{}.memory_bytes, Duty::bound), nullptr);
}

TEST_F(ProfilingJob, waits_for_data_and_goes_on) {
    contents.unreadable = Error{kContentNotFound, {}};
    Board<ProfileOrder, Profiled> board(news);
    ProfileJobs jobs(context, board, kMe);
    const auto work = [&] {
        board.give({{order.id(), order}});
        for (int i = 0; i < 50; ++i) (void)jobs.work(1);
        return board.facts(order);
    };
    EXPECT_EQ(work().found, nullptr);
    contents.unreadable.reset();
    EXPECT_EQ(work().found, nullptr) << "not at once";
    clock.advance(10'000);
    EXPECT_NE(work().found, nullptr);
}

TEST_F(ProfilingJob, waits_for_memory) {
    const auto others = inputs.hold(InputLimits{}.memory_bytes - (1U << 20), Duty::bound);
    ASSERT_NE(others, nullptr);
    EXPECT_EQ(run().found, nullptr);
    EXPECT_EQ(fast_steps, 0U);
}

// Nothing was promised: what verifiers that are bound may need is not taken by a stranger's task.
TEST_F(ProfilingJob, leaves_memory_to_what_was_promised) {
    const auto others = inputs.hold(InputLimits{}.memory_bytes / 2, Duty::bound);
    ASSERT_NE(others, nullptr);
    EXPECT_EQ(run().found, nullptr);
    EXPECT_EQ(fast_steps, 0U);
    const auto counted = inputs.load(*context.node, order.live->task);
    ASSERT_TRUE(counted);
    EXPECT_EQ(run().found, nullptr) << "though its inputs are here";
}

// A program that stops the process must not do so at each start: a verifier that does nothing else is slashed.
TEST_F(ProfilingJob, is_not_begun_for_ever_where_it_never_comes_back) {
    struct Killed {};
    const std::string kept = options.datadir + "-kept";
    const auto start = [&](bool is_killed) {
        when_stepping = [&, is_killed] {
            if (!is_killed) return;
            std::filesystem::remove_all(kept);
            std::filesystem::copy(options.datadir, kept, std::filesystem::copy_options::recursive);
            throw Killed{};
        };
        fast_steps = 0;
        InputStore fresh{InputLimits{}};
        const auto own = another(fresh);
        try {
            return run(*own).found != nullptr;
        } catch (const Killed&) {
            // Nothing is written by who was killed.
            std::filesystem::remove_all(options.datadir);
            std::filesystem::rename(kept, options.datadir);
            return false;
        }
    };
    for (int i = 0; i < 3; ++i) {
        EXPECT_FALSE(start(true));
        EXPECT_EQ(fast_steps, 1U) << i;
    }
    EXPECT_FALSE(start(true));
    EXPECT_EQ(fast_steps, 0U);
    change_task([](Task& task) { task.profiling.beacon = Hash32{{9}}; });
    EXPECT_TRUE(start(false)) << "another draw is another task";
}

TEST_F(ProfilingJob, may_be_stopped_as_often_as_one_likes) {
    for (int i = 0; i < 5; ++i) {
        InputStore fresh{InputLimits{}};
        const auto own = another(fresh);
        Board<ProfileOrder, Profiled> board(news);
        ProfileJobs jobs(*own, board, kMe);
        board.give({{order.id(), order}});
        fast_steps = 0;
        EXPECT_TRUE(jobs.work(0));
        EXPECT_EQ(fast_steps, kSteps) << "of a segment, each time";
    }
    EXPECT_NE(run().found, nullptr);
}

TEST_F(ProfilingJob, does_not_begin_what_it_cannot_end_in_time) {
    cost::Profile slow;
    slow.nanoseconds.fill(1e9);
    context.profile = &slow;
    EXPECT_EQ(run().found, nullptr);
    EXPECT_EQ(fast_steps, 0U);
    slow.nanoseconds.fill(1e-9);
    change_task([](Task& task) { task.spec.profiling.window_s = 60; });
    EXPECT_NE(run().found, nullptr);
}

TEST_F(ProfilingJob, counts_no_start_that_ended_with_an_error) {
    for (int i = 0; i < 5; ++i) {
        be_rough(3, i % 2 == 0 ? 5 : 0);
        fast_steps = 0;
        if (i % 2 == 1) contents.unreadable = Error{kContentNotFound, {}};
        InputStore fresh{InputLimits{}};
        const auto own = another(fresh);
        EXPECT_EQ(run(*own).found, nullptr);
        contents.unreadable.reset();
    }
    fast_steps = 0;
    be_rough(3);
    EXPECT_NE(run().found, nullptr);
}

// Nobody replays or plays a task that is being profiled: what its inputs count for that is there.
TEST_F(ProfilingJob, needs_room_beside_its_inputs_where_these_count_too_little) {
    TaskInputs counted = **inputs.load(*context.node, order.live->task);
    const auto segment = *tolerance::distance::build_segment_programs(training.program());
    EXPECT_EQ(profile_room(counted, training.program(), segment), 0U);
    counted.memory_bytes = kept_data_bytes(programs->any().header);
    const std::uint64_t all = profile_room(counted, training.program(), segment);
    EXPECT_GT(all, 2 * tensor::step_bytes(training.program()) + 6 * state_bytes(training.program()));
    counted.memory_bytes += all - 7;
    EXPECT_EQ(profile_room(counted, training.program(), segment), 7U);
}

TEST_F(ProfilingJob, is_of_judged_tasks_alone) {
    change_task([](Task& task) { task.spec.work.stride = 1; });
    EXPECT_EQ(run().found, nullptr);
    EXPECT_EQ(fast_steps, 0U);
}

TEST_F(ProfilingJob, is_of_the_first_state_of_a_judged_task) {
    State init = *judge::first_state(judged, training.states.front());
    init[judged.segment_slot()].words[0] = 5;
    submit(init);
    EXPECT_EQ(run().found, nullptr);
    EXPECT_EQ(fast_steps, 0U);
}

TEST_F(ProfilingJob, gives_up_where_a_step_fails) {
    be_rough(3, 5);
    EXPECT_EQ(run().found, nullptr);
    EXPECT_EQ(fast_steps, 5U) << "it goes on nowhere";
}

TEST_F(ProfilingJob, ends_when_nobody_wants_it) {
    Board<ProfileOrder, Profiled> board(news);
    ProfileJobs jobs(context, board, kMe);
    board.give({{order.id(), order}});
    EXPECT_TRUE(jobs.work(0));
    const std::size_t begun = fast_steps;
    ASSERT_LT(begun, kProfiled * kSteps);
    board.give({});
    EXPECT_FALSE(jobs.work(0));
    // Within a step: as soon as it reads its data.
    InputStore fresh{InputLimits{}};
    const auto own = another(fresh);
    Board<ProfileOrder, Profiled> other(news);
    ProfileJobs stopped(*own, other, kMe);
    contents.when_read = [&] { other.give({}); };
    fast_steps = 0;
    other.give({{order.id(), order}});
    (void)stopped.work(0);
    EXPECT_EQ(fast_steps, 0U) << "its replay was stopped";
    contents.when_read = {};
    other.give({{order.id(), order}});
    for (int i = 0; i < 50; ++i) (void)stopped.work(0);
    EXPECT_NE(other.facts(order).found, nullptr) << "and it may be wanted again";
}

TEST_F(ProfilingJob, stops_between_steps_that_it_does_not_compute_itself) {
    when_stepping = [&] { stop = true; };
    EXPECT_EQ(run().found, nullptr);
    EXPECT_EQ(fast_steps, 1U);
}

// --- Limits ----------------------------------------------------------------------------------------------------------

TEST_F(ProfilingJob, limits_that_were_found_are_data_for_everybody) {
    const auto before = inputs.load(*context.node, order.live->task);
    ASSERT_TRUE(before);
    const std::size_t limits = judged.limits_data();
    EXPECT_TRUE((*before)->data->sets()[limits].id.is_zero());
    EXPECT_EQ(inputs.load(*context.node, order.live->task)->get(), before->get()) << "as long as nothing changes";
    const Bytes found = tolerance::encode_limits({1, 2, 3, 4, 5, 6, 7});
    const Hash32 id = crypto::content_id_of(found);
    change_task([&](Task& task) {
        task.state = TaskState::open;
        task.profiling.limits = found;
        task.spec.data_roots[limits] = id;
    });
    EXPECT_FALSE(contents.files.contains(id)) << "nobody uploads them";
    const auto after = inputs.load(*context.node, order.live->task);
    ASSERT_TRUE(after) << after.error().to_string();
    EXPECT_EQ(contents.files.at(id), found);
    EXPECT_EQ((*after)->data->sets()[limits].id, id);
    // Those that are still in use count.
    EXPECT_EQ(inputs.hold(InputLimits{}.memory_bytes - 2 * (*after)->memory_bytes + 1, Duty::bound), nullptr);
    EXPECT_NE(inputs.hold(InputLimits{}.memory_bytes - 2 * (*after)->memory_bytes, Duty::bound), nullptr);
}

TEST_F(ProfilingJob, limits_that_a_node_does_not_take_may_be_there) {
    const Bytes found = tolerance::encode_limits({1, 2, 3, 4, 5, 6, 7});
    change_task([&](Task& task) {
        task.profiling.limits = found;
        task.spec.data_roots[judged.limits_data()] = put(found);
    });
    contents.when_put = [] { return fail("content.upload_refused"); };
    EXPECT_TRUE(inputs.load(*context.node, order.live->task));
}

}  // namespace
}  // namespace quern::compute::worker::test
