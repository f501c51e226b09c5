// Elementwise operations, reductions and products.
#include <algorithm>
#include <array>
#include <utility>

#include "compute/program/lowering.h"

namespace quern::compute::program {
namespace {

// The size of axis `axis` of a result of so many dims in an operand: 1 where it has none.
std::uint64_t dim_of(const Dims& dims, std::size_t axis, std::size_t rank) {
    return axis + dims.size() < rank ? 1 : dims[axis + dims.size() - rank];
}

// The operand's element for the result's element i, by broadcasting.
std::uint64_t place_of(std::uint64_t i, const Dims& result, const Dims& operand) {
    std::uint64_t place = 0;
    std::uint64_t stride = 1;
    for (std::size_t axis = result.size(); axis-- > 0;) {
        const std::uint64_t at = i % result[axis];
        i /= result[axis];
        const std::uint64_t size = dim_of(operand, axis, result.size());
        if (size != 1) place += at * stride;
        stride *= size;
    }
    return place;
}

std::int64_t wrapped(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::uint64_t bits(std::int64_t value) { return static_cast<std::uint64_t>(value); }

}  // namespace

// --- Broadcasting
// -------------------------------------------------------------------------------------------------------------

std::optional<Dims> Lowering::broadcast(const std::vector<Dims>& all) {
    std::size_t rank = 0;
    for (const Dims& dims : all) rank = std::max(rank, dims.size());
    if (!expect(rank <= kMaxNetworkRank, "more than 8 dims")) return {};
    Dims result(rank, 1);
    for (const Dims& dims : all)
        for (std::size_t axis = 0; axis < rank; ++axis) {
            const std::uint64_t dim = dim_of(dims, axis, rank);
            if (!expect(dim == 1 || result[axis] == 1 || result[axis] == dim, "dims that do not fit one another"))
                return {};
            if (dim != 1) result[axis] = dim;
        }
    return result;
}

// Each operand's words in four dims that broadcast to the result's; of more than four, axes are joined where all
// operands go along with it.
bool Lowering::align(const std::vector<Item*>& items, const Dims& dims, std::vector<Value>& values, Shape& shape) {
    const std::size_t rank = dims.size();
    std::vector<Dims> operands(items.size());
    Dims joined;
    std::vector<bool> before;
    for (std::size_t axis = 0; axis < rank; ++axis) {
        std::vector<bool> broadcasts;
        for (const Item* each : items) broadcasts.push_back(dim_of(each->dims, axis, rank) != dims[axis]);
        const bool joins = rank > 4 && !joined.empty() && (broadcasts == before || dims[axis] == 1);
        if (joins) {
            joined.back() *= dims[axis];
        } else {
            joined.push_back(dims[axis]);
            before = broadcasts;
        }
        for (std::size_t i = 0; i < items.size(); ++i) {
            const std::uint64_t dim = dim_of(items[i]->dims, axis, rank);
            if (joins)
                operands[i].back() *= dim;
            else
                operands[i].push_back(dim);
        }
    }
    if (joined.size() > 4) {
        refuse("onnx.unsupported", "operands of more than four dims that do not go together");
        return false;
    }
    shape = shape_of(joined);
    for (std::size_t i = 0; i < items.size() && !b_.failed(); ++i)
        values.push_back(words(*items[i], shape_of(operands[i])));
    return !b_.failed();
}

// The same of operands of which one holds the result's places: all in a row for each place and a column for each
// channel. False, and nothing refused, where that does not go.
bool Lowering::align_places(const std::vector<Item*>& items, const Dims& dims, std::vector<Value>& values) {
    if (dims.size() < 3) return false;
    const Shape channels = vector_shape(u32(dims[1]));
    const std::uint64_t places = product(dims) / dims[0] / dims[1];
    const Shape of_image{{1, u32(dims[0]), 1, u32(dims[1])}};
    bool by_image = false;
    for (const Item* each : items) {
        if (each->dims == dims || each->elements() == 1) continue;
        const std::uint64_t images = dim_of(each->dims, 0, dims.size());
        if (dim_of(each->dims, 1, dims.size()) != dims[1] || each->elements() != images * dims[1]) return false;
        by_image = by_image || images != 1;
    }
    const Shape rows = by_image ? Shape{{1, u32(dims[0]), u32(places), u32(dims[1])}}
                                : matrix_shape(u32(dims[0] * places), u32(dims[1]));
    for (Item* each : items) {
        Value value = each->dims == dims ? rows_of_places(*each) : words(*each);
        const Shape shape = each->dims == dims            ? rows
                            : each->elements() == 1       ? scalar_shape()
                            : each->elements() == dims[1] ? channels
                                                          : of_image;
        if (b_.failed()) return false;
        if (b_.shape(value) != shape) value = b_.reshape(value, shape);
        values.push_back(value);
    }
    return true;
}

template <class Make>
void Lowering::combine(const std::vector<Item*>& items, Make make) {
    std::vector<Dims> all;
    for (const Item* each : items) all.push_back(each->dims);
    auto dims = b_.failed() ? std::nullopt : broadcast(all);
    if (!dims) return;
    for (Item* each : items) materialise(*each);
    if (b_.failed()) return;
    std::vector<Value> values;
    Shape shape;
    const bool places =
        std::any_of(items.begin(), items.end(), [&](const Item* each) { return each->places && each->dims == *dims; });
    if (places && align_places(items, *dims, values)) {
        const std::uint64_t rows = product(*dims) / (*dims)[1];
        const Value result = make(values);
        if (b_.failed()) return;
        const Shape flat = matrix_shape(u32(rows), u32((*dims)[1]));
        Item item{std::move(*dims), b_.shape(result) == flat ? result : b_.reshape(result, flat)};
        item.places = true;
        return give(std::move(item));
    }
    if (!align(items, *dims, values, shape)) return;
    give(make(values), std::move(*dims));
}

bool Lowering::fold(Fold fold) {
    const Item& a = in(0);
    const Item& b = in(1);
    if (b_.failed() || !a.known || !b.known) return false;
    auto dims = broadcast({a.dims, b.dims});
    if (!dims) return true;
    const std::uint64_t count = product(*dims);
    std::vector<std::int64_t> known;
    if (count > kMaxKnownElements) {
        refuse("onnx.too_large", "whole numbers of more than 2^20 elements");
        return true;
    }
    for (std::uint64_t i = 0; i < count; ++i)
        known.push_back(fold((*a.known)[place_of(i, *dims, a.dims)], (*b.known)[place_of(i, *dims, b.dims)]));
    give_known(std::move(known), std::move(*dims));
    return true;
}

// --- Two operands
// -------------------------------------------------------------------------------------------------------------

void Lowering::binary(ElementOp floats, ElementOp whole, Fold known) {
    if (node_->inputs.size() == 2 && fold(known)) return;
    std::vector<Item*> items;
    for (std::size_t i = 0; i < node_->inputs.size(); ++i) items.push_back(&in(i));
    if (b_.failed()) return;
    const bool is_whole_op = is_whole(*items[0]);
    for (const Item* each : items)
        if (!expect(is_whole(*each) == is_whole_op, "numbers and whole numbers")) return;
    combine(items, [&](const std::vector<Value>& x) {
        Value result = x[0];
        for (std::size_t i = 1; i < x.size(); ++i)
            result = b_.elementwise(is_whole_op ? whole : floats, {result, x[i]});
        return result;
    });
}

void Lowering::add() {
    binary(ElementOp::add, ElementOp::iadd, [](auto a, auto b) { return wrapped(bits(a) + bits(b)); });
}
void Lowering::sub() {
    binary(ElementOp::sub, ElementOp::isub, [](auto a, auto b) { return wrapped(bits(a) - bits(b)); });
}
void Lowering::mul() {
    binary(ElementOp::mul, ElementOp::imul, [](auto a, auto b) { return wrapped(bits(a) * bits(b)); });
}
void Lowering::div() {
    binary(ElementOp::div, ElementOp::idiv, [](auto a, auto b) {
        if (b == 0) return std::int64_t{0};
        return b == -1 ? wrapped(-bits(a)) : a / b;
    });
}
void Lowering::min() {
    binary(ElementOp::min, ElementOp::imin, [](auto a, auto b) { return std::min(a, b); });
}
void Lowering::max() {
    binary(ElementOp::max, ElementOp::imax, [](auto a, auto b) { return std::max(a, b); });
}

std::optional<float> Lowering::known_number(std::size_t input) {
    const Item& item = in(input);
    if (b_.failed()) return {};
    if (item.scalar) return item.scalar;
    if (item.known && item.known->size() == 1) return static_cast<float>(item.known->front());
    if (item.stored != nullptr && item.elements() == 1 && !trained_.contains(item.stored_name))
        return __builtin_bit_cast(float, item.stored->floats->front());
    refuse("onnx.unsupported", "input " + std::to_string(input) + " is no number that is known beforehand");
    return {};
}

void Lowering::pow() {
    const auto exponent = known_number(1);
    if (!exponent) return;
    const float by = *exponent;
    if (by == 0.5F) return map([&](Value x) { return b_.sqrt(x); });
    if (by == -0.5F)
        return map([&](Value x) {
            const auto root = b_.sqrt(x);
            return b_.div(b_.constant(1.0F), root);
        });
    if (by == -1.0F) return map([&](Value x) { return b_.div(b_.constant(1.0F), x); });
    constexpr float kMaxPower = 8;
    if (!(by >= 1.0F && by <= kMaxPower && by == static_cast<float>(static_cast<int>(by))))
        return refuse("onnx.unsupported", "an exponent that is none of -1, -0.5, 0.5, 1, ..., 8");
    map([&](Value x) {
        Value power = x;
        for (int i = 1; i < static_cast<int>(by); ++i) power = b_.mul(power, x);
        return power;
    });
}

void Lowering::compare(bool swapped, bool or_equal) {
    Item& first = in(swapped ? 1 : 0);
    Item& second = in(swapped ? 0 : 1);
    if (b_.failed() || !expect(is_whole(first) == is_whole(second), "numbers and whole numbers")) return;
    const bool whole = is_whole(first);
    combine({&first, &second}, [&](const std::vector<Value>& x) {
        if (!whole) return or_equal ? b_.le(x[0], x[1]) : b_.lt(x[0], x[1]);
        if (!or_equal) return b_.ilt(x[0], x[1]);
        const auto over = b_.ilt(x[1], x[0]);
        return b_.ieq(over, b_.constant_i32(0));
    });
}
void Lowering::less() {
    if (!fold([](auto a, auto b) { return std::int64_t{a < b}; })) compare(false, false);
}
void Lowering::less_or_equal() {
    if (!fold([](auto a, auto b) { return std::int64_t{a <= b}; })) compare(false, true);
}
void Lowering::greater() {
    if (!fold([](auto a, auto b) { return std::int64_t{a > b}; })) compare(true, false);
}
void Lowering::greater_or_equal() {
    if (!fold([](auto a, auto b) { return std::int64_t{a >= b}; })) compare(true, true);
}
void Lowering::equal() {
    binary(ElementOp::eq, ElementOp::ieq, [](auto a, auto b) { return std::int64_t{a == b}; });
}
void Lowering::logical_and() {
    binary(ElementOp::mul, ElementOp::iand, [](auto a, auto b) { return std::int64_t{a != 0 && b != 0}; });
}
void Lowering::logical_or() {
    binary(ElementOp::max, ElementOp::ior, [](auto a, auto b) { return std::int64_t{a != 0 || b != 0}; });
}

void Lowering::logical_not() {
    Item& item = in(0);
    if (b_.failed() || !expect(is_whole(item), "a boolean")) return;
    if (item.known) {
        std::vector<std::int64_t> known = *item.known;
        for (std::int64_t& each : known) each = each == 0 ? 1 : 0;
        return give_known(std::move(known), item.dims);
    }
    Item result{item.dims, b_.ieq(item.value, b_.constant_i32(0))};
    result.places = item.places;
    give(std::move(result));
}

void Lowering::where() {
    Item& condition = in(0);
    Item& yes = in(1);
    Item& no = in(2);
    if (b_.failed() || !expect(is_whole(condition) && is_whole(yes) == is_whole(no), "a boolean, and two of a kind"))
        return;
    if (condition.known && yes.known && no.known) {
        auto dims = broadcast({condition.dims, yes.dims, no.dims});
        if (!dims) return;
        const std::uint64_t count = product(*dims);
        if (count > kMaxKnownElements) return refuse("onnx.too_large", "whole numbers of more than 2^20 elements");
        std::vector<std::int64_t> known;
        for (std::uint64_t i = 0; i < count; ++i) {
            const Item& from = (*condition.known)[place_of(i, *dims, condition.dims)] != 0 ? yes : no;
            known.push_back((*from.known)[place_of(i, *dims, from.dims)]);
        }
        return give_known(std::move(known), std::move(*dims));
    }
    const ElementOp op = is_whole(yes) ? ElementOp::iselect : ElementOp::select;
    combine({&condition, &yes, &no}, [&](const std::vector<Value>& x) {
        return b_.elementwise(op, {x[0], x[1], x[2]});
    });
}

// --- One operand
// --------------------------------------------------------------------------------------------------------------

void Lowering::neg() {
    map([&](Value x) { return b_.neg(x); });
}
void Lowering::abs() {
    map([&](Value x) { return b_.elementwise(ElementOp::abs, {x}); });
}
void Lowering::sqrt() {
    map([&](Value x) { return b_.sqrt(x); });
}
void Lowering::exp() {
    map([&](Value x) { return b_.exp(x); });
}
void Lowering::log() {
    map([&](Value x) { return b_.log(x); });
}
void Lowering::erf() {
    map([&](Value x) { return b_.erf(x); });
}
void Lowering::reciprocal() {
    map([&](Value x) { return b_.div(b_.constant(1.0F), x); });
}
void Lowering::relu() {
    map([&](Value x) { return program::relu(b_, x); });
}
void Lowering::sigmoid() {
    map([&](Value x) { return b_.sigmoid(x); });
}
void Lowering::tanh() {
    map([&](Value x) { return b_.tanh(x); });
}

void Lowering::leaky_relu() {
    const float alpha = number("alpha", 0.01F);
    map([&](Value x) {
        const auto below = b_.lt(x, b_.constant(0.0F));
        return b_.select(below, b_.mul(x, b_.constant(alpha)), x);
    });
}

namespace {
// x above zero, else alpha (exp(x) - 1).
Value exponential_unit(Builder& b, Value x, float alpha) {
    const auto zero = b.constant(0.0F);
    const auto below = b.lt(x, zero);
    // Above zero the exponential is not taken, lest its infinity meet a zero in the gradient.
    const auto grown = b.exp(b.select(below, x, zero));
    const auto rise = b.sub(grown, b.constant(1.0F));
    const auto curve = b.mul(rise, b.constant(alpha));
    return b.select(below, curve, x);
}
}  // namespace

void Lowering::elu() {
    const float alpha = number("alpha", 1.0F);
    map([&](Value x) { return exponential_unit(b_, x, alpha); });
}

void Lowering::selu() {
    const float alpha = number("alpha", 1.67326319217681884765625F);
    const float gamma = number("gamma", 1.05070102214813232421875F);
    map([&](Value x) {
        const auto unit = exponential_unit(b_, x, alpha);
        return b_.mul(unit, b_.constant(gamma));
    });
}

void Lowering::prelu() {
    Item& x = in(0);
    Item& slope = in(1);
    if (b_.failed() || !expect(!is_whole(x) && !is_whole(slope), "numbers")) return;
    combine({&x, &slope}, [&](const std::vector<Value>& values) {
        const auto below = b_.lt(values[0], b_.constant(0.0F));
        return b_.select(below, b_.mul(values[0], values[1]), values[0]);
    });
}

void Lowering::softplus() {
    map([&](Value x) { return program::softplus(b_, x); });
}

namespace {
// max(0, min(1, alpha x + beta)).
Value hard(Builder& b, Value x, float alpha, float beta) {
    const auto slope = b.constant(alpha);
    const auto line = b.fma(x, slope, b.constant(beta));
    const auto capped = b.min(line, b.constant(1.0F));
    return b.max(capped, b.constant(0.0F));
}
}  // namespace

void Lowering::hard_sigmoid() {
    const float alpha = number("alpha", 0.2F);
    const float beta = number("beta", 0.5F);
    map([&](Value x) { return hard(b_, x, alpha, beta); });
}
void Lowering::hard_swish() {
    map([&](Value x) { return b_.mul(x, hard(b_, x, 1.0F / 6.0F, 0.5F)); });
}

void Lowering::clip() {
    std::optional<float> low;
    std::optional<float> high;
    if (has(1)) low = known_number(1);
    if (has(2)) high = known_number(2);
    if (attribute("min") != nullptr) low = number("min", 0.0F);
    if (attribute("max") != nullptr) high = number("max", 0.0F);
    map([&](Value x) {
        if (low) x = b_.max(x, b_.constant(*low));
        if (high) x = b_.min(x, b_.constant(*high));
        return x;
    });
}

// --- Along axes
// ---------------------------------------------------------------------------------------------------------------

std::optional<std::size_t> Lowering::softmax_axis() {
    const Item& item = in(0);
    if (b_.failed() || !expect(!is_whole(item), "numbers")) return {};
    constexpr std::uint32_t kOneAxis = 13;  // before this operator set all axes from the given one on were one
    const bool joined = network_.opset < kOneAxis;
    const auto axis = axis_of(integer("axis", joined ? 1 : -1), item.dims.size());
    if (!axis) return {};
    if (joined && product(Dims(item.dims.begin() + static_cast<std::ptrdiff_t>(*axis) + 1, item.dims.end())) != 1) {
        refuse("onnx.unsupported", "over more than one axis");
        return {};
    }
    return axis;
}

// make(x) of x with that axis as its columns.
template <class Make>
void Lowering::along_axis(Make make) {
    const auto axis = softmax_axis();
    if (!axis) return;
    Item& item = in(0);
    const Dims dims = item.dims;
    std::vector<std::size_t> there;
    for (std::size_t i = 0; i < dims.size(); ++i)
        if (i != *axis) there.push_back(i);
    there.push_back(*axis);
    Dims moved;
    for (const std::size_t each : there) moved.push_back(dims[each]);
    Value x = transpose(words(item), dims, there);
    if (b_.failed()) return;
    const Shape shape = shape_of(moved);
    if (b_.failed()) return;
    if (b_.shape(x) != shape) x = b_.reshape(x, shape);
    std::vector<std::size_t> back(dims.size());
    for (std::size_t i = 0; i < there.size(); ++i) back[there[i]] = i;
    const Value made = make(x);
    if (!b_.failed()) give(transpose(made, moved, back), dims);
}

void Lowering::softmax() {
    along_axis([&](Value x) { return program::softmax(b_, x); });
}
void Lowering::log_softmax() {
    along_axis([&](Value x) {
        const auto shifted = b_.sub(x, b_.stop_gradient(b_.max_last(x)));
        return b_.sub(shifted, b_.log(b_.sum_last(b_.exp(shifted))));
    });
}

void Lowering::reduce(bool largest, bool mean) {
    Item& item = in(0);
    const auto given = list_or_attribute("axes", 1);
    const bool keeps = integer("keepdims", 1) != 0;
    if (b_.failed() || !expect(!is_whole(item), "numbers")) return;
    const std::size_t rank = item.dims.size();
    std::vector<bool> reduced(rank, !given || given->empty());
    if (given && given->empty() && integer("noop_with_empty_axes", 0) != 0) return give(Item(item));
    if (given)
        for (const std::int64_t each : *given) {
            const auto axis = axis_of(each, rank);
            if (!axis) return;
            reduced[*axis] = true;
        }
    Dims dims;
    std::vector<std::size_t> order;  // what stays, then what goes
    std::uint64_t stay = 1;
    std::uint64_t go = 1;
    for (std::size_t i = 0; i < rank; ++i) {
        if (!reduced[i]) order.push_back(i);
        if (!reduced[i] || keeps) dims.push_back(reduced[i] ? 1 : item.dims[i]);
        (reduced[i] ? go : stay) *= item.dims[i];
    }
    for (std::size_t i = 0; i < rank; ++i)
        if (reduced[i]) order.push_back(i);
    materialise(item);
    if (b_.failed()) return;
    Value sum;
    bool all_places = item.places && !largest;
    for (std::size_t i = 0; i < rank; ++i) all_places = all_places && reduced[i] == (i >= 2);
    if (all_places) {
        // Rows of each image, one after the other.
        sum = b_.sum_rows(b_.reshape(item.value, Shape{{1, u32(item.dims[0]), u32(go), u32(item.dims[1])}}));
    } else {
        Value x = transpose(words(item), item.dims, order);
        const bool last_only = rank > 0 && reduced[rank - 1] && go == item.dims[rank - 1];
        const Shape shape = last_only ? shape_of(item.dims) : matrix_shape(u32(stay), u32(go));
        if (b_.failed()) return;
        if (b_.shape(x) != shape) x = b_.reshape(x, shape);
        sum = largest ? b_.max_last(x) : b_.sum_last(x);
    }
    if (mean) sum = b_.mul(sum, b_.constant(1.0F / static_cast<float>(go)));
    give(sum, std::move(dims));
}
void Lowering::reduce_sum() { reduce(false, false); }
void Lowering::reduce_mean() { reduce(false, true); }
void Lowering::reduce_max() { reduce(true, false); }

// --- Products
// -----------------------------------------------------------------------------------------------------------------

// Of the node's first two inputs, in the precision of the linear layer that it is, where it is one.
Value Lowering::product_of(Value left, Value right, bool transpose_left, bool transpose_right) {
    Precision precision = Precision::f32;
    if (weights_.contains(node_->inputs[0]) != weights_.contains(node_->inputs[1])) {
        const std::string& name = node_->name.empty() ? node_->outputs[0] : node_->name;
        linear_.push_back(name);
        precision = precisions_.of(name, training_.precision);
    }
    return bytes_.matmul(b_, precision, left, right, transpose_left, transpose_right);
}

void Lowering::matmul() {
    Item& left = in(0);
    Item& right = in(1);
    if (b_.failed() || !expect(!is_whole(left) && !is_whole(right), "numbers") ||
        !expect(!left.dims.empty() && !right.dims.empty(), "an operand without dims"))
        return;
    Dims first = left.dims;
    Dims second = right.dims;
    const bool row = first.size() == 1;
    const bool column = second.size() == 1;
    if (row) first.insert(first.begin(), 1);
    if (column) second.push_back(1);
    const std::uint64_t rows = first[first.size() - 2];
    const std::uint64_t inner = first.back();
    const std::uint64_t columns = second.back();
    if (!expect(second[second.size() - 2] == inner,
                "inner dims " + std::to_string(inner) + " and " + std::to_string(second[second.size() - 2])))
        return;
    const Dims first_batch(first.begin(), first.end() - 2);
    const Dims second_batch(second.begin(), second.end() - 2);
    auto dims = broadcast({first_batch, second_batch});
    if (!dims) return;
    Value result;
    if (product(second_batch) == 1) {
        const Value x = words(left, matrix_shape(u32(product(first_batch) * rows), u32(inner)));
        const Value y = words(right, matrix_shape(u32(inner), u32(columns)));
        result = product_of(x, y);
    } else {
        Dims first_leading = first_batch;
        Dims second_leading = second_batch;
        if (dims->size() > 2) {
            if (first_batch != second_batch && product(first_batch) != 1)
                return refuse("onnx.unsupported", "first product of more than four dims that do not go together");
            first_leading = {product(first_batch)};
            second_leading = {product(second_batch)};
        }
        const auto shape = [&](Dims leading, std::uint64_t height, std::uint64_t width) {
            leading.push_back(height);
            leading.push_back(width);
            return shape_of(leading);
        };
        const Shape x_shape = shape(first_leading, rows, inner);
        const Shape y_shape = shape(second_leading, inner, columns);
        const Value x = words(left, x_shape);
        const Value y = words(right, y_shape);
        result = product_of(x, y);
    }
    if (!row) dims->push_back(rows);
    if (!column) dims->push_back(columns);
    give(result, std::move(*dims));
}

void Lowering::gemm() {
    Item& left = in(0);
    Item& right = in(1);
    if (b_.failed() || !expect(left.dims.size() == 2 && right.dims.size() == 2, "two matrices") ||
        !expect(!is_whole(left) && !is_whole(right), "numbers"))
        return;
    const bool left_transposed = integer("transA", 0) != 0;
    const bool right_transposed = integer("transB", 0) != 0;
    const float alpha = number("alpha", 1.0F);
    const float beta = number("beta", 1.0F);
    const std::uint64_t rows = left.dims[left_transposed ? 1 : 0];
    const std::uint64_t columns = right.dims[right_transposed ? 0 : 1];
    if (!expect(left.dims[left_transposed ? 0 : 1] == right.dims[right_transposed ? 1 : 0], "inner dims")) return;
    const Shape left_shape = shape_of(left.dims);
    const Shape right_shape = shape_of(right.dims);
    const Value x = words(left, left_shape);
    const Value y = words(right, right_shape);
    Value result = product_of(x, y, left_transposed, right_transposed);
    if (alpha != 1.0F) result = b_.mul(result, b_.constant(alpha));
    if (has(2)) {
        Item& bias = in(2);
        const auto dims = b_.failed() ? std::nullopt : broadcast({{rows, columns}, bias.dims});
        if (!dims || !expect(*dims == Dims{rows, columns} && !is_whole(bias), "the bias")) return;
        const Shape bias_shape = shape_of(bias.dims);
        Value added = words(bias, bias_shape);
        if (beta != 1.0F) added = b_.mul(added, b_.constant(beta));
        result = b_.add(result, added);
    }
    give(result, {rows, columns});
}

}  // namespace quern::compute::program
