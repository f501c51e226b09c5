// The player of disputes on the handlers' test chain: what many games about one task cost it, and moves that nobody
// asks for any more.
#include "compute/worker/dispute_jobs.h"

#include <filesystem>
#include <fstream>

#include "compute/program/builder.h"
#include "compute/program/safetensors.h"
#include "compute/program/state_file.h"
#include "content_node.h"
#include "lifecycle_fixture.h"

namespace quern::compute::worker {
namespace {

using namespace chain::exec::test;

constexpr std::uint64_t kSegments = kSteps / kInterval;

using test::ContentNode;

// Contents of a task whose solver told the truth.
struct Contents : test::Contents {
    std::array<Hash32, kSegments> checkpoints;  // with which segments begin
};

class DisputeJobsTest : public Lifecycle {
protected:
    explicit DisputeJobsTest(std::uint64_t stride = 1, const core::TaskPrograms& programs = tiny().programs(kSteps))
        : Lifecycle(stride) {
        truth = compute_history(programs, 0, 0, stride);
        wrong = compute_history(programs, 3, 1U << 20, stride);
        spec = spec_of(programs, kInterval);
        spec.work.stride = stride;
        options.datadir = testing::TempDir() + "/quern-dispute-jobs-test";
        std::filesystem::remove_all(options.datadir);
        spec.windows.challenge_s = 1'000;
        world.params.market.dispute_clock_s = 10'000;
        store("program", tensor::encode(programs.any()));
        store("init", *program::write_state(tiny().program, tiny().init));
        contents.files[spec.data_roots.front()] = tiny().data.sets().front();
        core::HistoryManifest manifest;
        manifest.interval = kInterval;
        manifest.stride = stride;
        manifest.state_roots = truth.roots;
        for (std::uint64_t step = 0; step <= kSteps; step += kInterval) {
            const std::string name = "checkpoint " + std::to_string(step);
            manifest.checkpoint_contents.push_back(
                store(name, *program::write_state(tiny().program, truth.states[step])));
            if (step < kSteps) contents.checkpoints[step / kInterval] = manifest.checkpoint_contents.back();
        }
        store("history", core::encode(manifest));
    }
    ~DisputeJobsTest() override { std::filesystem::remove_all(options.datadir); }
    Hash32 store(const std::string& name, Bytes content) {
        const Hash32 id = crypto::sha256(as_bytes(name));
        contents.files[id] = std::move(content);
        return id;
    }
    struct Rival {
        Address address;
        const History* claim = nullptr;
        std::uint64_t dispute = 0;
        std::unique_ptr<core::DisputeStrategy> strategy;
    };
    // Each of the claims is that of a rival who challenges the truth.
    void challenge_with(const std::vector<const History*>& claims) {
        id = reach(ClaimState::challenge, truth);
        for (const History* claim : claims) {
            Rival rival{chain::exec::test::address(700 + rivals.size()), claim, 0, nullptr};
            give(world.state(), rival.address, Uint256(1'000'000'000'000'000));
            world.bond_role(rival.address, Role::whistleblower, 1'000'000);
            rival.dispute = challenge(id, rival.address, 0, claim->root, history_opening(*claim));
            rival.strategy = std::make_unique<core::DisputeStrategy>(party_of(world.live(id), *claim));
            rivals.push_back(std::move(rival));
        }
    }
    PlayOrder order_of(const Rival& rival) {
        PlayOrder order;
        order.live = world.shared_live(id);
        order.dispute = world.shared_dispute(rival.dispute);
        order.game = std::make_shared<const core::Game>(*chain::types::decode_record<core::Game>(order.dispute->game));
        // Of games that the chain lets wait too: many at once are what is looked at.
        const bool due = core::may_move(*order.game, core::Side::defender);
        order.play = {rival.dispute, core::Side::defender, due,
                      std::make_shared<const std::vector<Hash32>>(truth.roots), core::next_deadline(*order.game)};
        order.position = position_of(*order.game);
        return order;
    }
    PlayBoard::Orders orders() {
        PlayBoard::Orders all;
        for (const Rival& rival : rivals)
            if (world.dispute(rival.dispute).closed_at == 0) all.emplace(rival.dispute, order_of(rival));
        return all;
    }
    void send(const Address& who, std::uint64_t dispute, const core::Move& move) {
        if (const auto* split = std::get_if<core::SplitMove>(&move))
            expect_ok(world.send(who, NativeKind::dispute_split,
                                 chain::types::DisputeSplitPayload{dispute, chain::types::encode_record(*split)}));
        else if (const auto* leaf = std::get_if<core::LeafWitness>(&move))
            expect_ok(world.send(who, NativeKind::dispute_prove_leaf,
                                 chain::types::DisputeProveLeafPayload{dispute, chain::types::encode_record(*leaf)}));
    }
    // One block: the defender's moves, then the rivals'.
    void play_block() {
        const PlayBoard::Orders now = orders();
        board.give(now);
        while (jobs.work(context)) {
        }
        world.begin();
        for (const auto& [dispute, order] : now)
            if (const auto planned = board.facts(order)) send(kSolver, dispute, planned->move);
        for (const Rival& rival : rivals) {
            const auto dispute = world.dispute(rival.dispute);
            if (dispute.closed_at != 0) continue;
            const auto game = *chain::types::decode_record<core::Game>(dispute.game);
            const auto move = rival.strategy->next_move(game, core::Side::rival, waiting_post(game));
            ASSERT_TRUE(move) << move.error().to_string();
            send(rival.address, rival.dispute, *move);
        }
        ASSERT_TRUE(world.finish());
    }
    // The defender wins them all.
    void play_all() {
        const Uint256 bonded = world.bond(Role::solver, kSolver).bonded;
        for (int block = 0; block < 60 && !orders().empty(); ++block) play_block();
        for (const Rival& rival : rivals) EXPECT_TRUE(world.bond(Role::whistleblower, rival.address).locked.is_zero());
        EXPECT_TRUE(orders().empty());
        EXPECT_FALSE(world.claim(id).voided);
        EXPECT_EQ(world.bond(Role::solver, kSolver).bonded, bonded);
    }
    Context context_with(InputStore& store) {
        return {options,
                clock,
                store,
                stop,
                {},
                std::make_unique<ContentNode>(contents),
                std::make_shared<ThreadPool>(1),
                std::make_unique<OsRng>()};
    }
    // All of them, with room for one state before a step. `meanwhile` is called after each block.
    void play_with_little_memory(const std::function<void()>& meanwhile) {
        InputLimits tight;
        tight.memory_bytes = memory_needed({&tiny().program, 1}, 1);
        InputStore small(tight);
        Context poor = context_with(small);
        for (int block = 0; block < 60 && !orders().empty(); ++block) {
            board.give(orders());
            while (jobs.work(poor)) {
            }
            play_block();
            meanwhile();
        }
        play_all();
    }
    const chain::types::Task& task_of(const History& claimed) {
        id = reach(ClaimState::challenge, claimed);
        task_ = world.task(id);
        return task_;
    }
    // Of a rival that stands for the truth.
    [[nodiscard]] PlayOrder rival_order(std::uint64_t dispute) {
        PlayOrder order;
        order.live = world.shared_live(id);
        order.dispute = world.shared_dispute(dispute);
        order.game = std::make_shared<const core::Game>(*chain::types::decode_record<core::Game>(order.dispute->game));
        order.play = {dispute, core::Side::rival, core::may_move(*order.game, core::Side::rival),
                      std::make_shared<const std::vector<Hash32>>(truth.roots), core::next_deadline(*order.game)};
        order.position = position_of(*order.game);
        if (const auto* post = waiting_post(*order.game)) order.post = std::make_shared<const core::SplitMove>(*post);
        return order;
    }
    // By a whistleblower that plays what the jobs work out.
    void expect_beaten(const History& lie) {
        world.bond_role(kWhistleblower, Role::whistleblower, 1'000'000);
        const std::uint64_t dispute = challenge(id, kWhistleblower, 0, truth.root, history_opening(truth));
        core::DisputeStrategy liar(party_of(world.live(id), lie));
        for (int block = 0; block < 60 && world.dispute(dispute).closed_at == 0; ++block) {
            const PlayOrder order = rival_order(dispute);
            board.give({{dispute, order}});
            while (jobs.work(context)) {
            }
            world.begin();
            if (core::may_move(*order.game, core::Side::defender)) {
                const auto move = liar.next_move(*order.game, core::Side::defender, waiting_post(*order.game));
                if (move && !std::holds_alternative<core::Concede>(*move)) send(kSolver, dispute, *move);
            }
            if (const auto planned = board.facts(order)) send(kWhistleblower, dispute, planned->move);
            ASSERT_TRUE(world.finish());
        }
        EXPECT_EQ(world.dispute(dispute).winner, chain::types::DisputeWinner::rival);
        for (const Hash32& checkpoint : contents.checkpoints) EXPECT_EQ(contents.asked[checkpoint], 0);
    }
    // Until the defender's next move needs the disputed step.
    void play_history() {
        while (order_of(rivals.front()).game->phase == core::Phase::history) play_block();
        board.give(orders());
    }

    Contents contents;
    chain::types::Task task_;
    std::uint64_t id = 0;
    std::vector<Rival> rivals;
    WorkerOptions options;
    const SystemClock clock;
    InputLimits limits;
    std::atomic<bool> stop{false};
    InputStore inputs{limits};
    Bell news;
    PlayBoard board{news};
    DisputeJobs jobs{board};
    Context context = context_with(inputs);
};

TEST_F(DisputeJobsTest, many_rivals_about_one_step_cost_one_replay_and_each_other_step_one_more) {
    const History other = compute_history(kSteps, 3, 1U << 15);
    const History later = compute_history(kSteps, 4, 1U << 15);
    challenge_with({&wrong, &other, &wrong, &other, &later, &later, &later, &later});
    ASSERT_EQ(rivals.size(), 8U);
    play_all();
    EXPECT_EQ(contents.asked[contents.checkpoints[1]], 2) << "steps 3 and 4 are both replayed to from state 2";
    EXPECT_EQ(contents.asked[contents.checkpoints[0]], 0);
}

TEST_F(DisputeJobsTest, games_that_memory_has_no_room_for_read_a_checkpoint_again) {
    const History later = compute_history(kSteps, 4, 1U << 15);
    challenge_with({&wrong, &later});
    play_with_little_memory([] {});
    EXPECT_GT(contents.asked[contents.checkpoints[1]], 2) << "one state is kept, of two that are disputed";
}

// Each holds the replay of one segment.
TEST_F(DisputeJobsTest, rivals_about_many_steps_are_replayed_to_once_each) {
    const History second = compute_history(kSteps, 2, 1U << 15);
    const History last = compute_history(kSteps, 4, 1U << 15);
    challenge_with({&second, &last, &second, &last});
    play_with_little_memory([] {});
    for (const Hash32& checkpoint : contents.checkpoints) EXPECT_EQ(contents.asked[checkpoint], 1);
}

// What is on the disk is believed only where it is the history's.
TEST_F(DisputeJobsTest, a_kept_state_that_is_damaged_is_replayed_to_again) {
    const History second = compute_history(kSteps, 2, 1U << 15);
    const History last = compute_history(kSteps, 4, 1U << 15);
    challenge_with({&second, &last});
    std::size_t damaged = 0;
    play_with_little_memory([&] {
        for (const auto& file : std::filesystem::recursive_directory_iterator(options.datadir)) {
            if (!file.is_regular_file()) continue;
            std::fstream words(file.path(), std::ios::in | std::ios::out | std::ios::binary);
            words.seekp(3);
            words.put(static_cast<char>(++damaged));
        }
    });
    EXPECT_GT(damaged, 1U);
    EXPECT_GT(contents.asked[contents.checkpoints[1]], 1);
}

// A whistleblower's replay has left it there.
TEST_F(DisputeJobsTest, begins_from_its_own_files_where_nobody_serves_a_nearer_state) {
    const History later = compute_history(kSteps, 4, 1U << 15);
    challenge_with({&wrong, &later});
    contents.files.erase(contents.checkpoints[1]);
    const LocalStates files(*Workspace::open(options.datadir, world.task(id)), truth.root);
    ASSERT_TRUE(files.write(3, truth.roots[2], truth.states[2]));
    EXPECT_EQ(files.nearest_step(2), 0U);
    EXPECT_EQ(files.nearest_step(4), 3U);
    play_all();
    for (const Hash32& checkpoint : contents.checkpoints) EXPECT_EQ(contents.asked[checkpoint], 0);
    EXPECT_EQ(files.nearest_step(4), 4U) << "from the third on";
    files.remove(3, truth.roots[2]);
    EXPECT_EQ(files.nearest_step(3), 0U);
}

// A whistleblower that has trained what nobody serves, or what is served from nowhere: its own history and states are
// all that it has, and enough.
TEST_F(DisputeJobsTest, beats_a_lie_that_nobody_serves) {
    contents.files.erase(crypto::sha256(as_bytes("history")));
    const LocalStates files(*Workspace::open(options.datadir, task_of(wrong)), wrong.root);
    ASSERT_TRUE(files.write(3, truth.roots[2], truth.states[2]));
    expect_beaten(wrong);
}

// A verifier's FAIL begins with states that it was served: it waits for the manifest, and does not train again instead.
TEST_F(DisputeJobsTest, waits_for_the_history_that_a_verifier_was_served) {
    const History first = compute_history(kSteps, 1, 1U << 20);
    (void)task_of(first);
    world.bond_role(kWhistleblower, Role::whistleblower, 1'000'000);
    const std::uint64_t dispute = challenge(id, kWhistleblower, 0, truth.root, history_opening(truth));
    core::DisputeStrategy liar(party_of(world.live(id), first));
    const auto post = liar.next_move(*rival_order(dispute).game, core::Side::defender, nullptr);
    ASSERT_TRUE(post);
    world.begin();
    send(kSolver, dispute, *post);
    ASSERT_TRUE(world.finish());
    contents.files.erase(crypto::sha256(as_bytes("history")));
    for (const Role role : {Role::verifier, Role::whistleblower}) {
        PlayOrder order = rival_order(dispute);
        ASSERT_TRUE(order.play.due);
        auto told = *order.dispute;
        told.rival_role = role;
        order.dispute = std::make_shared<const chain::types::Dispute>(told);
        board.give({{dispute, order}});
        while (jobs.work(context)) {
        }
        EXPECT_EQ(board.facts(order) != nullptr, role == Role::whistleblower);
    }
}

TEST_F(DisputeJobsTest, beats_a_lie_whose_states_are_named_and_not_there) {
    const History first = compute_history(kSteps, 1, 1U << 20);
    core::HistoryManifest manifest{kInterval, 1, first.roots, std::vector<Hash32>(kSegments + 1, Hash32{{9}})};
    store("history", core::encode(manifest));
    (void)task_of(first);
    expect_beaten(first);
}

TEST_F(DisputeJobsTest, games_about_one_task_take_turns) {
    challenge_with({&wrong, &wrong});
    play_history();
    Context second = context_with(inputs);
    int looked = 0;
    contents.when_asked = [&](const Hash32& content) {
        if (content != contents.checkpoints[1]) return;
        ++looked;
        EXPECT_FALSE(jobs.work(second)) << "the other game waits for this one";
    };
    EXPECT_TRUE(jobs.work(context));
    EXPECT_EQ(looked, 1);
    contents.when_asked = nullptr;
    EXPECT_TRUE(jobs.work(second));
    EXPECT_EQ(contents.asked[contents.checkpoints[1]], 1);
    play_all();
}

class DisputeJobsStrides : public DisputeJobsTest {
protected:
    DisputeJobsStrides() : DisputeJobsTest(kInterval) {}
};

TEST_F(DisputeJobsStrides, states_of_a_stride_are_rebuilt_once_for_all_rivals) {
    const History other = compute_history(kSteps, 3, 1U << 15, kInterval);
    const History later = compute_history(kSteps, 4, 1U << 15, kInterval);
    challenge_with({&wrong, &other, &wrong, &later, &later});
    play_all();
    for (const Rival& rival : rivals) EXPECT_EQ(world.dispute(rival.dispute).reason, "leaf");
    EXPECT_EQ(contents.asked[contents.checkpoints[1]], 3) << "for the stride, and for each step that is disputed";
    EXPECT_EQ(contents.asked[contents.checkpoints[0]], 0);
}

// The checkpoint cannot be had, so that a move that goes on asks for the one before it.
TEST_F(DisputeJobsTest, a_move_that_nobody_asks_for_is_given_up) {
    challenge_with({&wrong});
    play_history();
    PlayBoard::Orders late = orders();
    for (auto& [dispute, order] : late) order.play.due = false;
    const std::vector<std::pair<std::string, std::function<void()>>> reasons{
        {"the dispute is closed", [&] { board.give({}); }},
        {"its deadline has passed", [&] { board.give(late); }},
        {"the worker stops", [&] { stop = true; }},
    };
    const Hash32 earlier = contents.checkpoints[0];
    contents.files.erase(contents.checkpoints[1]);
    for (const auto& [what, happens] : reasons) {
        board.give(orders());
        contents.when_asked = [&](const Hash32& content) {
            if (content == contents.checkpoints[1]) happens();
        };
        EXPECT_TRUE(jobs.work(context)) << what;
        EXPECT_EQ(contents.asked[earlier], 0) << what;
        stop = false;
    }
    contents.when_asked = nullptr;
    board.give(orders());
    EXPECT_TRUE(jobs.work(context));
    EXPECT_EQ(contents.asked[earlier], 1);
    play_all();
}

// Of a program that adds to the loss, in each step, the element that the data are.
const core::TaskPrograms& reading() {
    static const core::TaskPrograms programs = [] {
        program::Builder b(tiny().program.header.data);
        const auto loss = b.slot("loss", tensor::DType::f32, {}, program::Initializer::zeros());
        b.set_loss_slot(loss);
        b.update(loss, b.add(loss, b.to_f32(b.window(b.constant_i32(0), 0, 1, 1))));
        return *core::TaskPrograms::make({b.finish()->program}, core::plain_body(kSteps));
    }();
    return programs;
}

class DisputeJobsData : public DisputeJobsTest {
protected:
    DisputeJobsData() : DisputeJobsTest(1, reading()) { world.bond_role(kSolver, Role::solver, 100'000); }
};

TEST_F(DisputeJobsData, a_move_whose_data_are_missing_is_worked_out_when_they_are_there) {
    const History last = compute_history(reading(), kSteps, 1U << 15, 1);
    challenge_with({&last});
    play_history();
    contents.unreadable = Error{kContentNotFound, {}};
    for (int tries = 0; tries < 2; ++tries) {
        board.give(orders());
        EXPECT_TRUE(jobs.work(context));
        EXPECT_EQ(board.facts(orders().begin()->second), nullptr);
    }
    contents.unreadable.reset();
    play_all();
    EXPECT_EQ(contents.read[spec.data_roots.front()].size(), 3U) << "twice in vain";
}

TEST(InputStore, room_that_is_held_is_counted_until_it_is_given_back) {
    InputLimits limits;
    limits.memory_bytes = 100;
    InputStore store(limits);
    EXPECT_EQ(store.hold(101, Duty::bound), nullptr);
    EXPECT_EQ(store.hold(~std::uint64_t{0}, Duty::bound), nullptr);
    EXPECT_EQ(store.hold(51, Duty::voluntary), nullptr);
    auto half = store.hold(50, Duty::voluntary);
    ASSERT_NE(half, nullptr);
    EXPECT_EQ(store.hold(1, Duty::voluntary), nullptr);
    const auto rest = store.hold(50, Duty::bound);
    ASSERT_NE(rest, nullptr);
    EXPECT_EQ(store.hold(1, Duty::bound), nullptr);
    half.reset();
    EXPECT_NE(store.hold(50, Duty::bound), nullptr);
}

}  // namespace
}  // namespace quern::compute::worker
