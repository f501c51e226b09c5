#include "vm/tensor/leaf.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "crypto/merkle.h"
#include "test_programs.h"

namespace quern::vm::tensor {
namespace {

using test::Fill;
using test::Random;

// The witness of one leaf: tiles by (operand, tile number).
class Witness final : public TileSource {
public:
    Witness(const std::vector<TileRead>& reads, std::span<const Tensor* const> inputs) {
        for (const TileRead& read : reads)
            tiles_[{read.operand, read.tile}] = read_tile(*inputs[read.operand], read.tile);
    }
    [[nodiscard]] const Tile* tile(const TileRead& read) const override {
        const auto found = tiles_.find({read.operand, read.tile});
        return found == tiles_.end() ? nullptr : &found->second;
    }
    Tile& at(const TileRead& read) { return tiles_.at({read.operand, read.tile}); }
    void drop(const TileRead& read) { tiles_.erase({read.operand, read.tile}); }

private:
    std::map<std::pair<std::uint32_t, std::uint64_t>, Tile> tiles_;
};

using test::Execution;
using test::run_every_op;

// Nodes that read what no operand is: the tests of windows are in data_test.cpp.
bool is_input(Op op) { return op == Op::slot || op == Op::seed || op == Op::window; }

std::string describe(const Program& program, std::uint32_t node) {
    const Node& n = program.nodes[node];
    return "node " + std::to_string(node) + " op " + std::to_string(static_cast<int>(n.op)) + " element " +
           std::to_string(static_cast<int>(n.element)) + " " + n.shape.to_string();
}

// Nodes of one program with each (op, element op, attributes) at least once and all shapes of the rarer ops.
std::vector<std::uint32_t> interesting_nodes(const Program& program) {
    std::vector<std::uint32_t> nodes;
    std::map<int, int> seen;
    for (std::uint32_t i = 0; i < program.nodes.size(); ++i) {
        const Node& node = program.nodes[i];
        if (is_input(node.op)) continue;
        const int kind = static_cast<int>(node.op) * 256 + static_cast<int>(node.element);
        const int limit = node.op == Op::elementwise ? 1 : node.op == Op::reshape || node.op == Op::full ? 4 : 100;
        if (seen[kind]++ < limit) nodes.push_back(i);
    }
    return nodes;
}

TEST(Leaf, the_last_micro_state_is_the_output_tile) {
    for (const Fill fill : {Fill::moderate, Fill::special}) {
        const Execution run = run_every_op(fill);
        for (const std::uint32_t i : interesting_nodes(run.program)) {
            const Node& node = run.program.nodes[i];
            const auto inputs = test::operands(run.outputs, node);
            const auto types = test::operand_types(run.program, node);
            const std::uint64_t tiles = node.shape.tiles();
            for (std::uint64_t tile = 0; tile < tiles; tile += 1 + tiles / 8) {
                for (const std::uint64_t t : {tile, tiles - 1 - tile}) {
                    const std::vector<MicroState> trace = micro_trace(node, inputs, t);
                    ASSERT_EQ(trace.size(), micro_step_count(node, types)) << describe(run.program, i);
                    ASSERT_EQ(trace.back().accumulators[0], read_tile(run.outputs[i], t))
                        << describe(run.program, i) << " tile " << t;
                    ASSERT_EQ(trace.back().accumulators.size(), accumulator_count(node));
                    if (accumulator_count(node) == 2) {
                        ASSERT_EQ(trace.back().accumulators[1], Tile{});
                    }
                }
            }
        }
    }
}

TEST(Leaf, each_element_of_each_micro_state_follows_from_the_one_before) {
    Random random(21);
    for (const Fill fill : {Fill::moderate, Fill::special}) {
        const Execution run = run_every_op(fill);
        for (const std::uint32_t i : interesting_nodes(run.program)) {
            const Node& node = run.program.nodes[i];
            const auto inputs = test::operands(run.outputs, node);
            const auto types = test::operand_types(run.program, node);
            const std::uint64_t tiles = node.shape.tiles();
            for (const std::uint64_t tile : {tiles - 1, random.next() % tiles}) {
                const std::vector<MicroState> trace = micro_trace(node, inputs, tile);
                const std::uint64_t last = trace.size() - 1;
                const std::uint64_t thorough = random.next() % trace.size();
                for (std::uint64_t step = 0; step <= last; ++step) {
                    const std::uint32_t stride = step == last || step == thorough ? 1 : 31;
                    const MicroState before = step == 0 ? initial_micro_state(node) : trace[step - 1];
                    for (std::uint32_t accumulator = 0; accumulator < accumulator_count(node); ++accumulator) {
                        for (std::uint32_t element = 0; element < kTileWords; element += stride) {
                            const LeafTarget target{tile, step, accumulator, element};
                            const auto reads = leaf_reads(node, inputs, target);
                            ASSERT_LE(reads.size(), kMaxLeafTiles);
                            const auto value =
                                evaluate_leaf(node, run.program.header, types, target, before, Witness(reads, inputs));
                            ASSERT_TRUE(value) << value.error().to_string();
                            ASSERT_EQ(*value, trace[step].accumulators[accumulator][element])
                                << describe(run.program, i) << " tile " << tile << " step " << step << " accumulator "
                                << accumulator << " element " << element;
                        }
                    }
                }
            }
        }
    }
}

// One target with reads, for each interesting node; fn(node, types, inputs, target, reads, before, claimed value).
template <class Fn>
void for_each_reading_target(const Execution& run, Fn&& fn) {
    Random random(22);
    for (const std::uint32_t i : interesting_nodes(run.program)) {
        const Node& node = run.program.nodes[i];
        const auto inputs = test::operands(run.outputs, node);
        const auto types = test::operand_types(run.program, node);
        const std::uint64_t tile = random.next() % node.shape.tiles();
        const std::vector<MicroState> trace = micro_trace(node, inputs, tile);
        const std::uint64_t step = random.next() % trace.size();
        const MicroState before = step == 0 ? initial_micro_state(node) : trace[step - 1];
        for (int attempt = 0; attempt < 64; ++attempt) {
            const LeafTarget target{tile, step, random.below(static_cast<std::uint32_t>(accumulator_count(node))),
                                    random.below(kTileWords)};
            const auto reads = leaf_reads(node, inputs, target);
            if (reads.empty()) continue;
            fn(i, node, types, inputs, target, reads, before,
               trace[step].accumulators[target.accumulator][target.element]);
            break;
        }
    }
}

TEST(Leaf, a_missing_tile_is_named) {
    const Execution run = run_every_op(Fill::moderate);
    int checked = 0;
    for_each_reading_target(
        run, [&](std::uint32_t i, const Node& node, const auto& types, const auto& inputs, const LeafTarget& target,
                 const std::vector<TileRead>& reads, const MicroState& before, std::uint32_t) {
            for (const TileRead& read : reads) {
                Witness witness(reads, inputs);
                witness.drop(read);
                const auto value = evaluate_leaf(node, run.program.header, types, target, before, witness);
                ASSERT_FALSE(value) << describe(run.program, i);
                EXPECT_EQ(value.error().name, "leaf.missing_tile");
                EXPECT_EQ(value.error().detail,
                          "operand " + std::to_string(read.operand) + " tile " + std::to_string(read.tile));
                ++checked;
            }
        });
    EXPECT_GT(checked, 80);
}

TEST(Leaf, unread_words_do_not_matter_and_read_ones_do) {
    const Execution run = run_every_op(Fill::moderate);
    int sensitive = 0;
    for_each_reading_target(
        run, [&](std::uint32_t i, const Node& node, const auto& types, const auto& inputs, const LeafTarget& target,
                 const std::vector<TileRead>& reads, const MicroState& before, std::uint32_t claimed) {
            if (node.op != Op::matmul && node.op != Op::reshape && node.op != Op::permute && node.op != Op::slice &&
                node.op != Op::concat && node.op != Op::philox && node.op != Op::sum_rows)
                return;
            int changed = 0;
            for (const TileRead& read : reads) {
                for (std::uint32_t word = 0; word < kTileWords; ++word) {
                    Witness witness(reads, inputs);
                    witness.at(read)[word] ^= 0x00400000;
                    const auto value = evaluate_leaf(node, run.program.header, types, target, before, witness);
                    ASSERT_TRUE(value);
                    if (*value != claimed) ++changed;
                }
            }
            // At most a row or column of each tile is read.
            EXPECT_GE(changed, 1) << describe(run.program, i);
            EXPECT_LE(changed, static_cast<int>(reads.size() * kTileSide)) << describe(run.program, i);
            ++sensitive;
        });
    EXPECT_GT(sensitive, 15);
}

TEST(Leaf, a_wrong_accumulator_gives_another_value_than_claimed) {
    const Execution run = run_every_op(Fill::moderate);
    std::set<Op> checked;
    for (const std::uint32_t i : interesting_nodes(run.program)) {
        const Node& node = run.program.nodes[i];
        const auto types = test::operand_types(run.program, node);
        const std::uint64_t steps = micro_step_count(node, types);
        if (steps < 2) continue;
        const auto inputs = test::operands(run.outputs, node);
        const std::vector<MicroState> trace = micro_trace(node, inputs, 0);
        // Element 0 is inside every output, and the tests' sums are finite: a NaN before it shows.
        for (std::uint64_t step = 1; step < steps; ++step) {
            const LeafTarget target{0, step, 0, 0};
            const Witness witness(leaf_reads(node, inputs, target), inputs);
            MicroState before = trace[step - 1];
            before.accumulators[0][0] = 0x7fc00000;
            const auto value = evaluate_leaf(node, run.program.header, types, target, before, witness);
            ASSERT_TRUE(value);
            EXPECT_NE(*value, trace[step].accumulators[0][0]) << describe(run.program, i);
            checked.insert(node.op);
        }
    }
    EXPECT_EQ(checked.size(), 7U);  // matmul, imatmul, four along rows or columns, scatter
}

// Lanes are 32 words for each row of the output, whatever the shape of its tiles or of its operand's. Words without a
// row keep their first value until the fold, and so do lanes that no column reaches.
TEST(Leaf, lanes_that_nothing_reaches_keep_their_first_value_until_the_fold) {
    Random random(23);
    for (const Shape& shape : {Shape{{1, 1, 1, 1}}, Shape{{1, 1, 1, 20}}, Shape{{1, 2, 1, 1030}}, Shape{{1, 1, 3, 20}},
                               Shape{{1, 1, 40, 70}}, Shape{{2, 1, 32, 64}}}) {
        for (const Op op : {Op::sum_last, Op::max_last}) {
            const Tensor source = test::random_tensor(random, DType::f32, shape, Fill::moderate);
            const std::vector<const Tensor*> inputs{&source};
            Node node{op, {}, DType::f32, shape, {0}, 0, {}};
            node.shape.dims[3] = 1;
            const std::uint32_t untouched = op == Op::sum_last ? 0 : 0xff800000;
            const std::uint64_t tile = node.shape.tiles() - 1;
            const std::uint64_t rows = shape.rows() == 40 ? 8 : shape.rows();  // of the last tile
            const auto trace = micro_trace(node, inputs, tile);
            const std::uint64_t width = shape.rows() == 1 ? 1024 : 32;
            ASSERT_EQ(trace.size(), (shape.columns() + width - 1) / width + 1) << shape.to_string();
            for (std::uint32_t word = 0; word < kTileWords; ++word) {
                const bool reached = word / 32 < rows && word % 32 < shape.columns();
                for (std::size_t step = 0; step + 1 < trace.size(); ++step)
                    ASSERT_EQ(trace[step].accumulators[0][word] == untouched, !reached)
                        << shape.to_string() << " micro-step " << step << " word " << word;
                const bool result = word % 32 == 0 && word / 32 < rows;
                ASSERT_EQ(trace.back().accumulators[0][word] != 0, result) << shape.to_string() << " word " << word;
                for (std::size_t step = 0; step < trace.size(); ++step) {
                    const LeafTarget target{tile, step, 0, word};
                    const auto value = evaluate_leaf(node, {}, std::vector<OperandType>{{source.dtype, source.shape}},
                                                     target, step == 0 ? initial_micro_state(node) : trace[step - 1],
                                                     Witness(leaf_reads(node, inputs, target), inputs));
                    ASSERT_TRUE(value);
                    ASSERT_EQ(*value, trace[step].accumulators[0][word]) << shape.to_string() << " word " << word;
                }
            }
        }
    }
}

TEST(Leaf, nodes_that_are_no_valid_nodes_are_zero) {
    const Execution run = run_every_op(Fill::moderate);
    const auto find = [&](Op op) {
        std::uint32_t i = 0;
        while (run.program.nodes[i].op != op) ++i;
        return i;
    };
    const std::uint32_t i = find(Op::matmul);
    Node node = run.program.nodes[i];
    const auto types = test::operand_types(run.program, node);
    const auto inputs = test::operands(run.outputs, node);
    node.shape.dims[2] += 1;
    const LeafTarget target{0, 0, 0, 5};
    EXPECT_EQ(micro_step_count(node, types), 1U);
    EXPECT_EQ(micro_trace(node, inputs, 0), std::vector<MicroState>{MicroState({Tile{}, Tile{}})});
    EXPECT_TRUE(leaf_reads(node, inputs, target).empty());
    const auto value =
        evaluate_leaf(node, run.program.header, types, target, initial_micro_state(node), Witness({}, inputs));
    ASSERT_TRUE(value);
    EXPECT_EQ(*value, 0U);

    Node few = run.program.nodes[i];
    few.attributes.clear();
    EXPECT_EQ(
        evaluate_leaf(few, run.program.header, types, target, initial_micro_state(few), Witness({}, inputs)).value(),
        0U);
    EXPECT_EQ(evaluate_leaf(few, run.program.header, {}, target, initial_micro_state(few), Witness({}, inputs)).value(),
              0U);
    const Node& slot = run.program.nodes[find(Op::slot)];
    EXPECT_EQ(
        evaluate_leaf(slot, run.program.header, {}, target, initial_micro_state(slot), Witness({}, {})).error().name,
        "leaf.input_node");
}

TEST(Leaf, targets_outside_the_node_are_refused) {
    const Execution run = run_every_op(Fill::moderate);
    std::uint32_t i = 0;
    while (run.program.nodes[i].op != Op::matmul) ++i;
    const Node& node = run.program.nodes[i];
    const auto types = test::operand_types(run.program, node);
    const auto inputs = test::operands(run.outputs, node);
    const MicroState before = initial_micro_state(node);
    const auto error_of = [&](const LeafTarget& target, const MicroState& state) {
        const auto value = evaluate_leaf(node, run.program.header, types, target, state, Witness({}, inputs));
        return value ? std::string_view("none") : value.error().name;
    };
    EXPECT_EQ(error_of({node.shape.tiles(), 0, 0, 0}, before), "leaf.bad_target");
    EXPECT_EQ(error_of({0, micro_step_count(node, types), 0, 0}, before), "leaf.bad_target");
    EXPECT_EQ(error_of({0, 0, 2, 0}, before), "leaf.bad_target");
    EXPECT_EQ(error_of({0, 0, 0, kTileWords}, before), "leaf.bad_target");
    EXPECT_EQ(error_of({0, 0, 0, 0}, MicroState({Tile{}})), "leaf.bad_accumulators");
}

TEST(Leaf, a_micro_states_hash_binds_its_accumulators) {
    MicroState one{{Tile{}}};
    MicroState two{{Tile{}, Tile{}}};
    EXPECT_NE(micro_state_hash(one), micro_state_hash(two));
    two.accumulators[1][1023] = 1;
    const Hash32 with_second = micro_state_hash(two);
    std::swap(two.accumulators[0], two.accumulators[1]);
    EXPECT_NE(micro_state_hash(two), with_second);
    EXPECT_EQ(micro_state_hash(one), crypto::list_id(crypto::MerkleTag::micro, 1, tile_hash(one.accumulators[0])));
}

}  // namespace
}  // namespace quern::vm::tensor
