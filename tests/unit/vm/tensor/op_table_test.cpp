// The table of ops against what the machine does with each.
#include "vm/tensor/op_table.h"

#include <gtest/gtest.h>

#include <set>

#include "test_programs.h"
#include "vm/tensor/leaf.h"
#include "vm/tensor/node_kernels.h"
#include "vm/tensor/structural_ops.h"

namespace quern::vm::tensor {
namespace {

using test::Execution;
using test::Fill;

TEST(OpTable, numbers_that_are_no_ops_have_no_row) {
    std::size_t rows = 0;
    for (unsigned number = 0; number < 256; ++number) {
        const OpInfo* const info = find_op(static_cast<Op>(number));
        EXPECT_EQ(info != nullptr, is_op(static_cast<std::uint8_t>(number))) << number;
        if (info != nullptr) {
            EXPECT_EQ(static_cast<unsigned>(info->op), number);
            ++rows;
        }
    }
    EXPECT_EQ(rows, kOps.size());
}

TEST(OpTable, names_are_unique) {
    std::set<std::string_view> names;
    for (const OpInfo& info : kOps) EXPECT_TRUE(names.insert(info.name).second) << info.name;
}

TEST(OpTable, a_table_that_lacks_an_op_or_holds_another_does_not_cover_its_kind) {
    struct Entry {
        Op op{};
    };
    const auto is_gather = [](const OpInfo& info) { return info.kind == OpKind::gather; };
    EXPECT_TRUE(covers(std::array<Entry, 1>{{{Op::gather_rows}}}, is_gather));
    EXPECT_FALSE(covers(std::array<Entry, 0>{}, is_gather));
    EXPECT_FALSE(covers(std::array<Entry, 1>{{{Op::slice}}}, is_gather));
    EXPECT_FALSE(covers(std::array<Entry, 2>{{{Op::gather_rows}, {Op::slice}}}, is_gather));
}

TEST(OpTable, every_op_takes_the_inputs_attributes_and_immediate_of_its_row) {
    const Execution run = test::run_every_op(Fill::moderate);
    std::set<Op> seen;
    for (const Node& node : run.program.nodes) {
        seen.insert(node.op);
        const OpInfo& info = *find_op(node.op);
        const auto types = test::operand_types(run.program, node);
        EXPECT_TRUE(check_operands(node, types)) << info.name;
        if (info.arity != kElementArity) {
            EXPECT_EQ(node.inputs.size(), info.arity) << info.name;
        }
        Node altered = node;
        altered.attributes.push_back(0);
        EXPECT_EQ(check_operands(altered, types).error().name, "program.bad_attribute") << info.name;
        if (!info.has_immediate) {
            altered = node;
            altered.immediate = 1;
            EXPECT_EQ(check_operands(altered, types).error().name, "program.bad_immediate") << info.name;
        }
        EXPECT_EQ(initial_micro_state(node).accumulators.size(), info.accumulators) << info.name;
        if (info.micro_steps == MicroSteps::one) {
            EXPECT_EQ(micro_step_count(node, types), 1U) << info.name;
        }
    }
    EXPECT_EQ(seen.size(), kOps.size()) << "the programs of the tests use every op";
}

// What an op without a kernel of its own would run, and the kernels that there are, agree.
TEST(OpTable, structural_ops_are_what_their_element_map_says) {
    const Execution run = test::run_every_op(Fill::moderate);
    std::size_t checked = 0;
    for (std::size_t i = 0; i < run.program.nodes.size(); ++i) {
        const Node& node = run.program.nodes[i];
        if (!is_kind(node.op, OpKind::structural)) continue;
        std::vector<View> views;
        for (const std::uint32_t input : node.inputs) views.push_back(dense_view(run.outputs[input]));
        std::vector<std::uint32_t> words(node.shape.elements());
        copy_words(node, views, words.data(), nullptr);
        EXPECT_EQ(words, run.outputs[i].words) << find_op(node.op)->name;
        ++checked;
    }
    EXPECT_GE(checked, 4U);
}

TEST(OpTable, an_unknown_op_is_an_error_and_never_a_value) {
    const Execution run = test::run_every_op(Fill::moderate);
    Node node = run.program.nodes.back();
    node.op = static_cast<Op>(200);
    const auto types = test::operand_types(run.program, node);
    EXPECT_EQ(check_operands(node, types).error().name, "program.unknown_op");
    class NoTiles final : public TileSource {
        const Tile* tile(const TileRead&) const override { return nullptr; }
    };
    const auto value = evaluate_leaf(node, run.program.header, types, {}, initial_micro_state(node), NoTiles());
    ASSERT_FALSE(value) << "a verdict of " << *value;
    EXPECT_EQ(value.error().name, "leaf.unknown_op");
    EXPECT_EQ(decode_node(encode(node)).error().name, "program.unknown_op");
}

}  // namespace
}  // namespace quern::vm::tensor
