// What a player of the dispute game executes and holds.
#include <gtest/gtest.h>

#include <set>

#include "support/counted_memory.h"
#include "unit/compute/core/game_world.h"

namespace quern::compute::core::test {
namespace {

constexpr std::uint32_t kSignBit = 0x80000000;

// A program whose outputs take 20 times what a step needs at once, and a lie in its last product.
struct Deep {
    World world = make_world(vm::tensor::test::deep_program(20, 384), 1);
    std::uint32_t node = last_product(world.program);
    Alter lie = flip(1, node, 5, kSignBit);
    History history = altered_history(world, lie, 1);

    static std::uint32_t last_product(const Program& program) {
        auto node = static_cast<std::uint32_t>(program.nodes.size() - 1);
        while (program.nodes[node].op != Op::matmul) --node;
        return node;
    }
};

const Deep& deep() {
    static const Deep made;
    return made;
}

DisputeParty party_of(const World& world, const std::vector<Hash32>& history) {
    DisputeParty party;
    party.program = &world.program;
    party.history = history;
    party.state_before = [&world](std::uint64_t step) -> Expected<State> { return world.states[step - 1]; };
    party.data = &world.data;
    party.seed = world.seed;
    party.backend = vm::tensor::arith::best_backend();
    return party;
}

TEST(DisputeRuns, AGameRunsItsStepFourTimesAndOnceToTheEnd) {
    const Deep& task = deep();
    std::map<std::uint32_t, int> computed;
    DisputeParty counting = party_of(task.world, task.world.roots);
    counting.alter = [&](std::uint64_t, std::uint32_t node, Tensor&) { ++computed[node]; };
    DisputeStrategy honest(std::move(counting));
    DisputeParty lying = party_of(task.world, task.history.roots);
    lying.alter = task.lie;
    DisputeStrategy dishonest(std::move(lying));
    Game game = history_game(task.world, task.history.root(), task.world.root());
    const Transcript transcript = play(game, player(dishonest), player(honest));
    EXPECT_EQ(game.verdict, Verdict::rival_wins);
    EXPECT_EQ(game.reason, "leaf");
    EXPECT_EQ(game.node, task.node);
    EXPECT_TRUE(transcript.refused.empty()) << transcript.refused.front();
    EXPECT_EQ(computed.at(0), 4);
    EXPECT_EQ(computed.at(task.node), 4);
    EXPECT_EQ(computed.at(task.node + 1), 1);
    EXPECT_EQ(computed.size(), task.world.program.nodes.size());
}

TEST(DisputeRuns, AMoveThatIsGivenUpEndsBetweenTwoNodesAndIsWorkedOutLater) {
    const Deep& task = deep();
    int computed = 0;
    DisputeParty counting = party_of(task.world, task.world.roots);
    counting.alter = [&](std::uint64_t, std::uint32_t, Tensor&) { ++computed; };
    DisputeStrategy given_up(std::move(counting));
    DisputeStrategy honest(party_of(task.world, task.world.roots));
    DisputeParty lying = party_of(task.world, task.history.roots);
    lying.alter = task.lie;
    DisputeStrategy dishonest(std::move(lying));
    Game game = history_game(task.world, task.history.root(), task.world.root());
    std::set<Phase> cancelled;
    const Player stubborn = [&](const Game& position, Side side) -> Expected<Move> {
        for (const int limit : {0, 3, 20}) {
            computed = 0;
            const Cancellation cancellation([&] { return computed >= limit; });
            const auto move = given_up.next_move(position, side, &cancellation);
            EXPECT_LE(computed, limit + 1);
            if (move) break;  // by what earlier phases have executed
            EXPECT_EQ(move.error().name, kMoveCancelled);
            EXPECT_TRUE(move.error().is_busy());
            cancelled.insert(position.phase);
        }
        const auto move = given_up.next_move(position, side);
        const auto wanted = honest.next_move(position, side);
        EXPECT_TRUE(move && wanted);
        if (!move || !wanted) return wanted;
        EXPECT_EQ(move->index(), wanted->index());
        if (const auto* split = std::get_if<SplitMove>(&*move)) {
            EXPECT_EQ(chain::types::encode_record(*split), chain::types::encode_record(std::get<SplitMove>(*wanted)));
        }
        return move;
    };
    play(game, player(dishonest), stubborn);
    EXPECT_EQ(game.verdict, Verdict::rival_wins);
    EXPECT_EQ(game.reason, "leaf");
    EXPECT_EQ(cancelled, (std::set<Phase>{Phase::state, Phase::tile, Phase::micro, Phase::leaf}));
}

// The data set is hashed once a game, but not for one that lies about it.
TEST(DisputeRuns, ALieInTheSecondOfTwoDataNodesIsFoundThere) {
    vm::tensor::test::Graph graph;
    const vm::tensor::Shape row{{1, 1, 1, 8}};
    graph.add_slot("sum", vm::tensor::DType::i32, row);
    const std::uint32_t first = graph.data(row);
    const std::uint32_t second = graph.data(row);
    graph.update(0, graph.element(vm::tensor::arith::ElementOp::iadd, {first, second}));
    graph.add_slot("loss", vm::tensor::DType::f32, {});
    graph.finish(row);
    const World world = make_world(graph.program, 1);
    const Alter lie = flip(1, second, 3);
    const History history = altered_history(world, lie, 1);
    DisputeStrategy dishonest = dishonest_player(world, history, lie);
    DisputeStrategy honest = honest_player(world);
    Game game = history_game(world, history.root(), world.root());
    play(game, player(dishonest), player(honest));
    EXPECT_EQ(game.verdict, Verdict::rival_wins);
    EXPECT_EQ(game.node, second);
}

TEST(DisputeRuns, APlayerTakesLittleMoreThanAStep) {
    const Deep& task = deep();
    const Program& program = task.world.program;
    std::uint64_t outputs = 0;
    for (const auto& node : program.nodes) outputs += node.shape.elements() * sizeof(std::uint32_t);
    std::uint64_t solver = vm::tensor::step_bytes(program);
    ASSERT_GE(outputs, 20 * solver);
    std::uint64_t state = 0;
    for (const Tensor& slot : task.world.states[0]) state += slot.words.size() * sizeof(std::uint32_t);
    solver += state;

    DisputeParty lying = party_of(task.world, task.history.roots);
    lying.alter = task.lie;
    DisputeStrategy dishonest(std::move(lying));
    DisputeStrategy honest(party_of(task.world, task.world.roots));
    std::size_t held = 0;  // by the honest player, between its moves
    std::size_t peak = 0;
    const Player measured = [&](const Game& game, Side side) {
        const std::size_t before = quern::test::counted_memory();
        quern::test::mark_counted_memory();
        auto move = honest.next_move(game, side);
        peak = std::max(peak, held + quern::test::peak_of_counted_memory() - before);
        held += quern::test::counted_memory() - before;
        return move;
    };
    for (const bool probe : {false, true}) {
        const auto tiles = [&](std::uint32_t steps_of_lie) {
            vm::tensor::Executor executor(program, vm::tensor::arith::best_backend(), nullptr);
            auto output = executor.run_all(task.world.states[0], task.world.data, task.world.seed)[task.node];
            task.lie(steps_of_lie, task.node, output);
            return vm::tensor::tile_hashes(output);
        };
        Game game = history_game(task.world, task.history.root(), task.world.root());
        if (probe) {
            const auto opened = open_probe_game(task.world.context, task.world.root(), 1, task.node, 0, tiles(1)[0],
                                                tiles(0)[0], kBudget, 1000);
            ASSERT_TRUE(opened) << opened.error().to_string();
            game = *opened;
            DisputeParty liar = party_of(task.world, task.world.roots);
            liar.alter = task.lie;
            dishonest = DisputeStrategy(std::move(liar));
            honest = DisputeStrategy(party_of(task.world, task.world.roots));
            held = 0;
        }
        play(game, player(dishonest), measured);
        EXPECT_EQ(game.verdict, Verdict::rival_wins);
        EXPECT_EQ(game.reason, "leaf");
    }
    EXPECT_LE(static_cast<double>(peak), 1.2 * static_cast<double>(solver));
    EXPECT_LE(peak, dispute_bytes(program) + state + (64U << 10));  // plan, moves
    EXPECT_GE(peak, state + vm::tensor::tapped_bytes(program));     // the count counts
}

}  // namespace
}  // namespace quern::compute::core::test
