#include "compute/program/experts.h"

#include <limits>
#include <string>

#include "compute/program/composite.h"

namespace quern::compute::program {
namespace {

constexpr std::uint32_t kTile = 32;

// f32 [1,1,n,n]: 1 where the column is before the row.
Value triangle(Builder& b, std::uint32_t n) {
    const auto column = b.iota(vector_shape(n), 3);
    const auto row = b.iota(matrix_shape(n, 1), 2);
    return b.to_f32(b.ilt(column, row));
}

// One choice of each token, as 1 in the expert's column.
struct Choice {
    Value hit;     // i32 [1,w,t,E]
    Value number;  // i32 [1,w,t,1]: the expert's; E when there is none
};
// `open`: f32, E less the number of each expert that may be chosen, 0 of others.
Choice largest(Builder& b, Value logits, Value open) {
    const std::uint32_t experts = b.shape(logits).columns();
    const auto equal = b.eq(logits, b.max_last(logits));
    const auto rank = b.max_last(b.select(equal, open, b.constant(0.0F)));
    Choice choice;
    choice.hit = b.eq(open, rank);
    const auto from_end = b.elementwise(ElementOp::f2i, {rank});
    const auto count = b.constant_i32(static_cast<std::int32_t>(experts));
    choice.number = b.elementwise(ElementOp::isub, {count, from_end});
    return choice;
}

// What `values` [1,w,t,E] have in the chosen column: [1,w,t,1].
Value chosen(Builder& b, const Choice& choice, Value values) {
    return b.sum_last(b.select(choice.hit, values, b.constant(0.0F)));
}

}  // namespace

Value sum_of_earlier_rows(Builder& b, Value x) {
    if (b.failed()) return {};
    const Shape shape = b.shape(x);
    const std::uint32_t rows = shape.rows();
    if (rows <= kTile) return b.matmul(triangle(b, rows), x);
    const std::uint32_t blocks = (rows - 1) / kTile + 1;
    const Shape padded{{shape.dims[0], 1, blocks * kTile, shape.columns()}};
    if (padded != shape) {
        Shape rest = shape;
        rest.dims[2] = padded.rows() - rows;
        x = b.concat(x, b.full(DType::f32, rest, 0), 2);
    }
    x = b.reshape(x, Shape{{shape.dims[0], blocks, kTile, shape.columns()}});
    const auto within = b.matmul(triangle(b, kTile), x);
    const auto sums = b.reshape(b.sum_rows(x), Shape{{shape.dims[0], 1, blocks, shape.columns()}});
    const auto before = b.reshape(sum_of_earlier_rows(b, sums), Shape{{shape.dims[0], blocks, 1, shape.columns()}});
    return b.slice(b.reshape(b.add(within, before), padded), {0, 0, 0, 0}, shape);
}

Routing route(Builder& b, Value logits, std::uint32_t top, std::uint32_t capacity) {
    if (b.failed()) return {};
    const Shape shape = b.shape(logits);
    const auto& [one, windows, context, experts] = shape.dims;
    const std::uint32_t tokens = windows * context;
    if (top < 1 || top > 2 || top > experts) {
        b.set_error("experts.bad_top", std::to_string(top) + " of " + std::to_string(experts));
        return {};
    }
    if (capacity == 0) {
        b.set_error("experts.bad_capacity", "0 places");
        return {};
    }
    const auto probabilities = softmax(b, logits);

    // Comparisons have no derivative: choices are constants to gradients().
    const auto count = b.constant_i32(static_cast<std::int32_t>(experts));
    const auto ranks = b.to_f32(b.elementwise(ElementOp::isub, {count, b.iota(vector_shape(experts), 3)}));
    std::vector<Choice> choices{largest(b, logits, ranks)};
    auto taken = b.to_f32(choices[0].hit);
    const auto first = taken;
    if (top == 2) {
        const auto none = b.constant(-std::numeric_limits<float>::infinity());
        const auto others = b.select(choices[0].hit, none, logits);
        const auto open = b.select(choices[0].hit, b.constant(0.0F), ranks);
        choices.push_back(largest(b, others, open));
        taken = b.add(taken, b.to_f32(choices[1].hit));
    }

    // Both choices of a token count before those of the next, in their own experts' columns.
    const auto by_window = b.reshape(taken, Shape{{windows, 1, context, experts}});
    const auto earlier = b.reshape(sum_of_earlier_rows(b, by_window), shape);
    const auto window = b.iota(Shape{{1, windows, 1, 1}}, 1);
    const auto places = b.constant_i32(static_cast<std::int32_t>(capacity));
    Routing routing;
    routing.experts = experts;
    routing.places = windows * capacity;
    Value total;
    for (const Choice& choice : choices) {
        const auto place = b.elementwise(ElementOp::f2i, {chosen(b, choice, earlier)});
        const auto of_window =
            b.iadd(b.imul(choice.number, b.constant_i32(static_cast<std::int32_t>(windows))), window);
        const auto row = b.iadd(b.imul(of_window, places), place);
        const auto has_place = b.ilt(place, places);
        const auto kept = b.elementwise(ElementOp::iselect, {has_place, row, b.constant_i32(-1)});
        routing.rows.push_back(b.reshape(kept, matrix_shape(tokens, 1)));
        const auto gate = b.reshape(chosen(b, choice, probabilities), matrix_shape(tokens, 1));
        routing.gates.push_back(gate);
        total = total.valid() ? b.add(total, gate) : gate;
    }
    if (top == 2)
        for (Value& gate : routing.gates) gate = b.div(gate, total);

    const auto share = b.constant(1.0F / static_cast<float>(tokens));
    const Shape rows = matrix_shape(tokens, experts);
    const auto parts = b.mul(b.sum_rows(b.reshape(first, rows)), share);
    const auto means = b.mul(b.sum_rows(b.reshape(probabilities, rows)), share);
    const auto product = b.sum_last(b.mul(parts, means));
    routing.balance = b.mul(product, b.constant(static_cast<float>(experts)));
    return routing;
}

Value dispatch(Builder& b, Value x, const Routing& routing) {
    if (b.failed()) return {};
    auto rows = routing.rows[0];
    auto source = x;
    if (routing.rows.size() == 2) {
        rows = b.concat(rows, routing.rows[1], 2);
        source = b.concat(x, x, 2);
    }
    const std::uint32_t columns = b.shape(x).columns();
    const auto table = b.scatter_add_rows(source, rows, routing.experts * routing.places);
    return b.reshape(table, Shape{{1, routing.experts, routing.places, columns}});
}

Value combine(Builder& b, Value y, const Routing& routing) {
    if (b.failed()) return {};
    const auto table = b.reshape(y, matrix_shape(routing.experts * routing.places, b.shape(y).columns()));
    Value sum;
    for (std::size_t i = 0; i < routing.rows.size(); ++i) {
        const auto part = b.mul(b.gather_rows(table, routing.rows[i]), routing.gates[i]);
        sum = sum.valid() ? b.add(sum, part) : part;
    }
    return sum;
}

}  // namespace quern::compute::program
