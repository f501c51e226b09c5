// Single moves: what is refused, clocks, probe games, and random mutations against an honest side.
#include <gtest/gtest.h>

#include "unit/compute/core/game_world.h"

namespace quern::compute::core::test {
namespace {

using vm::tensor::tile_hashes;

const World& world() {
    static const World instance = make_world(every_kind_program(), 3);
    return instance;
}

// A matmul of three blocks, so that all phases are played.
std::uint32_t long_matmul() {
    for (std::uint32_t node = 0; node < world().program.nodes.size(); ++node) {
        const auto& definition = world().program.nodes[node];
        if (definition.op == Op::matmul && definition.shape == vm::tensor::Shape{{1, 1, 5, 5}}) return node;
    }
    return 0;
}

struct Cheat {
    Alter alter = flip(2, long_matmul(), 7);
    History history = altered_history(world(), alter, 2);
};
const Cheat& cheat() {
    static const Cheat instance;
    return instance;
}

// Both sides' moves up to `phase`, the liar defending.
Game game_at(Phase phase, DisputeStrategy& liar, DisputeStrategy& honest) {
    Game game = history_game(world(), cheat().history.root(), world().root());
    for (int i = 0; i < 50 && game.phase < phase; ++i) {
        for (const Side side : {Side::defender, Side::rival}) {
            if (game.phase >= phase) break;
            const auto move = (side == Side::defender ? liar : honest).next_move(game, side, waiting_post(game));
            EXPECT_TRUE(move.has_value());
            EXPECT_TRUE(apply(game, side, *move, 1000).has_value());
        }
    }
    EXPECT_EQ(game.phase, phase);
    return game;
}

// With the liar's post waiting.
Game posted_at(Phase phase, DisputeStrategy& liar, DisputeStrategy& honest) {
    Game game = game_at(phase, liar, honest);
    const auto move = liar.next_move(game, Side::defender, nullptr);
    EXPECT_TRUE(move && apply(game, Side::defender, *move, 1000));
    return game;
}

struct Players {
    DisputeStrategy liar = dishonest_player(world(), cheat().history, cheat().alter);
    DisputeStrategy honest = honest_player(world());
};

SplitMove split_of(Expected<Move> move) {
    EXPECT_TRUE(move.has_value() && std::holds_alternative<SplitMove>(*move));
    return move && std::holds_alternative<SplitMove>(*move) ? std::get<SplitMove>(*move) : SplitMove{};
}

std::string_view name_of(const Status& status) { return status ? "accepted" : status.error().name; }

// The move is refused with `error` and the game stays as it was.
void expect_refused(const Game& game, Side side, const SplitMove& move, std::string_view error) {
    Game tried = game;
    EXPECT_EQ(name_of(apply_split(tried, side, move, 1000)), error);
    EXPECT_EQ(chain::types::encode_record(tried), chain::types::encode_record(game));
}

Hash32 other_hash(std::uint8_t byte = 0xee) {
    Hash32 hash;
    hash.data.fill(byte);
    return hash;
}

TEST(DisputeMoves, EqualOrSenselessClaimsOpenNoGame) {
    const Hash32 root = world().root();
    EXPECT_EQ(open_history_game(world().context, root, root, kBudget, 1).error().name, "dispute.equal_claims");
    EXPECT_EQ(open_history_game(world().context, root, other_hash(), 0, 1).error().name, "dispute.bad_context");
    GameContext context = world().context;
    for (const std::uint64_t leaves : {std::uint64_t{1}, kMaxStrides + 2}) {
        context.history_leaves = leaves;
        EXPECT_EQ(open_history_game(context, root, other_hash(), kBudget, 1).error().name, "dispute.bad_context");
    }
    const TaskPlan longest = *TaskPlan::make(world().programs->plan.programs(), plain_body(kMaxStrides));
    for (const std::uint64_t leaves : {std::uint64_t{2}, kMaxStrides + 1}) {
        context.history_leaves = leaves;
        if (leaves > kMaxStrides) context.plan = longest.bytes();
        EXPECT_TRUE(open_history_game(context, root, other_hash(), kBudget, 1)) << leaves;
    }
    for (const std::uint64_t stride : {std::uint64_t{0}, kMaxStride + 1}) {
        context.stride = stride;
        EXPECT_EQ(open_history_game(context, root, other_hash(), kBudget, 1).error().name, "dispute.bad_context");
    }
    context = world().context;
    context.plan.pop_back();
    EXPECT_EQ(open_history_game(context, root, other_hash(), kBudget, 1).error().name, "dispute.bad_context");
    for (const std::uint64_t step : {0ULL, 4ULL})
        EXPECT_EQ(open_probe_game(world().context, root, step, 0, 0, root, other_hash(), kBudget, 1).error().name,
                  "dispute.bad_context");
    EXPECT_EQ(open_probe_game(world().context, root, 1, world().program.nodes.size(), 0, root, other_hash(), kBudget, 1)
                  .error()
                  .name,
              "dispute.bad_context");
}

TEST(DisputeMoves, MalformedPostsAreRefusedInEachPhase) {
    Players players;
    for (const Phase phase : {Phase::history, Phase::state, Phase::trace, Phase::tile, Phase::micro, Phase::element}) {
        const Game game = game_at(phase, players.liar, players.honest);
        const SplitMove good = split_of(players.liar.next_move(game, Side::defender, nullptr));
        SCOPED_TRACE(to_string(phase));

        SplitMove move = good;
        move.phase = static_cast<std::uint8_t>(Phase::leaf);
        expect_refused(game, Side::defender, move, "dispute.wrong_phase");
        move.phase = 200;
        expect_refused(game, Side::defender, move, "dispute.wrong_phase");

        if (phase != Phase::element) {
            move = good;
            move.nodes.pop_back();
            expect_refused(game, Side::defender, move, "dispute.wrong_node_count");
            move = good;
            move.nodes.push_back(other_hash());
            expect_refused(game, Side::defender, move, "dispute.wrong_node_count");
            move = good;
            move.nodes[0] = other_hash();
            const bool is_open = phase == Phase::trace || phase == Phase::micro;
            expect_refused(game, Side::defender, move, is_open ? "dispute.not_anchored" : "dispute.does_not_fold");
            move = good;
            move.tiles.push_back(Bytes(vm::tensor::kTileBytes));
            expect_refused(game, Side::defender, move, "dispute.unexpected_field");
        }
        move = good;
        move.probe_path.push_back(other_hash());
        expect_refused(game, Side::defender, move, "dispute.unexpected_field");
        move = good;
        move.pick.position = 1;
        expect_refused(game, Side::defender, move, "dispute.unexpected_field");

        // The rival answers, and does not begin.
        expect_refused(game, Side::rival, good, "dispute.no_post");
        Game twice = game;
        ASSERT_TRUE(apply_split(twice, Side::defender, good, 1000).has_value());
        EXPECT_EQ(twice.post, post_hash(good));
        expect_refused(twice, Side::defender, good, "dispute.already_posted");
    }
}

TEST(DisputeMoves, MalformedPicksAreRefusedInEachPhase) {
    Players players;
    for (const Phase phase : {Phase::history, Phase::state, Phase::trace, Phase::tile, Phase::micro}) {
        const Game game = posted_at(phase, players.liar, players.honest);
        const SplitMove post = *waiting_post(game);
        const SplitMove good = split_of(players.honest.next_move(game, Side::rival, &post));
        SCOPED_TRACE(to_string(phase));
        const auto refused = [&](auto change, std::string_view error) {
            SplitMove move = good;
            change(move);
            expect_refused(game, Side::rival, move, error);
        };
        refused([](SplitMove& move) { ++move.phase; }, "dispute.wrong_phase");
        refused([&](SplitMove& move) { move.nodes = post.nodes; }, "dispute.unexpected_field");
        refused([](SplitMove& move) { move.tiles.emplace_back(); }, "dispute.unexpected_field");
        refused([](SplitMove& move) { move.previous_state = other_hash(); }, "dispute.unexpected_field");
        refused([](SplitMove& move) { move.probe_path = {other_hash()}; }, "dispute.unexpected_field");
        refused([](SplitMove& move) { move.pick.nodes[0] = move.pick.nodes[1]; }, "dispute.no_difference");
        refused([](SplitMove& move) { move.pick.nodes[0] = other_hash(); }, "dispute.does_not_fold");
        refused([](SplitMove& move) { move.pick.position += kMaxSplit; }, "dispute.bad_pick");
        refused([](SplitMove& move) { move.pick = {}; }, "dispute.bad_pick");
        refused([](SplitMove& move) { move.pick.rival_path.emplace_back(); }, "dispute.bad_path");
        const bool is_open = phase == Phase::trace || phase == Phase::micro;
        refused([](SplitMove& move) { move.pick.nodes[1] = other_hash(); },
                is_open ? "dispute.not_anchored" : "dispute.does_not_fold");
        Game tried = game;
        ASSERT_TRUE(apply_split(tried, Side::rival, good, 1000));
        EXPECT_FALSE(has_post(tried));
    }
}

TEST(DisputeMoves, OnlyTheFirstDifferenceCanBePicked) {
    std::vector<Hash32> theirs = world().roots;
    theirs[2] = other_hash(1);
    theirs[3] = other_hash(2);
    Game game = history_game(world(), history_root(theirs), world().root());
    SplitMove post;
    post.phase = static_cast<std::uint8_t>(Phase::history);
    post.nodes = theirs;
    ASSERT_TRUE(apply_split(game, Side::defender, post, 1000));
    for (const std::uint64_t at : {0U, 1U, 2U, 3U}) {
        SplitMove move;
        move.phase = static_cast<std::uint8_t>(Phase::history);
        move.pick = {at,
                     {theirs[at], world().roots[at]},
                     crypto::merkle_path(theirs, at),
                     crypto::merkle_path(world().roots, at)};
        if (at == 2) {
            Game picked = game;
            ASSERT_TRUE(apply_split(picked, Side::rival, move, 1000));
            EXPECT_EQ(picked.step, 2U);
        } else {
            expect_refused(game, Side::rival, move, at < 2 ? "dispute.no_difference" : "dispute.not_first");
        }
    }
}

TEST(DisputeMoves, ARivalAnswersOnlyThePostThatTheGameNames) {
    Players players;
    const Game game = posted_at(Phase::history, players.liar, players.honest);
    EXPECT_EQ(players.honest.next_move(game, Side::rival, nullptr).error().name, "dispute.post_missing");
    SplitMove other = *waiting_post(game);
    other.nodes.back() = other_hash();
    EXPECT_EQ(players.honest.next_move(game, Side::rival, &other).error().name, "dispute.wrong_post");
    EXPECT_TRUE(players.honest.next_move(game, Side::rival, waiting_post(game)));
}

TEST(DisputeMoves, HistoryPostsOfTheOtherSidesTreeAreRefused) {
    Players players;
    const Game game = game_at(Phase::history, players.liar, players.honest);
    SplitMove post = split_of(players.liar.next_move(game, Side::defender, nullptr));
    post.nodes = world().roots;
    expect_refused(game, Side::defender, post, "dispute.does_not_fold");
}

TEST(DisputeMoves, StateBeforeTheStepMustBeTheAgreedOne) {
    Players players;
    const Game game = game_at(Phase::state, players.liar, players.honest);
    const SplitMove good = split_of(players.liar.next_move(game, Side::defender, nullptr));
    SplitMove move = good;
    move.previous_state = other_hash();
    expect_refused(game, Side::defender, move, "dispute.bad_path");
    move = good;
    move.previous_state = world().roots[0];
    move.previous_path = history_path(world().roots, 0);
    expect_refused(game, Side::defender, move, "dispute.bad_path");
    move = good;
    move.previous_path.pop_back();
    expect_refused(game, Side::defender, move, "dispute.bad_path");
    move.previous_path.clear();
    move.previous_state = {};
    expect_refused(game, Side::defender, move, "dispute.bad_path");
}

TEST(DisputeMoves, TraceMustBeAnchoredInTheClaimedSlot) {
    Players players;
    const Game game = game_at(Phase::trace, players.liar, players.honest);
    // The honest trace does not lead to the liar's slot.
    Game swapped = game;
    std::swap(swapped.slot_roots[0], swapped.slot_roots[1]);
    expect_refused(game, Side::defender, split_of(players.honest.next_move(swapped, Side::defender, nullptr)),
                   "dispute.not_anchored");
    const auto refused = [&](const Game& at, Side side, const SplitMove& good) {
        SplitMove move = good;
        move.anchor_path.pop_back();
        expect_refused(at, side, move, "dispute.bad_path");
        move = good;
        move.program.clear();
        expect_refused(at, side, move, "dispute.bad_opening");
        move = good;
        move.program = {ProgramProver(world().program).update((at.slot + 1) % world().program.slots.size())};
        expect_refused(at, side, move, "dispute.bad_opening");
        move = good;
        move.program.front().bytes.back() ^= 1;
        expect_refused(at, side, move, "dispute.bad_opening");
        move = good;
        move.program.front().path.push_back(other_hash());
        expect_refused(at, side, move, "dispute.bad_opening");
        // A node's leaf is no slot.
        move = good;
        move.program = {ProgramProver(world().program).node(at.slot)};
        move.program.front().index = at.slot;
        expect_refused(at, side, move, "dispute.bad_opening");
    };
    refused(game, Side::defender, split_of(players.liar.next_move(game, Side::defender, nullptr)));
    const Game posted = posted_at(Phase::trace, players.liar, players.honest);
    refused(posted, Side::rival, split_of(players.honest.next_move(posted, Side::rival, waiting_post(posted))));
}

TEST(DisputeMoves, TileNeedsTheOpenedNodeAndItsOperands) {
    Players players;
    const Game game = game_at(Phase::tile, players.liar, players.honest);
    const SplitMove good = split_of(players.liar.next_move(game, Side::defender, nullptr));
    ASSERT_EQ(good.program.size(), 3U);
    SplitMove move = good;
    move.program.clear();
    expect_refused(game, Side::defender, move, "dispute.bad_opening");
    move = good;
    move.program.pop_back();
    expect_refused(game, Side::defender, move, "dispute.bad_opening");
    move = good;
    move.program.push_back(move.program.back());
    expect_refused(game, Side::defender, move, "dispute.bad_opening");
    move = good;
    move.program[1] = ProgramProver(world().program).node(0);
    if (world().program.nodes[game.node].inputs[0] != 0)
        expect_refused(game, Side::defender, move, "dispute.bad_opening");
    move = good;
    move.program[0].index = game.node + 1;
    expect_refused(game, Side::defender, move, "dispute.bad_opening");
    move = good;
    move.program[0].bytes.resize(kMaxOpeningBytes + 1);
    expect_refused(game, Side::defender, move, "dispute.bad_opening");
    move = good;
    move.anchor_leaf = other_hash();
    expect_refused(game, Side::defender, move, "dispute.unexpected_field");
}

TEST(DisputeMoves, LastMicroStateMustBeTheClaimedTile) {
    Players players;
    const Game game = game_at(Phase::micro, players.liar, players.honest);
    SplitMove move = split_of(players.liar.next_move(game, Side::defender, nullptr));
    move.nodes.back() = other_hash();
    expect_refused(game, Side::defender, move, "dispute.not_anchored");
    expect_refused(game, Side::defender, split_of(players.honest.next_move(game, Side::defender, nullptr)),
                   "dispute.not_anchored");
    const Game posted = posted_at(Phase::micro, players.liar, players.honest);
    move = split_of(players.honest.next_move(posted, Side::rival, waiting_post(posted)));
    move.anchor_path.back() = other_hash();
    expect_refused(posted, Side::rival, move, "dispute.not_anchored");
}

TEST(DisputeMoves, AccumulatorsMustBeTheClaimedOnes) {
    Players players;
    const Game game = game_at(Phase::element, players.liar, players.honest);
    const SplitMove post = split_of(players.liar.next_move(game, Side::defender, nullptr));
    const Game posted = posted_at(Phase::element, players.liar, players.honest);
    const SplitMove answer = split_of(players.honest.next_move(posted, Side::rival, waiting_post(posted)));
    ASSERT_EQ(post.tiles.size(), 2U);
    ASSERT_EQ(answer.tiles.size(), 4U);
    SplitMove move = post;
    move.tiles[0][17] ^= 1;
    expect_refused(game, Side::defender, move, "dispute.does_not_fold");
    move = post;
    move.tiles.pop_back();
    expect_refused(game, Side::defender, move, "dispute.bad_tile");
    move = post;
    move.tiles[1].pop_back();
    expect_refused(game, Side::defender, move, "dispute.bad_tile");
    for (const std::size_t tile : {0U, 1U, 2U, 3U}) {
        move = answer;
        move.tiles[tile][17] ^= 1;
        expect_refused(posted, Side::rival, move, "dispute.does_not_fold");
    }
    move = answer;
    move.tiles.pop_back();
    expect_refused(posted, Side::rival, move, "dispute.bad_tile");
    expect_refused(posted, Side::rival, post, "dispute.bad_tile");
    // Each gives what it has claimed.
    move = answer;
    std::swap(move.tiles[0], move.tiles[2]);
    std::swap(move.tiles[1], move.tiles[3]);
    expect_refused(posted, Side::rival, move, "dispute.does_not_fold");
}

// An input's truth is known: whoever is right shows it, and need not wait for the other.
TEST(DisputeMoves, EitherSideShowsAnInput) {
    std::uint32_t node = 0;
    while (world().program.nodes[node].op != Op::slot) ++node;
    const Alter alter = flip(2, node, 7);
    const History history = altered_history(world(), alter, 2);
    ASSERT_NE(history.root(), world().root());
    for (const Side liar : {Side::defender, Side::rival}) {
        const bool defends = liar == Side::defender;
        DisputeStrategy dishonest = dishonest_player(world(), history, alter);
        DisputeStrategy honest = honest_player(world());
        Game game =
            history_game(world(), defends ? history.root() : world().root(), defends ? world().root() : history.root());
        for (int i = 0; i < 50 && game.phase < Phase::tile; ++i)
            for (const Side side : {Side::defender, Side::rival}) {
                if (game.phase >= Phase::tile) break;
                const auto move = (side == liar ? dishonest : honest).next_move(game, side, waiting_post(game));
                ASSERT_TRUE(move && apply(game, side, *move, 1000));
            }
        ASSERT_EQ(game.phase, Phase::tile);
        const Side right = defends ? Side::rival : Side::defender;
        const auto still = dishonest.next_move(game, liar, nullptr);
        ASSERT_TRUE(still);
        EXPECT_TRUE(std::holds_alternative<NoMove>(*still));
        EXPECT_TRUE(may_move(game, right));
        const auto shown = honest.next_move(game, right, nullptr);
        ASSERT_TRUE(shown && apply(game, right, *shown, 1000));
        EXPECT_EQ(game.reason, "input");
        EXPECT_EQ(game.verdict, defends ? Verdict::rival_wins : Verdict::defender_wins);
    }
}

TEST(DisputeMoves, CorruptedWitnessesAreRefused) {
    Players players;
    const Game game = game_at(Phase::leaf, players.liar, players.honest);
    const auto good = players.honest.leaf_witness(game);
    ASSERT_TRUE(good.has_value());
    ASSERT_EQ(good->tiles.size(), 2U);
    const auto expect = [&](const LeafWitness& witness, std::string_view error) {
        Game tried = game;
        EXPECT_EQ(name_of(apply_leaf(tried, Side::rival, witness, 1000)), error);
        EXPECT_EQ(chain::types::encode_record(tried), chain::types::encode_record(game));
    };
    LeafWitness witness = *good;
    witness.accumulators[0][5] ^= 1;
    expect(witness, "dispute.bad_witness");
    witness = *good;
    witness.accumulators.clear();
    expect(witness, "dispute.bad_witness");
    witness = *good;
    witness.micro_path.pop_back();
    expect(witness, "dispute.bad_witness");
    witness = *good;
    witness.tiles[0].bytes[9] ^= 1;
    expect(witness, "dispute.bad_witness");
    witness = *good;
    witness.tiles[0].bytes.pop_back();
    expect(witness, "dispute.bad_witness");
    witness = *good;
    witness.tiles[1].root = other_hash();
    expect(witness, "dispute.bad_witness");
    witness = *good;
    witness.tiles[1].tile ^= 1;
    expect(witness, "dispute.bad_witness");
    witness = *good;
    witness.tiles[1].tile = ~0ULL;
    expect(witness, "dispute.bad_witness");
    witness = *good;
    witness.tiles[1].operand = 2;
    expect(witness, "dispute.bad_witness");
    witness = *good;
    witness.tiles.pop_back();
    expect(witness, "leaf.missing_tile");
    witness = *good;
    while (witness.tiles.size() <= vm::tensor::kMaxLeafTiles) witness.tiles.push_back(witness.tiles[0]);
    expect(witness, "dispute.bad_witness");

    // The liar's own operands are the agreed ones: even its witness proves the truth.
    Game decided = game;
    const auto liars = players.liar.leaf_witness(game);
    ASSERT_TRUE(liars.has_value());
    ASSERT_TRUE(apply_leaf(decided, Side::defender, *liars, 1000).has_value());
    EXPECT_EQ(decided.verdict, Verdict::rival_wins);
    EXPECT_EQ(decided.true_value, decided.values[1]);
    EXPECT_EQ(name_of(apply_leaf(decided, Side::rival, *good, 1000)), "dispute.decided");
    EXPECT_EQ(name_of(concede(decided, Side::rival, 1000)), "dispute.decided");
    expect_refused(decided, Side::rival, SplitMove{}, "dispute.decided");
}

// A task whose one step reads a window in the last tile of the data, which is shorter, and the game with a liar about
// it, at its leaf: the rival is right.
struct WindowGame {
    World task;
    Game game;

    WindowGame() {
        vm::tensor::test::Graph graph;
        const std::uint32_t at = graph.add_slot("index", vm::tensor::DType::i32, {});
        const std::uint32_t window = graph.window(at, 1, vm::tensor::DType::i32, 1, 40);
        graph.add_slot("window", vm::tensor::DType::i32, graph.shape(window));
        graph.update(1, window);
        graph.add_slot("loss", vm::tensor::DType::f32, {});
        graph.finish({}, {{vm::tensor::DataType::u8, 5'000}});
        task = make_world(graph.program, 1);
        task.states.front().front().words = {4'100};
        task.states.resize(1);
        vm::tensor::Executor executor(task.program, vm::tensor::arith::Backend::scalar, nullptr);
        State after = task.states.front();
        EXPECT_TRUE(executor.step(after, task.data, task.seed));
        task.roots = {vm::tensor::state_root(task.states.front()), vm::tensor::state_root(after)};
        task.states.push_back(after);
        const Alter lie = flip(1, window, 3);
        const History history = altered_history(task, lie, 1);
        DisputeStrategy liar = dishonest_player(task, history, lie);
        DisputeStrategy honest = honest_player(task);
        game = history_game(task, history.root(), task.root());
        for (int i = 0; i < 50 && game.phase < Phase::leaf; ++i)
            for (const Side side : {Side::defender, Side::rival}) {
                if (game.phase >= Phase::leaf) break;
                const auto move = (side == Side::defender ? liar : honest).next_move(game, side, waiting_post(game));
                EXPECT_TRUE(move && apply(game, side, *move, 1000));
            }
        EXPECT_EQ(game.phase, Phase::leaf);
    }
};

// A witness of data is bound to the task's root and to the header's size.
TEST(DisputeMoves, CorruptedWitnessesOfDataAreRefused) {
    WindowGame played;
    const World& task = played.task;
    Game& game = played.game;
    DisputeStrategy honest = honest_player(task);
    const auto good = honest.leaf_witness(game);
    ASSERT_TRUE(good.has_value()) << good.error().to_string();
    ASSERT_EQ(good->tiles.size(), 2U);
    ASSERT_EQ(good->tiles[1].tile, 1U);
    ASSERT_EQ(good->tiles[1].bytes.size(), 904U);
    const auto refused = [&](auto change, std::string_view error = "dispute.bad_witness") {
        LeafWitness witness = *good;
        change(witness.tiles[1]);
        Game tried = game;
        EXPECT_EQ(name_of(apply_leaf(tried, Side::rival, witness, 1000)), error);
    };
    refused([](OperandTile& tile) { tile.bytes[9] ^= 1; });
    refused([](OperandTile& tile) { tile.bytes.pop_back(); });
    refused([](OperandTile& tile) { tile.bytes.resize(4'096); });
    refused([](OperandTile& tile) { tile.tile = 0; });
    refused([](OperandTile& tile) { tile.tile = 2; });
    refused([](OperandTile& tile) { tile.tile = ~0ULL; });
    refused([](OperandTile& tile) { tile.root = other_hash(); });
    refused([](OperandTile& tile) { tile.root_path = {other_hash()}; });
    refused([](OperandTile& tile) { tile.tile_path.clear(); });
    refused([](OperandTile& tile) { tile.operand = 2; });
    LeafWitness without = *good;
    without.tiles.pop_back();
    Game tried = game;
    EXPECT_EQ(name_of(apply_leaf(tried, Side::rival, without, 1000)), "leaf.missing_tile");
    // A content of another size than the header's has another id.
    Game other = game;
    Bytes longer = task.data.sets()[1];
    longer.push_back(0);
    other.context.data_roots[1] = crypto::content_id_of(longer);
    EXPECT_EQ(name_of(apply_leaf(other, Side::rival, *good, 1000)), "dispute.bad_witness");
    other.context.data_roots.pop_back();
    EXPECT_EQ(name_of(apply_leaf(other, Side::rival, *good, 1000)), "dispute.bad_game");
    ASSERT_TRUE(apply_leaf(game, Side::rival, *good, 1000).has_value());
    EXPECT_EQ(game.verdict, Verdict::rival_wins);
}

// Gives out so many parts and paths.
class ScarceData final : public vm::tensor::DataSource {
public:
    explicit ScarceData(const vm::tensor::MemoryData& all) : all_(all) {}
    bool read(std::size_t set, std::uint64_t first, std::span<std::uint8_t> out) const override {
        return reads-- > 0 && all_.read(set, first, out);
    }
    std::optional<std::vector<Hash32>> tile_path(std::size_t set, std::uint64_t tile) const override {
        return paths ? all_.tile_path(set, tile) : std::nullopt;
    }
    mutable int reads = 0;
    bool paths = true;

private:
    const vm::tensor::MemoryData& all_;
};

TEST(DisputeMoves, AMoveWhoseDataAreMissingSaysSoAndIsMadeWhenTheyAreThere) {
    const WindowGame played;
    ScarceData data(played.task.data);
    DisputeParty party = honest_party(played.task);
    party.data = &data;
    DisputeStrategy honest(std::move(party));
    const auto missing = [&](int reads, bool paths) {
        data.reads = reads;
        data.paths = paths;
        const auto move = honest.next_move(played.game, Side::rival, waiting_post(played.game));
        ASSERT_FALSE(move);
        EXPECT_EQ(move.error().name, "dispute.data_missing");
        EXPECT_TRUE(move.error().is_busy());
    };
    missing(0, true);  // for the run
    missing(2, true);  // a run for the trace and one for the leaf, and its tile
    missing(1, true);
    missing(1'000, false);
    data.reads = 1'000;
    data.paths = true;
    const auto move = honest.next_move(played.game, Side::rival, waiting_post(played.game));
    ASSERT_TRUE(move) << move.error().to_string();
    Game game = played.game;
    ASSERT_TRUE(apply(game, Side::rival, *move, 1000));
    EXPECT_EQ(game.verdict, Verdict::rival_wins);
}

TEST(DisputeMoves, LeafIsRefusedBeforeItsPhase) {
    Players players;
    Game game = game_at(Phase::element, players.liar, players.honest);
    EXPECT_EQ(name_of(apply_leaf(game, Side::rival, {}, 1000)), "dispute.wrong_phase");
    EXPECT_EQ(players.honest.leaf_witness(game).error().name, "dispute.wrong_phase");
    EXPECT_TRUE(disputed_node(game));
    EXPECT_EQ(disputed_node(game_at(Phase::trace, players.liar, players.honest)).error().name, "dispute.wrong_phase");
}

TEST(DisputeMoves, DecodersRefuseWhatIsTooLargeOrNotCanonical) {
    EXPECT_EQ(decode_split_move(Bytes(kMaxMoveBytes + 1)).error().name, "dispute.move_too_large");
    EXPECT_EQ(decode_leaf_witness(Bytes(kMaxMoveBytes + 1)).error().name, "dispute.move_too_large");
    Players players;
    const Game game = game_at(Phase::trace, players.liar, players.honest);
    Bytes bytes = chain::types::encode_record(split_of(players.liar.next_move(game, Side::defender, nullptr)));
    ASSERT_TRUE(decode_split_move(bytes).has_value());
    bytes.push_back(0);
    EXPECT_FALSE(decode_split_move(bytes).has_value());
    for (std::size_t length = 0; length < bytes.size() - 1; length += 7)
        EXPECT_FALSE(decode_split_move(BytesView(bytes).first(length)).has_value());
}

TEST(DisputeClocks, SilentSideLosesAtItsDeadlineAndNotBefore) {
    Players players;
    Game game = history_game(world(), cheat().history.root(), world().root());
    EXPECT_EQ(next_deadline(game), 1000 + kBudget);
    EXPECT_TRUE(owes_move(game, Side::defender));
    EXPECT_FALSE(owes_move(game, Side::rival));
    ASSERT_TRUE(apply(game, Side::defender, *players.liar.next_move(game, Side::defender, nullptr), 1000 + 30));
    EXPECT_EQ(game.budget[0], kBudget - 30);
    EXPECT_EQ(game.budget[1], kBudget) << "it owed nothing";
    EXPECT_TRUE(owes_move(game, Side::rival));
    EXPECT_FALSE(owes_move(game, Side::defender));
    EXPECT_EQ(next_deadline(game), 1030 + kBudget);
    Game late = game;
    charge_clocks(late, 1030 + kBudget - 1);
    EXPECT_EQ(late.verdict, Verdict::none);
    EXPECT_EQ(late.budget[0], kBudget - 30);  // its clock stands
    // A move at the deadline comes too late.
    EXPECT_EQ(name_of(apply(late, Side::rival, *players.honest.next_move(late, Side::rival, waiting_post(late)),
                            1030 + kBudget)),
              "dispute.clock_ran_out");
    EXPECT_EQ(name_of(concede(late, Side::rival, 1030 + kBudget)), "dispute.clock_ran_out");
    charge_clocks(late, 1030 + kBudget);
    EXPECT_EQ(late.verdict, Verdict::defender_wins);
    EXPECT_EQ(late.reason, "clock");
    EXPECT_FALSE(has_post(late));
    EXPECT_EQ(next_deadline(late), 0U);
}

TEST(DisputeClocks, AGameThatHasNotBegunTakesMovesAndChargesNobody) {
    Players players;
    Game game = history_game(world(), cheat().history.root(), world().root());
    game.charged_to = kNotBegun;
    EXPECT_FALSE(has_begun(game));
    EXPECT_EQ(next_deadline(game), 0U);
    const Game fresh = game;
    charge_clocks(game, 1000 + 5 * kBudget);
    EXPECT_EQ(chain::types::encode_record(game), chain::types::encode_record(fresh));
    for (const Side side : {Side::defender, Side::rival}) {
        EXPECT_FALSE(owes_move(game, side));
        auto& player = side == Side::defender ? players.liar : players.honest;
        ASSERT_TRUE(
            apply(game, side, *player.next_move(game, side, waiting_post(game)), 1000 + 6 * kBudget).has_value());
    }
    EXPECT_EQ(game.phase, Phase::state) << "both have posted";
    EXPECT_EQ(game.budget, fresh.budget);
    Game conceded = game;
    EXPECT_TRUE(concede(conceded, Side::rival, 1000).has_value());
    EXPECT_EQ(conceded.verdict, Verdict::defender_wins);
    game.charged_to = 9000;
    EXPECT_TRUE(owes_move(game, Side::defender));
    EXPECT_EQ(next_deadline(game), 9000 + kBudget);
}

TEST(DisputeClocks, OnlyTheClockOfWhoOwesAMoveRuns) {
    const auto decided = [](bool posted, std::uint64_t defender, std::uint64_t rival) {
        Game game = history_game(world(), cheat().history.root(), world().root());
        if (posted) game.post = other_hash();
        game.budget = {defender, rival};
        charge_clocks(game, 1000 + 5'000);
        return std::pair(game.verdict, posted ? game.budget[0] == defender : game.budget[1] == rival);
    };
    EXPECT_EQ(decided(false, 5'000, 1), std::pair(Verdict::rival_wins, true));
    EXPECT_EQ(decided(false, 5'001, 1), std::pair(Verdict::none, true));
    EXPECT_EQ(decided(true, 1, 5'000), std::pair(Verdict::defender_wins, true));
    EXPECT_EQ(decided(true, 1, 5'001), std::pair(Verdict::none, true));
}

TEST(DisputeClocks, ResultDoesNotDependOnWhenClocksAreCharged) {
    Random random(3);
    for (int i = 0; i < 200; ++i) {
        Game once = history_game(world(), cheat().history.root(), world().root());
        once.budget = {1 + random.below(20), 1 + random.below(20)};
        if (random.below(2) == 0) once.post = other_hash();
        Game often = once;
        std::uint64_t now = 1000;
        while (now < 1030) {
            now += 1 + random.below(5);
            charge_clocks(often, now);
        }
        charge_clocks(once, now);
        EXPECT_EQ(once.verdict, often.verdict);
        EXPECT_EQ(once.budget, often.budget);
    }
}

TEST(DisputeClocks, BudgetsAreNeverReset) {
    Players players;
    Game game = history_game(world(), cheat().history.root(), world().root());
    std::uint64_t now = 1000;
    std::uint64_t liar_used = 0;
    while (game.phase != Phase::decided) {
        // The honest side moves at once, the liar after nine milliseconds.
        if (is_next(game, Side::rival)) {
            ASSERT_TRUE(
                apply(game, Side::rival, *players.honest.next_move(game, Side::rival, waiting_post(game)), now));
            continue;
        }
        now += 9;
        if (!apply(game, Side::defender, *players.liar.next_move(game, Side::defender, nullptr), now)) {
            charge_clocks(game, now);
            break;
        }
        liar_used += 9;
        EXPECT_EQ(game.budget[0], kBudget - liar_used);
        EXPECT_EQ(game.budget[1], kBudget);
    }
    EXPECT_EQ(game.verdict, Verdict::rival_wins);
    EXPECT_LE(liar_used, kBudget);
}

TEST(DisputeCodec, GameRoundTripsInEachPhase) {
    Players players;
    for (const Phase phase :
         {Phase::history, Phase::state, Phase::trace, Phase::tile, Phase::micro, Phase::element, Phase::leaf}) {
        Game game = game_at(phase, players.liar, players.honest);
        if (phase != Phase::leaf) {
            ASSERT_TRUE(apply(game, Side::defender, *players.liar.next_move(game, Side::defender, nullptr), 1000));
        }
        EXPECT_TRUE(check_game(game).has_value());
        const Bytes bytes = chain::types::encode_record(game);
        const auto decoded = chain::types::decode_record<Game>(bytes);
        ASSERT_TRUE(decoded.has_value());
        EXPECT_EQ(chain::types::encode_record(*decoded), bytes);
    }
}

TEST(DisputeCodec, DamagedGamesAreRefusedOrHarmless) {
    Players players;
    Random random(77);
    for (const Phase phase :
         {Phase::history, Phase::state, Phase::trace, Phase::tile, Phase::micro, Phase::element, Phase::leaf}) {
        const Game game = phase == Phase::leaf ? game_at(phase, players.liar, players.honest)
                                               : posted_at(phase, players.liar, players.honest);
        const Bytes bytes = chain::types::encode_record(game);
        const auto move = players.honest.next_move(game, Side::rival, waiting_post(game));
        for (int i = 0; i < 300; ++i) {
            Bytes damaged = bytes;
            damaged[random.next() % damaged.size()] = static_cast<std::uint8_t>(random.next());
            auto decoded = chain::types::decode_record<Game>(damaged);
            if (!decoded) continue;
            (void)check_game(*decoded);
            (void)next_deadline(*decoded);
            Game tried = *decoded;
            (void)apply(tried, Side::rival, *move, 1000);
            charge_clocks(tried, 2000);
            if (i % 3 == 0) (void)players.honest.next_move(*decoded, Side::rival, waiting_post(*decoded));
        }
    }
}

// --- Probe games
// -------------------------------------------------------------------------------------------------------

struct ProbeClaims {
    std::uint64_t tile = 0;
    Hash32 truth;
    Hash32 lie;
};

// The hash of the tile of `node` in which the altered execution of step 2 differs from the honest one.
std::optional<ProbeClaims> probe_claims(const Alter& alter, std::uint32_t node) {
    vm::tensor::Executor executor(world().program, vm::tensor::arith::Backend::scalar, nullptr);
    const auto honest = executor.run_all(world().states[1], world().data, world().seed);
    const auto altered = executor.run_altered(world().states[1], world().data, world().seed,
                                              [&](std::uint32_t at, Tensor& output) { alter(2, at, output); });
    const auto truth = tile_hashes(honest[node]);
    const auto lie = tile_hashes(altered[node]);
    for (std::size_t tile = 0; tile < truth.size(); ++tile)
        if (truth[tile] != lie[tile]) return ProbeClaims{tile, truth[tile], lie[tile]};
    return std::nullopt;
}

DisputeStrategy probe_liar(const Alter& alter) {
    return dishonest_player(world(), {world().states, world().roots}, alter);
}

TEST(ProbeGame, LiarLosesWhicheverNodeItAltered) {
    Random random(12);
    int games = 0;
    for (std::uint32_t node = 0; node < world().program.nodes.size(); node += 1 + random.below(4)) {
        const Alter alter = flip(2, node, random.next());
        const auto claims = probe_claims(alter, node);
        ASSERT_TRUE(claims.has_value());
        const Side side = ++games % 2 == 0 ? Side::defender : Side::rival;
        const bool defends = side == Side::defender;
        auto game = open_probe_game(world().context, world().root(), 2, node, claims->tile,
                                    defends ? claims->lie : claims->truth, defends ? claims->truth : claims->lie,
                                    kBudget, 1000);
        ASSERT_TRUE(game.has_value());
        DisputeStrategy honest = honest_player(world());
        DisputeStrategy liar = probe_liar(alter);
        const Transcript transcript = play(*game, player(defends ? liar : honest), player(defends ? honest : liar));
        EXPECT_EQ(game->verdict, defends ? Verdict::rival_wins : Verdict::defender_wins) << "node " << node;
        EXPECT_TRUE(game->reason == "leaf" || game->reason == "input") << game->reason;
        EXPECT_EQ(game->node, node);
        EXPECT_TRUE(transcript.refused.empty()) << transcript.refused.front();
    }
    EXPECT_GT(games, 40);
}

TEST(ProbeGame, LieInAnEarlierNodeIsFoundFromAProbeOfALaterOne) {
    const std::uint32_t probed = long_matmul();
    const std::uint32_t wide = world().program.nodes[probed].inputs[0];
    const Alter alter = flip(2, wide, 0, 1U << 22);
    const auto claims = probe_claims(alter, probed);
    ASSERT_TRUE(claims.has_value());
    auto game = open_probe_game(world().context, world().root(), 2, probed, claims->tile, claims->lie, claims->truth,
                                kBudget, 1000);
    ASSERT_TRUE(game.has_value());
    DisputeStrategy honest = honest_player(world());
    DisputeStrategy liar = probe_liar(alter);
    play(*game, player(liar), player(honest));
    EXPECT_EQ(game->verdict, Verdict::rival_wins);
    EXPECT_EQ(game->node, wide);
    EXPECT_EQ(game->reason, "input");
}

TEST(ProbeGame, AStrategyMakesNoMoveAboutANodeOrTileThatIsNone) {
    const std::uint32_t probed = long_matmul();
    const auto claims = probe_claims(flip(2, probed, 3), probed);
    ASSERT_TRUE(claims.has_value());
    const auto game = open_probe_game(world().context, world().root(), 2, probed, claims->tile, claims->truth,
                                      claims->lie, kBudget, 1000);
    ASSERT_TRUE(game.has_value());
    DisputeStrategy honest = honest_player(world());
    EXPECT_TRUE(honest.next_move(*game, Side::defender, waiting_post(*game)));
    Game strange = *game;
    strange.probe_node = world().program.nodes.size();
    EXPECT_EQ(honest.next_move(strange, Side::defender, waiting_post(strange)).error().name, "dispute.bad_game");
    strange = *game;
    strange.probe_tile = world().program.nodes[probed].shape.tiles();
    EXPECT_EQ(honest.next_move(strange, Side::defender, waiting_post(strange)).error().name, "dispute.bad_game");
}

TEST(ProbeGame, MadeUpHashCannotBeAnchored) {
    auto game =
        open_probe_game(world().context, world().root(), 2, long_matmul(), 0, other_hash(), Hash32{{1}}, kBudget, 1000);
    ASSERT_TRUE(game.has_value());
    DisputeStrategy honest = honest_player(world());
    const auto move = honest.next_move(*game, Side::defender, waiting_post(*game));
    ASSERT_TRUE(move.has_value());
    EXPECT_TRUE(std::holds_alternative<Concede>(*move));

    const auto claims = probe_claims(flip(2, long_matmul(), 3), long_matmul());
    game = open_probe_game(world().context, world().root(), 2, long_matmul(), claims->tile, claims->truth, other_hash(),
                           kBudget, 1000);
    ASSERT_TRUE(game.has_value());
    SplitMove post = split_of(honest.next_move(*game, Side::defender, waiting_post(*game)));
    expect_refused(*game, Side::rival, post, "dispute.no_post");
    SplitMove changed = post;
    changed.anchor_leaf = other_hash();
    expect_refused(*game, Side::defender, changed, "dispute.bad_path");
    changed = post;
    changed.previous_state = world().roots[0];
    changed.previous_path = history_path(world().roots, 0);
    expect_refused(*game, Side::defender, changed, "dispute.bad_path");
    changed = post;
    changed.program = {ProgramProver(world().program).node(0)};
    expect_refused(*game, Side::defender, changed, "dispute.bad_opening");
    changed = post;
    changed.nodes[0] = other_hash();
    expect_refused(*game, Side::defender, changed, "dispute.not_anchored");
    ASSERT_TRUE(apply_split(*game, Side::defender, post, 1000).has_value());
    // Nor can the rival show its tile in any output.
    changed = post;
    std::vector<Hash32> made_up = post.nodes;
    made_up.back() = other_hash();
    changed.nodes.clear();
    changed.previous_state = {};
    changed.previous_path.clear();
    changed.pick = *first_difference(post.nodes, made_up);
    expect_refused(*game, Side::rival, changed, "dispute.bad_path");
}

// --- Random mutations
// ----------------------------------------------------------------------------------------------------

void mutate_hashes(Random& random, std::vector<Hash32>& hashes) {
    switch (random.below(5)) {
        case 0:
            if (!hashes.empty()) hashes.pop_back();
            break;
        case 1:
            hashes.push_back(other_hash(static_cast<std::uint8_t>(random.next())));
            break;
        case 2:
            if (hashes.size() > 1)
                std::swap(hashes.front(), hashes[random.below(static_cast<std::uint32_t>(hashes.size()))]);
            break;
        default:
            if (!hashes.empty())
                hashes[random.below(static_cast<std::uint32_t>(hashes.size()))].data[random.below(32)] ^= 1;
    }
}

void mutate_bytes(Random& random, Bytes& bytes) {
    if (bytes.empty()) return;
    if (random.below(8) == 0)
        bytes.pop_back();
    else
        bytes[random.next() % bytes.size()] ^= static_cast<std::uint8_t>(1U << random.below(8));
}

void mutate(Random& random, SplitMove& move) {
    if (!move.pick.nodes.empty() && random.below(2) == 0) {
        Pick& pick = move.pick;
        if (random.below(4) == 0)
            pick.position ^= 1ULL << random.below(8);
        else if (random.below(3) == 0)
            mutate_hashes(random, pick.nodes);
        else
            mutate_hashes(random, random.below(2) == 0 ? pick.defender_path : pick.rival_path);
        return;
    }
    switch (random.below(9)) {
        case 0:
            move.phase = static_cast<std::uint8_t>(random.below(11));
            break;
        case 1:
            mutate_hashes(random, move.previous_path);
            break;
        case 2:
            mutate_hashes(random, move.anchor_path);
            break;
        case 3:
            move.anchor_leaf.data[random.below(32)] ^= 1;
            break;
        case 4:
            move.previous_state.data[random.below(32)] ^= 1;
            break;
        case 5:
            if (!move.program.empty()) {
                auto& opening = move.program[random.below(static_cast<std::uint32_t>(move.program.size()))];
                if (random.below(2) == 0)
                    mutate_bytes(random, opening.bytes);
                else if (random.below(2) == 0)
                    opening.index ^= 1ULL << random.below(64);
                else
                    mutate_hashes(random, opening.path);
            }
            break;
        case 6:
            if (!move.tiles.empty())
                mutate_bytes(random, move.tiles[random.below(static_cast<std::uint32_t>(move.tiles.size()))]);
            break;
        default:
            mutate_hashes(random, move.nodes);
    }
}

void mutate(Random& random, LeafWitness& witness) {
    switch (random.below(5)) {
        case 0:
            mutate_hashes(random, witness.micro_path);
            break;
        case 1:
            if (!witness.accumulators.empty())
                mutate_bytes(
                    random,
                    witness.accumulators[random.below(static_cast<std::uint32_t>(witness.accumulators.size()))]);
            break;
        default:
            if (witness.tiles.empty()) break;
            auto& tile = witness.tiles[random.below(static_cast<std::uint32_t>(witness.tiles.size()))];
            switch (random.below(6)) {
                case 0:
                    tile.operand ^= 1U << random.below(3);
                    break;
                case 1:
                    tile.tile ^= 1ULL << random.below(64);
                    break;
                case 2:
                    tile.root.data[random.below(32)] ^= 1;
                    break;
                case 3:
                    mutate_hashes(random, tile.root_path);
                    break;
                case 4:
                    mutate_hashes(random, tile.tile_path);
                    break;
                default:
                    mutate_bytes(random, tile.bytes);
            }
    }
}

// Tries mutated moves first and commits to whatever the game accepts; else plays its strategy.
class Vandal {
public:
    Vandal(DisputeStrategy& strategy, Random& random) : strategy_(strategy), random_(random) {}

    Expected<Move> operator()(const Game& game, Side side) {
        Expected<Move> base = strategy_.next_move(game, side, waiting_post(game));
        if (!base || std::holds_alternative<Concede>(*base)) base = Move{NoMove{}};
        if (game.phase == Phase::leaf) {
            if (const auto witness = strategy_.leaf_witness(game)) base = Move{*witness};
        }
        for (int attempt = 0; attempt < 6; ++attempt) {
            Move move = *base;
            if (auto* split = std::get_if<SplitMove>(&move)) mutate(random_, *split);
            if (auto* witness = std::get_if<LeafWitness>(&move)) mutate(random_, *witness);
            if (std::holds_alternative<NoMove>(move)) break;
            Game tried = game;
            if (apply(tried, side, move, game.charged_to)) {
                ++accepted;
                return move;
            }
            EXPECT_EQ(chain::types::encode_record(tried), chain::types::encode_record(game));
            ++refused;
        }
        return base;
    }

    int accepted = 0;
    int refused = 0;

private:
    DisputeStrategy& strategy_;
    Random& random_;
};

TEST(DisputeFuzz, HonestSideNeverLosesToRandomlyMutatedMoves) {
    Random random(2024);
    DisputeStrategy honest = honest_player(world());
    int accepted = 0;
    int refused = 0;
    for (int round = 0; round < 180; ++round) {
        const auto node = random.below(static_cast<std::uint32_t>(world().program.nodes.size()));
        const Alter alter = flip(2, round % 3 == 0 ? long_matmul() : node, random.next(), 1U << random.below(3));
        const History history = altered_history(world(), alter, 2);
        if (history.root() == world().root()) continue;
        DisputeStrategy liar = dishonest_player(world(), history, alter);
        Vandal vandal(liar, random);
        const bool defends = random.below(2) == 0;
        Game game =
            history_game(world(), defends ? history.root() : world().root(), defends ? world().root() : history.root());
        const Player mutating = [&](const Game& now, Side side) { return vandal(now, side); };
        play(game, defends ? mutating : player(honest), defends ? player(honest) : mutating);
        ASSERT_EQ(game.verdict, defends ? Verdict::rival_wins : Verdict::defender_wins) << "round " << round;
        accepted += vandal.accepted;
        refused += vandal.refused;
    }
    std::printf("mutated moves: %d accepted, %d refused\n", accepted, refused);
    EXPECT_GT(accepted, 20);
    EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace quern::compute::core::test
