// The sizes in a program's header (doc/program-format.md, "Sizes"): what lives at once by rule, update by update.
#include <gtest/gtest.h>

#include "test_programs.h"
#include "vm/tensor/graph.h"

namespace quern::vm::tensor {
namespace {

using arith::ElementOp;

constexpr Shape kTile{{1, 1, 32, 32}};

// A slot `w` and a slot `v` of a tile and the loss; nodes 0, 1 and 2 read them.
struct World : test::Graph {
    std::uint32_t w = add_slot("w", DType::f32, kTile);
    std::uint32_t v = add_slot("v", DType::f32, kTile);
    std::uint32_t loss = add_slot("loss", DType::f32, {});

    std::uint32_t mul(std::uint32_t a, std::uint32_t b) { return element(ElementOp::mul, {a, b}); }
    std::uint32_t neg(std::uint32_t a) { return element(ElementOp::neg, {a}); }
    std::uint32_t transpose(std::uint32_t a) { return permute(a, {0, 1, 3, 2}); }

    // Tiles beside the state.
    std::uint64_t peak() {
        finish({});
        const Status status = validate(program);
        EXPECT_TRUE(status) << status.error().to_string();
        return (program.header.sizes.peak_bytes - program.header.sizes.state_bytes) / kTileBytes;
    }
};

TEST(ProgramSizes, count_whole_tiles) {
    test::Graph g;
    g.add_slot("ragged", DType::f32, {{2, 1, 33, 31}});  // 2 · 2 tiles
    g.add_slot("row", DType::f32, {{1, 1, 1, 1025}});    // 2 tiles
    const std::uint32_t loss = g.add_slot("loss", DType::f32, {});
    g.update(2, g.element(ElementOp::neg, {loss}));
    g.finish({});
    ASSERT_TRUE(validate(g.program));
    const ProgramSizes& sizes = g.program.header.sizes;
    EXPECT_EQ(sizes.state_bytes, 7U * kTileBytes);
    EXPECT_EQ(sizes.commit_work, 7U * 410);
    EXPECT_EQ(sizes.trace_bytes, (7U + 1) * kTileBytes);
    EXPECT_EQ(sizes.peak_bytes, 7U * kTileBytes);
    EXPECT_EQ(step_work(g.program.header), 7U * 410 + 1);
}

TEST(ProgramSizes, an_elementwise_update_lies_where_its_slot_was) {
    World g;
    g.update(0, g.mul(g.w, g.w));
    EXPECT_EQ(g.peak(), 0U);
}

TEST(ProgramSizes, a_generated_update_lies_where_its_slot_was) {
    World g;
    g.update(0, g.full(DType::f32, kTile, 0));
    EXPECT_EQ(g.peak(), 0U);
}

TEST(ProgramSizes, a_product_as_an_update_lies_beside_its_slot) {
    World g;
    g.update(0, g.matmul(g.w, g.v));
    EXPECT_EQ(g.peak(), 1U);
}

TEST(ProgramSizes, an_update_that_reads_its_slot_in_another_order_lies_beside_it) {
    World g;
    g.update(0, g.mul(g.w, g.transpose(g.w)));
    EXPECT_EQ(g.peak(), 1U);
    World other;
    other.update(0, other.mul(other.w, other.transpose(other.v)));
    EXPECT_EQ(other.peak(), 0U);
}

TEST(ProgramSizes, an_update_whose_slot_is_read_later_lies_beside_it) {
    World g;
    g.update(0, g.neg(g.w));
    g.reduce(Op::sum_last, g.w);
    EXPECT_EQ(g.peak(), 2U);
    World by_view;
    const std::uint32_t view = by_view.transpose(by_view.w);
    by_view.update(0, by_view.neg(by_view.w));
    by_view.reduce(Op::sum_last, view);
    EXPECT_EQ(by_view.peak(), 2U);
    World before;
    before.reduce(Op::sum_last, before.w);
    before.update(0, before.neg(before.w));
    EXPECT_EQ(before.peak(), 1U);  // the sum, while it is computed
}

TEST(ProgramSizes, a_slot_that_becomes_another_is_held_twice) {
    World g;
    g.update(1, g.w);
    EXPECT_EQ(g.peak(), 1U);
    g.update(0, g.neg(g.w));  // v's copy was made before
    EXPECT_EQ(g.peak(), 1U);
    // Read again after w is updated: the old value must be there still.
    g.update(1, g.add({Op::slot, {}, DType::f32, kTile, {}, 0, {0}}));
    EXPECT_EQ(g.peak(), 2U);
}

TEST(ProgramSizes, an_update_of_two_slots_is_held_for_each) {
    World g;
    const std::uint32_t both = g.neg(g.w);
    g.update(0, both);
    g.update(1, both);
    EXPECT_EQ(g.peak(), 2U);
}

TEST(ProgramSizes, an_update_that_is_a_view_is_copied) {
    World g;
    g.update(0, g.transpose(g.w));
    EXPECT_EQ(g.peak(), 1U);
}

TEST(ProgramSizes, a_view_keeps_its_base_and_takes_nothing) {
    World g;
    const std::uint32_t base = g.neg(g.w);
    const std::uint32_t view = g.reshape(g.slice(base, {0, 0, 0, 0}, {{1, 1, 1, 32}}), {{1, 1, 32, 1}});  // copies: 1
    g.neg(view);
    EXPECT_EQ(g.peak(), 2U);  // base and copy, then copy and output
    World dense;
    const std::uint32_t row = dense.reshape(dense.neg(dense.w), {{1, 1, 1, 1024}});
    dense.neg(dense.w);
    dense.neg(row);
    EXPECT_EQ(dense.peak(), 2U);
}

TEST(ProgramSizes, a_reshape_of_what_lies_in_another_order_costs_as_a_permute) {
    World g;
    const std::uint32_t turned = g.transpose(g.neg(g.w));
    const std::uint32_t copy = g.reshape(turned, {{1, 1, 1, 1024}});
    const std::uint32_t view = g.reshape(copy, kTile);
    EXPECT_FALSE(copies_operand(g.program, turned));
    EXPECT_TRUE(copies_operand(g.program, copy));
    EXPECT_FALSE(copies_operand(g.program, view));
    EXPECT_EQ(g.peak(), 2U);
    EXPECT_EQ(g.program.header.work_units, 16U + 64 + 64 + 1);  // neg, permute, copy, view
}

// What a dispute hashes: the outputs, and four times the micro-states of the tile that has most of them.
TEST(ProgramSizes, a_trace_has_the_micro_states_of_one_tile) {
    const auto trace_tiles = [](std::uint32_t inner) {
        World g;
        const std::uint32_t row = g.slice(g.w, {0, 0, 0, 0}, {{1, 1, 1, 32}});
        const std::uint32_t column = g.reshape(g.concat(row, row, 2), {{1, 1, 1, 64}});
        const std::uint32_t x = inner == 32 ? row : column;
        g.matmul(x, x, false, true);
        g.peak();
        return g.program.header.sizes.trace_bytes / kTileBytes;
    };
    // Two accumulators in each micro-step, of 32 of the inner dim.
    EXPECT_EQ(trace_tiles(64) - trace_tiles(32), 4U * 2);
}

TEST(ProgramSizes, of_a_training_program) {
    const Program program = test::training_program(8, 4, 32);
    const ProgramSizes& sizes = program.header.sizes;
    EXPECT_GT(sizes.peak_bytes, sizes.state_bytes);
    EXPECT_LT(sizes.peak_bytes, sizes.state_bytes + sizes.trace_bytes);
}

}  // namespace
}  // namespace quern::vm::tensor
