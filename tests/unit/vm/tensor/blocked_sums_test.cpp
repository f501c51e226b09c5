// sum_rows and scatter_add_rows, element by element: what doc/arithmetic.md says against every backend with and without
// threads, against the micro-trace and against the chain's leaf.
#include <gtest/gtest.h>

#include "test_programs.h"
#include "vm/tensor/arith/soft_float.h"
#include "vm/tensor/leaf.h"
#include "vm/tensor/node_kernels.h"
#include "vm/tensor/view.h"

namespace quern::vm::tensor {
namespace {

using test::Fill;
using test::Random;
using Words = std::vector<std::uint32_t>;

// What the page says: the summands that are there, by the block that each lies in.
class BlockedSum {
public:
    void add(std::size_t position, std::uint32_t word) {
        for (; block_ < position / 256; ++block_) close();
        chain_ = arith::soft_add(chain_, word);
    }
    std::uint32_t total() {
        close();
        return total_;
    }

private:
    void close() {
        total_ = arith::soft_add(total_, chain_);
        chain_ = 0;
    }
    std::size_t block_ = 0;
    std::uint32_t chain_ = 0;
    std::uint32_t total_ = 0;
};

struct Case {
    Node node;
    std::vector<Tensor> inputs;
    Words expected;
};

Case sum_rows_case(Random& random, const Shape& shape, Fill fill) {
    Case c;
    c.inputs.push_back(random_tensor(random, DType::f32, shape, fill));
    c.node = {Op::sum_rows, {}, DType::f32, shape, {0}, 0, {}};
    c.node.shape.dims[2] = 1;
    for (std::size_t matrix = 0; matrix < shape.leading(); ++matrix) {
        for (std::size_t column = 0; column < shape.columns(); ++column) {
            BlockedSum sum;
            for (std::size_t row = 0; row < shape.rows(); ++row)
                sum.add(row, c.inputs[0].words[(matrix * shape.rows() + row) * shape.columns() + column]);
            c.expected.push_back(sum.total());
        }
    }
    return c;
}

// Indices below `spread` with a few beyond every table; as a row or as a column.
Case scatter_case(Random& random, std::uint32_t positions, std::uint32_t columns, std::uint32_t table_rows,
                  std::uint32_t spread, bool index_is_row, Fill fill) {
    Case c;
    c.inputs.push_back(random_tensor(random, DType::f32, {{1, 1, positions, columns}}, fill));
    const Shape index = index_is_row ? Shape{{1, 1, 1, positions}} : Shape{{1, 1, positions, 1}};
    c.inputs.push_back({DType::i32, index, Words(positions)});
    for (std::uint32_t& word : c.inputs[1].words)
        word = random.below(30) == 0 ? 0xffffffffU - random.below(2) : random.below(spread);
    c.node = {Op::scatter_add_rows, {}, DType::f32, {{1, 1, table_rows, columns}}, {0, 1}, 0, {}};
    std::vector<BlockedSum> sums(std::size_t{table_rows} * columns);
    for (std::size_t position = 0; position < positions; ++position) {
        const std::size_t target = c.inputs[1].words[position];
        for (std::size_t column = 0; target < table_rows && column < columns; ++column)
            sums[target * columns + column].add(position, c.inputs[0].words[position * columns + column]);
    }
    for (BlockedSum& sum : sums) c.expected.push_back(sum.total());
    return c;
}

std::vector<Case> cases(Fill fill) {
    Random random(41);
    std::vector<Case> all;
    for (const std::uint32_t rows : {1U, 2U, 31U, 33U, 255U, 256U, 257U, 512U, 513U})
        for (const std::uint32_t columns : {1U, 33U, 200U})
            all.push_back(sum_rows_case(random, {{1, 1, rows, columns}}, fill));
    all.push_back(sum_rows_case(random, {{2, 3, 1, 1030}}, fill));
    all.push_back(sum_rows_case(random, {{2, 3, 257, 5}}, fill));
    all.push_back(sum_rows_case(random, {{3, 1, 300, 1030}}, fill));
    for (const std::uint32_t positions : {1U, 32U, 33U, 255U, 256U, 257U, 512U, 513U, 1025U})
        for (const bool index_is_row : {false, true})
            all.push_back(scatter_case(random, positions, index_is_row ? 35 : 1, 40, 45, index_is_row, fill));
    all.push_back(scatter_case(random, 600, 1100, 1, 2, true, fill));  // a table of one row
    all.push_back(scatter_case(random, 600, 70, 33, 1, false, fill));  // all to one row
    all.push_back(scatter_case(random, 40000, 3, 70000, 70000, true, fill));
    all.push_back(scatter_case(random, 40000, 3, 300, 20, false, fill));
    return all;
}

class WholeTensors final : public TileSource {
public:
    explicit WholeTensors(std::span<const Tensor* const> inputs) {
        for (const Tensor* input : inputs) {
            tiles_.emplace_back();
            for (std::uint64_t tile = 0; tile < input->shape.tiles(); ++tile)
                tiles_.back().push_back(read_tile(*input, tile));
        }
    }
    [[nodiscard]] const Tile* tile(const TileRead& read) const override { return &tiles_[read.operand][read.tile]; }

private:
    std::vector<std::vector<Tile>> tiles_;
};

std::string describe(const Case& c) {
    return std::string(find_op(c.node.op)->name) + " of " + c.inputs[0].shape.to_string() + " to " +
           c.node.shape.to_string();
}

std::vector<const Tensor*> pointers(const Case& c) {
    std::vector<const Tensor*> inputs;
    for (const Tensor& input : c.inputs) inputs.push_back(&input);
    return inputs;
}

Words output_of(const Node& node, std::span<const Tensor* const> inputs, arith::Backend backend, ThreadPool* pool) {
    std::vector<View> views;
    for (const Tensor* input : inputs) views.push_back(dense_view(*input));
    return run_node_checked(arith::kernels(backend), node, views, pool).words;
}

TEST(BlockedSums, every_backend_gives_them_with_any_number_of_threads) {
    ThreadPool two(2);
    ThreadPool five(5);
    for (const Fill fill : {Fill::moderate, Fill::special}) {
        for (const Case& c : cases(fill)) {
            for (const arith::Backend backend : arith::kBackends)
                for (ThreadPool* pool : {static_cast<ThreadPool*>(nullptr), &two, &five})
                    ASSERT_EQ(output_of(c.node, pointers(c), backend, pool), c.expected)
                        << describe(c) << " by " << arith::name(backend) << (pool == nullptr ? "" : " with threads");
        }
    }
}

TEST(BlockedSums, of_the_pages_example_are_scattered_to_three_rows) {
    const Shape shape{{1, 1, 600, 1}};
    Tensor source{DType::f32, shape, {}};
    Tensor index{DType::i32, shape, {}};
    for (std::uint32_t i = 0; i < 600; ++i) {
        source.words.push_back(arith::soft_div(0x3f800000, arith::soft_from_i32(i + 1)));
        index.words.push_back(i % 3);
    }
    const Node scatter{Op::scatter_add_rows, {}, DType::f32, {{1, 1, 3, 1}}, {0, 1}, 0, {}};
    const std::vector<const Tensor*> inputs{&source, &index};
    for (const arith::Backend backend : arith::kBackends)
        EXPECT_EQ(output_of(scatter, inputs, backend, nullptr), (Words{0x4033d469, 0x400d2bc2, 0x3ffacbc9}));
}

TEST(BlockedSums, micro_states_end_in_them_and_follow_from_each_other) {
    Random random(42);
    for (const Fill fill : {Fill::moderate, Fill::special}) {
        for (const Case& c : cases(fill)) {
            if (c.inputs[0].shape.rows() > 1025) continue;
            std::vector<OperandType> types;
            for (const Tensor& input : c.inputs) types.push_back({input.dtype, input.shape});
            ASSERT_TRUE(check_operands(c.node, types)) << describe(c);
            const Tensor output{DType::f32, c.node.shape, c.expected};
            const WholeTensors tiles(pointers(c));
            const std::uint64_t steps = micro_step_count(c.node, types);
            EXPECT_EQ(steps, (c.inputs[0].shape.rows() + 31) / 32) << describe(c);
            for (const std::uint64_t tile : {std::uint64_t{0}, c.node.shape.tiles() - 1}) {
                const std::vector<MicroState> trace = micro_trace(c.node, pointers(c), tile);
                ASSERT_EQ(trace.size(), steps) << describe(c);
                const MicroState last{{read_tile(output, tile), Tile{}}};
                ASSERT_EQ(trace.back(), last) << describe(c);
                const std::uint64_t thorough = random.next() % steps;
                for (std::uint64_t step = 0; step < steps; ++step) {
                    const MicroState before = step == 0 ? initial_micro_state(c.node) : trace[step - 1];
                    if ((step + 1) % 8 == 0 || step + 1 == steps) {
                        EXPECT_EQ(trace[step].accumulators[1], Tile{}) << describe(c) << " micro-step " << step;
                    } else {
                        EXPECT_EQ(trace[step].accumulators[0], before.accumulators[0]) << describe(c);
                    }
                    const std::uint32_t stride = step == thorough || step + 1 == steps ? 1 : 29;
                    for (std::uint32_t accumulator = 0; accumulator < 2; ++accumulator) {
                        for (std::uint32_t element = 0; element < kTileWords; element += stride) {
                            const auto value =
                                evaluate_leaf(c.node, {}, types, {tile, step, accumulator, element}, before, tiles);
                            ASSERT_TRUE(value) << value.error().to_string();
                            ASSERT_EQ(*value, trace[step].accumulators[accumulator][element])
                                << describe(c) << " tile " << tile << " micro-step " << step << " accumulator "
                                << accumulator << " word " << element;
                        }
                    }
                }
            }
        }
    }
}

TEST(BlockedSums, an_element_of_a_micro_step_reads_one_tile_of_each_operand) {
    for (const Case& c : cases(Fill::moderate)) {
        if (c.inputs[0].shape.rows() > 1025) continue;
        const std::uint64_t steps = (c.inputs[0].shape.rows() + 31) / 32;
        for (std::uint64_t step = 0; step < steps; ++step) {
            for (std::uint32_t accumulator = 0; accumulator < 2; ++accumulator) {
                for (const std::uint32_t element : {0U, 31U, 32U}) {
                    const auto reads = leaf_reads(c.node, pointers(c), {0, step, accumulator, element});
                    ASSERT_LE(reads.size(), c.inputs.size()) << describe(c);
                    for (std::size_t i = 0; i < reads.size(); ++i)
                        for (std::size_t k = 0; k < i; ++k) EXPECT_NE(reads[i].operand, reads[k].operand);
                }
            }
        }
    }
}

}  // namespace
}  // namespace quern::vm::tensor
