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
    static std::uint32_t first_product(const Program& program) {
        std::uint32_t node = 0;
        while (program.nodes[node].op != Op::matmul) ++node;
        return node;
    }
};

const Deep& deep() {
    static const Deep made;
    return made;
}

DisputeParty party_of(const World& world, const std::vector<Hash32>& history) {
    DisputeParty party;
    party.programs = world.programs.get();
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
            const auto move = given_up.next_move(position, side, waiting_post(position), &cancellation);
            EXPECT_LE(computed, limit + 1);
            if (move) break;  // by what earlier phases have executed
            EXPECT_EQ(move.error().name, kMoveCancelled);
            EXPECT_TRUE(move.error().is_busy());
            cancelled.insert(position.phase);
        }
        const auto move = given_up.next_move(position, side, waiting_post(position));
        const auto wanted = honest.next_move(position, side, waiting_post(position));
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

// What a defender executes for games with several rivals, a block after the other for all of them.
struct Defence {
    std::map<std::uint32_t, int> computed;  // by node
    int replays = 0;

    // Each rival's lie, about the same history; `states` before steps are kept.
    void play_all(const World& world, const std::vector<Alter>& lies, std::size_t states) {
        const auto share = std::make_shared<StepShare>(states);
        std::vector<DisputeStrategy> defenders;
        std::vector<DisputeStrategy> rivals;
        std::vector<Game> games;
        for (const Alter& lie : lies) {
            History history = altered_history(world, lie, 1);
            games.push_back(history_game(world, world.root(), history.root()));
            rivals.push_back(dishonest_player(world, std::move(history), lie));
            DisputeParty party = party_of(world, world.roots);
            party.share = share;
            party.alter = [&](std::uint64_t, std::uint32_t node, Tensor&) { ++computed[node]; };
            party.state_before = [&](std::uint64_t step) -> Expected<State> {
                ++replays;
                return world.states[step - 1];
            };
            defenders.emplace_back(std::move(party));
        }
        for (std::uint64_t height = 1000; height < 1060; ++height)
            for (std::size_t i = 0; i < games.size(); ++i) {
                if (games[i].phase == Phase::decided) continue;
                for (const Side side : {Side::defender, Side::rival}) {
                    auto& player = side == Side::defender ? defenders[i] : rivals[i];
                    const auto move = player.next_move(games[i], side, waiting_post(games[i]));
                    ASSERT_TRUE(move) << move.error().to_string();
                    const Status applied = apply(games[i], side, *move, height);
                    ASSERT_TRUE(applied) << applied.error().to_string();
                    if (games[i].phase == Phase::decided) break;
                }
            }
        for (const Game& game : games) EXPECT_EQ(game.verdict, Verdict::defender_wins);
    }
};

const World& deep_steps() {
    static const World world = make_world(vm::tensor::test::deep_program(8, 96), 2);
    return world;
}

TEST(DisputeRuns, GamesAboutOneStepExecuteItOnce) {
    const World& world = deep_steps();
    const std::uint32_t node = Deep::last_product(world.program);
    const Alter lie = flip(1, node, 5, kSignBit);
    Defence one;
    one.play_all(world, {lie}, 1);
    Defence eight;
    eight.play_all(world, std::vector<Alter>(8, lie), 1);
    EXPECT_EQ(one.computed.at(0), 4);
    EXPECT_EQ(eight.computed, one.computed) << "the same runs";
    EXPECT_EQ(eight.replays, 1);
}

TEST(DisputeRuns, GamesAboutOneStepAndDifferentNodesShareItsRoots) {
    const World& world = deep_steps();
    const std::uint32_t node = Deep::last_product(world.program);
    Defence defence;
    defence.play_all(world,
                     {flip(1, node, 5, kSignBit), flip(1, node, 4'000, kSignBit),
                      flip(1, Deep::first_product(world.program), 7, kSignBit)},
                     1);
    EXPECT_EQ(defence.replays, 1);
    const auto last = static_cast<std::uint32_t>(world.program.nodes.size() - 1);
    EXPECT_EQ(defence.computed.at(last), 1) << "once to the end";
}

TEST(DisputeRuns, StatesBeforeOtherStepsAreKeptAsFarAsThereIsRoom) {
    const World& world = deep_steps();
    const std::uint32_t node = Deep::last_product(world.program);
    const std::vector<Alter> lies{flip(1, node, 5, kSignBit), flip(2, node, 5, kSignBit)};
    Defence roomy;
    roomy.play_all(world, lies, 2);
    EXPECT_EQ(roomy.replays, 2);
    EXPECT_EQ(roomy.computed.at(0), 8);
    Defence tight;
    tight.play_all(world, lies, 1);
    EXPECT_GT(tight.replays, 2);
    EXPECT_EQ(tight.computed, roomy.computed);
}

TEST(DisputeRuns, OfALongMicroTraceOnlyTheStatesThatAreAskedForAreHeld) {
    constexpr std::uint32_t kInner = 1U << 17;
    vm::tensor::test::Graph graph;
    const std::uint32_t x = graph.add_slot("x", vm::tensor::DType::f32, {{1, 1, 1, kInner}});
    const std::uint32_t product = graph.matmul(x, x, false, true);
    graph.add_slot("loss", vm::tensor::DType::f32, {});
    graph.update(1, product);
    graph.finish({{1, 1, 1, 8}});
    const World world = make_world(graph.program, 1);
    const Alter lie = flip(1, product, 0, kSignBit);
    const History history = altered_history(world, lie, 1);
    const vm::tensor::Node& node = world.program.nodes[product];
    const std::vector<vm::tensor::OperandType> types(2, {vm::tensor::DType::f32, {{1, 1, 1, kInner}}});
    const std::uint64_t states = vm::tensor::micro_state_bytes(node, types);
    ASSERT_GT(states, 2 * kKeptMicroBytes - 1);
    EXPECT_LT(dispute_bytes(world.program, 1), states);

    const auto peak_of = [&](std::uint64_t kept) {
        DisputeParty lying = party_of(world, history.roots);
        lying.alter = lie;
        DisputeStrategy dishonest(std::move(lying));
        DisputeParty party = party_of(world, world.roots);
        party.kept_micro_bytes = kept;
        DisputeStrategy honest(std::move(party));
        std::size_t held = 0;
        std::size_t peak = 0;
        const Player measured = [&](const Game& game, Side side) {
            const std::size_t before = quern::test::counted_memory();
            quern::test::mark_counted_memory();
            auto move = honest.next_move(game, side, waiting_post(game));
            peak = std::max(peak, held + quern::test::peak_of_counted_memory() - before);
            held += quern::test::counted_memory() - before;
            return move;
        };
        Game game = history_game(world, history.root(), world.root());
        const Transcript transcript = play(game, player(dishonest), measured);
        EXPECT_TRUE(transcript.refused.empty()) << transcript.refused.front();
        EXPECT_EQ(game.verdict, Verdict::rival_wins);
        EXPECT_EQ(game.reason, "leaf");
        return peak;
    };
    EXPECT_LT(peak_of(kKeptMicroBytes), states / 2);
    EXPECT_GT(peak_of(states), states) << "the count counts";
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
        auto move = honest.next_move(game, side, waiting_post(game));
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
    EXPECT_LE(peak, dispute_bytes(program, 1) + state + (64U << 10));  // plan, moves
    EXPECT_GE(peak, state + vm::tensor::tapped_bytes(program));        // the count counts
}

}  // namespace
}  // namespace quern::compute::core::test
