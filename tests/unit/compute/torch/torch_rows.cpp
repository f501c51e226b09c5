#include "unit/compute/torch/torch_rows.h"

#include <gtest/gtest.h>

#include "base/fs.h"
#include "compute/program/onnx_file.h"
#include "vm/tensor/arith/random.h"

namespace quern::compute::torch_backend::test {

using namespace quern::compute::program;

namespace {

using Type = OptimizerConfig::Type;
using Schedule = OptimizerConfig::Schedule;

constexpr std::uint32_t kContext = 16;
constexpr std::uint32_t kVocabulary = 40;
constexpr std::uint32_t kExamples = 64;

TransformerSpec small_transformer() { return {1, 32, 4, kContext, 2, kVocabulary}; }

TransformerSpec llama() {
    TransformerSpec spec = small_transformer();
    spec.positions = TransformerSpec::Positions::rotary;
    spec.norm = TransformerSpec::Norm::rms;
    spec.activation = TransformerSpec::Activation::swiglu;
    spec.kv_heads = 2;
    spec.dropout = 0.1F;
    return spec;
}

TransformerSpec tied() {
    TransformerSpec spec = small_transformer();
    spec.tied = true;
    spec.positions = TransformerSpec::Positions::none;
    spec.activation = TransformerSpec::Activation::silu;
    return spec;
}

TransformerSpec experts(std::uint32_t top) {
    TransformerSpec spec = small_transformer();
    spec.experts.count = 4;
    spec.experts.top = top;
    return spec;
}

TransformerSpec in_bytes(TransformerSpec::Activation activation) {
    TransformerSpec spec = small_transformer();
    spec.precision = TransformerSpec::Precision::int8;
    spec.activation = activation;
    return spec;
}

TransformerSpec adapters() {
    TransformerSpec spec = small_transformer();
    spec.adapter_rank = 4;
    return spec;
}

// Rows of eight numbers, from which as many are to be told.
LayersSpec perceptron(LayersSpec::Loss loss) {
    LayersSpec spec;
    spec.channels = 8;
    spec.scale = 1.0F / 256;
    spec.outputs = 8;
    spec.loss = loss;
    spec.layers = {LinearLayer{24}, LayerNormLayer{}, Activation::softplus, LinearLayer{8}};
    return spec;
}

LayersSpec perceptron_in_bytes() {
    LayersSpec spec = perceptron(LayersSpec::Loss::mean_squared_error);
    for (Layer& layer : spec.layers)
        if (auto* const linear = std::get_if<LinearLayer>(&layer)) linear->precision = Precision::int8;
    return spec;
}

TransformerSpec experts_in_bytes() {
    TransformerSpec spec = experts(2);
    spec.layer_precision = {{"h.0.experts", Precision::int8}};
    return spec;
}

// Images of eight by eight, of three classes. No bias before a norm, which takes a part of it out again.
LayersSpec group_normed() {
    LayersSpec spec;
    spec.input = LayersSpec::Input::image;
    spec.image = {8, 8};
    spec.channels = 3;
    spec.scale = 1.0F / 128;
    spec.shift = -1.0F;
    spec.outputs = 3;
    spec.layers = {ConvLayer{16, {{3, 3}, {1, 1}, {1, 1}, {1, 1}}, 1, false},
                   GroupNormLayer{4},
                   Activation::silu,
                   ConvLayer{16, {{3, 3}, {2, 2}, {1, 1}, {1, 1}}, 1, false},
                   GroupNormLayer{2},
                   Activation::silu,
                   GlobalPoolLayer{},
                   LinearLayer{3}};
    return spec;
}

// A file that PyTorch wrote (tests/vectors/onnx), of rows or of tokens.
LayersSpec imported(const std::string& name, LayersSpec::Input input, std::uint32_t size, std::uint32_t outputs) {
    LayersSpec spec;
    spec.input = input;
    spec.channels = size;
    spec.scale = input == LayersSpec::Input::row ? 1.0F / 128 : 1.0F;
    spec.outputs = outputs;
    spec.network_file = name + ".onnx";
    const auto file = fs::read_file(std::string(QUERN_ONNX_VECTORS) + "/" + spec.network_file, 1U << 20);
    auto network = file ? read_onnx(*file) : Expected<Network>(fail("test.no_file", name));
    EXPECT_TRUE(network) << network.error().to_string();
    if (network) spec.network = std::make_shared<const Network>(std::move(*network));
    return spec;
}

LayersSpec in_bytes(LayersSpec spec) {
    spec.training.precision = Precision::int8;
    return spec;
}

LayersSpec residual_network() {
    LayersSpec spec = imported("resnet", LayersSpec::Input::image, 3, 4);
    spec.image = {16, 16};
    spec.scale = 1.0F / 128;
    return spec;
}

OptimizerConfig optimizer(Type type, float rate, Schedule schedule = Schedule::linear) {
    OptimizerConfig config;
    config.type = type;
    config.learning_rate = rate;
    config.weight_decay = 0.01F;
    config.clip_norm = 1.0F;
    config.warmup = 10;
    config.total_steps = 300;
    config.schedule = schedule;
    return config;
}

std::uint32_t noise(std::uint32_t i) { return vm::tensor::arith::philox_word(i, 0, 0, 1, 2); }

// Noise, of which each third element is the larger the higher the number of the class is; of tokens it is the class's.
vm::tensor::MemoryData classes_of(const LayersSpec& model) {
    Bytes inputs;
    Bytes classes;
    const bool of_tokens = model.input == LayersSpec::Input::tokens;
    for (std::uint32_t i = 0; i < kExamples; ++i) {
        classes.push_back(static_cast<std::uint8_t>(i % model.outputs));
        for (std::uint32_t e = 0; e < model.input_size(); ++e) {
            const std::uint32_t word = noise(static_cast<std::uint32_t>(inputs.size()));
            const std::uint32_t number = e % 3 != 0 ? word % 128 : word % 64 + 192 * classes.back() / model.outputs;
            const std::uint32_t token = e % 3 != 0 ? word % 30 : classes.back();
            inputs.push_back(static_cast<std::uint8_t>(of_tokens ? token : number));
        }
    }
    return vm::tensor::MemoryData({inputs, classes});
}

}  // namespace

std::vector<Row> rows() {
    using Loss = LayersSpec::Loss;
    using Input = LayersSpec::Input;
    using Of = TransformerSpec::Activation;
    const OptimizerConfig adamw = optimizer(Type::adamw, 3e-3F, Schedule::cosine);
    // A difference in rounding turns a byte now and then, by a whole strip's unit, and so on from there.
    const Bounds bytes{0.1, 1e-3, 0.15};
    // The sign of a moment that is nothing but rounding moves its parameter by a whole rate.
    const Bounds signs{1e-4, 0.05, 0.05};
    return {
        {"rotary_rms_swiglu_two_heads_of_keys_dropout", llama(), adamw, {}, 1.8},
        {"tied_no_positions_silu_adam", tied(), optimizer(Type::adam, 3e-3F), {}, 1.8},
        {"four_experts_one_a_token", experts(1), adamw, {}, 1.8},
        {"four_experts_two_a_token", experts(2), adamw, {}, 1.8},
        {"low_rank_adapters", adapters(), adamw, {}, 3.0},
        {"in_bytes", in_bytes(Of::gelu), adamw, bytes, 1.8},
        {"in_bytes_swiglu", in_bytes(Of::swiglu), adamw, bytes, 1.8},
        {"mean_square_lion", perceptron(Loss::mean_squared_error), optimizer(Type::lion, 1e-2F), signs, 0.15},
        {"logits_of_bits_sgd", perceptron(Loss::binary_cross_entropy), optimizer(Type::sgd, 0.5F), {}, 0.55},
        {"layers_in_bytes", perceptron_in_bytes(), adamw, bytes, 0.2},
        {"experts_in_bytes", experts_in_bytes(), adamw, bytes, 1.8},
        {"accumulated_over_four_batches", small_transformer(), adamw, {}, 1.8, 4},
        {"group_norm", group_normed(), adamw, {}, 0.8},
        {"onnx_bidirectional_gru", imported("gru", Input::row, 30, 2), adamw, {}, 0.5},
        // A bias of keys has no gradient but rounding, of which Adam would make steps of full size.
        {"onnx_bidirectional_encoder",
         imported("encoder", Input::tokens, 12, 3),
         optimizer(Type::momentum, 0.05F),
         {},
         0.8},
        {"onnx_encoder_in_bytes", in_bytes(imported("encoder", Input::tokens, 12, 3)), optimizer(Type::momentum, 0.05F),
         bytes, 0.8},
        {"onnx_residual_network", residual_network(), optimizer(Type::momentum, 0.02F), {}, 1.0},
    };
}

Architecture architecture_of(const Row& row) {
    Architecture architecture;
    architecture.model = row.model;
    architecture.batch = 8;
    architecture.accumulate = row.accumulate;
    architecture.optimizer = row.optimizer;
    if (architecture.is_transformer()) {
        architecture.data[0].elements = 100 * kContext + 1;
    } else if (architecture.layers().has_classes()) {
        architecture.data = {{vm::tensor::DataType::u8, kExamples * architecture.layers().input_size()},
                             {vm::tensor::DataType::u8, kExamples}};
    } else {
        const bool of_bits = architecture.layers().loss == LayersSpec::Loss::binary_cross_entropy;
        architecture.data = {{vm::tensor::DataType::u8, 8 * 64},
                             {of_bits ? vm::tensor::DataType::u8 : vm::tensor::DataType::f32, 8 * 64}};
    }
    return architecture;
}

// Each token follows from the one before and a choice of three; targets of rows from the rows.
vm::tensor::MemoryData data_of(const Architecture& architecture) {
    if (!architecture.is_transformer() && architecture.layers().has_classes()) return classes_of(architecture.layers());
    Bytes inputs{1};
    if (architecture.is_transformer()) {
        while (inputs.size() < architecture.data[0].elements)
            inputs.push_back(static_cast<std::uint8_t>(
                (inputs.back() * 5U + noise(static_cast<std::uint32_t>(inputs.size())) % 3) % kVocabulary));
        return vm::tensor::MemoryData({inputs});
    }
    inputs.clear();
    Bytes targets;
    for (std::uint32_t i = 0; i < architecture.data[0].elements; ++i) {
        inputs.push_back(static_cast<std::uint8_t>(noise(i)));
        const bool large = inputs.back() > 127;
        if (architecture.data[1].type == vm::tensor::DataType::u8) {
            targets.push_back(large ? 1 : 0);
            continue;
        }
        const auto word = __builtin_bit_cast(std::uint32_t, large ? 0.5F : -0.5F);
        for (unsigned shift = 0; shift < 32; shift += 8) targets.push_back(static_cast<std::uint8_t>(word >> shift));
    }
    return vm::tensor::MemoryData({inputs, targets});
}

}  // namespace quern::compute::torch_backend::test
