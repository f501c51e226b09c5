// Convolution, pooling, norms, dropout, embeddings and recurrent layers.
#include <algorithm>
#include <utility>

#include "compute/torchscript/interpreter.h"

namespace quern::compute::torchscript {

std::span<const Interpreter::Operation> Interpreter::layer_operations() {
    using I = Interpreter;
    static constexpr Operation kOperations[] = {
        {"aten::_convolution", &I::convolution},
        {"aten::conv1d", &I::convolution},
        {"aten::conv2d", &I::convolution},
        {"aten::max_pool1d", &I::max_pool},
        {"aten::max_pool2d", &I::max_pool},
        {"aten::avg_pool1d", &I::average_pool},
        {"aten::avg_pool2d", &I::average_pool},
        {"aten::adaptive_avg_pool1d", &I::adaptive_pool},
        {"aten::adaptive_avg_pool2d", &I::adaptive_pool},
        {"aten::batch_norm", &I::batch_norm},
        {"aten::layer_norm", &I::layer_norm},
        {"aten::group_norm", &I::group_norm},
        {"aten::embedding", &I::embedding},
        {"aten::dropout", &I::dropout},
        {"aten::lstm", &I::recurrent},
        {"aten::gru", &I::recurrent},
    };
    return kOperations;
}

// --- Windows
// --------------------------------------------------------------------------------------------------------------

void Interpreter::windowed(onnx::NodeProto& node, const TensorRef& x, Ints kernel, Ints stride, Ints padding,
                           Ints dilation, bool ceil, Size channels) {
    const std::size_t sides = x->rank() - 2;
    if (stride.empty()) stride = kernel;
    for (Ints* const each : {&kernel, &stride, &padding, &dilation}) {
        if (each->size() == 1) each->resize(sides, each->front());
        if (!expect(each->size() == sides, "sizes of a window")) return;
    }
    Sizes sizes{x->sizes[0], channels};
    for (std::size_t i = 0; i < sides; ++i) {
        const Size size = x->sizes[2 + i];
        constexpr std::int64_t kMost = 1 << 20;
        if (!expect(size.is_fixed() && size.fixed <= kMost && kernel[i] > 0 && kernel[i] <= kMost && stride[i] > 0 &&
                        padding[i] >= 0 && padding[i] <= kMost && dilation[i] > 0 && dilation[i] <= kMost,
                    "sizes of a window"))
            return;
        const std::int64_t rest = size.fixed + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1;
        if (!expect(rest >= 0 && (!ceil || rest % stride[i] == 0), "windows that lie over the end")) return;
        sizes.push_back({rest / stride[i] + 1, 0});
    }
    Ints pads = padding;
    pads.insert(pads.end(), padding.begin(), padding.end());
    set(node, "kernel_shape", kernel);
    set(node, "strides", stride);
    set(node, "pads", pads);
    if (std::any_of(dilation.begin(), dilation.end(), [](std::int64_t each) { return each != 1; }))
        set(node, "dilations", dilation);
    give(made(node.output(0), std::move(sizes)));
}

void Interpreter::convolution() {
    const TensorRef x = real_tensor(tensor(0));
    const TensorRef weight = tensor(1);
    if (!expect(x->rank() >= 3 && x->rank() <= 4 && weight->rank() == x->rank(), "a convolution of images or lines"))
        return;
    const bool transposed = flag("transposed", false);
    Ints kernel;
    for (std::size_t i = 2; i < weight->rank(); ++i) kernel.push_back(weight->sizes[i].fixed);
    Ints stride = ints("stride");
    Ints dilation = ints("dilation");
    if (stride.empty()) stride = {1};
    if (dilation.empty()) dilation = {1};
    Ints padding{0};
    if (const std::string kept = text("padding"); kept == "same") {
        padding.clear();
        for (std::size_t i = 0; i < kernel.size(); ++i) {
            const std::int64_t both_sides = (kernel[i] - 1) * dilation[dilation.size() == 1 ? 0 : i];
            if (!expect(both_sides % 2 == 0, "more padding on one side than on the other")) return;
            padding.push_back(both_sides / 2);
        }
    } else if (kept.empty()) {
        if (named("padding") != nullptr) padding = ints("padding");
    } else if (!expect(kept == "valid", "padding " + kept)) {
        return;
    }
    const std::int64_t groups = whole("groups", 1);
    if (!expect(!transposed, "a transposed convolution") ||
        !expect(groups > 0 && weight->sizes[1].is_fixed() && x->sizes[1] == times(weight->sizes[1], {groups, 0}),
                "channels of a convolution"))
        return;
    Names inputs{use(x), use(weight)};
    if (const TensorRef bias = tensor_named("bias"); bias) inputs.push_back(use(bias));
    onnx::NodeProto& result = node("Conv", inputs);
    set(result, "group", groups);
    windowed(result, x, kernel, stride, padding, dilation, false, weight->sizes[0]);
}

void Interpreter::max_pool() {
    const TensorRef x = real_tensor(tensor(0));
    if (!expect(x->rank() >= 3, "a pool of images or lines")) return;
    Ints dilation = ints("dilation");
    if (dilation.empty()) dilation = {1};
    onnx::NodeProto& result = node("MaxPool", {use(x)});
    windowed(result, x, ints("kernel_size"), ints("stride"), ints("padding"), dilation, flag("ceil_mode", false),
             x->sizes[1]);
}

void Interpreter::average_pool() {
    const TensorRef x = real_tensor(tensor(0));
    if (!expect(x->rank() >= 3 && named("divisor_override") == nullptr, "a pool of images or lines")) return;
    onnx::NodeProto& result = node("AveragePool", {use(x)});
    set(result, "count_include_pad", flag("count_include_pad", true) ? 1 : 0);
    windowed(result, x, ints("kernel_size"), ints("stride"), ints("padding"), {1}, flag("ceil_mode", false),
             x->sizes[1]);
}

void Interpreter::adaptive_pool() {
    const TensorRef x = real_tensor(tensor(0));
    Ints wanted = ints("output_size");
    if (!expect(x->rank() >= 3, "a pool of images or lines")) return;
    if (wanted.size() == 1) wanted.resize(x->rank() - 2, wanted[0]);
    if (!expect(wanted.size() == x->rank() - 2, "sizes of a pool")) return;
    if (std::all_of(wanted.begin(), wanted.end(), [](std::int64_t each) { return each == 1; })) {
        Sizes sizes(x->rank(), Size{1, 0});
        sizes[0] = x->sizes[0];
        sizes[1] = x->sizes[1];
        return give(made(node("GlobalAveragePool", {use(x)}).output(0), std::move(sizes)));
    }
    Ints kernel;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const Size size = x->sizes[2 + i];
        if (!expect(size.is_fixed() && wanted[i] > 0 && size.fixed % wanted[i] == 0, "windows of unequal sizes"))
            return;
        kernel.push_back(size.fixed / wanted[i]);
    }
    onnx::NodeProto& result = node("AveragePool", {use(x)});
    windowed(result, x, kernel, kernel, {0}, {1}, false, x->sizes[1]);
}

// --- Norms
// ----------------------------------------------------------------------------------------------------------------

void Interpreter::batch_norm() {
    const TensorRef x = real_tensor(tensor(0));
    const TensorRef mean = tensor_named("running_mean");
    const TensorRef variance = tensor_named("running_var");
    if (!expect(x->rank() >= 2 && mean && variance && !mean->path.empty() && !variance->path.empty(),
                "batch norm without running statistics of its own"))
        return;
    const Sizes channels{x->sizes[1]};
    TensorRef weight = tensor_named("weight");
    TensorRef bias = tensor_named("bias");
    if (!weight) weight = filled(1, channels, Kind::real);
    if (!bias) bias = filled(0, channels, Kind::real);
    const double momentum = real("momentum", 0.1);
    const double epsilon = real("eps", 1e-5);
    onnx::NodeProto& result = node("BatchNormalization", {use(x), use(weight), use(bias), use(mean), use(variance)});
    set_float(result, "epsilon", epsilon);
    set_float(result, "momentum", 1 - momentum);
    give(made(result.output(0), x->sizes));
}

void Interpreter::layer_norm() {
    const TensorRef x = real_tensor(tensor(0));
    const Sizes shape = sizes_of(arg(1));
    if (!expect(!shape.empty() && shape.size() <= x->rank() &&
                    std::equal(shape.begin(), shape.end(), x->sizes.end() - static_cast<std::ptrdiff_t>(shape.size())),
                "sizes of a layer norm"))
        return;
    TensorRef weight = tensor_named("weight");
    if (!weight) weight = filled(1, shape, Kind::real);
    Names inputs{use(x), use(weight)};
    if (const TensorRef bias = tensor_named("bias"); bias) inputs.push_back(use(bias));
    onnx::NodeProto& result = node("LayerNormalization", inputs);
    set(result, "axis", -static_cast<std::int64_t>(shape.size()));
    set_float(result, "epsilon", real("eps", 1e-5));
    give(made(result.output(0), x->sizes));
}

void Interpreter::group_norm() {
    const TensorRef x = real_tensor(tensor(0));
    const std::int64_t groups = whole("num_groups", 1);
    if (!expect(x->rank() >= 2 && groups > 0 && x->sizes[1].is_fixed() && x->sizes[1].fixed % groups == 0,
                "groups of a norm"))
        return;
    Size elements{1, 0};
    for (std::size_t i = 1; i < x->rank(); ++i) elements = times(elements, x->sizes[i]);
    if (!expect(elements.is_fixed(), "a norm over a batch")) return;
    const TensorRef grouped = reshaped(x, {x->sizes[0], {groups, 0}, {elements.fixed / groups, 0}});
    const TensorRef ones = filled(1, {{groups, 0}}, Kind::real);
    const TensorRef zeros = filled(0, {{groups, 0}}, Kind::real);
    onnx::NodeProto& normed = node("InstanceNormalization", {use(grouped), use(ones), use(zeros)});
    set_float(normed, "epsilon", real("eps", 1e-5));
    TensorRef result = reshaped(made(normed.output(0), grouped->sizes), x->sizes);
    const auto by_channel = [&](TensorRef each) {
        for (std::size_t i = 2; i < x->rank() && !failed(); ++i) each = unsqueezed(each, each->rank());
        return each;
    };
    if (const TensorRef weight = tensor_named("weight"); weight) result = both("Mul", result, by_channel(weight));
    if (const TensorRef bias = tensor_named("bias"); bias) result = both("Add", result, by_channel(bias));
    give(result);
}

// --- Others
// ---------------------------------------------------------------------------------------------------------------

void Interpreter::embedding() {
    const TensorRef table = tensor(0);
    const TensorRef which = tensor(1);
    if (which->name == input_->name) input_->kind = Kind::whole;
    if (!expect(table->rank() == 2, "a table of rows")) return;
    Sizes sizes = which->sizes;
    sizes.push_back(table->sizes[1]);
    give(made(node("Gather", {use(table), use(which)}).output(0), std::move(sizes)));
}

TensorRef Interpreter::dropped(const TensorRef& x, double rate, bool training) {
    if (!training || rate == 0) return x;
    if (!expect(rate > 0 && rate < 1, "a rate of dropout")) return x;
    const TensorRef ratio = number(rate);
    const TensorRef on = constant(at::scalar_tensor(true, at::kBool));
    return made("Dropout", {x, ratio, on}, x->sizes);
}
void Interpreter::dropout() {
    const TensorRef x = real_tensor(tensor(0));
    give(dropped(share(x, x->sizes), real("p", 0.5), flag("train", false)));
}

// As PyTorch's exporter writes them: gates in the standard's order (i, o, f, c of an LSTM, z, r, h of a GRU), layers
// one after the other.
void Interpreter::recurrent() {
    const bool is_lstm = op_ == "aten::lstm";
    const Ints order = is_lstm ? Ints{0, 3, 1, 2} : Ints{1, 0, 2};
    const auto gates = static_cast<std::int64_t>(order.size());
    TensorRef x = real_tensor(tensor(0));
    const Value* const given = named("params");
    const Value* const first = named("hx");
    if (!expect(named("batch_sizes") == nullptr && given != nullptr && given->is(Value::Type::list) &&
                    first != nullptr && x->rank() == 3,
                "a recurrent layer over sequences of other lengths"))
        return;
    const bool biases = flag("has_biases", true);
    const std::int64_t layers = whole("num_layers", 1);
    const bool two = flag("bidirectional", false);
    const bool batch_first = flag("batch_first", false);
    const double rate = real("dropout", 0);
    const bool training = flag("train", false);
    const std::size_t each_has = biases ? 4 : 2;
    const std::size_t directions = two ? 2 : 1;
    if (!expect(layers > 0 && layers <= 1024 &&
                    given->items->size() == static_cast<std::size_t>(layers) * directions * each_has,
                "weights of a recurrent layer (projections are not known)"))
        return;
    std::vector<TensorRef> states;
    if (first->is(Value::Type::list))
        for (const Value& each : *first->items) states.push_back(tensor_of(each));
    else
        states.push_back(tensor_of(*first));
    if (!expect(states.size() == (is_lstm ? 2 : 1), "first states")) return;
    if (batch_first) x = swapped(x, 0, 1);
    const Size steps = x->sizes[0];
    const Size batch = x->sizes[1];
    const auto part_of = [&](std::int64_t layer, std::size_t direction, std::size_t which) {
        const std::size_t place = (static_cast<std::size_t>(layer) * directions + direction) * each_has + which;
        return tensor_of((*given->items)[place]);
    };
    const TensorRef hidden_weight = part_of(0, 0, 1);
    if (!expect(hidden_weight->rank() == 2 && hidden_weight->sizes[1].is_fixed() &&
                    hidden_weight->sizes[0] == times(hidden_weight->sizes[1], {gates, 0}),
                "weights of a recurrent layer"))
        return;
    const std::int64_t size = hidden_weight->sizes[1].fixed;
    const auto reordered = [&](const TensorRef& weight) {
        std::vector<TensorRef> parts;
        if (!expect(weight->rank() >= 1 && weight->sizes[0] == Size{gates * size, 0}, "weights of a recurrent layer"))
            return weight;
        for (const std::int64_t gate : order) parts.push_back(sliced(weight, 0, gate * size, (gate + 1) * size));
        return joined(std::move(parts), 0);
    };
    std::vector<std::vector<TensorRef>> last(states.size());
    for (std::int64_t layer = 0; layer < layers && !failed(); ++layer) {
        std::vector<std::vector<TensorRef>> all(biases ? 3 : 2);
        for (std::size_t direction = 0; direction < directions && !failed(); ++direction) {
            all[0].push_back(unsqueezed(reordered(part_of(layer, direction, 0)), 0));
            all[1].push_back(unsqueezed(reordered(part_of(layer, direction, 1)), 0));
            if (!biases) continue;
            const TensorRef input_bias = reordered(part_of(layer, direction, 2));
            const TensorRef hidden_bias = reordered(part_of(layer, direction, 3));
            all[2].push_back(unsqueezed(joined({input_bias, hidden_bias}, 0), 0));
        }
        Names inputs{use(x)};
        for (std::vector<TensorRef>& each : all) inputs.push_back(use(joined(std::move(each), 0)));
        if (!biases) inputs.emplace_back();
        inputs.emplace_back();
        for (const TensorRef& state : states) {
            const auto begin = layer * static_cast<std::int64_t>(directions);
            if (!expect(state->rank() == 3, "first states")) return;
            inputs.push_back(state->zeros
                                 ? std::string()
                                 : use(sliced(state, 0, begin, begin + static_cast<std::int64_t>(directions))));
        }
        while (inputs.back().empty()) inputs.pop_back();
        onnx::NodeProto& result = node(is_lstm ? "LSTM" : "GRU", inputs, is_lstm ? 3 : 2);
        set(result, "hidden_size", size);
        if (two) set_text(result, "direction", "bidirectional");
        if (!is_lstm) set(result, "linear_before_reset", 1);
        const Size sides{static_cast<std::int64_t>(directions), 0};
        for (std::size_t i = 0; i < states.size(); ++i)
            last[i].push_back(made(result.output(static_cast<int>(i) + 1), {sides, batch, {size, 0}}));
        x = made(result.output(0), {steps, sides, batch, {size, 0}});
        x = two ? reshaped(permuted(x, {0, 2, 1, 3}), {steps, batch, times(sides, {size, 0})}) : squeezed(x, {1});
        if (layer + 1 < layers) x = dropped(x, rate, training);
    }
    if (failed()) return;
    give(batch_first ? swapped(x, 0, 1) : x);
    for (std::size_t i = 0; i < last.size(); ++i) give(joined(std::move(last[i]), 0), i + 1);
}

}  // namespace quern::compute::torchscript
