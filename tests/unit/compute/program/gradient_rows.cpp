#include "unit/compute/program/gradient_rows.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <utility>

#include "compute/program/attention.h"
#include "compute/program/autodiff.h"
#include "compute/program/composite.h"
#include "compute/program/experts.h"
#include "compute/program/image.h"
#include "compute/program/initial_state.h"
#include "compute/program/recurrent.h"

namespace quern::compute::program::test {
namespace {

using Inputs = std::span<const Value>;

const Shape kLarge{{1, 2, 33, 65}};  // two tiles down, three across, of which the last hold a row and a column
const Shape kSmall{{2, 3, 2, 3}};
constexpr unsigned kMasks = 16;

// `whole` with 1 in the dims of the mask.
Shape masked(Shape whole, unsigned mask) {
    for (unsigned d = 0; d < 4; ++d)
        if ((mask >> d & 1) != 0) whole.dims[d] = 1;
    return whole;
}

// Whole numbers below `modulus`, each some times.
Value spread(Builder& b, const Shape& shape, std::uint32_t axis, std::int32_t factor, std::int32_t modulus) {
    const auto product = b.imul(b.iota(shape, axis), b.constant_i32(factor));
    return b.elementwise(ElementOp::irem, {product, b.constant_i32(modulus)});
}

class Table {
public:
    std::vector<GradientRow> rows;

    void add(std::string_view name, std::string_view what, std::vector<Shape> shapes, Function f, Range range = {}) {
        std::string text(name);
        if (!what.empty()) text.append(": ").append(what);
        rows.push_back({std::move(text), std::move(shapes), std::move(f), range});
    }
};

std::string_view name_of(ElementOp op) { return vm::tensor::arith::find_element_op(op)->name; }

void add_unary(Table& table) {
    const Range everywhere{-2.5F, 2.5F};
    const Range positive{0.3F, 3.0F};
    for (const auto& [op, range] : {std::pair{ElementOp::neg, everywhere}, std::pair{ElementOp::abs, everywhere},
                                    std::pair{ElementOp::sqrt, positive}, std::pair{ElementOp::exp, everywhere},
                                    std::pair{ElementOp::log, positive}, std::pair{ElementOp::tanh, everywhere},
                                    std::pair{ElementOp::sigmoid, everywhere}, std::pair{ElementOp::erf, everywhere}})
        for (const Shape& shape : {kLarge, kSmall})
            table.add(
                name_of(op), shape.to_string(), {shape},
                [op = op](Builder& b, Inputs x) { return b.elementwise(op, {x[0]}); }, range);
}

void add_binary(Table& table) {
    for (const ElementOp op :
         {ElementOp::add, ElementOp::sub, ElementOp::mul, ElementOp::div, ElementOp::min, ElementOp::max}) {
        const Function f = [op](Builder& b, Inputs x) { return b.elementwise(op, {x[0], x[1]}); };
        const Range range{0.5F, 2.0F};
        for (unsigned mask = 0; mask < kMasks; ++mask) {
            // The second one broadcast, the first one, and each along what the other is whole in.
            const Shape part = masked(kSmall, mask);
            const Shape rest = masked(kSmall, kMasks - 1 - mask);
            table.add(name_of(op), part.to_string(), {kSmall, part}, f, range);
            table.add(name_of(op), part.to_string() + " first", {part, kSmall}, f, range);
            table.add(name_of(op), part.to_string() + " and the rest", {part, rest}, f, range);
        }
        for (const unsigned mask : {0U, 4U, 8U, 12U, 15U})
            table.add(name_of(op), "large " + masked(kLarge, mask).to_string(), {kLarge, masked(kLarge, mask)}, f,
                      range);
    }
}

void add_ternary(Table& table) {
    const Function fma = [](Builder& b, Inputs x) { return b.fma(x[0], x[1], x[2]); };
    // By a condition that is broadcast along all axes but one.
    const auto select = [](std::uint32_t axis, Shape whole) {
        return [=](Builder& b, Inputs x) {
            const auto condition = spread(b, masked(whole, ~(1U << axis) & 15U), axis, 1, 2);
            return b.select(condition, x[0], x[1]);
        };
    };
    for (unsigned mask = 0; mask < kMasks; ++mask) {
        const Shape part = masked(kSmall, mask);
        const Shape rest = masked(kSmall, kMasks - 1 - mask);
        const std::string what = part.to_string();
        table.add("fma", what, {kSmall, part, rest}, fma);
        table.add("fma", what + " second", {part, kSmall, rest}, fma);
        table.add("fma", what + " third", {rest, part, kSmall}, fma);
        for (std::uint32_t axis = 0; axis < 4; ++axis) {
            const std::string by = what + " by axis " + std::to_string(axis);
            table.add("select", by, {kSmall, part}, select(axis, kSmall));
            table.add("select", by + " second", {part, kSmall}, select(axis, kSmall));
        }
    }
    table.add("fma", "large", {kLarge, masked(kLarge, 4), masked(kLarge, 8)}, fma);
    for (const std::uint32_t axis : {2U, 3U})
        table.add("select", "large by axis " + std::to_string(axis), {kLarge, masked(kLarge, 10)},
                  select(axis, kLarge));
}

void add_matmul(Table& table) {
    const auto shape = [](std::uint32_t a, std::uint32_t b, std::uint32_t rows, std::uint32_t columns,
                          bool transposed) {
        return transposed ? Shape{{a, b, columns, rows}} : Shape{{a, b, rows, columns}};
    };
    for (const bool ta : {false, true})
        for (const bool tb : {false, true}) {
            const std::string what = std::string(ta ? "A' " : "A ").append(tb ? "B'" : "B");
            const Function f = [=](Builder& b, Inputs x) { return b.matmul(x[0], x[1], ta, tb); };
            table.add("matmul", what, {shape(1, 1, 33, 65, ta), shape(1, 1, 65, 34, tb)}, f);
            table.add("matmul", what + " over a block", {shape(1, 1, 3, 300, ta), shape(1, 1, 300, 2, tb)}, f);
            for (unsigned mask = 0; mask < 4; ++mask) {
                const auto lead = [&](unsigned bits, std::uint32_t size) { return (mask & bits) != 0 ? 1U : size; };
                const std::string batched = what + " batched " + std::to_string(mask);
                table.add("matmul", batched, {shape(lead(1, 2), lead(2, 3), 3, 4, ta), shape(2, 3, 4, 2, tb)}, f);
                table.add("matmul", batched + " second",
                          {shape(2, 3, 3, 4, ta), shape(lead(1, 2), lead(2, 3), 4, 2, tb)}, f);
            }
        }
}

void add_reductions(Table& table) {
    for (const Shape& shape : {kLarge, kSmall, Shape{{1, 1, 1, 1100}}, Shape{{2, 1, 300, 2}}, Shape{}}) {
        const std::string what = shape.to_string();
        table.add("sum_last", what, {shape}, [](Builder& b, Inputs x) { return b.sum_last(x[0]); });
        table.add("max_last", what, {shape}, [](Builder& b, Inputs x) { return b.max_last(x[0]); });
        table.add("sum_rows", what, {shape}, [](Builder& b, Inputs x) { return b.sum_rows(x[0]); });
    }
    // A gradient that stays broadcast along what was summed, times another value.
    table.add("sum_last", "times its operand", {kLarge},
              [](Builder& b, Inputs x) { return b.mul(b.sum_last(x[0]), x[0]); });
    table.add("sum_rows", "times its operand", {kLarge},
              [](Builder& b, Inputs x) { return b.mul(b.sum_rows(x[0]), x[0]); });
    table.add("max_last", "times its operand", {kLarge},
              [](Builder& b, Inputs x) { return b.mul(b.max_last(x[0]), x[0]); });
    for (const std::uint32_t rows : {9U, 300U})
        table.add("scatter_add_rows", std::to_string(rows) + " positions", {matrix_shape(rows, 33)},
                  [=](Builder& b, Inputs x) {
                      // Of 7 rows two are beyond the table's end.
                      return b.scatter_add_rows(b.mul(x[0], x[0]), spread(b, vector_shape(rows), 3, 3, 7), 5);
                  });
}

void add_layout(Table& table) {
    const auto square = [](Builder& b, Value x) { return b.mul(x, x); };
    table.add("reshape", "large", {kLarge}, [=](Builder& b, Inputs x) {
        return square(b, b.reshape(x[0], Shape{{1, 1, 65, 66}}));
    });
    table.add("reshape", "of a sum", {kSmall}, [=](Builder& b, Inputs x) {
        return b.mul(b.reshape(b.sum_last(x[0]), Shape{{1, 4, 3, 1}}), b.reshape(x[0], Shape{{3, 4, 3, 1}}));
    });
    std::array<std::uint32_t, 4> axes{0, 1, 2, 3};  // which the builder leaves out
    while (std::next_permutation(axes.begin(), axes.end())) {
        const Function f = [=](Builder& b, Inputs x) { return square(b, b.permute(x[0], axes)); };
        std::string what;
        for (const std::uint32_t axis : axes) what += std::to_string(axis);
        table.add("permute", what, {Shape{{2, 3, 4, 5}}}, f);
    }
    table.add("permute", "large", {kLarge}, [=](Builder& b, Inputs x) {
        return square(b, b.permute(x[0], {3, 0, 2, 1}));
    });
    for (std::uint32_t axis = 0; axis < 4; ++axis) {
        Shape longer = kSmall;
        longer.dims[axis] += 2;
        std::array<std::uint32_t, 4> start{};
        start[axis] = 1;
        const std::string what = "axis " + std::to_string(axis);
        table.add("slice", what, {longer},
                  [=](Builder& b, Inputs x) { return square(b, b.slice(x[0], start, kSmall)); });
        table.add("slice", what + " overlapping", {longer}, [=](Builder& b, Inputs x) {
            const auto first = b.slice(x[0], {}, kSmall);
            return b.mul(first, b.slice(x[0], start, kSmall));
        });
        table.add("concat", what, {kSmall, longer},
                  [=](Builder& b, Inputs x) { return square(b, b.concat(x[0], x[1], axis)); });
        Shape one = kSmall;
        one.dims[axis] = 1;
        table.add("concat", what + " of a broadcast gradient", {one, one},
                  [=](Builder& b, Inputs x) { return sum_all(b, b.concat(x[0], square(b, x[1]), axis)); });
    }
    table.add("slice", "large", {kLarge}, [=](Builder& b, Inputs x) {
        return square(b, b.slice(x[0], {0, 1, 31, 30}, Shape{{1, 1, 2, 34}}));
    });
    table.add("concat", "large", {kLarge, Shape{{1, 2, 33, 34}}},
              [=](Builder& b, Inputs x) { return square(b, b.concat(x[0], x[1], 3)); });
    for (const Shape& index : {vector_shape(40), matrix_shape(40, 1), Shape{{2, 1, 20, 1}}})
        table.add("gather_rows", index.to_string(), {matrix_shape(35, 33)}, [=](Builder& b, Inputs x) {
            // Rows that are read twice, and some beyond the end.
            const auto rows = spread(b, vector_shape(40), 3, 5, 37);
            return square(b, b.gather_rows(x[0], b.reshape(rows, index)));
        });
}

Images images_of(Builder& b, Value rows, std::uint32_t count, Extent2d extent) {
    const Shape shape = b.shape(rows);
    return {b.reshape(rows, matrix_shape(count * extent.height * extent.width, shape.columns())), count, extent};
}

void add_images(Table& table) {
    const Shape image{{2, 5, 6, 4}};
    const auto images = [](Builder& b, Value x) { return images_of(b, x, 2, {5, 6}); };
    for (const auto& [what, window] : {std::pair{"plain", Window2d{{2, 3}, {1, 1}, {0, 0}, {1, 1}}},
                                       std::pair{"padded", Window2d{{3, 3}, {2, 1}, {1, 1}, {1, 1}}},
                                       std::pair{"dilated", Window2d{{2, 2}, {1, 2}, {1, 0}, {2, 3}}}}) {
        const Window2d w = window;
        const std::uint32_t taps = w.kernel.height * w.kernel.width;
        for (const std::uint32_t groups : {1U, 2U, 4U})
            table.add("conv2d", std::string(what) + " in groups of " + std::to_string(4 / groups),
                      {image, Shape{{1, groups, taps * 4 / groups, 4 / groups}}, vector_shape(4)},
                      [=](Builder& b, Inputs x) { return conv2d(b, images(b, x[0]), x[1], x[2], w, groups).rows; });
        table.add("max_pool2d", what, {image},
                  [=](Builder& b, Inputs x) { return max_pool2d(b, images(b, x[0]), w).rows; });
        table.add("avg_pool2d", what, {image},
                  [=](Builder& b, Inputs x) { return avg_pool2d(b, images(b, x[0]), w).rows; });
    }
    table.add("conv2d", "33 channels", {Shape{{1, 5, 6, 33}}, Shape{{1, 1, 9 * 33, 5}}}, [](Builder& b, Inputs x) {
        return conv2d(b, images_of(b, x[0], 1, {5, 6}), x[1], {}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}}).rows;
    });
    table.add("global_avg_pool2d", "", {image},
              [=](Builder& b, Inputs x) { return global_avg_pool2d(b, images(b, x[0])); });
}

void add_norms(Table& table) {
    const Shape rows = matrix_shape(33, 65);
    const Shape image{{2, 3, 3, 34}};
    const Shape channels = vector_shape(34);
    table.add("layer_norm", "", {rows, vector_shape(65), vector_shape(65)},
              [](Builder& b, Inputs x) { return layer_norm(b, x[0], x[1], x[2], 1e-5F); });
    table.add("rms_norm", "", {rows, vector_shape(65)},
              [](Builder& b, Inputs x) { return rms_norm(b, x[0], x[1], 1e-5F); });
    table.add("group_norm", "", {image, channels, channels},
              [](Builder& b, Inputs x) { return group_norm(b, x[0], x[1], x[2], 2, 1e-5F); });
    table.add("batch_norm", "", {image, channels, channels},
              [](Builder& b, Inputs x) { return batch_norm(b, x[0], x[1], x[2], 1e-5F).result; });
    table.add("batch_norm", "its mean and variance", {image, channels}, [](Builder& b, Inputs x) {
        const BatchNormed normed = batch_norm(b, x[0], x[1], x[1], 1e-5F);
        return b.mul(normed.mean, normed.variance);
    });
    table.add("normalise", "", {image, channels, channels, channels, channels},
              [](Builder& b, Inputs x) { return normalise(b, x[0], x[1], x[2], x[3], x[4], 1e-5F); }, {0.5F, 2.0F});
}

void add_recurrent(Table& table) {
    constexpr std::uint32_t kRows = 3;
    constexpr std::uint32_t kInputs = 5;
    constexpr std::uint32_t kSize = 4;
    const auto shapes = [](std::uint32_t gates) {
        const std::uint32_t columns = gates * kSize;
        return std::vector<Shape>{matrix_shape(kRows, kInputs),   matrix_shape(kRows, kSize),
                                  matrix_shape(kInputs, columns), matrix_shape(kSize, columns),
                                  vector_shape(columns),          vector_shape(columns),
                                  matrix_shape(kRows, kSize)};
    };
    const auto weights = [](Inputs x) { return CellWeights{x[2], x[3], x[4], x[5]}; };
    table.add("gate_of", "", {matrix_shape(5, 21)},
              [](Builder& b, Inputs x) { return gate_of(b, x[0], 2, matrix_shape(5, 7)); });
    table.add("lstm_cell", "", shapes(4), [=](Builder& b, Inputs x) {
        const LstmState after = lstm_cell(b, x[0], {x[1], x[6]}, weights(x));
        return b.concat(after.hidden, after.cell, 3);
    });
    table.add("lstm_cell", "twice", shapes(4), [=](Builder& b, Inputs x) {
        const LstmState after = lstm_cell(b, x[0], {x[1], x[6]}, weights(x));
        return lstm_cell(b, x[0], after, weights(x)).hidden;
    });
    table.add("gru_cell", "", shapes(3),
              [=](Builder& b, Inputs x) { return gru_cell(b, x[0], b.mul(x[1], x[6]), weights(x)); });
}

void add_attention(Table& table) {
    const Shape queries{{1, 4, 33, 6}};
    const Shape others{{1, 2, 33, 6}};
    table.add("rotary", "", {queries}, [](Builder& b, Inputs x) { return rotary(b, x[0], 500.0F); });
    for (const bool causal : {false, true})
        table.add("attention", causal ? "causal" : "whole", {queries, others, others},
                  [=](Builder& b, Inputs x) { return attention(b, x[0], x[1], x[2], causal); });
    table.add("causal_mask", "", {Shape{{1, 2, 33, 33}}},
              [](Builder& b, Inputs x) { return softmax(b, causal_mask(b, x[0])); });
}

// Through gates, what is dispatched and the balance; choices are constants. Some tokens have no place.
void add_experts(Table& table) {
    constexpr std::uint32_t kExperts = 3;
    constexpr std::uint32_t kCapacity = 9;
    constexpr std::uint32_t kTokens = 2 * 34;
    const Shape logits{{1, 2, kTokens / 2, kExperts}};
    table.add("sum_of_earlier_rows", "", {Shape{{2, 1, 35, 3}}},
              [](Builder& b, Inputs x) { return sum_of_earlier_rows(b, b.mul(x[0], x[0])); });
    for (const std::uint32_t top : {1U, 2U}) {
        const std::string what = top == 1 ? "one" : "two";
        table.add("route", what, {logits}, [=](Builder& b, Inputs x) {
            const Routing routing = route(b, x[0], top, kCapacity);
            const auto gates = top == 1 ? routing.gates[0] : b.concat(routing.gates[0], routing.gates[1], 3);
            return b.add(gates, routing.balance);
        });
        table.add("dispatch", what, {matrix_shape(kTokens, 2), logits}, [=](Builder& b, Inputs x) {
            const Routing routing = route(b, x[1], top, kCapacity);
            return b.mul(dispatch(b, x[0], routing), routing.balance);
        });
        table.add("combine", what, {Shape{{1, kExperts, 2 * kCapacity, 2}}, logits},
                  [=](Builder& b, Inputs x) { return combine(b, x[0], route(b, x[1], top, kCapacity)); });
    }
}

}  // namespace

std::vector<GradientRow> op_rows() {
    Table table;
    add_unary(table);
    add_binary(table);
    add_ternary(table);
    add_matmul(table);
    add_reductions(table);
    add_layout(table);
    return std::move(table.rows);
}

std::vector<GradientRow> composite_rows() {
    Table table;
    const Shape rows = matrix_shape(33, 65);
    for (unsigned mask = 0; mask < kMasks; ++mask) {
        const Shape part = masked(kSmall, mask);
        table.add("broadcast_to", part.to_string(), {part},
                  [](Builder& b, Inputs x) { return broadcast_to(b, x[0], kSmall); });
        table.add("sum_to", part.to_string(), {kSmall},
                  [=](Builder& b, Inputs x) { return sum_to(b, b.mul(x[0], x[0]), part); });
    }
    table.add("sum_all", "", {kLarge}, [](Builder& b, Inputs x) { return sum_all(b, b.mul(x[0], x[0])); });
    table.add("mean_all", "", {kLarge}, [](Builder& b, Inputs x) { return mean_all(b, b.mul(x[0], x[0])); });
    table.add("mean_last", "", {kLarge}, [](Builder& b, Inputs x) { return mean_last(b, b.mul(x[0], x[0])); });
    table.add("softmax", "", {kLarge}, [](Builder& b, Inputs x) { return softmax(b, x[0]); });
    table.add("cross_entropy", "", {rows},
              [](Builder& b, Inputs x) { return cross_entropy(b, x[0], spread(b, matrix_shape(33, 1), 2, 7, 65)); });
    table.add("cross_entropy_of_rows", "", {rows}, [](Builder& b, Inputs x) {
        return cross_entropy_of_rows(b, x[0], spread(b, matrix_shape(33, 1), 2, 7, 65));
    });
    table.add("relu", "", {rows}, [](Builder& b, Inputs x) { return relu(b, x[0]); });
    table.add("silu", "", {rows}, [](Builder& b, Inputs x) { return silu(b, x[0]); });
    table.add("softplus", "", {rows}, [](Builder& b, Inputs x) { return softplus(b, x[0]); });
    table.add("gelu", "", {rows}, [](Builder& b, Inputs x) { return gelu(b, x[0]); });
    table.add("dropout", "", {rows}, [](Builder& b, Inputs x) { return dropout(b, x[0], b.seed(), 0.4F); });
    table.add("mean_squared_error", "", {rows, rows},
              [](Builder& b, Inputs x) { return mean_squared_error(b, x[0], x[1]); });
    table.add("binary_cross_entropy", "", {rows, rows},
              [](Builder& b, Inputs x) { return binary_cross_entropy(b, x[0], x[1]); });
    table.add("binary_cross_entropy_of_each", "", {rows, rows},
              [](Builder& b, Inputs x) { return binary_cross_entropy_of_each(b, x[0], x[1]); });
    table.add("linear", "", {Shape{{2, 1, 33, 5}}, matrix_shape(5, 34), vector_shape(34)},
              [](Builder& b, Inputs x) { return linear(b, x[0], x[1], x[2]); });
    table.add("linear", "without bias", {matrix_shape(3, 5), matrix_shape(5, 4)},
              [](Builder& b, Inputs x) { return linear(b, x[0], x[1], {}); });
    table.add("embedding", "", {matrix_shape(35, 33)},
              [](Builder& b, Inputs x) { return embedding(b, x[0], spread(b, vector_shape(40), 3, 5, 35)); });
    add_norms(table);
    add_images(table);
    add_attention(table);
    add_recurrent(table);
    add_experts(table);
    return std::move(table.rows);
}

Expected<RowProgram> build_row(const GradientRow& row) {
    Builder b;
    std::vector<Value> inputs;
    for (std::size_t i = 0; i < row.shapes.size(); ++i)
        inputs.push_back(
            b.slot(std::string("x").append(std::to_string(i)), DType::f32, row.shapes[i], Initializer::zeros()));
    const auto y = row.f(b, inputs);
    QUERN_CHECK(b.status());
    const auto count = static_cast<std::uint32_t>(b.shape(y).elements());
    const auto numbers = b.to_f32(spread(b, vector_shape(count), 3, 37, 97));
    const auto weights = b.fma(numbers, b.constant(1.0F / 97), b.constant(0.5F));
    const auto loss = sum_all(b, b.mul(b.reshape(y, vector_shape(count)), weights));
    const auto derivatives = gradients(b, loss, inputs);
    const auto loss_slot = b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros());
    b.update(loss_slot, loss);
    b.set_loss_slot(loss_slot);
    for (std::size_t i = 0; i < inputs.size(); ++i)
        b.update(b.slot(std::string("g").append(std::to_string(i)), DType::f32, row.shapes[i], Initializer::zeros()),
                 derivatives[i]);
    RowProgram result{{}, {}, inputs.size()};
    QUERN_TRY(result.built, b.finish());
    result.state = initial_state(result.built, 1);
    std::mt19937 generator(1);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        auto& words = result.state[i].words;
        std::vector<std::uint32_t> places(words.size());
        std::iota(places.begin(), places.end(), 0U);
        for (std::size_t n = places.size(); n > 1; --n) std::swap(places[n - 1], places[generator() % n]);
        for (std::size_t e = 0; e < words.size(); ++e) {
            const double share =
                (places[e] + 0.41 + 0.2113 * static_cast<double>(i)) / static_cast<double>(words.size());
            const double low = static_cast<double>(row.range.low);
            const double high = static_cast<double>(row.range.high);
            words[e] = __builtin_bit_cast(std::uint32_t, static_cast<float>(low + share * (high - low)));
        }
    }
    return result;
}

}  // namespace quern::compute::program::test
