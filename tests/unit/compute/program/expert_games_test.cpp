// Disputes about a model with experts: whoever alters an output of any kind of node of its step loses the game.
#include <gtest/gtest.h>

#include <map>

#include "support/training_game.h"

namespace quern::compute::program {
namespace {

using core::Side;
using core::Verdict;

constexpr std::uint64_t kSteps = 2;
constexpr std::uint64_t kHeight = 100;
constexpr std::uint64_t kBudget = 40;

// Of an op the indices apart from the numbers.
std::string kind_of(const Node& node) {
    if (node.op == Op::elementwise) return std::string(vm::tensor::arith::find_element_op(node.element)->name);
    return std::string(vm::tensor::find_op(node.op)->name) + (node.dtype == DType::i32 ? " i32" : "");
}

TEST(ExpertGames, are_lost_by_who_alters_a_node) {
    Architecture architecture = test::small_architecture();
    architecture.transformer().experts = {3, 2, 0.5F, 0.1F};
    const test::Training honest = test::train(architecture, kSteps);
    const Program& program = honest.program();
    std::map<std::string, std::uint32_t> nodes;  // of each kind the last whose outputs last
    for (std::uint32_t node = 0; node < program.nodes.size(); ++node)
        if (!vm::tensor::is_kind(program.nodes[node].op, vm::tensor::OpKind::input))
            nodes[kind_of(program.nodes[node])] = node;
    std::size_t played = 0;
    for (const auto& [kind, last] : nodes) {
        bool found = false;
        for (std::uint32_t node = last + 1; node-- > 0 && !found;) {
            if (kind_of(program.nodes[node]) != kind) continue;
            const test::Alter alter = [=](std::uint64_t step, std::uint32_t at, vm::tensor::Tensor& output) {
                if (step != 2 || at != node) return;
                for (std::uint32_t& word : output.words) word ^= output.dtype == DType::i32 ? 1U : 0x00400000U;
            };
            const test::Training liar = test::train_altered(honest, alter, 2);
            if (liar.history_root() == honest.history_root()) continue;
            found = true;
            for (const Side side : {Side::defender, Side::rival}) {
                const bool defends = side == Side::defender;
                auto game = core::open_history_game(honest.context(), (defends ? liar : honest).history_root(),
                                                    (defends ? honest : liar).history_root(), kBudget, kHeight);
                ASSERT_TRUE(game) << game.error().to_string();
                auto lies = test::player_of(liar, alter);
                auto truth = test::player_of(honest, {});
                (void)test::play(*game, defends ? lies : truth, defends ? truth : lies, kHeight);
                EXPECT_EQ(game->verdict, defends ? Verdict::rival_wins : Verdict::defender_wins)
                    << kind << ", node " << node;
                ++played;
            }
        }
        EXPECT_TRUE(found) << kind << ": nothing that lasts depends on one";
    }
    for (const char* const kind : {"scatter_add_rows", "gather_rows", "iselect", "isub", "matmul", "max_last", "f2i"})
        EXPECT_TRUE(nodes.contains(kind)) << kind;
    EXPECT_GT(played, 40U);
}

}  // namespace
}  // namespace quern::compute::program
