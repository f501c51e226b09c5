// Whole games, from two histories to the verdict.
#include <gtest/gtest.h>

#include <map>

#include "unit/compute/core/game_world.h"

namespace quern::compute::core::test {
namespace {

using vm::tensor::DType;

using vm::tensor::test::Graph;

const World& every_kind_world() {
    static const World world = make_world(every_kind_program(), 3);
    return world;
}

struct Result {
    Game game;
    Transcript transcript;
};

// Plays the cheat against the honest party; `liar` says which side the cheat is on.
Result play_cheat(const World& world, DisputeStrategy& honest, const History& history, const Alter& alter, Side liar) {
    DisputeStrategy dishonest = dishonest_player(world, history, alter);
    const bool defends = liar == Side::defender;
    Result result;
    result.game = history_game(world, defends ? history.root() : world.root(), defends ? world.root() : history.root());
    result.transcript = play(result.game, player(defends ? dishonest : honest), player(defends ? honest : dishonest));
    return result;
}

Verdict loses(Side side) { return side == Side::defender ? Verdict::rival_wins : Verdict::defender_wins; }

std::string describe(const World& world, std::uint32_t node, const Result& result) {
    std::string text = "node " + std::to_string(node) + " op " +
                       std::to_string(static_cast<int>(world.program.nodes[node].op)) + " element op " +
                       std::to_string(static_cast<int>(world.program.nodes[node].element)) + " reason " +
                       result.game.reason + " phase " + to_string(result.game.phase);
    for (const std::string& error : result.transcript.refused) text += "; refused: " + error;
    return text;
}

TEST(DisputeGame, CheatAtEachKindOfOpLosesAtTheLeaf) {
    const World& world = every_kind_world();
    DisputeStrategy honest = honest_player(world);
    ASSERT_GT(world.program.nodes.size(), kMaxSplit);
    std::map<int, int> played;  // by op and element op
    int games = 0;
    std::uint64_t most_rounds = 0;
    std::uint64_t most_bytes = 0;
    std::size_t largest_game = 0;
    Random random(5);
    for (std::uint32_t node = 0; node < world.program.nodes.size(); ++node) {
        const auto& definition = world.program.nodes[node];
        const int kind = 256 * static_cast<int>(definition.op) + static_cast<int>(definition.element);
        if (played[kind] >= (definition.op == Op::elementwise ? 1 : 6)) continue;
        const Alter alter = flip(2, node, random.next(), 1U << random.below(3));
        const History history = altered_history(world, alter, 2);
        if (history.root() == world.root()) continue;  // nothing that lasts reads the node
        ++played[kind];
        ++games;
        const Side liar = games % 2 == 0 ? Side::defender : Side::rival;
        const Result result = play_cheat(world, honest, history, alter, liar);
        ASSERT_EQ(result.game.verdict, loses(liar)) << describe(world, node, result);
        const bool input = definition.op == Op::slot || definition.op == Op::seed;
        EXPECT_EQ(result.game.reason, input ? "input" : "leaf") << describe(world, node, result);
        EXPECT_EQ(result.game.node, node);
        EXPECT_EQ(result.game.step, 2U);
        EXPECT_TRUE(result.transcript.refused.empty()) << describe(world, node, result);
        most_rounds = std::max(most_rounds, result.transcript.rounds);
        most_bytes = std::max(most_bytes, result.transcript.bytes);
        EXPECT_LE(result.transcript.largest_move, kMaxMoveBytes);
        largest_game = std::max(largest_game, result.transcript.largest_game);
    }
    for (const Op op : {Op::slot, Op::window, Op::seed, Op::full, Op::iota, Op::philox, Op::matmul, Op::imatmul,
                        Op::philox_words, Op::sum_last, Op::max_last, Op::sum_rows, Op::reshape, Op::permute, Op::slice,
                        Op::concat, Op::gather_rows, Op::scatter_add_rows})
        EXPECT_GT(played[256 * static_cast<int>(op)], 0) << "op " << static_cast<int>(op);
    int element_ops = 0;
    for (const auto& [kind, count] : played)
        if (kind / 256 == static_cast<int>(Op::elementwise) && count > 0) ++element_ops;
    EXPECT_EQ(element_ops, static_cast<int>(vm::tensor::arith::kElementOps.size()));
    std::printf("%d games, %zu nodes, %zu slots: at most %llu moves and %llu bytes, %zu in the state\n", games,
                world.program.nodes.size(), world.program.slots.size(), static_cast<unsigned long long>(most_rounds),
                static_cast<unsigned long long>(most_bytes), largest_game);
    EXPECT_LE(largest_game, kGameBytes);
    EXPECT_LE(most_rounds, 20U);
    EXPECT_LE(most_bytes, 150'000U);
}

TEST(DisputeGame, CheatInALargeProgramLoses) {
    const World world = make_world(vm::tensor::test::every_op_program(), 2);
    DisputeStrategy honest = honest_player(world);
    Random random(9);
    for (int games = 0; games < 2;) {
        const std::uint32_t node = random.below(static_cast<std::uint32_t>(world.program.nodes.size()));
        const Alter alter = flip(2, node, random.next());
        const History history = altered_history(world, alter, 2);
        if (history.root() == world.root()) continue;  // the change was rounded or masked away
        const Side liar = ++games % 2 == 0 ? Side::defender : Side::rival;
        const Result result = play_cheat(world, honest, history, alter, liar);
        EXPECT_EQ(result.game.verdict, loses(liar)) << describe(world, node, result);
        EXPECT_EQ(result.game.node, node);
    }
}

TEST(DisputeGame, SkippedUpdateLoses) {
    const World& world = every_kind_world();
    DisputeStrategy honest = honest_player(world);
    // The update of slot 5 is left out: its old value is carried over.
    const std::uint32_t update = world.program.updates[5];
    const Alter alter = [&](std::uint64_t step, std::uint32_t node, Tensor& output) {
        if (step == 3 && node == update) output = world.states[2][5];
    };
    const History history = altered_history(world, alter, 3);
    ASSERT_NE(history.root(), world.root());
    for (const Side liar : {Side::defender, Side::rival}) {
        const Result result = play_cheat(world, honest, history, alter, liar);
        EXPECT_EQ(result.game.verdict, loses(liar));
        EXPECT_EQ(result.game.reason, "leaf");
        EXPECT_EQ(result.game.step, 3U);
    }
}

TEST(DisputeGame, FirstWrongStepIsFoundInALongHistory) {
    const World world = make_world(vm::tensor::test::training_program(4, 5, 7), 300);
    for (const std::uint64_t step : {1ULL, 2ULL, 128ULL, 129ULL, 257ULL, 300ULL}) {
        DisputeStrategy honest = honest_player(world);
        const Alter alter = flip(step, world.program.updates[0], 3);
        const History history = altered_history(world, alter, step);
        const Result result = play_cheat(world, honest, history, alter, Side::defender);
        EXPECT_EQ(result.game.verdict, Verdict::rival_wins);
        EXPECT_EQ(result.game.step, step);
        EXPECT_EQ(result.game.reason, "leaf");
    }
}

TEST(DisputeGame, LargeTensorAndLongMicroTraceAreSplitInSeveralRounds) {
    Graph graph;
    const std::uint32_t big = graph.add_slot("big", DType::f32, {{1, 1, 2047, 97}});  // 64 x 4 tiles
    const std::uint32_t a = graph.add_slot("a", DType::f32, {{1, 1, 3, 4801}});
    const std::uint32_t loss = graph.add_slot("loss", DType::f32, {});
    const std::uint32_t doubled = graph.element(vm::tensor::arith::ElementOp::add, {big, big});
    graph.update(0, doubled);
    const std::uint32_t product = graph.matmul(a, a, false, true);  // [3,3], 151 micro-steps
    graph.update(1, graph.element(vm::tensor::arith::ElementOp::mul, {a, graph.slice(product, {0, 0, 0, 0}, {})}));
    graph.update(2, graph.slice(product, {0, 0, 1, 2}, {}));
    (void)loss;
    graph.finish({{1, 1, 1, 1}});
    const World world = make_world(graph.program, 2);

    DisputeStrategy honest = honest_player(world);
    const Alter at_tile = flip(1, doubled, 2046 * 97 + 96);
    const Result tile = play_cheat(world, honest, altered_history(world, at_tile, 1), at_tile, Side::rival);
    EXPECT_EQ(tile.game.verdict, Verdict::defender_wins);
    EXPECT_EQ(tile.game.reason, "leaf");
    EXPECT_EQ(tile.game.tile, 255U);

    const Alter at_product = flip(2, product, 5, 1U << 20);
    const Result micro = play_cheat(world, honest, altered_history(world, at_product, 2), at_product, Side::defender);
    EXPECT_EQ(micro.game.verdict, Verdict::rival_wins);
    EXPECT_EQ(micro.game.reason, "leaf");
    EXPECT_EQ(micro.game.micro_step, 150U);
}

TEST(DisputeGame, TwoLiarsAtTheSameElementBothLose) {
    const World& world = every_kind_world();
    const std::uint32_t node = world.program.updates[5];
    const Alter one = flip(2, node, 7, 1);
    const Alter two = flip(2, node, 7, 2);
    const History first = altered_history(world, one, 2);
    const History second = altered_history(world, two, 2);
    DisputeStrategy defender = dishonest_player(world, first, one);
    DisputeStrategy rival = dishonest_player(world, second, two);
    Game game = history_game(world, first.root(), second.root());
    // Neither would prove the leaf; a rival that does brings both down.
    const Player proves = [&](const Game& now, Side side) -> Expected<Move> {
        if (now.phase != Phase::leaf) return rival.next_move(now, side, waiting_post(now));
        QUERN_TRY(LeafWitness witness, rival.leaf_witness(now));
        return Move{std::move(witness)};
    };
    Game second_game = game;
    play(game, player(defender), proves);
    EXPECT_EQ(game.verdict, Verdict::both_lose);
    EXPECT_EQ(game.reason, "leaf");
    // If it keeps still its clock runs out.
    play(second_game, player(defender), player(rival));
    EXPECT_EQ(second_game.verdict, Verdict::defender_wins);
    EXPECT_EQ(second_game.reason, "clock");
}

TEST(DisputeGame, OfTwoLiarsTheOneWhoErrsFirstLoses) {
    const World& world = every_kind_world();
    const std::uint32_t node = world.program.updates[5];
    const Alter early = flip(1, node, 7);
    const Alter late = flip(2, node, 7);
    const History first = altered_history(world, early, 1);
    const History second = altered_history(world, late, 2);
    DisputeStrategy defender = dishonest_player(world, first, early);
    DisputeStrategy rival = dishonest_player(world, second, late);
    Game game = history_game(world, first.root(), second.root());
    play(game, player(defender), player(rival));
    EXPECT_EQ(game.verdict, Verdict::rival_wins);
    EXPECT_EQ(game.step, 1U);
}

TEST(DisputeGame, PartyWhoseClaimIsNotItsHistoryConcedes) {
    const World& world = every_kind_world();
    DisputeStrategy honest = honest_player(world);
    DisputeStrategy confused = honest_player(world);
    Game game = history_game(world, world.root(), Hash32{{1, 2, 3}});
    const Transcript transcript = play(game, player(honest), player(confused));
    EXPECT_EQ(game.verdict, Verdict::defender_wins);
    EXPECT_EQ(game.reason, "conceded");
    EXPECT_TRUE(transcript.refused.empty());
}

TEST(DisputeGame, SilentSideLosesByClockInEachPhase) {
    const World& world = every_kind_world();
    const std::uint32_t node = world.program.updates[5];
    const Alter alter = flip(2, node, 7);
    const History history = altered_history(world, alter, 2);
    DisputeStrategy honest = honest_player(world);
    for (std::uint8_t phase = 1; phase < static_cast<std::uint8_t>(Phase::leaf); ++phase) {
        for (const Side liar : {Side::defender, Side::rival}) {
            DisputeStrategy dishonest = dishonest_player(world, history, alter);
            const Player stops = [&](const Game& game, Side side) -> Expected<Move> {
                if (static_cast<std::uint8_t>(game.phase) >= phase) return Move{NoMove{}};
                return dishonest.next_move(game, side, waiting_post(game));
            };
            const bool defends = liar == Side::defender;
            Game game =
                history_game(world, defends ? history.root() : world.root(), defends ? world.root() : history.root());
            play(game, defends ? stops : player(honest), defends ? player(honest) : stops);
            EXPECT_EQ(game.verdict, loses(liar)) << static_cast<int>(phase);
        }
    }
}

// A liar may tell the truth about inputs and output tile of a long matmul and still lie about a micro-step in between:
// here it alters the accumulators from micro-step `from` on.
class MicroLiar {
public:
    MicroLiar(const World& world, DisputeStrategy& strategy, const Alter& alter, std::uint64_t from,
              std::uint32_t accumulator)
        : world_(world), strategy_(strategy), alter_(alter), from_(from), accumulator_(accumulator) {}

    Expected<Move> operator()(const Game& game, Side side) {
        if ((game.phase != Phase::micro && game.phase != Phase::element) || !is_next(game, side))
            return strategy_.next_move(game, side, waiting_post(game));
        const auto node = static_cast<std::uint32_t>(game.node);
        vm::tensor::Executor executor(world_.program, vm::tensor::arith::Backend::scalar, nullptr);
        const auto outputs = executor.run_all(world_.states[game.step - 1], world_.data, world_.seed);
        auto trace = vm::tensor::micro_trace(
            world_.program.nodes[node], vm::tensor::test::operands(outputs, world_.program.nodes[node]), game.tile);
        for (std::uint64_t u = from_; u + 1 < trace.size(); ++u) trace[u].accumulators[accumulator_][0] ^= 4;
        Tensor output = outputs[node];
        alter_(game.step, node, output);
        trace.back().accumulators[0] = vm::tensor::read_tile(output, game.tile);
        const SplitMove* const post = waiting_post(game);
        SplitMove move;
        move.phase = static_cast<std::uint8_t>(game.phase);
        if (game.phase == Phase::element) {
            if (post != nullptr) move.tiles = post->tiles;
            for (const auto& tile : trace[game.micro_step].accumulators)
                move.tiles.push_back(vm::tensor::tile_bytes(tile));
            return Move{move};
        }
        std::vector<Hash32> leaves;
        for (const auto& state : trace) leaves.push_back(vm::tensor::micro_state_hash(state));
        const PostRange range = post_range(game.cursor);
        const auto level = crypto::merkle_level(leaves, range.level);
        for (std::uint64_t i = 0; i < range.count; ++i) move.nodes.push_back(level[range.begin + i]);
        if (post != nullptr) {
            move.pick = *first_difference(post->nodes, move.nodes);
            move.nodes.clear();
        }
        if (at_top(game.cursor)) move.anchor_path = crypto::merkle_path(leaves, leaves.size() - 1);
        return Move{move};
    }

private:
    const World& world_;
    DisputeStrategy& strategy_;
    const Alter& alter_;
    std::uint64_t from_;
    std::uint32_t accumulator_;
};

TEST(DisputeGame, LieInsideAMicroTraceIsFound) {
    Graph graph;
    const std::uint32_t a = graph.add_slot("a", DType::f32, {{1, 1, 33, 1000}});  // 32 micro-steps, 4 blocks
    graph.add_slot("out", DType::f32, {{1, 1, 33, 33}});
    const std::uint32_t w = graph.add_slot("w", DType::f32, {{1, 1, 70, 40}});
    graph.add_slot("sums", DType::f32, {{1, 1, 1, 40}});
    graph.add_slot("loss", DType::f32, {});
    const std::uint32_t product = graph.matmul(a, a, false, true);
    graph.update(1, product);
    const std::uint32_t sums = graph.reduce(Op::sum_rows, w);
    graph.update(3, sums);
    const std::uint32_t row_sums = graph.reduce(Op::sum_last, a);  // 32 columns of tiles and a fold
    graph.update(4, graph.slice(row_sums, {0, 0, 32, 0}, {}));
    graph.add_slot("table", DType::f32, {{1, 1, 4, 33}});
    const std::uint32_t columns = graph.permute(a, {0, 1, 3, 2});  // 1,000 rows: 32 micro-steps, 4 blocks
    const std::uint32_t table =
        graph.scatter_add(columns,
                          graph.element(vm::tensor::arith::ElementOp::iand,
                                        {graph.iota({{1, 1, 1, 1000}}, 3), graph.full(DType::i32, {}, 3)}),
                          4);
    graph.update(5, table);
    graph.add_slot("column_sums", DType::f32, {{1, 1, 1, 33}});
    const std::uint32_t column_sums = graph.reduce(Op::sum_rows, columns);
    graph.update(6, column_sums);
    graph.add_slot("flat_product", DType::f32, {{1, 1, 1, 33}});
    const std::uint32_t flat_product =
        graph.matmul(graph.slice(a, {0, 0, 3, 0}, {{1, 1, 1, 1000}}), columns);  // a row times a matrix
    graph.update(7, flat_product);
    graph.add_slot("flat_max", DType::f32, {});
    const std::uint32_t flat_max = graph.reduce(Op::max_last, graph.reshape(a, {{1, 1, 1, 33000}}));  // 33 tiles, fold
    graph.update(8, flat_max);
    graph.finish({{1, 1, 1, 1}});
    const World world = make_world(graph.program, 1);

    struct Case {
        std::uint32_t node;
        std::uint64_t word;
        std::uint64_t from;
        std::uint32_t accumulator;
    };
    for (const Case& at : {Case{product, 5, 0, 1},      Case{product, 32 * 33 + 32, 7, 0},
                           Case{product, 5, 8, 0},      Case{product, 5, 9, 1},
                           Case{product, 5, 30, 0},     Case{sums, 33, 0, 0},
                           Case{sums, 3, 1, 0},         Case{row_sums, 32, 0, 0},
                           Case{row_sums, 32, 31, 0},   Case{sums, 3, 0, 1},
                           Case{table, 40, 0, 0},       Case{table, 40, 3, 1},
                           Case{table, 131, 7, 0},      Case{table, 131, 30, 1},
                           Case{column_sums, 32, 2, 1}, Case{column_sums, 32, 24, 0},
                           Case{column_sums, 0, 31, 0}, Case{flat_max, 0, 5, 0},
                           Case{flat_max, 0, 32, 0},    Case{flat_product, 32, 12, 1}}) {
        const Alter alter = flip(1, at.node, at.word);
        const History history = altered_history(world, alter, 1);
        ASSERT_NE(history.root(), world.root());
        for (const Side liar : {Side::defender, Side::rival}) {
            DisputeStrategy honest = honest_player(world);
            DisputeStrategy dishonest = dishonest_player(world, history, alter);
            MicroLiar micro_liar(world, dishonest, alter, at.from, at.accumulator);
            const bool defends = liar == Side::defender;
            Game game =
                history_game(world, defends ? history.root() : world.root(), defends ? world.root() : history.root());
            const Player lies = [&](const Game& now, Side side) { return micro_liar(now, side); };
            const Transcript transcript = play(game, defends ? lies : player(honest), defends ? player(honest) : lies);
            EXPECT_EQ(game.verdict, loses(liar));
            EXPECT_EQ(game.reason, "leaf");
            EXPECT_EQ(game.micro_step, at.from);
            EXPECT_TRUE(transcript.refused.empty()) << transcript.refused.front();
        }
    }
}

TEST(DisputeGame, RestartedPlayerGoesOnWhereItWas) {
    const World& world = every_kind_world();
    const std::uint32_t node = world.program.updates[5];
    const Alter alter = flip(2, node, 7);
    const History history = altered_history(world, alter, 2);
    const Player forgetful = [&](const Game& game, Side side) {
        DisputeStrategy fresh = honest_player(world);
        return fresh.next_move(game, side, waiting_post(game));
    };
    DisputeStrategy dishonest = dishonest_player(world, history, alter);
    Game game = history_game(world, history.root(), world.root());
    play(game, player(dishonest), forgetful);
    EXPECT_EQ(game.verdict, Verdict::rival_wins);
    EXPECT_EQ(game.reason, "leaf");
}

}  // namespace
}  // namespace quern::compute::core::test
