#include "compute/program/autodiff.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "compute/program/composite.h"

namespace quern::compute::program {

namespace {

// Gradients are kept broadcast: a dim of 1 where the value has more stands for equal entries along it.
class Reverse {
public:
    Reverse(Builder& b, std::uint32_t end) : b_(b), gradient_(end), slices_(end), needed_(end, false) {}

    void need(Value value) { needed_[value.id] = true; }
    void propagate_need() {
        for (std::uint32_t id = 0; id < needed_.size(); ++id) {
            const Value value{id};
            if (needed_[id] || b_.type(value).dtype != DType::f32) continue;
            if (b_.is_barrier(value)) {
                if (const auto* custom = b_.custom_gradient(value))
                    for (const Value input : custom->inputs)
                        if (needed_[input.id]) needed_[id] = true;
                continue;
            }
            for (const std::uint32_t input : b_.node(value).inputs)
                if (needed_[input]) needed_[id] = true;
        }
    }
    [[nodiscard]] bool needs(std::uint32_t id) const { return needed_[id]; }

    void accumulate(std::uint32_t id, Value gradient) {
        if (!needed_[id] || !gradient.valid()) return;
        Value& sum = gradient_[id];
        sum = sum.valid() ? b_.add(sum, gradient) : gradient;
    }
    // Whole gradient of a value, slices joined; invalid when there is none.
    Value take(std::uint32_t id) {
        join_slices(id);
        return gradient_[id];
    }
    Value take_full(Value value) {
        const Value gradient = take(value.id);
        if (!gradient.valid()) return b_.full(DType::f32, b_.shape(value), 0);
        return broadcast_to(b_, gradient, b_.shape(value));
    }
    void node(std::uint32_t id);

private:
    struct Piece {
        std::array<std::uint32_t, 4> start;
        Shape shape;
        Value gradient;
    };

    void elementwise(const Node& node, Value y, Value g);
    void matmul(const Node& node, Value g);
    void custom(Value y);
    void join_slices(std::uint32_t id);
    Value zeros(const Shape& shape) { return b_.full(DType::f32, shape, 0); }
    Value pad(Value piece, const std::array<std::uint32_t, 4>& start, const Shape& whole);

    // Contribution to an operand that was broadcast to the result's shape `out`.
    void contribute(std::uint32_t input, const Shape& out, Value gradient) {
        if (!needed_[input]) return;
        const Shape shape = b_.shape(Value{input});
        // Along dims that are summed, equal entries that are kept as one count as many.
        float count = 1.0F;
        for (std::size_t d = 0; d < 4; ++d)
            if (shape.dims[d] == 1 && out.dims[d] != 1 && b_.shape(gradient).dims[d] == 1)
                count *= static_cast<float>(out.dims[d]);
        gradient = sum_to(b_, gradient, reduced(b_.shape(gradient), shape));
        accumulate(input, b_.mul(gradient, b_.constant(count)));
    }
    // `from` with 1 in the dims where `to` has 1.
    static Shape reduced(Shape from, const Shape& to) {
        for (std::size_t d = 0; d < 4; ++d)
            if (to.dims[d] == 1) from.dims[d] = 1;
        return from;
    }

    Builder& b_;
    std::vector<Value> gradient_;
    std::vector<std::vector<Piece>> slices_;
    std::vector<bool> needed_;
};

void Reverse::elementwise(const Node& node, Value y, Value g) {
    const auto x = [&](std::size_t i) { return Value{node.inputs[i]}; };
    const auto wants = [&](std::size_t i) { return needed_[node.inputs[i]]; };
    const auto give = [&](std::size_t i, Value gradient) { contribute(node.inputs[i], node.shape, gradient); };
    const auto one = [&] { return b_.constant(1.0F); };
    const auto zero = [&] { return b_.constant(0.0F); };
    switch (node.element) {
        case ElementOp::neg:
            return give(0, b_.neg(g));
        case ElementOp::abs: {
            const auto opposite = b_.neg(g);
            return give(0, b_.select(b_.lt(x(0), zero()), opposite, g));
        }
        case ElementOp::sqrt:
            return give(0, b_.div(b_.mul(g, b_.constant(0.5F)), y));
        case ElementOp::exp:
            return give(0, b_.mul(g, y));
        case ElementOp::log:
            return give(0, b_.div(g, x(0)));
        case ElementOp::tanh: {
            const auto top = one();
            return give(0, b_.mul(g, b_.fma(b_.neg(y), y, top)));
        }
        case ElementOp::sigmoid:
            return give(0, b_.mul(g, b_.fma(b_.neg(y), y, y)));
        case ElementOp::erf: {
            const auto factor = b_.constant(1.1283791671F);
            return give(0, b_.mul(g, b_.mul(b_.exp(b_.neg(b_.mul(x(0), x(0)))), factor)));
        }
        case ElementOp::add:
            give(0, g);
            return give(1, g);
        case ElementOp::sub:
            give(0, g);
            if (wants(1)) give(1, b_.neg(g));
            return;
        case ElementOp::mul:
            if (wants(0)) give(0, b_.mul(g, x(1)));
            if (wants(1)) give(1, b_.mul(g, x(0)));
            return;
        case ElementOp::div: {
            const auto ratio = b_.div(g, x(1));
            if (wants(0)) give(0, ratio);
            if (wants(1)) give(1, b_.neg(b_.mul(ratio, y)));
            return;
        }
        case ElementOp::min:
        case ElementOp::max: {
            const auto second = node.element == ElementOp::min ? b_.lt(x(1), x(0)) : b_.lt(x(0), x(1));
            if (wants(0)) give(0, b_.select(second, zero(), g));
            if (wants(1)) give(1, b_.select(second, g, zero()));
            return;
        }
        case ElementOp::fma:
            if (wants(0)) give(0, b_.mul(g, x(1)));
            if (wants(1)) give(1, b_.mul(g, x(0)));
            return give(2, g);
        case ElementOp::select:
            if (wants(1)) give(1, b_.select(x(0), g, zero()));
            if (wants(2)) give(2, b_.select(x(0), zero(), g));
            return;
        default:
            return;  // the result is no differentiable function of f32 inputs
    }
}

void Reverse::matmul(const Node& node, Value g) {
    const Value left{node.inputs[0]};
    const Value right{node.inputs[1]};
    const bool ta = node.attributes[0] != 0;
    const bool tb = node.attributes[1] != 0;
    g = broadcast_to(b_, g, node.shape);
    // With C = op(A) op(B): d op(A) = G op(B)', d op(B) = op(A)' G; transposed where the operand is stored transposed.
    if (needed_[left.id]) {
        const auto gradient = ta ? b_.matmul(right, g, tb, true) : b_.matmul(g, right, false, !tb);
        accumulate(left.id, sum_to(b_, gradient, reduced(b_.shape(gradient), b_.shape(left))));
    }
    if (needed_[right.id]) {
        const auto gradient = tb ? b_.matmul(g, left, true, ta) : b_.matmul(left, g, !ta, false);
        accumulate(right.id, sum_to(b_, gradient, reduced(b_.shape(gradient), b_.shape(right))));
    }
}

Value Reverse::pad(Value piece, const std::array<std::uint32_t, 4>& start, const Shape& whole) {
    for (std::uint32_t d = 0; d < 4 && !b_.failed(); ++d) {
        Shape shape = b_.shape(piece);
        const std::uint32_t size = shape.dims[d];
        const std::uint32_t after = whole.dims[d] - start[d] - size;
        if (start[d] != 0) {
            shape.dims[d] = start[d];
            piece = b_.concat(zeros(shape), piece, d);
        }
        if (after != 0) {
            shape.dims[d] = after;
            piece = b_.concat(piece, zeros(shape), d);
        }
    }
    return piece;
}

// Gradients of disjoint slices along one axis are joined by concatenation; others are padded and added.
void Reverse::join_slices(std::uint32_t id) {
    std::vector<Piece> pieces = std::exchange(slices_[id], {});
    if (pieces.empty() || b_.failed()) return;
    const Shape whole = b_.shape(Value{id});
    std::uint32_t axis = 4;
    bool one_axis = true;
    for (const Piece& piece : pieces)
        for (std::uint32_t d = 0; d < 4; ++d)
            if (piece.shape.dims[d] != whole.dims[d]) {
                one_axis = one_axis && (axis == 4 || axis == d);
                axis = d;
            }
    if (one_axis && axis < 4) {
        std::stable_sort(pieces.begin(), pieces.end(),
                         [&](const Piece& a, const Piece& c) { return a.start[axis] < c.start[axis]; });
        for (std::size_t i = 1; i < pieces.size(); ++i)
            one_axis = one_axis && pieces[i].start[axis] >= pieces[i - 1].start[axis] + pieces[i - 1].shape.dims[axis];
    }
    if (!one_axis || axis == 4) {
        for (const Piece& piece : pieces)
            accumulate(id, pad(broadcast_to(b_, piece.gradient, piece.shape), piece.start, whole));
        return;
    }
    Value joined;
    std::uint32_t filled = 0;
    const auto append = [&](Value next) {
        filled += b_.shape(next).dims[axis];
        joined = joined.valid() ? b_.concat(joined, next, axis) : next;
    };
    const auto fill_to = [&](std::uint32_t end) {
        if (end <= filled) return;
        Shape gap = whole;
        gap.dims[axis] = end - filled;
        append(zeros(gap));
    };
    for (const Piece& piece : pieces) {
        fill_to(piece.start[axis]);
        append(broadcast_to(b_, piece.gradient, piece.shape));
    }
    fill_to(whole.dims[axis]);
    accumulate(id, joined);
}

void Reverse::custom(Value y) {
    const Value g = take(y.id);
    if (!g.valid()) return;
    const Builder::CustomGradient rule = *b_.custom_gradient(y);  // a copy: the rule moves the builder's nodes
    const std::vector<Value> results = rule.rule(b_, broadcast_to(b_, g, b_.shape(y)));
    for (std::size_t i = 0; i < results.size() && !b_.failed(); ++i) accumulate(rule.inputs[i].id, results[i]);
}

void Reverse::node(std::uint32_t id) {
    const Value y{id};
    if (needed_[id] && b_.custom_gradient(y) != nullptr) return custom(y);
    if (!needed_[id] || b_.is_barrier(y)) return;
    Value g = take(id);
    if (!g.valid()) return;
    const Node node = b_.node(y);  // a copy: building below moves the builder's nodes
    const std::uint32_t input = node.inputs.empty() ? 0 : node.inputs[0];
    const Shape in = node.inputs.empty() ? Shape{} : b_.shape(Value{input});
    switch (node.op) {
        case Op::elementwise:
            return elementwise(node, y, g);
        case Op::matmul:
            return matmul(node, g);
        case Op::sum_last:
        case Op::sum_rows:
            return accumulate(input, g);  // broadcast along the summed axis
        case Op::max_last: {
            const auto hit = b_.to_f32(b_.eq(Value{input}, y));
            return accumulate(input, b_.mul(hit, b_.div(g, b_.sum_last(hit))));
        }
        case Op::reshape:
            if (b_.shape(g) != scalar_shape()) g = b_.reshape(broadcast_to(b_, g, node.shape), in);
            return accumulate(input, g);
        case Op::permute: {
            std::array<std::uint32_t, 4> inverse{};
            for (std::uint32_t d = 0; d < 4; ++d) inverse[node.attributes[d]] = d;
            return accumulate(input, b_.permute(g, inverse));
        }
        case Op::slice: {
            Piece piece{{}, node.shape, g};
            std::copy(node.attributes.begin(), node.attributes.end(), piece.start.begin());
            if (needed_[input]) slices_[input].push_back(piece);
            return;
        }
        case Op::concat: {
            const std::uint32_t axis = node.attributes[0];
            std::array<std::uint32_t, 4> start{};
            for (const std::uint32_t part : node.inputs) {
                Shape shape = b_.shape(g);
                if (shape.dims[axis] != 1) shape.dims[axis] = b_.shape(Value{part}).dims[axis];
                if (needed_[part])
                    accumulate(part, b_.shape(g).dims[axis] == 1 && node.shape.dims[axis] != 1
                                         ? g
                                         : b_.slice(g, start, shape));
                start[axis] += b_.shape(Value{part}).dims[axis];
            }
            return;
        }
        case Op::gather_rows: {
            const Value index{node.inputs[1]};
            const auto rows = static_cast<std::uint32_t>(b_.shape(index).elements());
            const auto source = b_.reshape(broadcast_to(b_, g, node.shape), matrix_shape(rows, node.shape.columns()));
            if (!needed_[input]) return;
            return accumulate(input, b_.scatter_add_rows(source, b_.reshape(index, vector_shape(rows)), in.rows()));
        }
        case Op::scatter_add_rows:
            return accumulate(input, b_.gather_rows(broadcast_to(b_, g, node.shape), Value{node.inputs[1]}));
        case Op::slot:
        case Op::seed:
        case Op::full:
        case Op::iota:
        case Op::philox:
        case Op::philox_words:
        case Op::window:
            return;  // where the graph begins
        case Op::kth_last:
        case Op::imatmul:
            return;  // of whole numbers
    }
}

}  // namespace

std::vector<Value> gradients(Builder& b, Value loss, std::span<const Value> wrt) {
    std::vector<Value> result(wrt.size());
    if (b.failed()) return result;
    if (!loss.valid() || b.type(loss).dtype != DType::f32 || b.shape(loss) != scalar_shape()) {
        b.set_error("builder.bad_loss", "gradients() needs an f32 scalar");
        return result;
    }
    std::uint32_t end = loss.id + 1;
    for (const Value value : wrt) {
        if (!value.valid() || b.type(value).dtype != DType::f32) {
            b.set_error("builder.bad_dtype", "gradients() with respect to what is not f32");
            return result;
        }
        end = std::max(end, value.id + 1);
    }
    Reverse reverse(b, end);
    for (const Value value : wrt) reverse.need(value);
    reverse.propagate_need();
    reverse.accumulate(loss.id, b.constant(1.0F));
    for (std::uint32_t id = loss.id + 1; id-- > 0 && !b.failed();) reverse.node(id);
    for (std::size_t i = 0; i < wrt.size() && !b.failed(); ++i) result[i] = reverse.take_full(wrt[i]);
    return result;
}

}  // namespace quern::compute::program
