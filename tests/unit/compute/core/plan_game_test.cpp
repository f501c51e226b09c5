// Games about tasks of two programs: the disputed step's own program judges, whichever of the two it is.
#include <gtest/gtest.h>

#include "compute/core/claims.h"
#include "unit/compute/core/game_world.h"

namespace quern::compute::core::test {
namespace {

using vm::tensor::DType;
using vm::tensor::Executor;
using vm::tensor::arith::ElementOp;
using vm::tensor::test::Graph;

constexpr std::uint64_t kTurns = 2;
constexpr std::uint64_t kTurn = 4;  // three steps that add up, one that takes the sum

// Slots: a parameter, the sum of its "gradients", the loss.
Graph with_slots() {
    Graph g;
    g.add_slot("weight", DType::f32, {{1, 1, 33, 5}});
    g.add_slot("sum", DType::f32, {{1, 1, 33, 5}});
    g.add_slot("loss", DType::f32, {});
    return g;
}

Program accumulate_program() {
    Graph g = with_slots();
    const std::uint32_t weight = g.slot_input(0);
    const std::uint32_t data = g.data({{1, 1, 9, 11}});
    const std::uint32_t rows = g.slice(data, {0, 0, 0, 3}, {{1, 1, 9, 1}});
    const std::uint32_t some = g.gather(weight, rows);                      // [1,1,9,5]
    const std::uint32_t square = g.matmul(some, some, true, false);         // [1,1,5,5]
    const std::uint32_t gradient = g.matmul(weight, square, false, false);  // [1,1,33,5]
    g.update(1, g.element(ElementOp::add, {g.slot_input(1), gradient}));
    g.update(2, g.slice(gradient, {0, 0, 2, 3}, {}));
    g.finish({{1, 1, 9, 11}});
    return g.program;
}

Program update_program() {
    Graph g = with_slots();
    const std::uint32_t rate = g.full(DType::f32, {}, 0xbc000000);  // -2^-7
    const std::uint32_t taken = g.element(ElementOp::fma, {g.slot_input(1), rate, g.slot_input(0)});
    const std::uint32_t rounded = g.reshape(g.permute(taken, {0, 1, 3, 2}), {{1, 1, 33, 5}});
    g.update(0, rounded);
    g.update(1, g.full(DType::f32, {{1, 1, 33, 5}}, 0));
    g.finish({{1, 1, 9, 11}});
    return g.program;
}

struct Task {
    TaskPrograms programs =
        *TaskPrograms::make({accumulate_program(), update_program()},
                            {plan_repeat(kTurns, {plan_repeat(kTurn - 1, {plan_step(0)}), plan_step(1)})});
    vm::tensor::MemoryData data = vm::tensor::test::random_data(programs.any(), 3);
    Hash32 beacon{{7}};
    Tensor seed = vm::tensor::seed_tensor(beacon);
    std::uint64_t stride = 1;

    [[nodiscard]] GameContext context() const {
        return {programs.plan.bytes(), data.roots(), beacon, stride, programs.plan.steps() / stride + 1};
    }
    [[nodiscard]] History history(const Alter& alter = {}) const {
        History history;
        history.stride = stride;
        State state = vm::tensor::test::random_state(programs.any(), 5, vm::tensor::test::Fill::moderate);
        history.states.push_back(state);
        for (std::uint64_t step = 1; step <= programs.plan.steps(); ++step) {
            const Program& program = programs.at(step);
            Executor executor(program, vm::tensor::arith::best_backend(), nullptr);
            const auto outputs = executor.run_altered(state, data, seed, [&](std::uint32_t node, Tensor& output) {
                if (alter) alter(step, node, output);
            });
            for (std::size_t slot = 0; slot < state.size(); ++slot) state[slot] = outputs[program.updates[slot]];
            history.states.push_back(state);
        }
        for (const State& each : history.states) history.roots.push_back(vm::tensor::state_root(each));
        return history;
    }
    [[nodiscard]] DisputeStrategy party(const History& history, Alter alter = {}) const {
        DisputeParty party;
        party.programs = &programs;
        party.history = history.history();
        party.states_of = [&history](std::uint64_t first, std::uint64_t last) -> Expected<std::vector<Hash32>> {
            return std::vector(history.roots.begin() + static_cast<std::ptrdiff_t>(first),
                               history.roots.begin() + static_cast<std::ptrdiff_t>(last) + 1);
        };
        party.state_before = [&history](std::uint64_t step) -> Expected<State> { return history.states[step - 1]; };
        party.data = &data;
        party.seed = seed;
        party.alter = std::move(alter);
        return DisputeStrategy(std::move(party));
    }
};

TEST(PlanGame, ALieAtEachNodeOfEitherProgramIsJudgedByThatProgram) {
    const Task task;
    const History truth = task.history();
    DisputeStrategy honest = task.party(truth);
    std::array<int, 2> leaves{};
    for (const std::uint64_t step : {std::uint64_t{6}, std::uint64_t{8}}) {
        const std::uint32_t number = task.programs.plan.program_of(step);
        const Program& program = task.programs.at(step);
        for (std::uint32_t node = 0; node < program.nodes.size(); ++node) {
            const Alter alter = flip(step, node, 7, 1U << 20);
            const History lie = task.history(alter);
            if (lie.root() == truth.root()) continue;
            DisputeStrategy liar = task.party(lie, alter);
            auto game = open_history_game(task.context(), lie.root(), truth.root(), kBudget, 1000);
            ASSERT_TRUE(game) << game.error().to_string();
            const Transcript transcript = play(*game, player(liar), player(honest));
            ASSERT_EQ(game->verdict, Verdict::rival_wins) << "step " << step << " node " << node;
            EXPECT_TRUE(transcript.refused.empty()) << transcript.refused.front();
            EXPECT_EQ(game->step, step);
            EXPECT_EQ(game->node, node);
            EXPECT_EQ(disputed_program(*game)->root, task.programs.plan.programs()[number].root);
            if (game->reason == "leaf") ++leaves[number];
        }
    }
    EXPECT_GE(leaves[0], 5);
    EXPECT_GE(leaves[1], 4);
}

TEST(PlanGame, AProbeIsOneOfTheStepsOwnProgram) {
    const Task task;
    const History truth = task.history();
    const std::uint64_t step = kTurn;
    const Program& program = task.programs.at(step);
    ASSERT_EQ(task.programs.plan.program_of(step), 1U);
    const std::uint32_t node = program.updates[0];
    const Alter alter = flip(step, node, 7);
    Executor executor(program, vm::tensor::arith::Backend::scalar, nullptr);
    const auto outputs = executor.run_all(truth.states[step - 1], task.data, task.seed);
    Tensor altered = outputs[node];
    altered.words[7] ^= 1U;
    DisputeStrategy liar = task.party(truth, alter);
    DisputeStrategy honest = task.party(truth);
    const auto open = [&](std::uint64_t at_step, std::uint64_t at_node) {
        return open_probe_game(task.context(), truth.root(), at_step, at_node, 0,
                               vm::tensor::tile_hash(read_tile(altered, 0)),
                               vm::tensor::tile_hash(read_tile(outputs[node], 0)), kBudget, 1000);
    };
    auto game = open(step, node);
    ASSERT_TRUE(game) << game.error().to_string();
    const Transcript transcript = play(*game, player(liar), player(honest));
    EXPECT_EQ(game->verdict, Verdict::rival_wins);
    EXPECT_TRUE(transcript.refused.empty()) << transcript.refused.front();
    // A node that only the other program has.
    const std::uint64_t most = task.programs.programs[0].nodes.size();
    ASSERT_GT(most, program.nodes.size());
    EXPECT_TRUE(open(step - 1, most - 1));
    EXPECT_EQ(open(step, most - 1).error().name, "dispute.bad_context");
}

// The stride says which states are committed to, the plan which program each step inside it is.
TEST(PlanGame, AStepInsideAStrideIsJudgedByItsOwnProgram) {
    Task task;
    task.stride = kTurn;
    const History truth = task.history();
    DisputeStrategy honest = task.party(truth);
    for (std::uint64_t step = kTurn + 1; step <= 2 * kTurn; ++step) {
        const std::uint32_t number = task.programs.plan.program_of(step);
        const std::uint32_t node = task.programs.at(step).updates[number == 0 ? 1 : 0];
        const Alter alter = flip(step, node, 7, 1U << 20);
        const History lie = task.history(alter);
        ASSERT_NE(lie.root(), truth.root());
        DisputeStrategy liar = task.party(lie, alter);
        auto game = open_history_game(task.context(), lie.root(), truth.root(), kBudget, 1000);
        ASSERT_TRUE(game) << game.error().to_string();
        const Transcript played = play(*game, player(liar), player(honest));
        EXPECT_EQ(game->verdict, Verdict::rival_wins) << step;
        EXPECT_TRUE(played.refused.empty()) << played.refused.front();
        EXPECT_EQ(game->step, step);
        EXPECT_EQ(disputed_program(*game)->root, task.programs.plan.programs()[number].root);
    }
}

// Until the state before it is agreed the game knows no step: then its trace is that of the probed step's program.
TEST(PlanGame, AProbeInsideAStrideIsOneOfTheStepsOwnProgram) {
    Task task;
    task.stride = kTurn;
    const History truth = task.history();
    for (const std::uint64_t step : {kTurn - 1, kTurn}) {
        const Program& program = task.programs.at(step);
        const std::uint32_t node = program.updates[step == kTurn ? 0 : 1];
        const Alter alter = flip(step, node, 7);
        Executor executor(program, vm::tensor::arith::Backend::scalar, nullptr);
        const auto outputs = executor.run_all(truth.states[step - 1], task.data, task.seed);
        Tensor altered = outputs[node];
        altered.words[7] ^= 1U;
        DisputeStrategy liar = task.party(truth, alter);
        DisputeStrategy honest = task.party(truth);
        const auto open = [&](std::uint64_t at_node) {
            return open_probe_game(task.context(), truth.root(), step, at_node, 0,
                                   vm::tensor::tile_hash(read_tile(altered, 0)),
                                   vm::tensor::tile_hash(read_tile(outputs[node], 0)), kBudget, 1000);
        };
        auto game = open(node);
        ASSERT_TRUE(game) << game.error().to_string();
        EXPECT_EQ(game->phase, Phase::steps);
        const Transcript played = play(*game, player(liar), player(honest));
        EXPECT_EQ(game->verdict, Verdict::rival_wins);
        EXPECT_EQ(game->reason, "leaf");
        EXPECT_EQ(game->step, step);
        EXPECT_TRUE(played.refused.empty()) << played.refused.front();
        EXPECT_EQ(open(program.nodes.size()).error().name, "dispute.bad_context") << "no node of this step's program";
        EXPECT_TRUE(open(program.nodes.size() - 1));
    }
}

TEST(PlanGame, ANodeOfTheOtherProgramOpensNothing) {
    const Task task;
    const History truth = task.history();
    const std::uint64_t step = kTurn;  // an update
    const Alter alter = flip(step, task.programs.at(step).updates[0], 7);
    const History lie = task.history(alter);
    DisputeStrategy honest = task.party(truth);
    DisputeStrategy liar = task.party(lie, alter);
    auto game = open_history_game(task.context(), lie.root(), truth.root(), kBudget, 1000);
    ASSERT_TRUE(game);
    while (game->phase < Phase::trace)
        for (const Side side : {Side::rival, Side::defender}) {
            const auto move = (side == Side::rival ? honest : liar).next_move(*game, side, waiting_post(*game));
            ASSERT_TRUE(move) << move.error().to_string();
            ASSERT_TRUE(apply(*game, side, *move, 1001));
        }
    const auto move = honest.next_move(*game, Side::rival, waiting_post(*game));
    ASSERT_TRUE(move) << move.error().to_string();
    auto split = std::get<SplitMove>(*move);
    split.program = {ProgramProver(task.programs.programs[0]).update(game->slot)};
    EXPECT_EQ(apply_split(*game, Side::rival, split, 1001).error().name, "dispute.bad_opening");
    EXPECT_TRUE(has_post(*game));
    EXPECT_TRUE(apply(*game, Side::rival, *move, 1001));
}

TEST(PlanGame, APlayerOfAnotherPlanMakesNoMove) {
    const Task task;
    const History truth = task.history();
    History other = truth;
    other.roots.back() = Hash32{{1}};
    auto game = open_history_game(task.context(), other.root(), truth.root(), kBudget, 1000);
    ASSERT_TRUE(game);
    game->context.plan =
        TaskPlan::make(task.programs.plan.programs(), {plan_repeat(4, {plan_step(0), plan_step(1)})})->bytes();
    DisputeStrategy honest = task.party(truth);
    EXPECT_EQ(honest.next_move(*game, Side::defender, nullptr).error().name, "dispute.bad_game");
    GameContext longer = task.context();
    longer.history_leaves += 1;
    EXPECT_EQ(open_history_game(longer, other.root(), truth.root(), kBudget, 1000).error().name, "dispute.bad_context");
}

// A game about the steps after some that are settled: all places count from there, programs from the plan's beginning.
TEST(PlanGame, AHistoryMayBeginInTheMiddle) {
    const Task task;
    GameContext later = task.context();
    later.before = kTurn;
    EXPECT_EQ(open_history_game(later, Hash32{{1}}, Hash32{{2}}, kBudget, 1000).error().name, "dispute.bad_context")
        << "more steps than the plan has";
    later.history_leaves -= kTurn;
    const auto game = open_history_game(later, Hash32{{1}}, Hash32{{2}}, kBudget, 1000);
    ASSERT_TRUE(game) << game.error().to_string();
    EXPECT_EQ(last_step(later), task.programs.plan.steps());
    EXPECT_EQ(history_index(later, kTurn + 1), 0U);
    const auto probed = [&](std::uint64_t step) {
        const auto opened = open_probe_game(later, Hash32{{3}}, step, 0, 0, Hash32{{1}}, Hash32{{2}}, kBudget, 1000);
        return opened ? std::to_string(opened->stride) : opened.error().name;
    };
    EXPECT_EQ(probed(kTurn), "dispute.bad_context") << "it is settled";
    EXPECT_EQ(probed(kTurn + 1), "1");
    EXPECT_EQ(probed(kTurn + 2), "2");
    EXPECT_EQ(probed(task.programs.plan.steps() + 1), "dispute.bad_context");
    later.stride = 2;
    later.history_leaves = 2;
    later.before = 1;
    EXPECT_EQ(open_history_game(later, Hash32{{1}}, Hash32{{2}}, kBudget, 1000).error().name, "dispute.bad_context")
        << "inside a stride";
    Game decoded = *game;
    decoded.context.before = ~std::uint64_t{0};
    EXPECT_EQ(check_game(decoded).error().name, "dispute.bad_game");
}

}  // namespace
}  // namespace quern::compute::core::test
