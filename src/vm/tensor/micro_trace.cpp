// Rebuilding of micro-traces with the array kernels; leaf.cpp judges single elements of them.
#include <algorithm>

#include "vm/tensor/arith/kernels.h"
#include "vm/tensor/arith/random.h"
#include "vm/tensor/arith/soft_float.h"
#include "vm/tensor/leaf.h"
#include "vm/tensor/structural_ops.h"

namespace quern::vm::tensor {
namespace {

using arith::ElementOp;
using arith::Kernels;
using Inputs = std::span<const Tensor* const>;

constexpr std::uint64_t kStepsPerBlock = arith::kChainBlock / kTileSide;
constexpr std::size_t kLanes = arith::kReductionLanes;

const std::uint32_t* word_at(const Tensor& tensor, const Coordinates& at) {
    return tensor.words.data() + logical_index(tensor.shape, at);
}

// a op= b over `count` words.
void combine(const Kernels& kernels, ElementOp op, std::uint32_t* a, const std::uint32_t* b, std::size_t count) {
    kernels.elementwise(op, count, a, 1, b, 1, nullptr, 0, 0, a);
}

// The tile's first element, how many rows and columns of it are no padding, and how many words lie between its rows.
struct Extent {
    Coordinates at{};
    std::size_t rows = 0;
    std::size_t columns = 0;
    std::size_t width = 0;
};

Extent extent_of(const Shape& shape, std::uint64_t tile) {
    Extent extent{tile_coordinates(shape, tile, 0), 0, 0, shape.tile_width()};
    extent.rows = static_cast<std::size_t>(std::min<std::uint64_t>(shape.tile_height(), shape.rows() - extent.at[2]));
    extent.columns =
        static_cast<std::size_t>(std::min<std::uint64_t>(shape.tile_width(), shape.columns() - extent.at[3]));
    return extent;
}

// Of a sum in blocks: what micro-step `step` of `steps` does to {total, partial} when its summands are in.
void close_block(const Kernels& kernels, const Extent& out, std::uint64_t step, std::uint64_t steps,
                 MicroState& state) {
    if ((step + 1) % kStepsPerBlock != 0 && step + 1 != steps) return;
    Tile& total = state.accumulators[0];
    Tile& partial = state.accumulators[1];
    for (std::size_t row = 0; row < out.rows; ++row)
        combine(kernels, ElementOp::add, &total[row * out.width], &partial[row * out.width], out.columns);
    partial.fill(0);
}

void matmul_trace(const Kernels& kernels, const Node& node, Inputs inputs, const Extent& out,
                  const TakeMicroState& take) {
    const auto view_of = [&](std::size_t operand, bool inner_is_rows, std::uint64_t outer) {
        const Tensor& tensor = *inputs[operand];
        Coordinates at{tensor.shape.dims[0] == 1 ? 0 : out.at[0], tensor.shape.dims[1] == 1 ? 0 : out.at[1], 0, 0};
        at[inner_is_rows ? 3 : 2] = outer;
        return arith::MatrixView{word_at(tensor, at), static_cast<std::ptrdiff_t>(tensor.shape.columns()), 1};
    };
    const bool transpose_a = node.attributes[0] != 0;
    const bool transpose_b = node.attributes[1] != 0;
    arith::MatrixView a = view_of(0, transpose_a, out.at[2]);
    arith::MatrixView b = view_of(1, !transpose_b, out.at[3]);
    if (transpose_a) std::swap(a.row_stride, a.col_stride);
    if (transpose_b) std::swap(b.row_stride, b.col_stride);
    const std::uint64_t k = inputs[0]->shape.dims[transpose_a ? 2 : 3];
    const std::uint64_t steps = (k + kTileSide - 1) / kTileSide;
    MicroState state = initial_micro_state(node);
    for (std::uint64_t step = 0; step < steps; ++step) {
        const auto first = static_cast<std::ptrdiff_t>(step * kTileSide);
        const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(kTileSide, k - step * kTileSide));
        kernels.matmul_block(out.rows, out.columns, count, {a.data + first * a.col_stride, a.row_stride, a.col_stride},
                             {b.data + first * b.row_stride, b.row_stride, b.col_stride}, state.accumulators[1].data(),
                             out.width);
        close_block(kernels, out, step, steps, state);
        if (!take(state)) return;
    }
}

using ByteTile = std::array<std::int16_t, kTileSide * kTileSide>;

// Up to 32 x 32 bytes of an operand of imatmul, whose rows are what is outside; +0 beyond.
void read_bytes(const arith::MatrixView& from, std::size_t rows, std::size_t columns, ByteTile& bytes) {
    bytes.fill(0);
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t k = 0; k < columns; ++k)
            bytes[i * kTileSide + k] = static_cast<std::int16_t>(
                arith::signed_byte(from.data[static_cast<std::ptrdiff_t>(i) * from.row_stride +
                                             static_cast<std::ptrdiff_t>(k) * from.col_stride]));
}

// Of 16 bits, which compilers multiply and add in pairs: a dispute's clock counts on hashing a micro-state, which must
// not take less than making it.
std::uint32_t dot(const std::int16_t* a, const std::int16_t* b) {
    std::int32_t sum = 0;
    for (std::size_t k = 0; k < kTileSide; ++k) sum += a[k] * b[k];
    return static_cast<std::uint32_t>(sum);
}

void strips_trace(const Node& node, Inputs inputs, const Extent& out, const TakeMicroState& take) {
    const auto view_of = [&](std::size_t operand, bool inner_is_rows, std::uint64_t outer) {
        const Tensor& tensor = *inputs[operand];
        Coordinates at{tensor.shape.dims[0] == 1 ? 0 : out.at[0], tensor.shape.dims[1] == 1 ? 0 : out.at[1], 0, 0};
        at[inner_is_rows ? 3 : 2] = outer;
        const auto width = static_cast<std::ptrdiff_t>(tensor.shape.columns());
        // Rows are what is outside, columns the inner dim, of both operands.
        return arith::MatrixView{word_at(tensor, at), inner_is_rows ? 1 : width, inner_is_rows ? width : 1};
    };
    const bool rows_a = node.attributes[0] != 0;
    const bool rows_b = node.attributes[1] == 0;
    const arith::MatrixView a = view_of(0, rows_a, out.at[2]);
    const arith::MatrixView scale_a = view_of(1, rows_a, out.at[2]);
    const arith::MatrixView b = view_of(2, rows_b, out.at[3]);
    const arith::MatrixView scale_b = view_of(3, rows_b, out.at[3]);
    const auto word = [](const arith::MatrixView& view, std::size_t outer, std::uint64_t inner) {
        return view.data[static_cast<std::ptrdiff_t>(outer) * view.row_stride +
                         static_cast<std::ptrdiff_t>(inner) * view.col_stride];
    };
    const std::uint64_t inner = inputs[0]->shape.dims[rows_a ? 2 : 3];
    MicroState state = initial_micro_state(node);
    Tile& total = state.accumulators[0];
    Tile& partial = state.accumulators[1];
    ByteTile left;
    ByteTile right;
    for (std::uint64_t first = 0; first < inner; first += kTileSide) {
        const std::uint64_t end = std::min<std::uint64_t>(first + kTileSide, inner);
        const auto skipped = static_cast<std::ptrdiff_t>(first);
        read_bytes({a.data + skipped * a.col_stride, a.row_stride, a.col_stride}, out.rows, end - first, left);
        // A tile of one row is 1,024 columns wide.
        for (std::size_t j0 = 0; j0 < out.columns; j0 += kTileSide) {
            const std::size_t columns = std::min<std::size_t>(kTileSide, out.columns - j0);
            const std::uint32_t* const from = b.data + static_cast<std::ptrdiff_t>(j0) * b.row_stride;
            read_bytes({from + skipped * b.col_stride, b.row_stride, b.col_stride}, columns, end - first, right);
            for (std::size_t i = 0; i < out.rows; ++i)
                for (std::size_t j = 0; j < columns; ++j)
                    partial[i * out.width + j0 + j] += dot(&left[i * kTileSide], &right[j * kTileSide]);
        }
        if (!take(state)) return;
        if (end % kStrip != 0 && end != inner) continue;
        const std::uint64_t strip = first / kStrip;
        for (std::size_t i = 0; i < out.rows; ++i)
            for (std::size_t j = 0; j < out.columns; ++j) {
                std::uint32_t& sum = total[i * out.width + j];
                sum = arith::strip_sum_soft(sum, partial[i * out.width + j], word(scale_a, i, strip),
                                            word(scale_b, j, strip));
            }
        partial.fill(0);
        if (!take(state)) return;
    }
}

void reduction_trace(const Kernels& kernels, const Node& node, const Tensor& source, const Extent& out,
                     const TakeMicroState& take) {
    const ElementOp op = node.op == Op::sum_last ? ElementOp::add : ElementOp::max;
    const std::size_t columns = source.shape.columns();
    MicroState state = initial_micro_state(node);
    Tile& lanes = state.accumulators[0];
    for (std::size_t first = 0; first < columns; first += kLanes) {
        for (std::size_t row = 0; row < out.rows; ++row)
            combine(kernels, op, &lanes[row * kLanes], word_at(source, {out.at[0], out.at[1], out.at[2] + row, first}),
                    std::min(kLanes, columns - first));
        const bool whole = (first + kLanes) % source.shape.tile_width() == 0 || first + kLanes >= columns;
        if (whole && !take(state)) return;
    }
    Tile folded{};
    for (std::size_t row = 0; row < out.rows; ++row) {
        for (std::size_t width = kLanes / 2; width != 0; width /= 2)
            combine(kernels, op, &lanes[row * kLanes], &lanes[row * kLanes + width], width);
        folded[row * kLanes] = lanes[row * kLanes];
    }
    lanes = folded;
    (void)take(state);
}

// sum_rows and scatter_add_rows: rows of the source go to rows of the partial sum, 32 in a micro-step.
void row_sum_trace(const Kernels& kernels, const Node& node, Inputs inputs, const Extent& out,
                   const TakeMicroState& take) {
    const Tensor& source = *inputs[0];
    MicroState state = initial_micro_state(node);
    const std::uint64_t steps = source.shape.tile_rows();
    for (std::uint64_t row = 0; row < source.shape.rows(); ++row) {
        std::uint64_t target = 0;
        if (node.op == Op::scatter_add_rows) {
            const std::uint32_t index = *word_at(*inputs[1], index_coordinates(inputs[1]->shape, {}, row));
            target = index - out.at[2];  // wraps to a large number below the tile
        }
        if (target < out.rows)
            combine(kernels, ElementOp::add, &state.accumulators[1][target * out.width],
                    word_at(source, {out.at[0], out.at[1], row, out.at[3]}), out.columns);
        if (row % kTileSide != kTileSide - 1 && row + 1 != source.shape.rows()) continue;
        close_block(kernels, out, row / kTileSide, steps, state);
        if (!take(state)) return;
    }
}

// kth_last: found words stand where the output's do, the counts of a row in 32 lanes.
void bisection_trace(const Node& node, const Tensor& source, const Extent& out, const TakeMicroState& take) {
    const std::size_t columns = source.shape.columns();
    const std::size_t width = source.shape.tile_width();
    MicroState state = initial_micro_state(node);
    Tile& found = state.accumulators[0];
    Tile& counts = state.accumulators[1];
    for (std::uint32_t bit = 0x80000000U; bit != 0; bit >>= 1) {
        for (std::size_t first = 0; first < columns; first += width) {
            for (std::size_t row = 0; row < out.rows; ++row) {
                const std::uint32_t candidate = found[row * out.width] | bit;
                const std::uint32_t* const words = word_at(source, {out.at[0], out.at[1], out.at[2] + row, first});
                for (std::size_t i = 0; i < std::min(width, columns - first); ++i)
                    counts[row * kLanes + i % kLanes] += words[i] >= candidate ? 1 : 0;
            }
            if (!take(state)) return;
        }
        for (std::size_t row = 0; row < out.rows; ++row) {
            std::uint64_t count = 0;
            for (std::size_t lane = 0; lane < kLanes; ++lane) count += counts[row * kLanes + lane];
            if (count >= node.attributes[0]) found[row * out.width] |= bit;
        }
        counts.fill(0);
        if (!take(state)) return;
    }
}

std::uint32_t generated_word(const Node& node, Inputs inputs, const Coordinates& at) {
    if (node.op == Op::full) return node.immediate;
    if (node.op == Op::iota) return static_cast<std::uint32_t>(at[node.attributes[0]]);
    const std::vector<std::uint32_t>& key = inputs[0]->words;
    const auto word = node.op == Op::philox ? arith::philox_word : arith::philox_four_word;
    return word(static_cast<std::uint32_t>(logical_index(node.shape, at)), key[2], key[3], key[0], key[1]);
}

std::uint32_t gathered_word(std::span<const OperandType> types, Inputs inputs, const Coordinates& at) {
    const std::uint32_t row = *word_at(*inputs[1], index_coordinates(types[1].shape, at, at[2]));
    return row < types[0].shape.rows() ? *word_at(*inputs[0], {0, 0, row, at[3]}) : 0;
}

std::uint32_t single_word(const Node& node, OpKind kind, std::span<const OperandType> types, Inputs inputs,
                          const Coordinates& at) {
    if (kind == OpKind::generated) return generated_word(node, inputs, at);
    if (kind == OpKind::gather) return gathered_word(types, inputs, at);
    const ElementSource source = copy_source(node, types, at);
    return *word_at(*inputs[source.operand], source.at);
}

MicroState single_step(const Kernels& kernels, const Node& node, std::span<const OperandType> types, Inputs inputs,
                       const Extent& out) {
    MicroState state = initial_micro_state(node);
    const OpKind kind = find_op(node.op)->kind;
    for (std::size_t row = 0; row < out.rows; ++row) {
        std::uint32_t* target = &state.accumulators[0][row * out.width];
        Coordinates at = out.at;
        at[2] += row;
        if (kind != OpKind::elementwise) {
            for (std::size_t column = 0; column < out.columns; ++column, ++at[3])
                target[column] = single_word(node, kind, types, inputs, at);
            continue;
        }
        std::array<const std::uint32_t*, kMaxInputs> first{};
        std::array<std::size_t, kMaxInputs> step{};
        for (std::uint32_t i = 0; i < inputs.size(); ++i) {
            first[i] = word_at(*inputs[i], elementwise_source(types[i].shape, i, at).at);
            step[i] = types[i].shape.columns() == 1 ? 0 : 1;
        }
        kernels.elementwise(node.element, out.columns, first[0], step[0], first[1], step[1], first[2], step[2],
                            node.immediate, target);
    }
    return state;
}

}  // namespace

std::vector<MicroState> micro_trace(const Node& node, std::span<const Tensor* const> inputs, std::uint64_t tile) {
    std::vector<MicroState> trace;
    each_micro_state(node, inputs, tile, [&](const MicroState& state) {
        trace.push_back(state);
        return true;
    });
    return trace;
}

void each_micro_state(const Node& node, std::span<const Tensor* const> inputs, std::uint64_t tile,
                      const TakeMicroState& take) {
    std::vector<OperandType> types;
    for (const Tensor* input : inputs) types.push_back({input->dtype, input->shape});
    if (is_kind(node.op, OpKind::input) || is_kind(node.op, OpKind::window) || !check_operands(node, types)) {
        (void)take(MicroState{std::vector<Tile>(accumulator_count(node), Tile{})});
        return;
    }
    const Kernels& kernels = arith::kernels(arith::best_backend());
    const Extent out = extent_of(node.shape, tile);
    switch (find_op(node.op)->micro_steps) {
        case MicroSteps::one:
            break;
        case MicroSteps::inner_tiles:
            return matmul_trace(kernels, node, inputs, out, take);
        case MicroSteps::inner_tiles_and_scales:
            return strips_trace(node, inputs, out, take);
        case MicroSteps::column_tiles_and_fold:
            return reduction_trace(kernels, node, *inputs[0], out, take);
        case MicroSteps::row_tiles:
            return row_sum_trace(kernels, node, inputs, out, take);
        case MicroSteps::bisection:
            return bisection_trace(node, *inputs[0], out, take);
    }
    (void)take(single_step(kernels, node, types, inputs, out));
}

}  // namespace quern::vm::tensor
