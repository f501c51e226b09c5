// What a solver's worker does about a question for a piece of its task's last state.
#include "compute/worker/piece.h"

#include "compute/core/state_content.h"
#include "compute/core/state_piece.h"
#include "content_node.h"
#include "market_actor.h"
#include "unit/vm/tensor/test_programs.h"

namespace quern::compute::worker::test {
namespace {

using chain::types::DataAnswerPayload;
using chain::types::DataChallenge;
using chain::types::DataChallengePayload;

// A settled task with a question.
class Asked : public Lifecycle {
protected:
    Asked() {
        world.params.market.held_percent = 20;
        id = reach(ClaimState::challenge, truth);
        tick_when_due(id);
        expect_ok(world.one(kSubmitter, NativeKind::data_challenge, DataChallengePayload{id, 0, 7}));
        solver.address = kSolver;
        solver.solver = true;
    }
    // Puts what the solver has put into its node's store.
    void publish() {
        const auto live = world.live(id);
        const auto& claim = live.claim;
        const std::string state = "the last state";
        core::HistoryManifest manifest;
        manifest.interval = kInterval;
        manifest.stride = spec.work.stride;
        manifest.state_roots = truth.roots;
        for (std::uint64_t step = kInterval; step < kSteps; step += kInterval)
            manifest.checkpoint_contents.push_back(crypto::sha256(as_bytes("another")));
        while (!core::check_manifest(manifest)) {
            ASSERT_LT(manifest.checkpoint_contents.size(), 10U);
            manifest.checkpoint_contents.push_back(crypto::sha256(as_bytes(state)));
        }
        contents.files[claim.history_content] = core::encode(manifest);
        contents.files[spec.contents.programs.front()] = tensor::encode(tiny().program);
        const std::vector<Hash32> roots{tensor::tensor_root(truth.states.back()[0])};
        contents.files[manifest.checkpoint_contents.back()] =
            core::encode_state(tiny().program, truth.states.back(), roots);
    }
    std::vector<Action> decided(const Me& me, std::shared_ptr<const DataAnswerPayload> piece = nullptr,
                                std::uint64_t later_ms = 0) {
        live = world.live(id);
        View view{world.height, world.market_ms() + later_ms, live, {}, {}, {}, {}, {}, true, {}};
        view.piece = std::move(piece);
        return decide(me, view);
    }

    std::uint64_t id = 0;
    TaskClaim live;
    Me solver;
    Contents contents;
    ContentNode node{contents};
};

TEST_F(Asked, the_solver_reads_the_piece_and_sends_what_the_chain_takes) {
    publish();
    EXPECT_TRUE(wants<ReadPiece>(decided(solver)));
    EXPECT_TRUE(attempts_of(decided(solver)).empty());
    const auto answer = read_piece(node, world.live(id));
    ASSERT_TRUE(answer) << answer.error().to_string();
    const auto attempts = attempts_of(decided(solver, std::make_shared<const DataAnswerPayload>(*answer)));
    const Attempt* attempt = find(attempts, NativeKind::data_answer);
    ASSERT_NE(attempt, nullptr);
    EXPECT_TRUE(wants<ReadPiece>(decided(solver, std::make_shared<const DataAnswerPayload>(*answer))))
        << "what was read stays while it is asked for";
    world.begin();
    expect_ok(world.send(kSolver, attempt->kind, attempt->payload));
    ASSERT_TRUE(world.finish());
    EXPECT_TRUE(world.task(id).asked.empty());
    EXPECT_TRUE(decided(solver).empty()) << "nothing is asked any more";
}

TEST_F(Asked, nobody_else_does_and_nobody_too_late) {
    Me other = solver;
    other.address = kSecond;
    EXPECT_TRUE(decided(other).empty());
    Me verifier = solver;
    verifier.solver = false;
    EXPECT_TRUE(decided(verifier).empty());
    const std::uint64_t left = world.task(id).asked[0].until - world.market_ms();
    solver.ticks = false;
    EXPECT_FALSE(decided(solver, nullptr, left - 2).empty());
    EXPECT_TRUE(decided(solver, nullptr, left - 1).empty());
}

TEST_F(Asked, a_question_without_an_answer_is_ended_by_a_tick) {
    Me ticker;
    ticker.address = address(0x71c);
    const std::uint64_t left = world.task(id).asked[0].until - world.market_ms();
    EXPECT_TRUE(decided(ticker, nullptr, left - 2).empty());
    EXPECT_TRUE(decided(solver, nullptr, left + kTickSpreadMs).empty()) << "it is its own share";
    const auto attempts = attempts_of(decided(ticker, nullptr, left + kTickSpreadMs));
    const Attempt* tick = find(attempts, NativeKind::tick);
    ASSERT_NE(tick, nullptr);
    world.skip_until(world.task(id).asked[0].until);
    world.begin();
    expect_ok(world.send(ticker.address, tick->kind, tick->payload));
    ASSERT_TRUE(world.finish());
    EXPECT_TRUE(world.task(id).held.is_zero());
}

TEST_F(Asked, what_is_not_there_or_false_is_no_answer) {
    EXPECT_FALSE(read_piece(node, world.live(id)));
    publish();
    auto task = world.live(id);
    task.task.start_root = wrong.step_roots.back();
    EXPECT_FALSE(read_piece(node, task));
    contents.files[spec.contents.programs.front()] = tensor::encode(tiny().second);
    const auto other = read_piece(node, world.live(id));
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().name, "inputs.wrong_program_root");
}

class PieceJobsTest : public Asked {
protected:
    PieceJobsTest() {
        context.node = std::make_unique<ContentNode>(contents);
        board.give({{id, PieceOrder{std::make_shared<const TaskClaim>(world.live(id))}}});
    }
    [[nodiscard]] PieceOrder order() const { return {std::make_shared<const TaskClaim>(world.live(id))}; }
    void again() { board.give({{id, order()}}); }

    Bell bell;
    PieceJobs::Orders board{bell};
    WorkerOptions options;
    ManualClock clock;
    InputStore inputs{InputLimits{}};
    std::atomic<bool> stop{false};
    Context context{options, clock, inputs, stop, {}, nullptr, nullptr, nullptr};
    PieceJobs jobs{context, board};
};

TEST_F(PieceJobsTest, read_what_is_asked_for_once_and_again_when_it_was_not_there) {
    EXPECT_TRUE(jobs.work());
    EXPECT_EQ(board.facts(order()), nullptr) << "nothing is there";
    EXPECT_FALSE(jobs.work()) << "no new orders";
    publish();
    again();
    EXPECT_TRUE(jobs.work());
    EXPECT_EQ(board.facts(order()), nullptr) << "not at once";
    clock.advance(1'000);
    again();
    EXPECT_TRUE(jobs.work());
    const Piece piece = board.facts(order());
    ASSERT_NE(piece, nullptr);
    EXPECT_EQ(piece->task, id);
    const int asked = contents.asked[spec.contents.programs.front()];
    again();
    EXPECT_TRUE(jobs.work());
    EXPECT_EQ(contents.asked[spec.contents.programs.front()], asked);
    // Another question is another job.
    expect_ok(world.one(kSolver, NativeKind::data_answer, *piece));
    expect_ok(world.one(kSubmitter, NativeKind::data_challenge, DataChallengePayload{id, 0, 8}));
    again();
    EXPECT_EQ(board.facts(order()), nullptr);
    EXPECT_TRUE(jobs.work());
    EXPECT_NE(board.facts(order()), nullptr);
}

TEST_F(PieceJobsTest, end_when_the_worker_stops) {
    publish();
    stop = true;
    EXPECT_FALSE(jobs.work());
    EXPECT_EQ(board.facts(order()), nullptr);
}

// Slots that are contents of their own, one of them (1) of zeros, and small ones.
TEST(Piece, of_each_slot_and_tile) {
    tensor::Program program;
    tensor::State state;
    tensor::test::Random random(4);
    const tensor::Shape large{{1, 1, 700, 520}};  // more than a part
    for (const tensor::Shape& shape : {large, large, tensor::Shape{{1, 1, 1, 7}}, tensor::Shape{{1, 1, 70, 70}}}) {
        program.slots.push_back({"slot " + std::to_string(program.slots.size()), tensor::DType::f32, shape});
        state.push_back(tensor::test::random_tensor(random, tensor::DType::f32, shape, tensor::test::Fill::special));
    }
    std::fill(state[1].words.begin(), state[1].words.end(), 0);
    const auto roots = tensor::slot_roots(state);
    Contents contents;
    ContentNode node(contents);
    const Hash32 content = crypto::sha256(as_bytes("state"));
    contents.files[content] = core::encode_state(program, state, roots);
    Bytes& tiles = contents.files[roots[0]];
    tiles.resize(core::slot_bytes(large));
    core::copy_tiles(large, state[0].words, 0, tiles);
    const Hash32 root = tensor::state_root(roots);
    for (std::uint32_t slot = 0; slot < state.size(); ++slot) {
        const std::uint64_t count = state[slot].shape.tiles();
        for (const std::uint64_t tile : {std::uint64_t{0}, count - 1, count, 5 * count + count / 2}) {
            SCOPED_TRACE("slot " + std::to_string(slot) + " tile " + std::to_string(tile));
            const auto answer = piece_of(node, program, content, root, DataChallenge{slot, tile, {}, 0});
            ASSERT_TRUE(answer) << answer.error().to_string();
            EXPECT_EQ(answer->tiles, count);
            EXPECT_EQ(answer->tile, tensor::tile_bytes(tensor::read_tile(state[slot], tile % count)));
            EXPECT_TRUE(core::check_piece(root, state.size(), slot, tile, *answer));
            if (count > 1 && slot != 1) {
                EXPECT_FALSE(core::check_piece(root, state.size(), slot, tile + 1, *answer));
            }
        }
    }
    EXPECT_FALSE(piece_of(node, program, content, root, DataChallenge{4, 0, {}, 0}));
    // In parts of which one at a time is in memory.
    const std::uint64_t size = core::slot_bytes(large);
    ASSERT_GT(size, kPiecePartBytes);
    EXPECT_EQ(contents.asked[roots[0]], 0);
    EXPECT_EQ(std::set<std::uint64_t>(contents.read[roots[0]].begin(), contents.read[roots[0]].end()),
              (std::set<std::uint64_t>{0, kPiecePartBytes}));
    EXPECT_TRUE(contents.read[roots[1]].empty()) << "zeros are known";
    const Cancellation stopped([] { return true; });
    const auto ended = piece_of(node, program, content, root, DataChallenge{0, 0, {}, 0}, &stopped);
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().name, "worker.stopped");
    tiles[0] ^= 1;  // a node that tells nonsense
    EXPECT_FALSE(piece_of(node, program, content, root, DataChallenge{0, 0, {}, 0}));
}

}  // namespace
}  // namespace quern::compute::worker::test
