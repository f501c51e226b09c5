// Convolution, pooling, norms, dropout and recurrent layers.
#include <algorithm>
#include <utility>

#include "compute/program/lowering.h"
#include "compute/program/recurrent.h"

namespace quern::compute::program {
// --- Windows
// ------------------------------------------------------------------------------------------------------------------

struct Lowering::Spatial {
    Images images;
    Window2d window;
};

// Of [n, c, w] or [n, c, h, w] under windows of that kernel; a line is an image of one row.
std::optional<Lowering::Spatial> Lowering::spatial(const Item& item, const Dims& kernel, bool dilates) {
    const std::size_t sides = kernel.size();
    if (b_.failed() || !expect(!is_whole(item), "numbers")) return {};
    if (sides == 0 || sides > 2 || item.dims.size() != sides + 2) {
        refuse("onnx.unsupported", "windows of " + std::to_string(sides) + " dims over " +
                                       std::to_string(item.dims.size()) + "; of one or two there are");
        return {};
    }
    if (const std::string pad = text("auto_pad", "NOTSET"); pad != "NOTSET" && pad != "VALID") {
        refuse("onnx.unsupported", "auto_pad " + pad);
        return {};
    }
    const auto sizes = [&](std::string_view name, std::int64_t otherwise, std::size_t count) {
        std::vector<std::int64_t> given = integers(name);
        if (given.empty()) given.assign(count, otherwise);
        expect(given.size() == count, name);
        for (const std::int64_t each : given) expect(each >= 0 && each <= 0xffff, name);
        return given;
    };
    const auto strides = sizes("strides", 1, sides);
    const auto pads = sizes("pads", 0, 2 * sides);
    const auto dilations = dilates ? sizes("dilations", 1, sides) : std::vector<std::int64_t>(sides, 1);
    if (b_.failed()) return {};
    Spatial result;
    result.images.count = u32(item.dims[0]);
    for (std::size_t side = 0; side < sides; ++side) {
        if (pads[side] != pads[sides + side]) {
            refuse("onnx.unsupported", "more padding on one side than on the other");
            return {};
        }
        if (!expect(kernel[side] >= 1 && kernel[side] <= 0xffff, "a kernel")) return {};
        const auto put = [&](Extent2d& extent, std::uint64_t value) {
            (side + 1 == sides ? extent.width : extent.height) = u32(value);
        };
        put(result.images.extent, item.dims[2 + side]);
        put(result.window.kernel, kernel[side]);
        put(result.window.stride, static_cast<std::uint64_t>(strides[side]));
        put(result.window.padding, static_cast<std::uint64_t>(pads[side]));
        put(result.window.dilation, static_cast<std::uint64_t>(dilations[side]));
        const std::int64_t rest = static_cast<std::int64_t>(item.dims[2 + side]) + 2 * pads[side] -
                                  (static_cast<std::int64_t>(kernel[side]) - 1) * dilations[side] - 1;
        if (integer("ceil_mode", 0) != 0 && strides[side] != 0 && rest % strides[side] != 0) {
            refuse("onnx.unsupported", "windows that lie over the end");
            return {};
        }
    }
    return result;
}

void Lowering::give_places(const Images& images, const Item& like, std::uint64_t channels) {
    if (b_.failed()) return;
    Item item{{images.count, channels}, images.rows};
    if (like.dims.size() == 4) item.dims.push_back(images.extent.height);
    item.dims.push_back(images.extent.width);
    item.places = true;
    give(std::move(item));
}

void Lowering::conv() {
    Item& x = in(0);
    Item& weight = in(1);
    if (b_.failed() || !expect(weight.dims.size() >= 3 && x.dims.size() == weight.dims.size(), "dims of the weight"))
        return;
    auto places = spatial(x, Dims(weight.dims.begin() + 2, weight.dims.end()), true);
    const std::int64_t given_groups = integer("group", 1);
    if (!places || !expect(given_groups > 0, "groups")) return;
    const auto groups = static_cast<std::uint64_t>(given_groups);
    const std::uint64_t outputs = weight.dims[0];
    const std::uint64_t each = weight.dims[1];
    const std::uint64_t taps = product(weight.dims) / outputs / each;
    if (!expect(x.dims[1] == each * groups && outputs % groups == 0, "channels of the weight") ||
        !expect(!is_whole(weight), "numbers"))
        return;
    places->images.rows = rows_of_places(x);
    // [groups, outputs of a group, channels of a group, taps] to what conv2d() wants.
    const Value by_tap = transpose(words(weight), {groups, outputs / groups, each, taps}, {0, 3, 2, 1});
    if (b_.failed()) return;
    const Shape kernel{{1, u32(groups), u32(taps * each), u32(outputs / groups)}};
    const Value laid = b_.shape(by_tap) == kernel ? by_tap : b_.reshape(by_tap, kernel);
    Value bias;
    if (has(2)) {
        Item& given = in(2);
        if (b_.failed() || !expect(given.dims == Dims{outputs} && !is_whole(given), "the bias")) return;
        bias = words(given, vector_shape(u32(outputs)));
    }
    give_places(conv2d(b_, places->images, laid, bias, places->window, u32(groups)), x, outputs);
}

void Lowering::pool(bool largest) {
    Item& x = in(0);
    Dims kernel;
    for (const std::int64_t side : integers("kernel_shape")) kernel.push_back(static_cast<std::uint64_t>(side));
    auto places = spatial(x, kernel, true);
    if (!places) return;
    const Extent2d& padding = places->window.padding;
    if (!largest && (padding.height != 0 || padding.width != 0) && integer("count_include_pad", 0) == 0)
        return refuse("onnx.unsupported", "means that leave out the padding");
    places->images.rows = rows_of_places(x);
    if (b_.failed()) return;
    give_places(
        largest ? max_pool2d(b_, places->images, places->window) : avg_pool2d(b_, places->images, places->window), x,
        x.dims[1]);
}
void Lowering::max_pool() { pool(true); }
void Lowering::average_pool() { pool(false); }

void Lowering::global_average_pool() {
    Item& x = in(0);
    if (b_.failed() || !expect(x.dims.size() >= 3 && !is_whole(x), "images")) return;
    const std::uint64_t places = product(x.dims) / x.dims[0] / x.dims[1];
    const Images images{rows_of_places(x), u32(x.dims[0]), {1, u32(places)}};
    Item item{Dims(x.dims.size(), 1), global_avg_pool2d(b_, images)};
    item.dims[0] = x.dims[0];
    item.dims[1] = x.dims[1];
    give(std::move(item));
}

void Lowering::global_max_pool() {
    Item& x = in(0);
    if (b_.failed() || !expect(x.dims.size() >= 3 && !is_whole(x), "images")) return;
    const std::uint64_t places = product(x.dims) / x.dims[0] / x.dims[1];
    Item item{Dims(x.dims.size(), 1)};
    item.dims[0] = x.dims[0];
    item.dims[1] = x.dims[1];
    item.value = b_.max_last(words(x, Shape{{1, u32(x.dims[0]), u32(x.dims[1]), u32(places)}}));
    give(std::move(item));
}

// --- Norms
// --------------------------------------------------------------------------------------------------------------------

void Lowering::batch_norm() {
    Item& x = in(0);
    if (b_.failed() || !expect(x.dims.size() >= 2 && !is_whole(x), "numbers of at least two dims")) return;
    const std::uint64_t channels = x.dims[1];
    const float epsilon = number("epsilon", 1e-5F);
    const float momentum = number("momentum", 0.9F);
    for (std::size_t i = 1; i < 5; ++i)
        if (const Item& each = in(i);
            !expect(each.dims == Dims{channels} && !is_whole(each), "one number for each channel"))
            return;
    const Shape vector = vector_shape(u32(channels));
    const Value gain = words(in(1), vector);
    const Value bias = words(in(2), vector);
    const Value rows = rows_of_places(x);
    const auto statistic = [&](std::size_t input) -> Value {
        const Item& item = in(input);
        if (b_.failed()) return {};
        if (item.stored == nullptr || !network_.initializers.contains(item.stored_name)) {
            refuse("onnx.unsupported", "running statistics that are no initializers");
            return {};
        }
        return b_.slot("model." + item.stored_name, DType::f32, vector, Initializer::given(item.stored->floats),
                       vm::tensor::kSlotParameter);
    };
    const Value mean = statistic(3);
    const Value variance = statistic(4);
    if (b_.failed()) return;
    Item result{x.dims};
    result.places = x.dims.size() > 2;
    if (!pass_.training) {
        result.value = normalise(b_, rows, mean, variance, gain, bias, epsilon);
        return give(std::move(result));
    }
    const BatchNormed normed = program::batch_norm(b_, rows, gain, bias, epsilon);
    if (b_.failed()) return;
    const auto count = static_cast<float>(b_.shape(rows).rows());
    const float share = 1.0F - momentum;
    slots_.statistics.push_back({mean, moved_towards(b_, mean, normed.mean, 1.0F, share)});
    slots_.statistics.push_back(
        {variance, moved_towards(b_, variance, normed.variance, count > 1 ? count / (count - 1) : 1.0F, share)});
    result.value = normed.result;
    give(std::move(result));
}

void Lowering::instance_norm() {
    Item& x = in(0);
    Item& gain = in(1);
    Item& bias = in(2);
    if (b_.failed() || !expect(x.dims.size() >= 3 && !is_whole(x), "images")) return;
    const std::uint64_t channels = x.dims[1];
    if (!expect(gain.dims == Dims{channels} && bias.dims == Dims{channels} && !is_whole(gain) && !is_whole(bias),
                "one number for each channel"))
        return;
    const std::uint64_t places = product(x.dims) / x.dims[0] / channels;
    const Shape column = matrix_shape(u32(channels), 1);
    const Value factor = words(gain, column);
    const Value added = words(bias, column);
    const Value rows = words(x, Shape{{1, u32(x.dims[0]), u32(channels), u32(places)}});
    give(program::layer_norm(b_, rows, factor, added, number("epsilon", 1e-5F)), x.dims);
}

void Lowering::layer_norm() {
    Item& x = in(0);
    Item& gain = in(1);
    if (b_.failed() || !expect(!is_whole(x) && !is_whole(gain), "numbers")) return;
    const auto axis = axis_of(integer("axis", -1), x.dims.size());
    if (!axis) return;
    const Dims inner(x.dims.begin() + static_cast<std::ptrdiff_t>(*axis), x.dims.end());
    const std::uint64_t size = product(inner);
    if (!expect(gain.dims == inner && (!has(2) || in(2).dims == inner),
                "scale and bias have the dims of what is normalised"))
        return;
    const Shape vector = vector_shape(u32(size));
    const Value factor = words(gain, vector);
    const Value added = has(2) ? words(in(2), vector) : b_.full(DType::f32, vector, 0);
    const Value rows = words(x, matrix_shape(u32(product(x.dims) / size), u32(size)));
    give(program::layer_norm(b_, rows, factor, added, number("epsilon", 1e-5F)), x.dims);
}

void Lowering::dropout() {
    float rate = number("ratio", 0.5F);
    if (has(1)) rate = known_number(1).value_or(0.0F);
    bool drops = pass_.training;
    if (has(2)) {
        const Item& training = in(2);
        if (b_.failed() || !expect(training.known && training.known->size() == 1, "training_mode is known")) return;
        drops = drops && training.known->front() != 0;
    }
    if (b_.failed() || !expect(rate >= 0.0F && rate < 1.0F, "a ratio of " + std::to_string(rate))) return;
    if (!drops || rate == 0.0F) return give(Item(in(0)));
    if (!pass_.key.valid()) return refuse("layers.no_key", "dropout");
    const Value key = key_of_use(b_, pass_.key, ++drops_);
    map([&](Value x) { return program::dropout(b_, x, key, rate); });
}

// --- Recurrent
// ----------------------------------------------------------------------------------------------------------------

// Weights of a direction as they are used: x W' + Wb of all steps at once, and what each step takes.
struct Lowering::Sequence {
    struct Direction {
        bool reverse = false;
        Value from_input;  // [1,1,steps * count,gates * size]
        Value hidden;      // [1,1,gates * size,size]
        Value bias;        // [1,1,1,gates * size]; invalid without one
        Value first;       // [1,1,count,size]
    };
    std::uint32_t steps = 0;
    std::uint32_t count = 0;
    std::uint32_t size = 0;
    std::vector<Direction> directions;

    [[nodiscard]] Shape state() const { return matrix_shape(count, size); }
};

std::optional<Lowering::Sequence> Lowering::sequence(std::size_t gates) {
    Item& x = in(0);
    Item& weight = in(1);
    Item& recurrent = in(2);
    if (b_.failed() ||
        !expect(x.dims.size() == 3 && weight.dims.size() == 3 && recurrent.dims.size() == 3, "three dims") ||
        !expect(!is_whole(x) && !is_whole(weight) && !is_whole(recurrent), "numbers"))
        return {};
    if (integer("layout", 0) != 0 || has(4)) {
        refuse("onnx.unsupported", "another layout, or lengths of sequences");
        return {};
    }
    const std::string direction = text("direction", "forward");
    const std::uint64_t directions = direction == "bidirectional" ? 2 : 1;
    if (!expect(direction == "forward" || direction == "reverse" || directions == 2, "direction " + direction))
        return {};
    const std::uint64_t size = recurrent.dims[2];
    const std::uint64_t wide = gates * size;
    if (!expect(weight.dims == Dims{directions, wide, x.dims[2]} && recurrent.dims == Dims{directions, wide, size} &&
                    integer("hidden_size", static_cast<std::int64_t>(size)) == static_cast<std::int64_t>(size),
                "dims of the weights"))
        return {};
    Sequence result{u32(x.dims[0]), u32(x.dims[1]), u32(size), {}};
    if (has(3) && !expect(in(3).dims == Dims{directions, 2 * wide} && !is_whole(in(3)), "dims of the bias")) return {};
    if (has(5) &&
        !expect(in(5).dims == Dims{directions, x.dims[1], size} && !is_whole(in(5)), "dims of the first state"))
        return {};
    const Value all = words(x, matrix_shape(u32(x.dims[0] * x.dims[1]), u32(x.dims[2])));
    for (std::uint64_t i = 0; i < directions && !b_.failed(); ++i) {
        const auto part = [&](Item& item, const Dims& dims, const Shape& shape) {
            const Value own = slice_axis(words(item), dims, 0, i, 1);
            return b_.failed() || b_.shape(own) == shape ? own : b_.reshape(own, shape);
        };
        Sequence::Direction one;
        one.reverse = direction == "reverse" || i == 1;
        const Value input = part(weight, weight.dims, matrix_shape(u32(wide), u32(x.dims[2])));
        one.hidden = part(recurrent, recurrent.dims, matrix_shape(u32(wide), u32(size)));
        one.from_input = b_.matmul(all, input, false, true);
        if (has(3)) {
            const Value both = part(in(3), in(3).dims, vector_shape(u32(2 * wide)));
            one.from_input = b_.add(one.from_input, b_.slice(both, {0, 0, 0, 0}, vector_shape(u32(wide))));
            one.bias = b_.slice(both, {0, 0, 0, u32(wide)}, vector_shape(u32(wide)));
        }
        one.first = has(5) ? part(in(5), in(5).dims, result.state()) : b_.full(DType::f32, result.state(), 0);
        result.directions.push_back(one);
    }
    if (b_.failed()) return {};
    return result;
}

// Y [steps, directions, count, size] and Y_h [directions, count, size]; `steps` by direction, each in the order of x.
void Lowering::give_sequence(const Sequence& sequence, const std::vector<std::vector<Value>>& steps) {
    if (b_.failed()) return;
    const std::uint64_t directions = steps.size();
    std::vector<Value> all;
    for (std::size_t t = 0; t < sequence.steps; ++t)
        for (const std::vector<Value>& direction : steps) all.push_back(direction[t]);
    std::vector<Value> last;
    for (std::size_t i = 0; i < steps.size(); ++i)
        last.push_back(sequence.directions[i].reverse ? steps[i].front() : steps[i].back());
    const auto joined = [&](const std::vector<Value>& parts, Dims dims, std::size_t output) {
        const Dims rows{parts.size() * sequence.count, sequence.size};
        const Value value = join(parts, std::vector<std::uint64_t>(parts.size(), sequence.count), rows, 0);
        give(Item{std::move(dims), value}, output);
    };
    joined(all, {sequence.steps, directions, sequence.count, sequence.size}, 0);
    joined(last, {directions, sequence.count, sequence.size}, 1);
}

// The states after each step, by direction, each in the order of x: begin(direction), then for each step(input,
// recurrent, hidden) gives the state after one from what the input and the state before it give to all gates.
template <class Begin, class Step>
std::vector<std::vector<Value>> Lowering::unroll(const Sequence& sequence, std::uint32_t gates, Begin begin,
                                                 Step step) {
    std::vector<std::vector<Value>> all;
    for (const Sequence::Direction& one : sequence.directions) {
        begin(all.size());
        Value hidden = one.first;
        std::vector<Value> outputs(sequence.steps);
        for (std::uint32_t i = 0; i < sequence.steps && !b_.failed(); ++i) {
            const std::uint32_t t = one.reverse ? sequence.steps - 1 - i : i;
            const auto input = b_.slice(one.from_input, {0, 0, t * sequence.count, 0},
                                        matrix_shape(sequence.count, gates * sequence.size));
            auto recurrent = b_.matmul(hidden, one.hidden, false, true);
            if (one.bias.valid()) recurrent = b_.add(recurrent, one.bias);
            hidden = step(input, recurrent, hidden);
            outputs[t] = hidden;
        }
        all.push_back(std::move(outputs));
    }
    return all;
}

// Gates i, o, f, c.
void Lowering::lstm() {
    constexpr std::uint32_t kGates = 4;
    const auto parts = sequence(kGates);
    if (!parts) return;
    if (integer("input_forget", 0) != 0) return refuse("onnx.unsupported", "input_forget");
    const Shape state = parts->state();
    const std::uint64_t directions = parts->directions.size();
    if (has(6) && !expect(in(6).dims == Dims{directions, parts->count, parts->size} && !is_whole(in(6)),
                          "dims of the first cell"))
        return;
    std::vector<Value> cells;  // by direction, as they are
    const auto begin = [&](std::size_t direction) {
        cells.push_back(b_.full(DType::f32, state, 0));
        if (!has(6)) return;
        cells.back() = slice_axis(words(in(6)), in(6).dims, 0, direction, 1);
        if (!b_.failed() && b_.shape(cells.back()) != state) cells.back() = b_.reshape(cells.back(), state);
    };
    const auto steps = unroll(*parts, kGates, begin, [&](Value input, Value recurrent, Value) {
        Value& cell = cells.back();
        const auto gates = b_.add(input, recurrent);
        const auto enter = b_.sigmoid(gate_of(b_, gates, 0, state));
        const auto leave = b_.sigmoid(gate_of(b_, gates, 1, state));
        const auto keep = b_.sigmoid(gate_of(b_, gates, 2, state));
        const auto candidate = b_.tanh(gate_of(b_, gates, 3, state));
        cell = b_.fma(keep, cell, b_.mul(enter, candidate));
        return b_.mul(leave, b_.tanh(cell));
    });
    give_sequence(*parts, steps);
    if (b_.failed()) return;
    const Dims rows{cells.size() * parts->count, parts->size};
    const Value joined = join(cells, std::vector<std::uint64_t>(cells.size(), parts->count), rows, 0);
    give(Item{{directions, parts->count, parts->size}, joined}, 2);
}

// Gates z, r, h.
void Lowering::gru() {
    constexpr std::uint32_t kGates = 3;
    const auto parts = sequence(kGates);
    if (!parts) return;
    if (integer("linear_before_reset", 0) == 0)
        return refuse("onnx.unsupported", "linear_before_reset of 0; frameworks train with 1");
    const Shape state = parts->state();
    const auto steps = unroll(
        *parts, kGates, [](std::size_t) {},
        [&](Value input, Value recurrent, Value hidden) {
            const auto gate = [&](std::uint32_t number) {
                const auto from_input = gate_of(b_, input, number, state);
                return b_.sigmoid(b_.add(from_input, gate_of(b_, recurrent, number, state)));
            };
            const auto update = gate(0);
            const auto reset = gate(1);
            const auto from_input = gate_of(b_, input, 2, state);
            const auto candidate = b_.tanh(b_.fma(reset, gate_of(b_, recurrent, 2, state), from_input));
            return b_.fma(update, b_.sub(hidden, candidate), candidate);
        });
    give_sequence(*parts, steps);
}

}  // namespace quern::compute::program
