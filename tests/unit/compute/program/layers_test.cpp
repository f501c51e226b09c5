// Models of layers: what they declare, that they learn, and what they refuse.
#include "compute/program/layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compute/program/composite.h"
#include "compute/program/initial_state.h"
#include "compute/program/optimizer.h"
#include "unit/compute/program/double_evaluator.h"

namespace quern::compute::program {
namespace {

using quern::test::step_in_double;
using quern::test::to_doubles;
using vm::tensor::State;
using vm::tensor::Tensor;

constexpr std::uint32_t kImages = 96;
constexpr std::uint32_t kSide = 8;
constexpr std::uint32_t kClasses = 4;
const Tensor kSeed{DType::i32, vector_shape(4), {0x01234567, 0x89abcdef, 3, 4}};

Window2d square(std::uint32_t kernel, std::uint32_t stride, std::uint32_t padding) {
    return {{kernel, kernel}, {stride, stride}, {padding, padding}, {1, 1}};
}

// A bright spot in one of four quarters, on noise: images of kSide x kSide bytes, and which quarter.
struct Spots {
    Bytes images;
    Bytes labels;
};
Spots spots() {
    Spots result;
    std::uint32_t noise = 12345;
    const auto next = [&noise] { return (noise = noise * 1664525 + 1013904223) >> 24; };
    for (std::uint32_t i = 0; i < kImages; ++i) {
        const std::uint32_t label = next() % kClasses;
        const std::uint32_t row = label / 2 * 4 + next() % 3;
        const std::uint32_t column = label % 2 * 4 + next() % 3;
        for (std::uint32_t y = 0; y < kSide; ++y)
            for (std::uint32_t x = 0; x < kSide; ++x) {
                const bool bright = y - row < 2 && x - column < 2;
                result.images.push_back(static_cast<std::uint8_t>(bright ? 200 + next() % 55 : next() % 100));
            }
        result.labels.push_back(static_cast<std::uint8_t>(label));
    }
    return result;
}

// A step on `batch` images in the beacon's order: classes by cross-entropy. Loss in slot "loss".
Expected<BuiltProgram> classifier(const std::vector<Layer>& layers, std::uint32_t batch, OptimizerConfig optimizer) {
    Builder b({{vm::tensor::DataType::u8, kImages * kSide * kSide}, {vm::tensor::DataType::u8, kImages}});
    const auto step = b.slot("step", DType::i32, scalar_shape(), Initializer::zeros());
    const auto loss_slot = b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros());
    b.set_loss_slot(loss_slot);
    const auto first = b.imul(step, b.constant_i32(static_cast<std::int32_t>(batch)));
    const auto place = b.iadd(b.iota(matrix_shape(batch, 1), 2), first);
    const auto index = b.elementwise(ElementOp::irem, {place, b.constant_i32(kImages)});
    const auto bytes = b.to_f32(b.window(index, 0, kSide * kSide, kSide * kSide));
    const auto scaled = b.mul(bytes, b.constant(1.0F / 128));
    const auto images = b.reshape(b.sub(scaled, b.constant(1.0F)), Shape{{batch, kSide, kSide, 1}});
    const auto labels = b.window(index, 1, 1, 1);
    std::vector<Parameter> parameters;
    const auto seed = b.seed();
    const auto logits = apply_layers(b, layers, images, {true, b.iadd(seed, step)}, parameters);
    const auto loss = cross_entropy(b, logits, labels);
    const auto trained = parameter_gradients(b, loss, parameters);
    b.update(loss_slot, loss);
    append_optimizer(b, optimizer, trained, step);
    b.update(step, b.iadd(step, b.constant_i32(1)));
    return b.finish();
}

const std::vector<Layer> kResidual{
    ConvLayer{24, square(3, 1, 1)},
    BatchNormLayer{},
    Activation::relu,
    PoolLayer{PoolLayer::Kind::max, square(2, 2, 0)},
    ResidualLayer{{ConvLayer{32, square(3, 2, 1), 2, false}, GroupNormLayer{4}, Activation::silu},
                  {ConvLayer{32, square(1, 2, 0)}}},
    GlobalPoolLayer{},
    DropoutLayer{0.1F},
    LinearLayer{kClasses},
};
const std::vector<Layer> kPerceptron{FlattenLayer{},   LinearLayer{32},     LayerNormLayer{},
                                     Activation::gelu, LinearLayer{16},     Activation::tanh,
                                     LinearLayer{8},   Activation::sigmoid, LinearLayer{kClasses}};

double loss_of(const BuiltProgram& built, const State& state) {
    return static_cast<double>(__builtin_bit_cast(float, state[built.program.header.loss_slot].words[0]));
}

TEST(Layers, learn_where_a_spot_is) {
    const Spots data = spots();
    const vm::tensor::MemoryData source({data.images, data.labels});
    OptimizerConfig optimizer;
    optimizer.learning_rate = 1e-2F;
    for (const auto* layers : {&kResidual, &kPerceptron}) {
        const auto built = classifier(*layers, 16, optimizer);
        ASSERT_TRUE(built) << built.error().to_string();
        State state = initial_state(*built, 7);
        vm::tensor::Executor executor(built->program, vm::tensor::arith::best_backend(), nullptr);
        executor.step(state, source, kSeed);
        EXPECT_NEAR(loss_of(*built, state), std::log(kClasses), 0.8);
        double last = 0;
        for (int step = 1; step < 60; ++step) {
            executor.step(state, source, kSeed);
            if (step >= 54) last += loss_of(*built, state) / 6;
        }
        EXPECT_LT(last, 0.25) << "of " << std::log(kClasses);
    }
}

TEST(Layers, agree_with_double_precision) {
    const Spots data = spots();
    const vm::tensor::MemoryData source({data.images, data.labels});
    OptimizerConfig plain;
    plain.type = OptimizerConfig::Type::sgd;
    plain.learning_rate = 0.05F;
    for (const auto* layers : {&kResidual, &kPerceptron}) {
        const auto built = classifier(*layers, 4, plain);
        ASSERT_TRUE(built) << built.error().to_string();
        State state = initial_state(*built, 7);
        auto reference = to_doubles(state);
        vm::tensor::Executor executor(built->program, vm::tensor::arith::Backend::scalar, nullptr);
        for (int step = 0; step < 3; ++step) {
            executor.step(state, source, kSeed);
            reference = step_in_double(built->program, reference, source, kSeed);
        }
        const auto canonical = to_doubles(state);
        for (std::size_t s = 0; s < canonical.size(); ++s)
            for (std::size_t e = 0; e < canonical[s].size(); ++e)
                ASSERT_NEAR(canonical[s][e], reference[s][e], 2e-5 * (1 + std::fabs(reference[s][e])))
                    << built->program.slots[s].name;
    }
}

TEST(Layers, name_slots_as_modules_do_and_train_no_statistics) {
    Builder b;
    std::vector<Parameter> parameters;
    const auto x = b.slot("x", DType::f32, Shape{{2, kSide, kSide, 1}}, Initializer::zeros());
    ASSERT_TRUE(apply_layers(b, kResidual, x, {true, b.seed()}, parameters).valid()) << b.status().error().to_string();
    std::vector<std::string> names;
    for (const Parameter& parameter : parameters) names.push_back(parameter.name);
    EXPECT_EQ(names, (std::vector<std::string>{"model.0.weight", "model.0.bias", "model.1.weight", "model.1.bias",
                                               "model.4.inner.0.weight", "model.4.inner.1.weight",
                                               "model.4.inner.1.bias", "model.4.shortcut.0.weight",
                                               "model.4.shortcut.0.bias", "model.7.weight", "model.7.bias"}));
    EXPECT_TRUE(parameters[0].decay);
    EXPECT_FALSE(parameters[1].decay);
}

// With the mean and variance of one batch a norm outside training gives what it gave in it; after one step the running
// ones are a tenth of the batch's.
TEST(Layers, batch_norm_keeps_running_statistics) {
    constexpr std::size_t kCount = 6;
    const std::vector<double> values{1, 5, 2, 8, 4, -1, 0, 3, 7, 7, -2, 2};  // six rows of two channels
    Builder b;
    const auto x = b.slot("x", DType::f32, Shape{{1, 3, 2, 2}}, Initializer::zeros());
    std::vector<Parameter> parameters;
    const auto y = apply_layers(b, {BatchNormLayer{}}, x, {true, {}}, parameters);
    b.update(x, y);
    b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
    const auto built = b.finish();
    ASSERT_TRUE(built) << built.error().to_string();
    auto state = to_doubles(initial_state(*built, 1));
    state[0] = values;
    const vm::tensor::MemoryData none;
    const auto after = step_in_double(built->program, state, none, kSeed);
    for (std::size_t channel = 0; channel < 2; ++channel) {
        double mean = 0;
        double squares = 0;
        for (std::size_t i = 0; i < kCount; ++i) mean += values[2 * i + channel] / kCount;
        for (std::size_t i = 0; i < kCount; ++i) squares += std::pow(values[2 * i + channel] - mean, 2);
        for (std::size_t i = 0; i < kCount; ++i)
            EXPECT_NEAR(after[0][2 * i + channel],
                        (values[2 * i + channel] - mean) / std::sqrt(squares / kCount + 1e-5), 1e-6);
        EXPECT_NEAR(after[3][channel], mean / 10, 1e-6) << built->program.slots[3].name;
        EXPECT_NEAR(after[4][channel], 0.9 + squares / (kCount - 1) / 10, 1e-6) << built->program.slots[4].name;
    }
    Builder outside;
    const auto same = outside.slot("x", DType::f32, Shape{{1, 3, 2, 2}}, Initializer::zeros());
    parameters.clear();
    outside.update(same, apply_layers(outside, {BatchNormLayer{}}, same, {false, {}}, parameters));
    outside.set_loss_slot(outside.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
    const auto evaluation = outside.finish();
    ASSERT_TRUE(evaluation) << evaluation.error().to_string();
    auto kept = state;
    kept[3] = {2, 1};
    kept[4] = {4, 9};
    const auto normed = step_in_double(evaluation->program, kept, none, kSeed);
    EXPECT_NEAR(normed[0][0], (values[0] - 2) / std::sqrt(4 + 1e-5), 1e-6);
    EXPECT_NEAR(normed[0][1], (values[1] - 1) / std::sqrt(9 + 1e-5), 1e-6);
    EXPECT_EQ(normed[3], kept[3]) << "nothing is learnt outside training";
}

TEST(Layers, each_drop_of_a_step_is_another) {
    Builder b;
    const auto x = b.slot("x", DType::f32, matrix_shape(1, 64), Initializer::constant(1.0F));
    std::vector<Parameter> parameters;
    const auto key = b.seed();
    const auto once = apply_layers(b, {DropoutLayer{0.5F}}, x, {true, key}, parameters);
    const auto twice = apply_layers(b, {DropoutLayer{0.5F}, DropoutLayer{0.5F}}, x, {true, key}, parameters);
    EXPECT_EQ(apply_layers(b, {DropoutLayer{0.5F}}, x, {false, {}}, parameters), x);
    b.update(x, b.concat(b.slice(once, {0, 0, 0, 0}, matrix_shape(1, 32)),
                         b.slice(twice, {0, 0, 0, 0}, matrix_shape(1, 32)), 3));
    b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
    const auto built = b.finish();
    ASSERT_TRUE(built);
    const vm::tensor::MemoryData none;
    const auto after = step_in_double(built->program, to_doubles(initial_state(*built, 1)), none, kSeed)[0];
    std::size_t dropped_once = 0;
    std::size_t dropped_later = 0;
    for (std::size_t i = 0; i < 32; ++i) {
        dropped_once += after[i] == 0 ? 1 : 0;
        dropped_later += after[i] != 0 && after[32 + i] == 0 ? 1 : 0;
        EXPECT_TRUE(after[32 + i] == 0 || after[32 + i] == 4) << "both times kept";
    }
    EXPECT_GT(dropped_once, 8U);
    EXPECT_GT(dropped_later, 2U) << "the second drop is not the first again";
}

TEST(Layers, refuse_what_does_not_fit_by_name) {
    const auto error = [](const std::vector<Layer>& layers, const Shape& shape = Shape{{2, 4, 4, 3}}) {
        Builder b;
        std::vector<Parameter> parameters;
        const auto x = b.slot("x", DType::f32, shape, Initializer::zeros());
        const auto y = apply_layers(b, layers, x, {}, parameters);
        EXPECT_EQ(y.valid(), !b.failed());
        return b.failed() ? std::string(b.status().error().name) : "none";
    };
    EXPECT_EQ(error({}), "none");
    EXPECT_EQ(error({LinearLayer{3}}), "layers.bad_input");
    EXPECT_EQ(error({FlattenLayer{}, LinearLayer{3}}), "none");
    EXPECT_EQ(error({DropoutLayer{0.5F}}), "layers.no_key");
    EXPECT_EQ(error({ConvLayer{4, square(3, 1, 1), 2}}), "image.bad_groups");
    EXPECT_EQ(error({ConvLayer{4, square(3, 1, 1), 3}}), "image.bad_groups");
    EXPECT_EQ(error({ConvLayer{4, square(0, 1, 0)}}), "image.bad_window");
    EXPECT_EQ(error({ConvLayer{4, {{0xffff, 0xffff}, {1, 1}, {0, 0}, {1, 1}}}}), "image.bad_window");
    EXPECT_EQ(error({GroupNormLayer{2}}), "norm.bad_groups");
    EXPECT_EQ(error({ResidualLayer{{ConvLayer{4, square(1, 1, 0)}}, {}}}), "layers.bad_residual");
    std::vector<Layer> deep{Activation::relu};
    for (std::size_t i = 0; i < kMaxLayerDepth; ++i) deep = {ResidualLayer{deep, {}}};
    EXPECT_EQ(error(deep), "none");
    EXPECT_EQ(error({ResidualLayer{deep, {}}}), "layers.too_deep");
    EXPECT_EQ(error(std::vector<Layer>(kMaxLayerCount, Activation::relu)), "none");
    EXPECT_EQ(error(std::vector<Layer>(kMaxLayerCount + 1, Activation::relu)), "layers.too_many");
}

}  // namespace
}  // namespace quern::compute::program
