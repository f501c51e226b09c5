#include "compute/program/layers.h"

#include "compute/program/composite.h"
#include "compute/program/quantized.h"

namespace quern::compute::program {
namespace {

constexpr float kNormEpsilon = 1e-5F;
constexpr float kRunningShare = 0.1F;

class Model {
public:
    Model(Builder& b, const LayersPass& pass, LayersSlots& slots)
        : b_(b), pass_(pass), slots_(slots), bytes_(pass.key, kUsesOfBytes) {}

    Features run(const std::vector<Layer>& layers, Features x, const std::string& prefix, std::size_t depth) {
        if (depth > kMaxLayerDepth) return refuse("layers.too_deep", prefix);
        for (std::size_t i = 0; i < layers.size() && !b_.failed(); ++i) {
            if (++count_ > kMaxLayerCount) return refuse("layers.too_many", std::to_string(kMaxLayerCount));
            if (depth == 0) b_.cut();
            name_ = prefix + std::to_string(i);
            depth_ = depth;
            x = std::visit([&](const auto& layer) { return apply(layer, x); }, layers[i]);
        }
        if (depth == 0) b_.cut();
        return b_.failed() ? Features{} : x;
    }

private:
    Features refuse(std::string_view name, std::string detail) {
        b_.set_error(name, std::move(detail));
        return {};
    }
    Features refuse_rows(const Features& x) {
        return refuse("layers.bad_input", name_ + " wants images, is given rows " + b_.shape(x.rows).to_string());
    }
    static Images images_of(const Features& x) { return {x.rows, x.count, *x.image}; }
    static Features of_images(const Images& x) { return {x.rows, x.count, x.extent}; }
    // The same places or rows with other numbers.
    static Features with(const Features& x, Value rows) { return {rows, x.count, x.image}; }

    Value slot(const char* part, const Shape& shape, Initializer initializer) {
        return b_.slot("model." + name_ + "." + part, DType::f32, shape, initializer, vm::tensor::kSlotParameter);
    }
    Value parameter(const char* part, const Shape& shape, Initializer initializer, bool decay) {
        const Value value = slot(part, shape, initializer);
        slots_.parameters.push_back({"model." + name_ + "." + part, value, decay});
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

    Features apply(const ConvLayer& layer, const Features& x) {
        if (!x.image) return refuse_rows(x);
        const std::uint32_t channels = b_.shape(x.rows).columns();
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
        return of_images(conv2d(b_, images_of(x), kernel, bias, layer.window, layer.groups));
    }
    Features apply(const LinearLayer& layer, const Features& x) {
        if (x.image) return refuse("layers.bad_input", name_ + " wants rows, is given images");
        const auto matrix = weight(matrix_shape(b_.shape(x.rows).columns(), layer.size));
        const auto bias = layer.bias ? vector("bias", layer.size, 0.0F) : Value{};
        const auto product = bytes_.matmul(b_, layer.precision, x.rows, matrix);
        return with(x, bias.valid() ? b_.add(product, bias) : product);
    }
    Features apply(const BatchNormLayer&, const Features& x) {
        const Shape shape = b_.shape(x.rows);
        const auto [gain, bias] = affine(x.rows);
        const auto mean = slot("running_mean", vector_shape(shape.columns()), Initializer::zeros());
        const auto variance = slot("running_var", vector_shape(shape.columns()), Initializer::constant(1.0F));
        if (!pass_.training) return with(x, normalise(b_, x.rows, mean, variance, gain, bias, kNormEpsilon));
        const auto normed = batch_norm(b_, x.rows, gain, bias, kNormEpsilon);
        if (b_.failed()) return {};
        const auto count = static_cast<float>(shape.rows());
        const float unbiased = shape.rows() > 1 ? count / (count - 1) : 1.0F;
        slots_.statistics.push_back({mean, moved_towards(b_, mean, normed.mean, 1.0F, kRunningShare)});
        slots_.statistics.push_back({variance, moved_towards(b_, variance, normed.variance, unbiased, kRunningShare)});
        return with(x, normed.result);
    }
    Features apply(const GroupNormLayer& layer, const Features& x) {
        const auto [gain, bias] = affine(x.rows);
        const Shape rows = b_.shape(x.rows);
        const auto images = b_.reshape(x.rows, Shape{{x.count, 1, rows.rows() / x.count, rows.columns()}});
        return with(x, b_.reshape(group_norm(b_, images, gain, bias, layer.groups, kNormEpsilon), rows));
    }
    Features apply(const LayerNormLayer&, const Features& x) {
        const auto [gain, bias] = affine(x.rows);
        return with(x, layer_norm(b_, x.rows, gain, bias, kNormEpsilon));
    }
    Features apply(Activation activation, const Features& x) {
        switch (activation) {
            case Activation::relu:
                return with(x, relu(b_, x.rows));
            case Activation::gelu:
                return with(x, gelu(b_, x.rows));
            case Activation::silu:
                return with(x, silu(b_, x.rows));
            case Activation::tanh:
                return with(x, b_.tanh(x.rows));
            case Activation::sigmoid:
                return with(x, b_.sigmoid(x.rows));
            case Activation::softplus:
                return with(x, softplus(b_, x.rows));
        }
        return {};
    }
    Features apply(const PoolLayer& layer, const Features& x) {
        if (!x.image) return refuse_rows(x);
        return of_images(layer.kind == PoolLayer::Kind::max ? max_pool2d(b_, images_of(x), layer.window)
                                                            : avg_pool2d(b_, images_of(x), layer.window));
    }
    Features apply(const GlobalPoolLayer&, const Features& x) {
        if (!x.image) return refuse_rows(x);
        return {global_avg_pool2d(b_, images_of(x)), x.count, {}};
    }
    Features apply(const FlattenLayer&, const Features& x) {
        const std::uint64_t size = b_.shape(x.rows).elements() / x.count;
        return {b_.reshape(x.rows, matrix_shape(x.count, static_cast<std::uint32_t>(size))), x.count, {}};
    }
    Features apply(const DropoutLayer& layer, const Features& x) {
        if (!pass_.training || layer.rate == 0.0F) return x;
        if (!pass_.key.valid()) return refuse("layers.no_key", name_);
        return with(x, dropout(b_, x.rows, key_of_use(b_, pass_.key, ++drops_), layer.rate));
    }
    Features apply(const ResidualLayer& layer, const Features& x) {
        const std::string name = name_;
        const std::size_t depth = depth_ + 1;
        const auto inner = run(layer.inner, x, name + ".inner.", depth);
        const auto shortcut = run(layer.shortcut, x, name + ".shortcut.", depth);
        if (b_.failed()) return {};
        const auto extent = [](const Features& side) { return side.image.value_or(Extent2d{0, 0}); };
        if (b_.shape(inner.rows) != b_.shape(shortcut.rows) || extent(inner).height != extent(shortcut).height ||
            extent(inner).width != extent(shortcut).width)
            return refuse("layers.bad_residual", name + ": " + b_.shape(inner.rows).to_string() + " and " +
                                                     b_.shape(shortcut.rows).to_string());
        return with(inner, b_.add(inner.rows, shortcut.rows));
    }

    Builder& b_;
    const LayersPass& pass_;
    LayersSlots& slots_;
    ByteProducts bytes_;
    std::string name_;  // of the layer that is applied
    std::size_t depth_ = 0;
    std::size_t count_ = 0;
    std::uint32_t drops_ = 0;
};

}  // namespace

Features apply_layers(Builder& b, const std::vector<Layer>& layers, const Features& x, const LayersPass& pass,
                      LayersSlots& slots) {
    return Model(b, pass, slots).run(layers, x, "", 0);
}

}  // namespace quern::compute::program
