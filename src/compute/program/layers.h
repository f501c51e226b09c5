// Models as trees of layers over images and rows: multi-layer perceptrons, convolutional and residual networks. Used by
// model builders and tests. Plain values and functions on a Builder; thread-safe.
//
// Parameters are slots named as PyTorch names those
// of nn.Sequential: "model.0.weight", of a residual layer "model.2.inner.0.weight" and "model.2.shortcut.0.weight".
// Tensors lie in tiles of 32 by 32 words of the last two axes, so channels below 32 cost what 32 do, in memory and in
// what a step's trace may be (program.trace_too_large). Weights begin normally distributed with variance 2 / fan-in (He
// et al., arXiv 1502.01852), biases with +0.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compute/program/image.h"
#include "compute/program/optimizer.h"
#include "compute/program/precision.h"

namespace quern::compute::program {

struct ConvLayer {  // weight and bias as conv2d() wants them
    std::uint32_t channels = 1;
    Window2d window;
    std::uint32_t groups = 1;
    bool bias = true;
};
struct LinearLayer {  // weight [1,1,inputs,size]
    std::uint32_t size = 1;
    bool bias = true;
    Precision precision = Precision::f32;
};
// "weight" and "bias" [1,1,1,channels]. Batch norm keeps "running_mean" and "running_var", a tenth of the batch's mean
// and unbiased variance each step, as PyTorch does: slots that the model is exported with and nothing is trained by.
struct BatchNormLayer {};
struct GroupNormLayer {
    std::uint32_t groups = 1;
};
struct LayerNormLayer {};  // over the last axis
enum class Activation : std::uint8_t { relu, gelu, silu, tanh, sigmoid, softplus };
struct PoolLayer {
    enum class Kind : std::uint8_t { max, average } kind = Kind::max;
    Window2d window;
};
struct GlobalPoolLayer {};  // images to rows: the mean over all places
struct FlattenLayer {};     // images to rows: row by row, channels last
struct DropoutLayer {
    float rate = 0.5F;
};
struct ResidualLayer;
using Layer = std::variant<ConvLayer, LinearLayer, BatchNormLayer, GroupNormLayer, LayerNormLayer, Activation,
                           PoolLayer, GlobalPoolLayer, FlattenLayer, DropoutLayer, ResidualLayer>;
// inner(x) + shortcut(x); without layers a shortcut is x itself.
struct ResidualLayer {
    std::vector<Layer> inner;
    std::vector<Layer> shortcut;
};

inline constexpr std::size_t kMaxLayerDepth = 8;     // residual layers inside one another
inline constexpr std::size_t kMaxLayerCount = 4096;  // all together

struct SlotUpdate {
    Value slot;
    Value next;
};
struct LayersPass {
    bool training = true;  // else norms take their running statistics, and nothing is dropped
    // i32 [1,1,1,4] for dropout and products in bytes, another one each step; needed where training drops or gradients
    // of such products are taken.
    Value key{};
};
// Uses of the key from here on are those of products in bytes; dropout counts its own from 1.
inline constexpr std::uint32_t kUsesOfBytes = 1U << 30;
// What layers declare: what is trained, and in training how running statistics go on.
struct LayersSlots {
    std::vector<Parameter> parameters;
    std::vector<SlotUpdate> statistics;
};
// What goes from layer to layer: images as image.h has them, or rows [1,1,count,size].
struct Features {
    Value rows;
    std::uint32_t count = 0;
    std::optional<Extent2d> image;
};
// x through the layers, one after the other; appends to `slots`. The builder's error: layers.bad_input (a linear layer
// of images, a window of rows), layers.bad_residual (shapes that cannot be added), layers.too_deep, layers.too_many,
// layers.no_key, and those of the ops.
[[nodiscard]] Features apply_layers(Builder& b, const std::vector<Layer>& layers, const Features& x,
                                    const LayersPass& pass, LayersSlots& slots);

}  // namespace quern::compute::program
