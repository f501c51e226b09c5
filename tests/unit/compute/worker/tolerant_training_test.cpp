// A solver's training in tolerance mode, with the worker's own code: steps that are a little off, rows, the proof, and
// what a verifier's replay makes of it. A segment whose claim is too far ends in the canonical result.
#include <bit>
#include <cmath>
#include <filesystem>

#include "compute/core/history.h"
#include "compute/core/task_spec.h"
#include "compute/program/state_file.h"
#include "compute/tolerance/judge/judge_program.h"
#include "compute/worker/largest_rows.h"
#include "compute/worker/replay.h"
#include "compute/worker/task_time.h"
#include "compute/worker/training_jobs.h"
#include "content_node.h"
#include "lifecycle_fixture.h"
#include "support/training_game.h"

namespace quern::compute::worker::test {
namespace {

using namespace chain::exec::test;
namespace judge = tolerance::judge;
using tensor::State;

constexpr std::uint64_t kSteps = 2;  // of a segment, without the judging one
constexpr std::uint64_t kSegments = 20;
constexpr std::uint32_t kBound = 0x3c23d70a;  // 10^-2
constexpr std::uint32_t kLargest = 0x7f7fffff;
constexpr tolerance::Limits kWide{kBound, kBound, kBound, kBound, 0, 0, kLargest};
// Nothing that is computed otherwise is within these.
constexpr tolerance::Limits kNone{0, 0, 0, 0, 0, 0, kLargest};

// How a backend is off the canonical step: which bits of claimed slots it sets, at first and behind the first segment,
// and whether it gets exact slots wrong.
struct Roughness {
    std::uint32_t first = 3;
    std::uint32_t later = 3;
    bool exact = false;
    std::size_t fails_at = 0;  // this step, from 1 on; 0: none
};
class RoughSteps final : public FastSteps {
public:
    RoughSteps(const tensor::Program& program, const std::vector<judge::Class>& classes, const Roughness& roughness,
               std::size_t& steps)
        : classes_(classes),
          executor_(program, tensor::arith::Backend::scalar, nullptr),
          roughness_(roughness),
          steps_(steps) {}
    Status step(State& state, const tensor::DataSource& data, const tensor::Tensor& seed) override {
        if (!executor_.step(state, data, seed)) return fail("test.no_data");
        if (steps_ + 1 == roughness_.fails_at) return fail("torch.failed", "out of memory");
        const std::uint32_t bits = ++steps_ > kSteps ? roughness_.later : roughness_.first;
        for (std::size_t slot = 0; slot < classes_.size(); ++slot) {
            const bool is_exact = classes_[slot] == judge::Class::exact;
            if (is_exact && roughness_.exact && state[slot].dtype == tensor::DType::f32) state[slot].words[0] += 9;
            if (!is_exact && state[slot].words.size() > 1)
                for (std::uint32_t& word : state[slot].words) word |= bits;
        }
        return {};
    }

private:
    const std::vector<judge::Class>& classes_;
    tensor::Executor executor_;
    const Roughness& roughness_;
    std::size_t& steps_;
};

class TolerantTraining : public ::testing::Test {
protected:
    TolerantTraining() {
        options.datadir = testing::TempDir() + "/quern-tolerant-training-test";
        (void)Workspace::remove_all_but(options.datadir, {});
        options.fast_steps = [this](const tensor::Program& program) -> std::unique_ptr<FastSteps> {
            return std::make_unique<RoughSteps>(program, judged.classes, roughness, fast_steps);
        };
        training = quern::test::train(quern::test::small_architecture(), 1);
        judged = *judge::build_judged_programs(training.program(), kSegments);
        programs = std::make_shared<const core::TaskPrograms>(*judged.task(kSteps, kSegments));
        set_limits(kWide);
    }
    void set_limits(const tolerance::Limits& limits) {
        State init = *judge::first_state(judged, training.states.front());
        init[judged.segment_slot()].words[0] = first_segment;
        auto live = std::make_shared<TaskClaim>();
        auto& [task, claim, reports, custody] = *live;
        task.id = 1;
        task.spec = spec_of(*programs, kSteps + 1);
        task.spec.work.mode = chain::types::TaskMode::tolerance;
        task.spec.work.stride = kSteps + 1;
        task.spec.init_root = tensor::state_root(init);
        task.spec.work.largest = largest;
        task.spec.windows.heartbeat_s = task.spec.windows.verify_s = 1'000'000;
        task.state = TaskState::running;
        chain::market::set_plan(task, programs->plan.planned(kSteps + 1, kSteps + 1));
        task.spec.contents.programs.clear();
        for (const auto& program : programs->programs)
            task.spec.contents.programs.push_back(put(tensor::encode(program)));
        task.spec.contents.init = put(*program::write_state(judged.training, init));
        task.spec.data_roots.clear();
        for (const Bytes& set : training.data.sets()) task.spec.data_roots.push_back(put(set));
        task.spec.data_roots.push_back(put(tolerance::encode_limits(limits)));
        task.spec.data_roots.emplace_back();
        task.start_root = task.spec.init_root;
        claim.id = {1, 0, 0, 0};
        claim.state = ClaimState::working;
        claim.start_root = task.start_root;
        claim.seed_beacon = training.beacon;
        order.live = std::move(live);
    }
    Hash32 put(Bytes content) { return *context.node->put_content(content); }
    // Until there is a proof, or so many checkpoints.
    void train(std::size_t checkpoints = ~std::size_t{0}) {
        Board<TaskOrder, Trained> board(news);
        TrainingJobs jobs(context, board);
        board.give({{order.id(), order}});
        for (int slices = 0; slices < 300 && trained.proof == nullptr && trained.checkpoints.size() < checkpoints;
             ++slices) {
            if (!jobs.work(1)) board.wait(20, stop);
            trained = board.facts(order);
        }
    }
    [[nodiscard]] TaskClaim proved() const {
        TaskClaim live = *order.live;
        live.claim.state = ClaimState::custody;
        live.claim.history_root = trained.proof->history_root;
        live.claim.history_content = trained.proof->history_content;
        live.claim.claimed_content = trained.proof->claimed_content;
        live.claim.largest = trained.proof->largest;
        return live;
    }
    // Of all segments, by who has seen nothing yet; the first difference.
    [[nodiscard]] Expected<std::uint64_t> replay(const TaskClaim& live) {
        std::vector<std::uint64_t> segments(kSegments);
        for (std::uint64_t i = 0; i < kSegments; ++i) segments[i] = i;
        QUERN_TRY(auto replay, Replay::begin(context, live, segments, {}, {}));
        while (!replay->checkpoints_checked()) QUERN_CHECK(replay->check_checkpoints(Slice(context, 600'000)));
        QUERN_CHECK(replay->advance(Slice(context, 600'000)));
        return replay->first_difference();
    }
    [[nodiscard]] std::string check_largest(const TaskClaim& live) {
        const Status checked =
            check_largest_rows(*context.node, inputs, live, {options.backend, context.pool.get(), &context.stopping});
        return std::string(checked ? "" : checked.error().name);
    }
    // The last state as it is in the store.
    [[nodiscard]] State last_state() {
        const auto manifest = context.inputs.manifest(*context.node, proved());
        return *context.inputs.checkpoint(*context.node, judged.training,
                                          {(*manifest)->checkpoint_contents.back(), (*manifest)->state_roots.back()});
    }
    // After so many segments of nothing but canonical steps.
    [[nodiscard]] State canonical(std::uint64_t segments) const {
        State state = training.states.front();
        tensor::Executor executor(training.program(), tensor::arith::Backend::scalar, nullptr);
        for (std::uint64_t step = 0; step < segments * kSteps; ++step)
            EXPECT_TRUE(executor.step(state, training.data, training.seed));
        return state;
    }

    quern::test::Training training;
    judge::JudgedPrograms judged;
    std::shared_ptr<const core::TaskPrograms> programs;
    Roughness roughness;
    std::size_t fast_steps = 0;
    std::uint32_t first_segment = 0;
    std::uint32_t largest = 0;  // that the task wants named; set before its limits
    Contents contents;
    WorkerOptions options;
    const SystemClock clock;
    InputStore inputs{InputLimits{}};
    std::atomic<bool> stop{false};
    Bell news;
    TaskOrder order;
    Trained trained;
    Context context{options,
                    clock,
                    inputs,
                    stop,
                    [this] { return std::make_unique<ContentNode>(contents); },
                    std::make_unique<ContentNode>(contents),
                    std::make_shared<ThreadPool>(1),
                    std::make_unique<OsRng>()};
};

TEST_F(TolerantTraining, claims_what_it_has_trained_and_verifiers_come_to_the_same_roots) {
    train();
    ASSERT_NE(trained.proof, nullptr);
    EXPECT_EQ(fast_steps, kSegments * kSteps);
    const auto difference = replay(proved());
    ASSERT_TRUE(difference) << difference.error().to_string();
    EXPECT_EQ(*difference, 0U);
    const State last = last_state();
    EXPECT_TRUE(judge::accepted(judged, last));
    EXPECT_NE(judge::training_state(judged, last), canonical(kSegments)) << "it was off, or this tests nothing";
}

TEST_F(TolerantTraining, takes_the_canonical_result_where_its_own_is_too_far) {
    set_limits(kNone);
    train();
    ASSERT_NE(trained.proof, nullptr);
    EXPECT_EQ(fast_steps, kSteps) << "the first segment is checked";
    const auto difference = replay(proved());
    ASSERT_TRUE(difference) << difference.error().to_string();
    EXPECT_EQ(*difference, 0U);
    EXPECT_EQ(judge::training_state(judged, last_state()), canonical(kSegments));
}

// A program may be quiet in the first segments and magnify rounding in later ones.
TEST_F(TolerantTraining, takes_the_canonical_result_where_it_gets_too_far_later) {
    roughness.later = 0xffff;
    train();
    ASSERT_NE(trained.proof, nullptr);
    EXPECT_EQ(fast_steps, 2 * kSteps);
    EXPECT_EQ(*replay(proved()), 0U);
}

TEST_F(TolerantTraining, goes_on_canonically_where_a_step_fails) {
    for (const std::size_t step : {1U, 6U}) {
        roughness.fails_at = step;
        (void)Workspace::remove_all_but(options.datadir, {});
        fast_steps = 0;
        trained = {};
        train();
        ASSERT_NE(trained.proof, nullptr) << step;
        EXPECT_EQ(fast_steps, step - 1);
        EXPECT_EQ(*replay(proved()), 0U) << step;
    }
}

TEST_F(TolerantTraining, takes_the_canonical_result_where_an_exact_slot_is_wrong) {
    roughness.exact = true;
    train();
    ASSERT_NE(trained.proof, nullptr);
    EXPECT_EQ(fast_steps, kSteps);
    EXPECT_EQ(*replay(proved()), 0U);
    EXPECT_TRUE(judge::accepted(judged, last_state())) << "no claim was refused";
}

// Who leaves segments unchecked learns of it from the verifiers.
TEST_F(TolerantTraining, is_found_wrong_where_it_checks_too_little) {
    roughness.later = 0xffff;
    options.check_segments = 1U << 20;
    train();
    ASSERT_NE(trained.proof, nullptr);
    EXPECT_EQ(fast_steps, kSegments * kSteps);
    EXPECT_EQ(*replay(proved()), 2 * (kSteps + 1));
}

// That the movement is out of bounds a solver sees without a replay.
TEST_F(TolerantTraining, takes_the_canonical_result_where_it_moves_too_far_later) {
    const auto movement = [&](std::uint64_t segment) {
        const State before = canonical(segment);
        const State after = canonical(segment + 1);
        double sum = 0;
        for (std::size_t slot = 0; slot < judged.classes.size(); ++slot) {
            if (judged.classes[slot] != judge::Class::parameter) continue;
            for (std::size_t i = 0; i < after[slot].words.size(); ++i) {
                const double way =
                    std::bit_cast<float>(after[slot].words[i]) - std::bit_cast<float>(before[slot].words[i]);
                sum += way * way;
            }
        }
        return std::sqrt(sum);
    };
    const double first = movement(0);
    const double second = movement(1);
    ASSERT_GT(std::abs(first - second), 0.01 * first);
    const auto between = std::bit_cast<std::uint32_t>(static_cast<float>((first + second) / 2));
    tolerance::Limits limits = kWide;
    (second > first ? limits.most_movement : limits.least_movement) = between;
    set_limits(limits);
    options.check_segments = 1U << 20;
    train();
    ASSERT_NE(trained.proof, nullptr);
    EXPECT_EQ(fast_steps, 2 * kSteps) << "the second segment is refused";
    EXPECT_EQ(*replay(proved()), 0U);
}

TEST_F(TolerantTraining, is_of_tasks_whose_strides_and_stretches_are_segments) {
    chain::types::Task task = order.live->task;
    EXPECT_TRUE(judged_task(*programs, task));
    for (const std::uint64_t stride : {1U, 2U, 4U}) {
        task.spec.work.stride = stride;
        EXPECT_EQ(judged_task(*programs, task).error().name, "tolerance.not_a_judged_task");
    }
    task.spec.work.stride = 2 * (kSteps + 1);
    EXPECT_TRUE(judged_task(*programs, task));
    task.spec.work.tranche = kSegments / 2 * (kSteps + 1);
    EXPECT_EQ(judged_task(*programs, task).error().name, "tolerance.not_a_judged_task") << "twice as many rows";
    const auto other = core::TaskPrograms::make({programs->programs[1], programs->programs[0]}, programs->plan.body());
    ASSERT_TRUE(other);
    EXPECT_FALSE(judged_task(*other, order.live->task));
}

// A publisher may be reading the words that another backend, or a replay, is about to replace.
TEST_F(TolerantTraining, says_before_any_word_goes) {
    std::set<std::size_t> told;
    class AskingSteps final : public FastSteps {
    public:
        AskingSteps(std::set<std::size_t>& told, std::size_t slots) : told_(told), slots_(slots) {}
        Status step(State&, const tensor::DataSource&, const tensor::Tensor&) override {
            EXPECT_EQ(told_.size(), slots_);
            told_.clear();
            return {};
        }

    private:
        std::set<std::size_t>& told_;
        std::size_t slots_;
    };
    const MakeFastSteps make = [&](const tensor::Program& program) {
        return std::make_unique<AskingSteps>(told, program.slots.size());
    };
    std::vector<Bytes> sets = training.data.sets();
    sets.push_back(tolerance::encode_limits(kWide));
    const tensor::MemoryData data(sets);
    SeededRng rng(1);
    const std::string file = options.datadir + "/rows";
    std::filesystem::create_directories(options.datadir);
    std::filesystem::remove(file);
    auto steps = TolerantSteps::make({*programs, order.live->task, data, training.seed, FaultPlan{},
                                      tensor::arith::Backend::scalar, nullptr, nullptr, make, 1, rng, file, false, 0});
    ASSERT_TRUE(steps) << steps.error().to_string();
    (*steps)->set_before_writing([&](std::size_t slot) { told.insert(slot); });
    State state = *judge::first_state(judged, training.states.front());
    for (std::uint64_t step = 1; step <= kSteps; ++step) ASSERT_TRUE((*steps)->run(state, step));
    EXPECT_TRUE(told.empty());
    ASSERT_TRUE((*steps)->run(state, kSteps + 1));
    EXPECT_EQ(told.size(), judged.training.slots.size()) << "the checked segment begins anew";
    EXPECT_EQ(judge::training_state(judged, state), canonical(1)) << "steps that do nothing are refused";
}

TEST_F(TolerantTraining, is_declined_where_the_first_state_is_another) {
    const auto examined = [&] {
        Board<TaskOrder, Examined> board(news);
        ExamineJobs jobs(context, board);
        board.give({{order.id(), order}});
        (void)jobs.work();
        return board.facts(order);
    };
    EXPECT_TRUE(examined().fit);
    first_segment = 5;
    set_limits(kWide);
    InputStore fresh{InputLimits{}};
    Context other{options,
                  clock,
                  fresh,
                  stop,
                  context.connect,
                  std::make_unique<ContentNode>(contents),
                  std::make_shared<ThreadPool>(1),
                  std::make_unique<OsRng>()};
    Board<TaskOrder, Examined> board(news);
    ExamineJobs jobs(other, board);
    board.give({{order.id(), order}});
    (void)jobs.work();
    EXPECT_TRUE(board.facts(order).unfit.starts_with("tolerance.bad_first_state")) << board.facts(order).unfit;
}

// Whatever the first state counts: a row is where the programs read it.
TEST_F(TolerantTraining, writes_rows_where_the_program_reads_them) {
    constexpr tolerance::Limits kAny{kLargest, kLargest, kLargest, kLargest, kLargest, 0, kLargest};
    first_segment = 5;
    set_limits(kAny);
    train();
    ASSERT_NE(trained.proof, nullptr);
    EXPECT_EQ(*replay(proved()), 0U);
}

TEST_F(TolerantTraining, claims_nothing_where_the_program_reads_behind_the_rows) {
    first_segment = kSegments;
    set_limits(kWide);
    train();
    EXPECT_EQ(trained.proof, nullptr);
}

TEST_F(TolerantTraining, claims_nothing_where_its_rows_are_gone) {
    train(3);
    trained = {};
    std::size_t removed = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(options.datadir))
        if (entry.path().filename().string().starts_with("claimed-"))
            removed += std::filesystem::remove(entry.path()) ? 1 : 0;
    ASSERT_EQ(removed, 1U);
    train();
    EXPECT_EQ(trained.proof, nullptr) << "rows of zeros are not what it has trained";
}

TEST_F(TolerantTraining, is_canonical_where_nothing_is_faster) {
    options.fast_steps = [](const tensor::Program&) { return nullptr; };
    train();
    ASSERT_NE(trained.proof, nullptr);
    EXPECT_EQ(*replay(proved()), 0U);
    EXPECT_EQ(judge::training_state(judged, last_state()), canonical(kSegments));
    EXPECT_TRUE(judge::accepted(judged, last_state()));
}

// Who checks each segment gains nothing by libtorch, and might miss a heartbeat by it.
TEST_F(TolerantTraining, is_canonical_where_there_is_no_time_for_both) {
    cost::Profile profile;
    profile.nanoseconds.fill(1);
    const auto& task = order.live->task;
    const double segment = training_time(*programs, task, {0, kSteps + 1}, profile);
    const double both = static_cast<double>(task.spec.windows.heartbeat_s) / (2 * kTimeMargin * segment);
    context.profile = &profile;
    const auto steps_at = [&](double nanoseconds) {
        profile.nanoseconds.fill(nanoseconds);
        (void)Workspace::remove_all_but(options.datadir, {});
        fast_steps = 0;
        trained = {};
        train();
        EXPECT_NE(trained.proof, nullptr);
        return fast_steps;
    };
    EXPECT_EQ(steps_at(1.01 * both), 0U);
    EXPECT_EQ(steps_at(0.99 * both), kSegments * kSteps);
    options.check_segments = 1U << 20;
    EXPECT_EQ(steps_at(1.01 * both), kSegments * kSteps) << "it hardly replays";
}

TEST_F(TolerantTraining, goes_on_after_a_restart_with_the_rows_that_it_has_written) {
    train(3);
    ASSERT_EQ(trained.proof, nullptr);
    const std::size_t before = fast_steps;
    EXPECT_LT(before, kSegments * kSteps);
    trained = {};
    train();
    ASSERT_NE(trained.proof, nullptr);
    EXPECT_EQ(*replay(proved()), 0U);
    // And when everything is trained and nothing is proved.
    const Hash32 claimed = trained.proof->claimed_content;
    contents.files.erase(claimed);
    trained = {};
    train();
    ASSERT_NE(trained.proof, nullptr);
    EXPECT_EQ(trained.proof->claimed_content, claimed);
    EXPECT_EQ(*replay(proved()), 0U);
}

// A verifier comes to the segments that the solver has named, whatever its own arithmetic is.
TEST_F(TolerantTraining, names_the_segments_that_move_most_and_a_verifier_comes_to_them) {
    largest = 3;
    set_limits(kWide);
    train();
    ASSERT_NE(trained.proof, nullptr);
    ASSERT_EQ(trained.proof->largest.size(), 3U);
    EXPECT_EQ(check_largest(proved()), "");
    TaskClaim live = proved();
    const auto segments = core::segments_of(live.task, live.claim, {});
    EXPECT_TRUE(std::includes(segments.begin(), segments.end(), live.claim.largest.begin(), live.claim.largest.end()));
    // Others it does not let pass.
    const std::vector<std::uint64_t> first{0, 1, 2};
    live.claim.largest = proved().claim.largest == first ? std::vector<std::uint64_t>{0, 1, 3} : first;
    EXPECT_EQ(check_largest(live), "tolerance.wrong_largest");
    live.task.spec.work.largest = 0;
    EXPECT_EQ(check_largest(live), "") << "nobody asked for any";
    // The same once everything is trained and nothing is proved.
    const auto named = trained.proof->largest;
    trained = {};
    train();
    ASSERT_NE(trained.proof, nullptr);
    EXPECT_EQ(trained.proof->largest, named);
}

// Where it takes the canonical result instead of its own its row is that result: what verifiers measure is the history.
TEST_F(TolerantTraining, claims_the_states_of_its_history_whatever_was_refused) {
    largest = 2;
    const auto expect_bound = [&](const char* what) {
        (void)Workspace::remove_all_but(options.datadir, {});
        fast_steps = 0;
        trained = {};
        train();
        ASSERT_NE(trained.proof, nullptr) << what;
        EXPECT_EQ(check_largest(proved()), "") << what;
        EXPECT_EQ(*replay(proved()), 0U) << what;
    };
    set_limits(kNone);
    expect_bound("the first segment");
    set_limits(kWide);
    roughness.later = 0xffff;
    expect_bound("a later segment");
    roughness = {};
    roughness.exact = true;
    expect_bound("an exact slot");
    roughness = {};
    tolerance::Limits still = kWide;
    still.most_movement = 0;  // so is the canonical result
    set_limits(still);
    expect_bound("all segments");
    EXPECT_FALSE(judge::accepted(judged, last_state()));
}

// Its update is 64 times what it should be: it is among those that are replayed, which shows that it is wrong.
TEST_F(TolerantTraining, names_a_segment_that_it_has_forged_with_a_large_step) {
    largest = 1;
    set_limits(kWide);
    constexpr std::uint64_t kForged = 13;
    options.fault = {Fault::large_update, kForged * (kSteps + 1) + 1};
    train();
    ASSERT_NE(trained.proof, nullptr);
    const TaskClaim live = proved();
    EXPECT_EQ(live.claim.largest, std::vector<std::uint64_t>{kForged});
    EXPECT_EQ(check_largest(live), "") << "it does not lie about that";
    EXPECT_EQ(*replay(live), (kForged + 1) * (kSteps + 1));
}

TEST_F(TolerantTraining, does_not_get_through_with_rows_that_hide_a_step) {
    largest = 1;
    set_limits(kWide);
    constexpr std::uint64_t kForged = 13;
    options.fault = {Fault::large_update, kForged * (kSteps + 1) + 1};
    train();
    ASSERT_NE(trained.proof, nullptr);
    TaskClaim live = proved();
    // Of the forged segment and all after it the rows of the one before: nothing moves there.
    Bytes rows = contents.files.at(live.claim.claimed_content);
    const std::size_t row = judged.layout.row_bytes();
    for (std::size_t i = kForged; i < kSegments; ++i)
        std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>((kForged - 1) * row), row,
                    rows.begin() + static_cast<std::ptrdiff_t>(i * row));
    live.claim.claimed_content = put(rows);
    live.claim.largest = {0};
    EXPECT_EQ(check_largest(live), "tolerance.unbound_rows");
    // Where rows cannot be had nobody is told that they are wrong.
    live.claim.claimed_content = Hash32{{7}};
    EXPECT_EQ(check_largest(live), std::string(kContentNotFound));
}

TEST_F(TolerantTraining, is_found_out_where_it_names_others) {
    largest = 2;
    set_limits(kWide);
    options.fault = {Fault::wrong_largest, 0};
    train();
    ASSERT_NE(trained.proof, nullptr);
    EXPECT_EQ(check_largest(proved()), "tolerance.wrong_largest");
    EXPECT_EQ(*replay(proved()), 0U) << "all else is right";
}

TEST_F(TolerantTraining, is_found_wrong_where_it_claims_other_rows) {
    train();
    TaskClaim live = proved();
    Bytes rows = contents.files.at(live.claim.claimed_content);
    rows[3] ^= 0x40;  // the first parameter of the first segment
    live.claim.claimed_content = put(rows);
    const auto difference = replay(live);
    ASSERT_TRUE(difference) << difference.error().to_string();
    EXPECT_EQ(*difference, kSteps + 1);
}

TEST_F(TolerantTraining, is_missing_where_its_rows_are) {
    train();
    TaskClaim live = proved();
    const Bytes rows = contents.files.at(live.claim.claimed_content);
    live.claim.claimed_content = Hash32{{7}};
    EXPECT_TRUE(is_withheld(replay(live).error())) << "nobody has them";
    live.claim.claimed_content = put(Bytes(rows.begin(), rows.end() - 1));
    EXPECT_EQ(replay(live).error().name, "inputs.wrong_data_size");
    EXPECT_TRUE(is_withheld(replay(live).error())) << "the solver's fault, and not the submitter's";
}

// A verifier says that the data is there when it has read the rows of its segments, and not before.
TEST_F(TolerantTraining, is_missing_where_a_row_cannot_be_read) {
    train();
    const TaskClaim live = proved();
    ASSERT_TRUE(replay(live));
    contents.unreadable = Error{kContentNotFound, {}};
    InputStore fresh{InputLimits{}};
    Context other{options,
                  clock,
                  fresh,
                  stop,
                  context.connect,
                  std::make_unique<ContentNode>(contents),
                  std::make_shared<ThreadPool>(1),
                  std::make_unique<OsRng>()};
    auto again = Replay::begin(other, live, {1}, {}, {});
    ASSERT_TRUE(again) << again.error().to_string();
    Status checked;
    for (int i = 0; i < 100 && checked && !(*again)->checkpoints_checked(); ++i)
        checked = (*again)->check_checkpoints(Slice(other, 600'000));
    ASSERT_FALSE(checked);
    EXPECT_TRUE(is_not_found(checked.error())) << checked.error().to_string();
}

}  // namespace
}  // namespace quern::compute::worker::test
