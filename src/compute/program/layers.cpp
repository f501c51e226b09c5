#include "compute/program/layers.h"

#include "compute/program/composite.h"

namespace quern::compute::program {
namespace {

constexpr float kNormEpsilon = 1e-5F;
constexpr float kRunningShare = 0.1F;

class Model {
public:
    Model(Builder& b, const LayersPass& pass, std::vector<Parameter>& parameters)
        : b_(b), pass_(pass), parameters_(parameters) {}

    Value run(const std::vector<Layer>& layers, Value x, const std::string& prefix, std::size_t depth) {
        if (depth > kMaxLayerDepth) return refuse("layers.too_deep", prefix);
        for (std::size_t i = 0; i < layers.size() && !b_.failed(); ++i) {
            if (++count_ > kMaxLayerCount) return refuse("layers.too_many", std::to_string(kMaxLayerCount));
            name_ = prefix + std::to_string(i);
            depth_ = depth;
            x = std::visit([&](const auto& layer) { return apply(layer, x); }, layers[i]);
        }
        return b_.failed() ? Value{} : x;
    }

private:
    Value refuse(std::string_view name, std::string detail) {
        b_.set_error(name, std::move(detail));
        return {};
    }

    Value slot(const char* part, const Shape& shape, Initializer initializer) {
        return b_.slot("model." + name_ + "." + part, DType::f32, shape, initializer, vm::tensor::kSlotParameter);
    }
    Value parameter(const char* part, const Shape& shape, Initializer initializer, bool decay) {
        const Value value = slot(part, shape, initializer);
        parameters_.push_back({"model." + name_ + "." + part, value, decay});
        return value;
    }
    Value weight(const Shape& shape) {
        const float root = canonical(ElementOp::sqrt, 2.0F / static_cast<float>(shape.rows()));
        return parameter("weight", shape, Initializer::normal(root), true);
    }
    Value vector(const char* part, std::uint32_t size, float value) {
        return parameter(part, vector_shape(size), Initializer::constant(value), false);
    }
    struct Affine {
        Value gain;
        Value bias;
    };
    // Of a norm, one of each for each channel of x.
    Affine affine(Value x) {
        const std::uint32_t channels = b_.shape(x).columns();
        Affine result;
        result.gain = vector("weight", channels, 1.0F);
        result.bias = vector("bias", channels, 0.0F);
        return result;
    }

    Value apply(const ConvLayer& layer, Value x) {
        const std::uint32_t channels = b_.shape(x).columns();
        const std::uint64_t taps = std::uint64_t{layer.window.kernel.height} * layer.window.kernel.width;
        if (layer.groups == 0 || channels % layer.groups != 0 || layer.channels % layer.groups != 0)
            return refuse("image.bad_groups", name_ + ": " + std::to_string(layer.groups) + " groups of " +
                                                  std::to_string(channels) + " channels, for " +
                                                  std::to_string(layer.channels));
        const std::uint64_t inputs = taps * (channels / layer.groups);
        if (inputs == 0 || inputs > 0x7fffffff) return refuse("image.bad_window", name_);
        const auto kernel =
            weight(Shape{{1, layer.groups, static_cast<std::uint32_t>(inputs), layer.channels / layer.groups}});
        const auto bias = layer.bias ? vector("bias", layer.channels, 0.0F) : Value{};
        return conv2d(b_, x, kernel, bias, layer.window, layer.groups);
    }
    Value apply(const LinearLayer& layer, Value x) {
        const Shape shape = b_.shape(x);
        if (shape.leading() != 1)
            return refuse("layers.bad_input", name_ + " wants rows, is given " + shape.to_string());
        const auto matrix = weight(matrix_shape(shape.columns(), layer.size));
        const auto bias = layer.bias ? vector("bias", layer.size, 0.0F) : Value{};
        return linear(b_, x, matrix, bias);
    }
    Value apply(const BatchNormLayer&, Value x) {
        const std::uint32_t channels = b_.shape(x).columns();
        const auto [gain, bias] = affine(x);
        const auto mean = slot("running_mean", vector_shape(channels), Initializer::zeros());
        const auto variance = slot("running_var", vector_shape(channels), Initializer::constant(1.0F));
        if (!pass_.training) return normalise(b_, x, mean, variance, gain, bias, kNormEpsilon);
        const auto normed = batch_norm(b_, x, gain, bias, kNormEpsilon);
        if (b_.failed()) return {};
        const std::uint64_t rows = b_.shape(x).elements() / channels;
        const auto count = static_cast<float>(rows);
        keep(mean, normed.mean, 1.0F);
        keep(variance, normed.variance, rows > 1 ? count / (count - 1) : 1.0F);
        return normed.result;
    }
    // old + (new * factor - old) / 10.
    void keep(Value running, Value now, float factor) {
        const auto scaled = b_.mul(now, b_.constant(factor));
        const auto change = b_.sub(scaled, running);
        b_.update(running, b_.fma(change, b_.constant(kRunningShare), running));
    }
    Value apply(const GroupNormLayer& layer, Value x) {
        const auto [gain, bias] = affine(x);
        return group_norm(b_, x, gain, bias, layer.groups, kNormEpsilon);
    }
    Value apply(const LayerNormLayer&, Value x) {
        const auto [gain, bias] = affine(x);
        return layer_norm(b_, x, gain, bias, kNormEpsilon);
    }
    Value apply(Activation activation, Value x) {
        switch (activation) {
            case Activation::relu:
                return relu(b_, x);
            case Activation::gelu:
                return gelu(b_, x);
            case Activation::silu:
                return silu(b_, x);
            case Activation::tanh:
                return b_.tanh(x);
            case Activation::sigmoid:
                return b_.sigmoid(x);
        }
        return {};
    }
    Value apply(const PoolLayer& layer, Value x) {
        return layer.kind == PoolLayer::Kind::max ? max_pool2d(b_, x, layer.window) : avg_pool2d(b_, x, layer.window);
    }
    Value apply(const GlobalPoolLayer&, Value x) { return global_avg_pool2d(b_, x); }
    Value apply(const FlattenLayer&, Value x) {
        const Shape shape = b_.shape(x);
        const std::uint64_t size = shape.elements() / shape.dims[0];
        return b_.reshape(x, matrix_shape(shape.dims[0], static_cast<std::uint32_t>(size)));
    }
    Value apply(const DropoutLayer& layer, Value x) {
        if (!pass_.training || layer.rate == 0.0F) return x;
        if (!pass_.key.valid()) return refuse("layers.no_key", name_);
        // Each use of a step has a counter of its own: the last word of the key counts them.
        const auto uses = b_.constant_i32(static_cast<std::int32_t>(++drops_));
        const auto word = b_.iota(vector_shape(4), 3);
        const auto last = b_.ieq(word, b_.constant_i32(3));
        const auto offset = b_.imul(last, uses);
        return dropout(b_, x, b_.iadd(pass_.key, offset), layer.rate);
    }
    Value apply(const ResidualLayer& layer, Value x) {
        const std::string name = name_;
        const std::size_t depth = depth_ + 1;
        const auto inner = run(layer.inner, x, name + ".inner.", depth);
        const auto shortcut = run(layer.shortcut, x, name + ".shortcut.", depth);
        if (b_.failed()) return {};
        if (b_.shape(inner) != b_.shape(shortcut))
            return refuse("layers.bad_residual",
                          name + ": " + b_.shape(inner).to_string() + " and " + b_.shape(shortcut).to_string());
        return b_.add(inner, shortcut);
    }

    Builder& b_;
    const LayersPass& pass_;
    std::vector<Parameter>& parameters_;
    std::string name_;  // of the layer that is applied
    std::size_t depth_ = 0;
    std::size_t count_ = 0;
    std::uint32_t drops_ = 0;
};

}  // namespace

Value apply_layers(Builder& b, const std::vector<Layer>& layers, Value x, const LayersPass& pass,
                   std::vector<Parameter>& parameters) {
    return Model(b, pass, parameters).run(layers, x, "", 0);
}

}  // namespace quern::compute::program
