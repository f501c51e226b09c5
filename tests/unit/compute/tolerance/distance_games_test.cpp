// Disputes about a distance: it is a step of the plan, and whoever alters an output of any kind of its nodes loses.
#include <gtest/gtest.h>

#include <map>

#include "compute/program/initial_state.h"
#include "compute/tolerance/distance/distance_program.h"
#include "support/training_game.h"
#include "vm/tensor/arith/element_op.h"

namespace quern::compute::tolerance::distance {
namespace {

using core::Side;
using core::Verdict;
using vm::tensor::Node;
using vm::tensor::Op;
using vm::tensor::State;
using vm::tensor::Tensor;

constexpr std::uint64_t kSteps = 2;  // of the segment; the third of the plan is the distance
constexpr std::uint64_t kHeight = 100;
constexpr std::uint64_t kBudget = 40;

std::string kind_of(const Node& node) {
    if (node.op == Op::elementwise) return std::string(vm::tensor::arith::find_element_op(node.element)->name);
    return std::string(vm::tensor::find_op(node.op)->name);
}

// A verifier's replay of a segment whose claim is a little off, as a training of its own.
struct Replay {
    test::Training training;
    SegmentPrograms programs;

    Replay() {
        const test::Training solver = test::train(test::small_architecture(), 4);
        programs = *build_segment_programs(solver.program());
        State claimed = solver.states[4];
        for (std::size_t s = 0; s < claimed.size(); ++s)
            if (programs.classes[s] != Class::exact)
                for (std::uint32_t& word : claimed[s].words) word ^= 0x10;
        training = solver;
        training.built.program = programs.training;
        training.programs = std::make_shared<const core::TaskPrograms>(
            *core::TaskPrograms::make({programs.training, programs.distance}, programs.body(kSteps)));
        training.states = {*segment_state(programs, solver.states[2], claimed)};
        training.roots = {vm::tensor::state_root(training.states[0])};
        run({});
    }
    // From S_0 on, with outputs as `alter` makes them.
    void run(const test::Alter& alter) {
        training.states.resize(1);
        training.roots.resize(1);
        State state = training.states[0];
        for (std::uint64_t step = 1; step <= kSteps + 1; ++step) {
            const vm::tensor::Program& program = training.programs->at(step);
            vm::tensor::Executor executor(program, vm::tensor::arith::Backend::scalar, nullptr);
            const auto outputs =
                executor.run_altered(state, training.data, training.seed, [&](std::uint32_t node, Tensor& output) {
                    if (alter) alter(step, node, output);
                });
            for (std::size_t s = 0; s < state.size(); ++s) state[s] = outputs[program.updates[s]];
            training.states.push_back(state);
            training.roots.push_back(vm::tensor::state_root(state));
        }
    }
};

std::vector<test::PlayedMove> play(const test::Training& defends, const test::Alter& defenders,
                                   const test::Training& rival, const test::Alter& rivals, core::Game& game) {
    auto defender = test::player_of(defends, defenders);
    auto other = test::player_of(rival, rivals);
    return test::play(game, defender, other, kHeight);
}

TEST(DistanceGames, are_lost_by_who_alters_a_node) {
    const Replay honest;
    const vm::tensor::Program& program = honest.programs.distance;
    const Measured measured = read_measured(honest.programs, honest.training.states.back());
    ASSERT_NE(measured[Measure::l2], 0U);
    std::map<std::string, bool> kinds;  // whether a game was played about one
    std::size_t leaves = 0;
    for (std::uint32_t node = static_cast<std::uint32_t>(program.nodes.size()); node-- > 0;) {
        if (vm::tensor::is_kind(program.nodes[node].op, vm::tensor::OpKind::input)) continue;
        const std::string kind = kind_of(program.nodes[node]);
        if (kinds[kind]) continue;
        const test::Alter alter = [=](std::uint64_t step, std::uint32_t at, Tensor& output) {
            if (step != kSteps + 1 || at != node) return;
            for (std::uint32_t& word : output.words) word ^= output.dtype == vm::tensor::DType::i32 ? 1U : 0x00400000U;
        };
        Replay liar = honest;
        liar.run(alter);
        if (liar.training.history_root() == honest.training.history_root()) continue;
        kinds[kind] = true;
        for (const Side side : {Side::defender, Side::rival}) {
            const bool defends = side == Side::defender;
            const test::Training& first = defends ? liar.training : honest.training;
            const test::Training& second = defends ? honest.training : liar.training;
            auto game = core::open_history_game(honest.training.context(), first.history_root(), second.history_root(),
                                                kBudget, kHeight);
            ASSERT_TRUE(game) << game.error().to_string();
            const auto moves =
                play(first, defends ? alter : test::Alter{}, second, defends ? test::Alter{} : alter, *game);
            EXPECT_EQ(game->verdict, defends ? Verdict::rival_wins : Verdict::defender_wins) << kind << ", " << node;
            EXPECT_EQ(game->step, kSteps + 1) << kind;
            EXPECT_EQ(core::disputed_program(*game)->root, honest.training.programs->plan.programs()[1].root);
            leaves += game->reason == "leaf" ? 1 : 0;
            // A witness of which one bit is another proves nothing.
            for (const test::PlayedMove& played : moves) {
                const auto* witness = std::get_if<core::LeafWitness>(&played.move);
                if (witness == nullptr || witness->tiles.empty()) continue;
                for (std::size_t tile = 0; tile < witness->tiles.size(); ++tile) {
                    core::LeafWitness corrupted = *witness;
                    corrupted.tiles[tile].bytes[17] ^= 0x20;
                    core::Game before = played.before;
                    EXPECT_FALSE(test::apply_move(before, played.side, corrupted, played.height)) << kind;
                    EXPECT_EQ(before.verdict, Verdict::none) << kind;
                }
            }
        }
    }
    for (const char* const kind : {"sub", "div", "mul", "add", "max", "abs", "sqrt", "max_last", "sum_last", "bits",
                                   "ieq", "isub", "i2f", "reshape"})
        EXPECT_TRUE(kinds[kind]) << kind;
    EXPECT_GT(leaves, 20U);
}

TEST(DistanceGames, a_claim_of_a_distance_that_was_not_computed_loses) {
    const Replay honest;
    // Says that it is at no distance at all, of nodes that were all computed as they should be.
    Replay liar = honest;
    State& last = liar.training.states.back();
    last[liar.programs.first_measure].words[0] = 0;
    liar.training.roots.back() = vm::tensor::state_root(last);
    auto game = core::open_history_game(honest.training.context(), liar.training.history_root(),
                                        honest.training.history_root(), kBudget, kHeight);
    ASSERT_TRUE(game) << game.error().to_string();
    (void)play(liar.training, {}, honest.training, {}, *game);
    EXPECT_EQ(game->verdict, Verdict::rival_wins);
}

}  // namespace
}  // namespace quern::compute::tolerance::distance
