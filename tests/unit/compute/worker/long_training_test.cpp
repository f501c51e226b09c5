// A long training by strides, with the solver's own code: what it keeps grows with strides and checkpoints and not with
// steps, and what it publishes is what a replay of it comes to.
#include <chrono>
#include <thread>

#include "chain/market/work.h"
#include "compute/core/history.h"
#include "compute/core/state_content.h"
#include "compute/program/safetensors.h"
#include "compute/program/state_file.h"
#include "compute/worker/finding.h"
#include "compute/worker/replay.h"
#include "compute/worker/task_time.h"
#include "compute/worker/training_jobs.h"
#include "content_node.h"
#include "lifecycle_fixture.h"
#include "unit/vm/tensor/test_programs.h"

namespace quern::compute::worker::test {
namespace {

using namespace chain::exec::test;

constexpr std::uint64_t kLongSteps = 10'000;
constexpr std::uint64_t kLongInterval = 5'000;
constexpr std::uint64_t kLongStride = 100;

// What is trained, and by what steps.
struct Subject {
    core::TaskPrograms programs;
    tensor::MemoryData data;
    tensor::State init;
    std::uint64_t interval = 1;
    std::uint64_t stride = 1;
};
Subject tiny_subject(std::uint64_t steps = kLongSteps, std::uint64_t interval = kLongInterval) {
    return {tiny().programs(steps), tiny().data, tiny().init, interval, kLongStride};
}

class LongTraining : public ::testing::Test {
protected:
    explicit LongTraining(const Subject& subject = tiny_subject()) {
        options.datadir = testing::TempDir() + "/quern-long-training-test";
        (void)Workspace::remove_all_but(options.datadir, {});
        auto live = std::make_shared<TaskClaim>();
        auto& [task, claim, reports, custody] = *live;
        task.id = 1;
        task.spec = spec_of(subject.programs, subject.interval);
        task.spec.init_root = tensor::state_root(subject.init);
        task.spec.work.stride = subject.stride;
        task.spec.windows.heartbeat_s = task.spec.windows.verify_s = 1'000'000;
        task.state = TaskState::running;
        chain::market::set_plan(task, subject.programs.plan.planned(subject.interval, subject.stride));
        const tensor::Program& program = subject.programs.any();
        task.spec.contents.programs = {put(tensor::encode(program))};
        task.spec.contents.init = put(*program::write_state(program, subject.init));
        task.spec.data_roots = {put(subject.data.sets().front())};
        task.start_root = task.spec.init_root;
        claim.id = {1, 0, 0, 0};
        claim.state = ClaimState::working;
        claim.start_root = task.start_root;
        order.live = std::move(live);
    }
    // Of two tranches.
    void work_on(std::uint32_t stretch, const Hash32& start_root) {
        auto live = std::make_shared<TaskClaim>(*order.live);
        live->task.spec.work.tranche = kLongInterval;
        live->claim.id.stretch = stretch;
        live->claim.start_root = start_root;
        live->claim.step = stretch * kLongInterval;
        order.live = std::move(live);
        trained = {};
    }
    Hash32 put(Bytes content) { return *context.node->put_content(content); }
    // Of another worker, which has seen nothing of the task yet.
    Context context_with(InputStore& fresh) {
        return {options,
                clock,
                fresh,
                stop,
                {},
                std::make_unique<ContentNode>(contents),
                std::make_shared<ThreadPool>(1),
                std::make_unique<OsRng>()};
    }
    // The proved claim when its verifiers are drawn, and what its solver does then.
    TaskClaim drawn(std::uint64_t samples, std::uint8_t beacon = 1) const {
        TaskClaim live = proved();
        live.task.spec.work.samples = static_cast<std::uint32_t>(samples);
        live.claim.verify_beacon = Hash32{{beacon}};
        live.reports.resize(2);
        live.reports[0].verifier.data[0] = 1;
        live.reports[1].verifier.data[0] = 2;
        return live;
    }
    void serve(const TaskClaim& live) {
        Board<TaskOrder, Trained> board(news);
        TrainingJobs jobs(context, board);
        const TaskOrder custody{std::make_shared<TaskClaim>(live)};
        board.give({{custody.id(), custody}});
        // It waits for what it has sent; nothing wakes it when all is.
        for (int idle = 0; idle < 10 || (idle < 400 && !is_served(live)); ++idle) {
            while (jobs.work(1'000)) idle = 0;
            board.wait(50, stop);
        }
    }
    [[nodiscard]] Expected<std::unique_ptr<Replay>> begin_replay(const TaskClaim& live,
                                                                 const chain::types::VerifierReport& report) {
        const std::uint64_t segments =
            core::segment_count(chain::market::stretch_of(live).steps, live.task.spec.work.interval);
        QUERN_TRY(auto replay, Replay::begin(context, live,
                                             core::draw_segments(live.claim.verify_beacon, report.verifier, segments,
                                                                 live.task.spec.work.samples),
                                             {}, {}));
        while (!replay->checkpoints_checked()) QUERN_CHECK(replay->check_checkpoints(Slice(context, 0)));
        return replay;
    }
    bool is_served(const TaskClaim& live) {
        return std::all_of(live.reports.begin(), live.reports.end(),
                           [&](const auto& report) { return begin_replay(live, report).has_value(); });
    }
    // Whether each verifier has what it was drawn for, and finds it right.
    void expect_served(const TaskClaim& live) {
        for (const auto& report : live.reports) {
            auto replay = begin_replay(live, report);
            ASSERT_TRUE(replay) << replay.error().to_string();
            ASSERT_TRUE((*replay)->advance(Slice(context, 600'000)));
            EXPECT_EQ((*replay)->first_difference(), 0U);
        }
    }
    void train() {
        work();
        ASSERT_NE(trained.proof, nullptr);
    }
    void work(std::uint64_t idle_ms = 60'000) {
        Board<TaskOrder, Trained> board(news);
        TrainingJobs jobs(context, board);
        board.give({{order.id(), order}});
        for (int slices = 0; slices < 10'000 && trained.proof == nullptr; ++slices) {
            if (!jobs.work(1'000)) {
                if (when_idle) when_idle(board.facts(order));
                board.wait(idle_ms, stop);
            }
            trained = board.facts(order);
        }
    }
    // The claim that is proved: of what was trained, and of the checkpoints as they are in the store.
    void expect_right() {
        auto replay = Replay::begin(context, proved(), {1, 0}, {}, {});
        ASSERT_TRUE(replay) << replay.error().to_string();
        ASSERT_TRUE((*replay)->advance(Slice(context, 600'000)));
        EXPECT_EQ((*replay)->first_difference(), 0U);
    }
    // The claim as it is proved.
    [[nodiscard]] TaskClaim proved() const {
        TaskClaim live = *order.live;
        live.claim.state = ClaimState::custody;
        live.claim.history_root = trained.proof->history_root;
        live.claim.history_content = trained.proof->history_content;
        return live;
    }

    // Trains; the most contents that the node had when some were about to go.
    std::size_t train_and_count() {
        std::size_t most = 0;
        contents.when_dropped = [&] {
            most = std::max(most, contents.files.size());
            return Status();
        };
        train();
        contents.when_dropped = nullptr;
        return most;
    }

    Contents contents;
    WorkerOptions options;
    const SystemClock clock;
    InputStore inputs{InputLimits{}};
    std::atomic<bool> stop{false};
    Bell news;
    TaskOrder order;
    Trained trained;
    std::function<void(const Trained&)> when_idle;  // there is nothing to train until something is in the store
    Context context{options,
                    clock,
                    inputs,
                    stop,
                    [this] { return std::make_unique<ContentNode>(contents); },
                    std::make_unique<ContentNode>(contents),
                    std::make_shared<ThreadPool>(1),
                    std::make_unique<OsRng>()};
};

TEST_F(LongTraining, takes_data_of_the_headers_size_alone) {
    for (const std::size_t size : {3U, 5U}) {
        chain::types::Task task = order.live->task;
        task.spec.data_roots = {put(Bytes(size, 7))};
        EXPECT_EQ(inputs.load(*context.node, task).error().name, "inputs.wrong_data_size");
    }
    const auto loaded = inputs.load(*context.node, order.live->task);
    ASSERT_TRUE(loaded) << loaded.error().to_string();
    ASSERT_EQ((*loaded)->data->sets().size(), 1U);
    EXPECT_EQ((*loaded)->data->sets().front().size, tiny().data.sets().front().size());
    EXPECT_TRUE(contents.read.empty()) << "what no step has asked for is not fetched";
}

// A stranger's servers may have what no node has; what is here is not asked for there.
TEST_F(LongTraining, asks_the_tasks_uris_for_what_no_node_serves) {
    class Sources final : public ContentSources {
    public:
        bool fetches(const chain::types::Task& task, const WantedContent& content, Duty duty) override {
            EXPECT_EQ(task.id, 1U);
            EXPECT_EQ(duty, Duty::voluntary);
            asked.push_back(content);
            return have;
        }
        bool have = true;
        std::vector<WantedContent> asked;
    };
    chain::types::Task task = order.live->task;
    task.id = 1;
    const std::vector<Hash32> named{task.spec.contents.programs.front(), task.spec.data_roots.front(),
                                    task.spec.contents.init};
    for (std::size_t i = 0; i < named.size(); ++i) {
        const auto lacking = contents.files.extract(named[i]);
        Sources sources;
        InputStore fresh(InputLimits{}, &sources);
        const auto coming = fresh.load(*context.node, task, Duty::voluntary);
        ASSERT_FALSE(coming);
        EXPECT_TRUE(is_on_its_way(coming.error())) << coming.error().to_string();
        ASSERT_EQ(sources.asked.size(), 1U);
        EXPECT_EQ(sources.asked[0].id, named[i]);
        EXPECT_EQ(sources.asked[0].is_only_data, i == 1);
        const auto& size = sources.asked[0].size;
        EXPECT_EQ(size.value_or(0), i == 1 ? tiny().data.sets().front().size() : 0) << "the program says it of data";
        EXPECT_GE(size.value_or(sources.asked[0].max_bytes), lacking.mapped().size());
        sources.have = false;
        EXPECT_TRUE(is_not_found(fresh.load(*context.node, task, Duty::voluntary).error()));
        contents.files[named[i]] = lacking.mapped();
        ASSERT_TRUE(fresh.load(*context.node, task, Duty::voluntary));
        EXPECT_EQ(sources.asked.size(), 2U);
    }
}

TEST_F(LongTraining, keeps_a_root_a_stride_and_three_states) {
    const std::size_t given = contents.files.size();
    train();
    ASSERT_NE(trained.history, nullptr);
    EXPECT_EQ(trained.history->size(), kLongSteps / kLongStride + 1);
    EXPECT_EQ(trained.checkpoints.size(), kLongSteps / kLongInterval);
    EXPECT_EQ(contents.files.size(), given + 3) << "two states besides the first one, and the manifest";
    const std::uint64_t roots = Hash32::kSize * (kLongSteps / kLongStride + 1);
    const auto kept = Workspace::used_bytes(options.datadir);
    ASSERT_TRUE(kept.has_value());
    EXPECT_GT(*kept, roots);
    EXPECT_LT(*kept, roots + 1'000);
    const auto& manifest = contents.files.at(trained.proof->history_content);
    EXPECT_LT(manifest.size(), roots + 200);
}

class MillionSteps : public LongTraining {
protected:
    MillionSteps() : LongTraining(tiny_subject(1'000'000, 10'000)) {}
};

TEST_F(MillionSteps, take_a_solver_three_states_and_little_more) {
    options.keep_states_mib = 0;
    const std::size_t given = contents.files.size();
    const std::size_t most = train_and_count();
    EXPECT_LE(most, given + 2) << "the newest, and the one before it";
    EXPECT_EQ(contents.files.size(), given + 1 + 1) << "the last state, and the manifest";
    const auto kept = Workspace::used_bytes(options.datadir);
    ASSERT_TRUE(kept.has_value());
    EXPECT_LT(*kept, 500'000U) << "a root a stride, and a record a checkpoint";
    const TaskClaim live = drawn(5);
    serve(live);
    EXPECT_LE(contents.files.size(), given + 1 + 1 + 2 * 5 + 1);
    expect_served(live);
}

// A state of two slots, one of which is a content of its own.
Subject large_subject() {
    const tensor::Program program = tensor::test::deep_program(1, 300);
    tensor::State init = tensor::test::random_state(program, 5, tensor::test::Fill::moderate);
    return {*core::TaskPrograms::make({program}, core::plain_body(12)), tensor::test::random_data(program, 6),
            std::move(init), 1, 1};
}
class LargeTraining : public LongTraining {
protected:
    LargeTraining() : LongTraining(large_subject()) {}
    static constexpr std::uint64_t kState = 2;  // contents of a state
};

TEST_F(LargeTraining, keeps_few_states_and_computes_again_what_verifiers_are_drawn_for) {
    options.keep_states_mib = 0;
    const std::size_t given = contents.files.size();
    const std::size_t most = train_and_count();
    EXPECT_EQ(contents.files.size(), given + kState + 1) << "the last state, and the manifest";
    EXPECT_LE(most, given + 2 * kState + 1) << "one more, and a slot on its way";

    const TaskClaim live = drawn(3);
    const auto wanted = drawn_steps(live);
    ASSERT_GT(wanted.size(), 2U);
    serve(live);
    EXPECT_EQ(contents.files.size(), given + kState * (1 + wanted.size() - wanted.count(0)) + 1);
    expect_served(live);
    // Drawn anew, also after a restart: only what is not there.
    const auto before = contents.files;
    serve(live);
    EXPECT_EQ(contents.files, before);
    const TaskClaim again = drawn(3, 2);
    serve(again);
    expect_served(again);
    const TaskClaim all = drawn(12);
    serve(all);
    expect_served(all);
    EXPECT_EQ(contents.files.size(), given + kState * 12 + 1);
}

// A verifier that was drawn for one segment says that data are missing where the state is withheld that the stretch or
// its last segment begins with, or its last one.
TEST_F(LargeTraining, verifiers_miss_states_that_they_were_not_drawn_for) {
    train();
    TaskClaim live = drawn(1);
    std::uint8_t beacon = 1;
    const auto segment = [&] {
        return core::draw_segments(live.claim.verify_beacon, live.reports[0].verifier, 12, 1).front();
    };
    while (segment() == 0 || segment() == 11) live = drawn(1, ++beacon);
    serve(live);
    expect_served(live);
    const auto& file = contents.files.at(trained.proof->history_content);
    const auto manifest = core::decode_manifest(file);
    ASSERT_TRUE(manifest);
    const auto all = contents.files;
    for (const std::size_t state : {0U, 11U, 12U}) {
        contents.files.erase(manifest->checkpoint_contents[state]);
        EXPECT_FALSE(begin_replay(live, live.reports[0])) << state;
        contents.files = all;
    }
    contents.files.erase(manifest->checkpoint_contents[segment() == 5 ? 6 : 5]);
    EXPECT_TRUE(begin_replay(live, live.reports[0]));
}

TEST_F(LargeTraining, keeps_every_second_state_where_half_of_them_have_room) {
    options.keep_states_mib = 2;  // 5 of 400 KiB
    const std::size_t given = contents.files.size();
    train();
    EXPECT_EQ(contents.files.size(), given + kState * (5 + 1) + 1) << "and the last one";
    const TaskClaim all = drawn(12);
    serve(all);
    expect_served(all);
}

TEST_F(LargeTraining, keeps_what_its_node_does_not_let_go_and_tries_again) {
    options.keep_states_mib = 0;
    const std::size_t given = contents.files.size();
    int dropped = 0;
    contents.when_dropped = [&]() -> Status {
        if (++dropped == 1) return busy("http.closed");  // both go with the next one
        for (const auto& [id, content] : contents.files)
            if (dropped == 2 && core::is_state_content(content)) contents.held.insert(id);
        if (dropped == 5) contents.held.clear();
        return {};
    };
    train();
    EXPECT_GT(dropped, 5);
    EXPECT_EQ(contents.files.size(), given + kState + 1);
}

// What it could not take out of its node after the training must not go when verifiers are drawn for it.
TEST_F(LargeTraining, takes_nothing_away_that_it_computes_again) {
    options.keep_states_mib = 0;
    const std::size_t given = contents.files.size();
    contents.when_dropped = [] { return Status(busy("http.closed")); };
    train();
    contents.when_dropped = []() -> Status {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the next state is in the store meanwhile
        return {};
    };
    const TaskClaim all = drawn(12);
    serve(all);
    expect_served(all);
    EXPECT_EQ(contents.files.size(), given + kState * 12 + 1);
}

TEST_F(LargeTraining, leaves_its_states_to_a_node_that_lets_nobody_take_them_away) {
    options.keep_states_mib = 0;
    const std::size_t given = contents.files.size();
    contents.when_dropped = [] { return Status(fail("node.rpc_error")); };
    train();
    EXPECT_EQ(contents.files.size(), given + kState * 12 + 1);
    const TaskClaim live = drawn(12);
    serve(live);
    expect_served(live);
}

TEST_F(LargeTraining, does_not_serve_what_it_did_not_claim) {
    options.keep_states_mib = 0;
    train();
    std::vector<Hash32> history = *trained.history;
    history[5] = history[4];
    const std::size_t stored = contents.files.size();
    const Hash32 start = order.live->task.spec.contents.init;
    auto regeneration = *Regeneration::begin(context, proved(), {{5}, history, 0, start, {}, false}, {}, [] {});
    ASSERT_NE(regeneration, nullptr);
    EXPECT_EQ(regeneration->advance(Slice(context, 600'000)).error().name, "worker.other_state");
    EXPECT_EQ(contents.files.size(), stored);
    EXPECT_EQ(*Regeneration::begin(context, proved(), {{0}, history, 0, start, {}, true}, {}, [] {}), nullptr)
        << "nothing is missing";
}

// The first state of a stretch stays for as long as the stretch may be asked for, and goes then.
TEST_F(LargeTraining, lets_settled_stretches_go) {
    options.keep_states_mib = 0;
    const std::size_t given = contents.files.size();
    Hash32 start = order.live->task.spec.init_root;
    const auto train_next = [&](std::uint32_t stretch) {
        auto live = std::make_shared<TaskClaim>(*order.live);
        live->task.spec.work.tranche = 3;
        live->claim.id.stretch = stretch;
        live->claim.start_root = start;
        live->claim.step = 3 * stretch;
        order.live = std::move(live);
        trained = {};
        train();
        start = trained.history->back();
    };
    for (std::uint32_t stretch = 0; stretch < 4; ++stretch) {
        train_next(stretch);
        // Of each stretch a manifest, which is small, and of the last two what they begin and end with.
        const std::size_t states = std::min<std::size_t>(stretch + 1, 3);
        EXPECT_EQ(contents.files.size(), given + kState * states + stretch + 1) << stretch;
    }
}

// The next tranche is trained from where this one ended, and each is claimed and judged by itself.
TEST_F(LongTraining, goes_on_from_tranche_to_tranche) {
    const auto whole = compute_history(kLongSteps, 0, 0, kLongStride).roots;
    const std::size_t half = whole.size() / 2;
    work_on(0, order.live->task.spec.init_root);
    train();
    EXPECT_EQ(*trained.history, std::vector(whole.begin(), whole.begin() + half + 1));
    const Hash32 manifest = trained.proof->history_content;
    work_on(1, whole[half]);
    train();
    EXPECT_EQ(*trained.history, std::vector(whole.begin() + half, whole.end()));
    EXPECT_EQ(trained.proof->history_root, core::history_root(*trained.history));
    ASSERT_EQ(trained.checkpoints.size(), 1U);
    EXPECT_EQ(trained.checkpoints[0].step, kLongSteps);
    for (const bool cheats : {false, true}) {
        FaultPlan fault;
        if (cheats) fault = {Fault::flip_element, 5'250};
        auto replay = Replay::begin(context, proved(), {0}, {}, fault);
        ASSERT_TRUE(replay) << replay.error().to_string();
        ASSERT_TRUE((*replay)->advance(Slice(context, 600'000)));
        EXPECT_EQ((*replay)->first_difference(), cheats ? 5'300U : 0U);
        EXPECT_EQ((*replay)->history()[2], whole[half + 2]);
        EXPECT_EQ((*replay)->history()[3] == whole[half + 3], !cheats);
    }

    // Another solver, after the first one was paid for its tranche.
    options.datadir += "-other";
    (void)Workspace::remove_all_but(options.datadir, {});
    work_on(1, whole[half]);
    work(0);
    EXPECT_EQ(trained.proof, nullptr) << "worker.no_start: of a tranche that is not settled its solver alone knows";
    auto live = std::make_shared<TaskClaim>(*order.live);
    live->task.settled = 1;
    live->task.start_root = whole[half];
    live->task.start_history = manifest;
    order.live = std::move(live);
    train();
    EXPECT_EQ(*trained.history, std::vector(whole.begin() + half, whole.end()));
    // Who serves another state there, or none.
    EXPECT_EQ(InputStore::start_of(*context.node, order.live->task)->root, whole[half]);
    auto other = order.live->task;
    other.start_root = whole[half + 1];
    EXPECT_EQ(InputStore::start_of(*context.node, other).error().name, "inputs.wrong_history_root");
    other.start_history = Hash32{{9}};
    EXPECT_EQ(InputStore::start_of(*context.node, other).error().name, kContentNotFound);
}

// Who would go on with a task looks first whether it can.
TEST_F(LongTraining, is_bid_on_in_the_middle_when_the_state_there_can_be_had) {
    work_on(0, order.live->task.spec.init_root);
    train();
    auto live = std::make_shared<TaskClaim>(*order.live);
    live->task.state = TaskState::open;
    live->task.settled = 1;
    live->task.start_root = trained.history->back();
    live->task.start_history = trained.proof->history_content;
    live->claim = {};
    order.live = std::move(live);
    const auto examined = [&] {
        Board<TaskOrder, Examined> board(news);
        ExamineJobs jobs(context, board);
        board.give({{order.id(), order}});
        (void)jobs.work();
        return board.facts(order);
    };
    EXPECT_TRUE(examined().fit);
    contents.files.erase(trained.checkpoints.back().content);
    EXPECT_FALSE(examined().fit);
    EXPECT_EQ(examined().unfit, "") << "it may come yet";
}

// By what its profile says of the programs.
TEST_F(LongTraining, is_left_alone_by_a_machine_that_takes_too_long_for_a_segment) {
    auto live = std::make_shared<TaskClaim>(*order.live);
    live->task.state = TaskState::open;
    live->claim = {};
    order.live = std::move(live);
    const auto examined = [&] {
        Board<TaskOrder, Examined> board(news);
        ExamineJobs jobs(context, board);
        board.give({{order.id(), order}});
        (void)jobs.work();
        return board.facts(order);
    };
    cost::Profile profile;
    profile.nanoseconds.fill(1);
    context.profile = &profile;
    EXPECT_TRUE(examined().fit) << examined().unfit;
    const double segment = training_time(tiny().programs(kLongSteps), order.live->task, {0, kLongInterval}, profile);
    const auto heartbeat = static_cast<double>(order.live->task.spec.windows.heartbeat_s);
    profile.nanoseconds.fill(1.01 * heartbeat / (kTimeMargin * segment));
    EXPECT_FALSE(examined().fit);
    EXPECT_TRUE(examined().unfit.starts_with("worker.too_slow")) << examined().unfit;
    profile.nanoseconds.fill(0.99 * heartbeat / (kTimeMargin * segment));
    EXPECT_TRUE(examined().fit) << examined().unfit;
    context.profile = nullptr;
    EXPECT_TRUE(examined().fit) << "it was not measured";
}

// A data tensor of two shards, of which nobody has the bytes.
class WithheldData : public LongTraining {
protected:
    static constexpr std::uint64_t kElements = crypto::kContentShardBytes / 4 + 100;
    static Subject subject() {
        tensor::Program program = tiny().programs(kLongSteps).any();
        program.header.data.front().elements = kElements;
        Subject made = tiny_subject();
        made.programs = *core::TaskPrograms::make({program}, core::plain_body(kLongSteps));
        return made;
    }
    WithheldData() : LongTraining(subject()) {
        list = {4 * kElements, {Hash32{{1}}, Hash32{{2}}}};
        contents.lists[list.id()] = list;
        auto live = std::make_shared<TaskClaim>(*order.live);
        live->task.state = TaskState::open;
        live->task.spec.data_roots = {list.id()};
        live->claim = {};
        order.live = std::move(live);
    }
    crypto::ContentShards list;
};

TEST_F(WithheldData, is_found_out_before_a_bid) {
    Board<TaskOrder, Examined> board(news);
    ExamineJobs jobs(context, board);
    const auto examined = [&] {
        board.give({{order.id(), order}});
        (void)jobs.work();
        return board.facts(order);
    };
    EXPECT_FALSE(examined().fit);
    ASSERT_FALSE(contents.asked_leaves.empty());
    for (const Hash32& id : contents.asked_leaves) EXPECT_TRUE(id == list.id_of(0) || id == list.id_of(1));
    // Others' tasks are not to wait for it: it is looked for again later.
    const std::size_t asked = contents.asked_leaves.size();
    EXPECT_FALSE(examined().fit);
    EXPECT_EQ(contents.asked_leaves.size(), asked);
    std::this_thread::sleep_for(std::chrono::milliseconds(1'100));
    EXPECT_FALSE(examined().fit);
    EXPECT_GT(contents.asked_leaves.size(), asked);
}

// What a verifier has checked before it says that the data is there: the segments' first states and the last of all.
TEST_F(LongTraining, is_there_when_its_last_state_is) {
    train();
    const auto manifest = *inputs.manifest(*context.node, proved());
    for (const bool missing : {false, true}) {
        if (missing) contents.files.erase(manifest->checkpoint_contents.back());
        auto replay = Replay::begin(context, proved(), {0}, {}, {});
        ASSERT_TRUE(replay);
        Status status;
        while (status && !(*replay)->checkpoints_checked()) status = (*replay)->check_checkpoints(Slice(context, 0));
        EXPECT_EQ(status.has_value(), !missing);
    }
}

TEST_F(LongTraining, goes_on_to_the_next_checkpoint_while_one_is_on_its_way) {
    std::atomic<bool> opened{false};
    std::atomic<int> puts{0};
    contents.when_put = [&] {
        ++puts;
        while (!opened) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return Status();
    };
    int idle = 0;
    when_idle = [&](const Trained& told) {
        if (++idle > 1) return;
        EXPECT_TRUE(told.checkpoints.empty());
        while (puts == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_EQ(puts, 1) << "one at a time";
        opened = true;
    };
    train();
    EXPECT_GE(idle, 1);
    expect_right();
}

TEST_F(LongTraining, gives_a_node_that_refused_a_checkpoint_the_same_again) {
    std::atomic<int> puts{0};
    contents.when_put = [&] { return ++puts < 3 ? Status(fail("content.upload_refused")) : Status(); };
    train();
    EXPECT_EQ(puts, 3 + 2) << "the second checkpoint, and the manifest";
    EXPECT_EQ(contents.asked[order.live->task.spec.contents.init], 2) << "checked, and begun with: once";
    contents.when_put = {};
    expect_right();
}

TEST_F(LongTraining, is_found_right_by_a_replay_and_its_wrong_stride_by_another) {
    train();
    for (const bool cheats : {false, true}) {
        FaultPlan fault;
        if (cheats) fault = {Fault::flip_element, 5'250};  // the replay is the one that errs
        auto replay = Replay::begin(context, proved(), {0, 1}, {}, fault);
        ASSERT_TRUE(replay) << replay.error().to_string();
        const LocalStates files(*Workspace::open(options.datadir, order.live->task), trained.proof->history_root);
        if (cheats) (*replay)->keep_starts(files);
        const Status status = (*replay)->advance(Slice(context, 600'000));
        ASSERT_TRUE(status) << status.error().to_string();
        EXPECT_TRUE((*replay)->done());
        // Where the wrong segment begins.
        ASSERT_EQ(files.nearest_step(kLongSteps), cheats ? kLongInterval + 1 : 0);
        if (cheats) {
            const auto kept = files.nearest(kLongSteps, tiny().program, nullptr, nullptr);
            ASSERT_TRUE(kept);
            EXPECT_EQ(tensor::state_root(kept->state), (*trained.history)[kLongInterval / kLongStride]);
        }
        EXPECT_EQ((*replay)->first_difference(), cheats ? 5'300U : 0U);
        const auto& history = (*replay)->history();
        ASSERT_EQ(history.size(), trained.history->size());
        EXPECT_EQ(history[52], (*trained.history)[52]);
        EXPECT_EQ(history == *trained.history, !cheats);
        EXPECT_EQ(history[53] == (*trained.history)[53], !cheats);
    }
}

// Friends that say they have the data are no reason to believe that it is right.
TEST_F(LongTraining, is_trained_again_by_who_watches_where_nobody_serves_its_history) {
    train();
    TaskClaim live = proved();
    const auto manifest = *inputs.manifest(*context.node, live);
    for (const Hash32& content : manifest->checkpoint_contents)
        if (content != live.task.spec.contents.init) contents.files.erase(content);
    contents.files.erase(live.claim.history_content);
    live.claim.history_root.data[0] ^= 1;  // nor is it what it should be
    const auto begin = [&](Duty duty) { return Replay::begin(context, live, {0, 1}, {}, {}, duty); };
    EXPECT_FALSE(begin(Duty::voluntary)) << "verifiers may yet say that it is missing";
    live.claim.state = ClaimState::committing;
    EXPECT_FALSE(begin(Duty::bound)) << "that is what a verifier would say";
    live.claim.start_root.data[0] ^= 1;
    EXPECT_TRUE(is_not_found(begin(Duty::voluntary).error())) << "nobody has what it begins with: asked for again";
    live.claim.start_root.data[0] ^= 1;
    for (const bool wrong : {true, false}) {
        if (!wrong) live.claim.history_root = trained.proof->history_root;
        contents.files.erase(live.claim.history_content);
        InputStore fresh{InputLimits{}};  // has not seen the manifest
        Context watching = context_with(fresh);
        auto replay = Replay::begin(watching, live, {0, 1}, {}, {}, Duty::voluntary);
        ASSERT_TRUE(replay) << replay.error().to_string();
        EXPECT_FALSE((*replay)->served());
        const LocalStates files(*Workspace::open(options.datadir, order.live->task), live.claim.history_root);
        (*replay)->keep_starts(files);
        const Status status = (*replay)->advance(Slice(watching, 600'000));
        ASSERT_TRUE(status) << status.error().to_string();
        ASSERT_TRUE((*replay)->done());
        EXPECT_EQ((*replay)->first_difference(), wrong ? kWrongSomewhere : 0);
        EXPECT_EQ((*replay)->history(), *trained.history);
        // A dispute about it begins there; without one it is of no use.
        EXPECT_EQ(files.nearest_step(kLongSteps), wrong ? kLongInterval + 1 : 0);
    }
}

TEST_F(LongTraining, tells_where_it_is_wrong_once_its_history_is_served) {
    train();
    TaskClaim live = proved();
    live.claim.state = ClaimState::committing;
    const Bytes manifest = contents.files.at(live.claim.history_content);
    contents.files.erase(live.claim.history_content);
    InputStore fresh{InputLimits{}};
    Context watching = context_with(fresh);
    auto replay = Replay::begin(watching, live, {0, 1}, {}, {Fault::flip_element, 5'250}, Duty::voluntary);
    ASSERT_TRUE(replay) << replay.error().to_string();
    contents.files[live.claim.history_content] = manifest;
    ASSERT_TRUE((*replay)->advance(Slice(watching, 600'000)));
    EXPECT_EQ((*replay)->first_difference(), 5'300U);
}

// Nothing binds what a manifest says of where states are.
TEST_F(LongTraining, begins_where_the_task_says_when_its_history_names_something_else) {
    train();
    TaskClaim live = proved();
    core::HistoryManifest manifest = **inputs.manifest(*context.node, live);
    const Hash32 other = put(Bytes(100, 7));
    for (const Hash32& named : {Hash32{{9}}, other}) {
        manifest.checkpoint_contents.front() = named;
        contents.files[live.claim.history_content] = core::encode(manifest);
        InputStore fresh{InputLimits{}};
        Context watching = context_with(fresh);
        auto replay = Replay::begin(watching, live, {0, 1}, {}, {}, Duty::voluntary);
        ASSERT_TRUE(replay) << replay.error().to_string();
        const Status status = (*replay)->advance(Slice(watching, 600'000));
        ASSERT_TRUE(status) << status.error().to_string();
        EXPECT_EQ((*replay)->first_difference(), 0U);
    }
}

}  // namespace
}  // namespace quern::compute::worker::test
