// Disputes about a judging step: whoever says that a claim is near which is not, or that one is not which is, or alters
// a node of any kind, loses. The claimed rows are the last of the task's data.
#include <gtest/gtest.h>

#include <map>

#include "compute/tolerance/judge/judge_program.h"
#include "support/training_game.h"
#include "vm/tensor/arith/element_op.h"

namespace quern::compute::tolerance::judge {
namespace {

using core::Side;
using core::Verdict;
using vm::tensor::Node;
using vm::tensor::Op;
using vm::tensor::State;
using vm::tensor::Tensor;

constexpr std::uint64_t kSteps = 2;  // of a segment; the third is the judging one
constexpr std::uint64_t kSegments = 2;
constexpr std::uint64_t kHeight = 100;
constexpr std::uint64_t kBudget = 40;

std::string kind_of(const Node& node) {
    if (node.op == Op::elementwise) return std::string(vm::tensor::arith::find_element_op(node.element)->name);
    return std::string(vm::tensor::find_op(node.op)->name);
}

// A task of two segments, what its solver claims, and the history that follows from that.
struct Judged {
    test::Training training;
    JudgedPrograms programs;
    std::vector<State> checkpoints;  // after each segment, as claimed

    // xors: what the words of the claims are off by, by segment.
    explicit Judged(const std::vector<std::uint32_t>& xors) {
        training = test::train(test::small_architecture(), 2);
        programs = *build_judged_programs(training.program(), kSegments);
        std::vector<Bytes> sets = training.data.sets();
        constexpr std::uint32_t kBound = 0x3a83126f;  // 10^-3
        sets.push_back(encode_limits({kBound, kBound, kBound, kBound, 0, 0, 0x7f7fffff}));
        Bytes& rows = sets.emplace_back(programs.claimed_bytes());
        State state = training.states[0];
        for (std::size_t i = 0; i < kSegments; ++i) {
            vm::tensor::Executor executor(training.program(), vm::tensor::arith::Backend::scalar, nullptr);
            for (std::uint64_t step = 0; step < kSteps; ++step) executor.step(state, training.data, training.seed);
            for (const RowSlot& slot : programs.layout.slots)
                for (std::uint32_t& word : state[slot.slot].words) word ^= xors[i];
            const auto row = std::span(rows).subspan(i * programs.layout.row_bytes(), programs.layout.row_bytes());
            EXPECT_TRUE(programs.layout.write_row(state, row));
            checkpoints.push_back(state);
        }
        training.states = {*first_state(programs, training.states[0])};
        training.data = vm::tensor::MemoryData(std::move(sets));
        training.programs = std::make_shared<const core::TaskPrograms>(*programs.task(kSteps, kSegments));
        training.built.program = programs.training;
        training.stride = kSteps + 1;
        run({});
    }
    void run(const test::Alter& alter) {
        training.states.resize(1);
        training.roots = {vm::tensor::state_root(training.states[0])};
        State state = training.states[0];
        for (std::uint64_t step = 1; step <= training.programs->plan.steps(); ++step) {
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
    // As if the claim of segment i was near whatever it is.
    void say_accepted(std::uint64_t i) {
        const std::uint64_t step = i * (kSteps + 1);
        training.states[step] = *state_after(programs, checkpoints[i - 1], i);
        training.roots[step] = vm::tensor::state_root(training.states[step]);
    }
    [[nodiscard]] bool accepts(std::uint64_t i) const { return accepted(programs, training.states[i * (kSteps + 1)]); }
};

core::Game game_of(const test::Training& defends, const test::Training& rival) {
    auto game =
        core::open_history_game(defends.context(), defends.history_root(), rival.history_root(), kBudget, kHeight);
    EXPECT_TRUE(game) << game.error().to_string();
    return *game;
}

std::vector<test::PlayedMove> play(const test::Training& defends, const test::Alter& defenders,
                                   const test::Training& rival, const test::Alter& rivals, core::Game& game) {
    auto defender = test::player_of(defends, defenders);
    auto other = test::player_of(rival, rivals);
    return test::play(game, defender, other, kHeight);
}

TEST(JudgeGames, a_solver_whose_claim_is_far_loses_by_its_own_rows) {
    const Judged honest({0, 0x00200000});  // the second claim is far
    ASSERT_TRUE(honest.accepts(1));
    ASSERT_FALSE(honest.accepts(2));
    Judged solver = honest;
    solver.say_accepted(2);
    ASSERT_NE(solver.training.history_root(), honest.training.history_root());
    core::Game game = game_of(solver.training, honest.training);
    (void)play(solver.training, {}, honest.training, {}, game);
    EXPECT_EQ(game.verdict, Verdict::rival_wins);
    EXPECT_EQ(game.step, 2 * (kSteps + 1));
    EXPECT_EQ(core::disputed_program(game)->root, honest.training.programs->plan.programs()[1].root);
}

TEST(JudgeGames, a_solver_whose_claims_are_near_wins_against_who_says_otherwise) {
    const Judged honest({0x10, 0x10});  // each word is off
    ASSERT_TRUE(honest.accepts(1));
    ASSERT_TRUE(honest.accepts(2));
    // The roots of its strides a solver has without a replay: those that a verifier finds.
    for (std::uint64_t i = 1; i <= kSegments; ++i)
        EXPECT_EQ(honest.training.history()[i],
                  vm::tensor::state_root(*state_after(honest.programs, honest.checkpoints[i - 1], i)));
    Judged liar = honest;  // the verdict is its word
    State& said = liar.training.states[kSteps + 1];
    said[liar.programs.accepted_slot()].words[0] = 0;
    liar.training.roots[kSteps + 1] = vm::tensor::state_root(said);
    core::Game game = game_of(honest.training, liar.training);
    (void)play(honest.training, {}, liar.training, {}, game);
    EXPECT_EQ(game.verdict, Verdict::defender_wins);
    EXPECT_EQ(game.step, kSteps + 1);
}

TEST(JudgeGames, are_lost_by_who_alters_a_node) {
    const Judged honest({0x10, 0x10});
    const vm::tensor::Program& program = honest.programs.judge;
    std::map<std::string, int> kinds;  // games that were played about one
    std::size_t leaves = 0;
    for (std::uint32_t node = static_cast<std::uint32_t>(program.nodes.size()); node-- > 0;) {
        if (vm::tensor::is_kind(program.nodes[node].op, vm::tensor::OpKind::input)) continue;
        const std::string kind = kind_of(program.nodes[node]);
        const bool is_limits = kind == "window" && program.nodes[node].attributes[0] == honest.programs.limits_data();
        if (kinds[kind] > 0 && !(is_limits && kinds["limits"] == 0)) continue;
        const test::Alter alter = [=](std::uint64_t step, std::uint32_t at, Tensor& output) {
            if (step != kSteps + 1 || at != node) return;
            const bool is_word = output.dtype == vm::tensor::DType::i32 && output.words[0] > 1;
            const bool is_flag = output.dtype == vm::tensor::DType::i32 && !is_word;
            for (std::uint32_t& word : output.words) word ^= is_flag ? 1U : is_word ? 0x80000000U : 0x40000000U;
        };
        Judged liar = honest;
        liar.run(alter);
        if (liar.training.history_root() == honest.training.history_root()) continue;
        ++kinds[is_limits ? "limits" : kind];
        for (const Side side : {Side::defender, Side::rival}) {
            const bool defends = side == Side::defender;
            const test::Training& first = defends ? liar.training : honest.training;
            const test::Training& second = defends ? honest.training : liar.training;
            core::Game game = game_of(first, second);
            const auto moves =
                play(first, defends ? alter : test::Alter{}, second, defends ? test::Alter{} : alter, game);
            EXPECT_EQ(game.verdict, defends ? Verdict::rival_wins : Verdict::defender_wins) << kind << ", " << node;
            EXPECT_EQ(game.step, kSteps + 1) << kind;
            leaves += game.reason == "leaf" ? 1 : 0;
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
    for (const char* const kind : {"window", "limits", "reshape", "slice", "bits", "ilt", "ieq", "iand", "select",
                                   "iselect", "iadd", "sub", "div", "mul", "sqrt", "max_last", "sum_last"})
        EXPECT_GT(kinds[kind], 0) << kind;
    EXPECT_GT(leaves, 20U);
}

// Other rows are another task's data: the tile that a witness shows has to lie under the root that the solver named.
TEST(JudgeGames, rows_that_were_not_claimed_prove_nothing) {
    const Judged honest({0x10, 0x10});
    const Judged other({0x20, 0x20});
    test::Training rival = honest.training;
    rival.data = other.training.data;
    for (std::uint64_t step = kSteps + 1; step < rival.roots.size(); ++step) {
        rival.roots[step] = other.training.roots[step];
        rival.states[step] = other.training.states[step];
    }
    core::Game game = game_of(honest.training, rival);
    (void)play(honest.training, {}, rival, {}, game);
    EXPECT_EQ(game.verdict, Verdict::defender_wins);
    EXPECT_EQ(game.step, kSteps + 1);
}

}  // namespace
}  // namespace quern::compute::tolerance::judge
