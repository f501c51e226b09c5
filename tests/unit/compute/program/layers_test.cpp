// Models of layers: what they declare, that they learn, and what they refuse.
#include "compute/program/layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "compute/program/architecture.h"
#include "compute/program/composite.h"
#include "compute/program/evaluate.h"
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
    const auto images = b.reshape(b.sub(scaled, b.constant(1.0F)), matrix_shape(batch * kSide * kSide, 1));
    const auto labels = b.window(index, 1, 1, 1);
    LayersSlots slots;
    const auto seed = b.seed();
    const Features x{images, batch, Extent2d{kSide, kSide}};
    const auto logits = apply_layers(b, layers, x, {true, b.iadd(seed, step)}, slots).rows;
    const auto loss = cross_entropy(b, logits, labels);
    const auto trained = parameter_gradients(b, loss, slots.parameters);
    b.update(loss_slot, loss);
    for (const SlotUpdate& each : slots.statistics) b.update(each.slot, each.next);
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

TEST(Layers, activations_compute_what_their_names_say) {
    const auto gelu_of = [](double x) {
        return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    };
    const auto logistic = [](double x) { return 1 / (1 + std::exp(-x)); };
    const std::vector<std::pair<Activation, std::function<double(double)>>> all{
        {Activation::relu, [](double x) { return std::max(x, 0.0); }},
        {Activation::gelu, gelu_of},
        {Activation::silu, [&](double x) { return x * logistic(x); }},
        {Activation::tanh, [](double x) { return std::tanh(x); }},
        {Activation::sigmoid, logistic},
        {Activation::softplus, [](double x) { return std::log1p(std::exp(x)); }}};
    const std::vector<float> x{-30, -3, -0.5F, 0, 0.25F, 1, 4, 30};
    std::vector<std::uint32_t> words;
    for (const float each : x) words.push_back(__builtin_bit_cast(std::uint32_t, each));
    const auto given = std::make_shared<const std::vector<std::uint32_t>>(std::move(words));
    for (std::size_t i = 0; i < all.size(); ++i) {
        Builder b;
        const auto input = b.slot("x", DType::f32, vector_shape(8), Initializer::given(given));
        LayersSlots slots;
        const auto y = apply_layers(b, {all[i].first}, {input, 1, {}}, LayersPass{false, {}}, slots).rows;
        b.update(b.slot("y", DType::f32, vector_shape(8), Initializer::zeros()), y);
        const auto work = b.slot("work", DType::f32, matrix_shape(128, 128), Initializer::zeros());
        b.update(work, b.matmul(work, work));  // without which so small a program has too large a trace
        b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
        const auto built = b.finish();
        ASSERT_TRUE(built) << built.error().to_string();
        State state = initial_state(*built, 1);
        vm::tensor::Executor executor(built->program, vm::tensor::arith::best_backend(), nullptr);
        ASSERT_TRUE(executor.step(state, vm::tensor::MemoryData{}, kSeed));
        const auto slot = slot_index(built->program, "y", "missing");
        ASSERT_TRUE(slot);
        for (std::size_t at = 0; at < x.size(); ++at)
            EXPECT_NEAR(static_cast<double>(__builtin_bit_cast(float, state[*slot].words[at])),
                        all[i].second(static_cast<double>(x[at])), 1e-5)
                << "activation " << i << " of " << x[at];
    }
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
    LayersSlots slots;
    const auto x = b.slot("x", DType::f32, matrix_shape(2 * kSide * kSide, 1), Initializer::zeros());
    const Features images{x, 2, Extent2d{kSide, kSide}};
    ASSERT_TRUE(apply_layers(b, kResidual, images, {true, b.seed()}, slots).rows.valid())
        << b.status().error().to_string();
    std::vector<std::string> names;
    for (const Parameter& parameter : slots.parameters) names.push_back(parameter.name);
    EXPECT_EQ(names, (std::vector<std::string>{"model.0.weight", "model.0.bias", "model.1.weight", "model.1.bias",
                                               "model.4.inner.0.weight", "model.4.inner.1.weight",
                                               "model.4.inner.1.bias", "model.4.shortcut.0.weight",
                                               "model.4.shortcut.0.bias", "model.7.weight", "model.7.bias"}));
    EXPECT_TRUE(slots.parameters[0].decay);
    EXPECT_FALSE(slots.parameters[1].decay);
}

// With the mean and variance of one batch a norm outside training gives what it gave in it; after one step the running
// ones are a tenth of the batch's.
TEST(Layers, batch_norm_keeps_running_statistics) {
    constexpr std::size_t kCount = 6;
    const std::vector<double> values{1, 5, 2, 8, 4, -1, 0, 3, 7, 7, -2, 2};  // six rows of two channels
    Builder b;
    const auto x = b.slot("x", DType::f32, matrix_shape(6, 2), Initializer::zeros());
    LayersSlots slots;
    const auto y = apply_layers(b, {BatchNormLayer{}}, {x, 1, Extent2d{3, 2}}, {true, {}}, slots).rows;
    b.update(x, y);
    for (const SlotUpdate& each : slots.statistics) b.update(each.slot, each.next);
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
    const auto same = outside.slot("x", DType::f32, matrix_shape(6, 2), Initializer::zeros());
    slots = {};
    outside.update(same, apply_layers(outside, {BatchNormLayer{}}, {same, 1, {}}, {false, {}}, slots).rows);
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
    LayersSlots slots;
    const auto key = b.seed();
    const Features row{x, 1, {}};
    const auto once = apply_layers(b, {DropoutLayer{0.5F}}, row, {true, key}, slots).rows;
    const auto twice = apply_layers(b, {DropoutLayer{0.5F}, DropoutLayer{0.5F}}, row, {true, key}, slots).rows;
    EXPECT_EQ(apply_layers(b, {DropoutLayer{0.5F}}, row, {false, {}}, slots).rows, x);
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
    const auto error = [](const std::vector<Layer>& layers) {
        Builder b;
        LayersSlots slots;
        const auto x = b.slot("x", DType::f32, matrix_shape(2 * 4 * 4, 3), Initializer::zeros());
        const auto y = apply_layers(b, layers, {x, 2, Extent2d{4, 4}}, {}, slots);
        EXPECT_EQ(y.rows.valid(), !b.failed());
        return b.failed() ? std::string(b.status().error().name) : "none";
    };
    EXPECT_EQ(error({}), "none");
    EXPECT_EQ(error({LinearLayer{3}}), "layers.bad_input");
    EXPECT_EQ(error({FlattenLayer{}, LinearLayer{3}}), "none");
    EXPECT_EQ(error({FlattenLayer{}, ConvLayer{4, square(1, 1, 0)}}), "layers.bad_input");
    EXPECT_EQ(error({FlattenLayer{}, PoolLayer{}}), "layers.bad_input");
    EXPECT_EQ(error({GlobalPoolLayer{}, GlobalPoolLayer{}}), "layers.bad_input");
    EXPECT_EQ(error({ResidualLayer{{ConvLayer{3, {{2, 1}, {1, 1}, {0, 0}, {1, 1}}}},
                                   {ConvLayer{3, {{1, 2}, {1, 1}, {0, 0}, {1, 1}}}}}}),
              "layers.bad_residual")
        << "as many places, of another form";
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

// The same models as files of an architecture say them: trained by the program that a task names, and judged on other
// spots.
Architecture architecture_of(const std::vector<Layer>& layers, std::uint32_t batch) {
    Architecture architecture;
    LayersSpec& model = architecture.model.emplace<LayersSpec>();
    model.input = LayersSpec::Input::image;
    model.image = {kSide, kSide};
    model.scale = 1.0F / 128;
    model.shift = -1.0F;
    model.layers = layers;
    model.outputs = kClasses;
    architecture.data = {{vm::tensor::DataType::u8, kImages * kSide * kSide}, {vm::tensor::DataType::u8, kImages}};
    architecture.batch = batch;
    architecture.optimizer.learning_rate = 1e-2F;
    return architecture;
}

TEST(LayersArchitecture, trains_and_is_judged_outside_training) {
    const Spots data = spots();
    const vm::tensor::MemoryData source({data.images, data.labels});
    for (const auto* layers : {&kResidual, &kPerceptron}) {
        const Architecture architecture = architecture_of(*layers, 16);
        const auto built = build_training_program(architecture);
        ASSERT_TRUE(built) << built.error().to_string();
        State state = initial_state(*built, 7);
        const auto before = evaluate(architecture, built->program, state, source, nullptr);
        ASSERT_TRUE(before) << before.error().to_string();
        EXPECT_LT(*before->accuracy, 0.6);
        vm::tensor::Executor executor(built->program, vm::tensor::arith::best_backend(), nullptr);
        for (int step = 0; step < 80; ++step) executor.step(state, source, kSeed);
        const auto after = evaluate(architecture, built->program, state, source, nullptr);
        ASSERT_TRUE(after) << after.error().to_string();
        EXPECT_EQ(after->examples, kImages);
        EXPECT_GT(*after->accuracy, 0.9);
        EXPECT_LT(after->loss, 0.4);
        ASSERT_EQ(after->predicted.size(), kImages);
        EXPECT_EQ(after->predicted[kImages - 1], data.labels[kImages - 1]) << "in the last batch, which is whole";
    }
}

// 96 examples in batches of 20: the last one has zeros behind its 16.
TEST(LayersArchitecture, examples_that_are_not_there_are_not_judged) {
    const Spots data = spots();
    const vm::tensor::MemoryData source({data.images, data.labels});
    const auto whole = architecture_of(kPerceptron, 16);
    auto ragged = whole;
    ragged.batch = 20;
    const auto built = build_training_program(whole);
    ASSERT_TRUE(built);
    const State state = initial_state(*built, 7);
    const auto one = evaluate(whole, built->program, state, source, nullptr);
    const auto other = evaluate(ragged, built->program, state, source, nullptr);
    ASSERT_TRUE(one && other);
    EXPECT_EQ(one->predicted, other->predicted);
    EXPECT_DOUBLE_EQ(one->loss, other->loss);
    const vm::tensor::MemoryData less({Bytes(kSide), data.labels});
    EXPECT_EQ(evaluate(whole, built->program, state, less, nullptr).error().name, "evaluate.no_data");
}

TEST(LayersArchitecture, outputs_that_are_no_numbers_are_no_class) {
    Spots data = spots();
    std::fill(data.labels.begin(), data.labels.end(), 0);
    const vm::tensor::MemoryData source({data.images, data.labels});
    const auto architecture = architecture_of(kPerceptron, 16);
    const auto built = build_training_program(architecture);
    ASSERT_TRUE(built);
    State state = initial_state(*built, 7);
    for (vm::tensor::Tensor& slot : state)
        if (slot.dtype == DType::f32) std::fill(slot.words.begin(), slot.words.end(), 0x7fc00000U);
    const auto found = evaluate(architecture, built->program, state, source, nullptr);
    ASSERT_TRUE(found) << found.error().to_string();
    EXPECT_EQ(*found->accuracy, 0.0);
    EXPECT_EQ(found->predicted[0], kClasses);
    EXPECT_TRUE(std::isnan(found->loss));
}

// Running statistics go on with each batch that is added up, and stay where an update is made of the sums.
TEST(LayersArchitecture, accumulation_keeps_statistics_with_each_batch) {
    const Spots data = spots();
    const vm::tensor::MemoryData source({data.images, data.labels});
    auto architecture = architecture_of(kResidual, 8);
    architecture.accumulate = 2;
    const auto built = build_training_programs(architecture);
    ASSERT_TRUE(built) << built.error().to_string();
    ASSERT_EQ(built->programs.size(), 2U);
    const Program& accumulate = built->programs[0].program;
    std::size_t mean = 0;
    std::size_t weight = 0;
    for (std::size_t s = 0; s < accumulate.slots.size(); ++s) {
        if (accumulate.slots[s].name == "model.1.running_mean") mean = s;
        if (accumulate.slots[s].name == "model.0.weight") weight = s;
    }
    State state = initial_state(built->programs[0], 7);
    vm::tensor::Executor first(accumulate, vm::tensor::arith::best_backend(), nullptr);
    vm::tensor::Executor second(built->programs[1].program, vm::tensor::arith::best_backend(), nullptr);
    const auto changed = [&](vm::tensor::Executor& executor, std::size_t slot) {
        const auto before = state[slot].words;
        executor.step(state, source, kSeed);
        return state[slot].words != before;
    };
    EXPECT_TRUE(changed(first, mean));
    EXPECT_TRUE(changed(first, mean));
    EXPECT_FALSE(changed(second, mean));
    EXPECT_FALSE(changed(first, weight));
    EXPECT_TRUE(changed(second, weight));
}

TEST(LayersArchitecture, other_losses_take_as_many_targets_as_outputs) {
    // y = the two sums of halves of a row, and whether each is above 0.
    constexpr std::uint32_t kRows = 64;
    Bytes rows;
    Bytes sums;
    Bytes signs;
    std::uint32_t noise = 99;
    const auto put = [](Bytes& out, float value) {
        const auto word = __builtin_bit_cast(std::uint32_t, value);
        for (int i = 0; i < 4; ++i) out.push_back(static_cast<std::uint8_t>(word >> (8 * i)));
    };
    for (std::uint32_t row = 0; row < kRows; ++row)
        for (int half = 0; half < 2; ++half) {
            float sum = 0;
            for (int i = 0; i < 2; ++i) {
                noise = noise * 1664525 + 1013904223;
                const float x = static_cast<float>(noise >> 16) / 32768 - 1;
                put(rows, x);
                sum += x;
            }
            put(sums, sum);
            signs.push_back(sum > 0 ? 1 : 0);
        }
    for (const auto loss : {LayersSpec::Loss::mean_squared_error, LayersSpec::Loss::binary_cross_entropy}) {
        const bool squares = loss == LayersSpec::Loss::mean_squared_error;
        Architecture architecture;
        LayersSpec& model = architecture.model.emplace<LayersSpec>();
        model.channels = 4;
        model.layers = {LinearLayer{2}};
        model.outputs = 2;
        model.loss = loss;
        architecture.data = {{vm::tensor::DataType::f32, kRows * 4},
                             {squares ? vm::tensor::DataType::f32 : vm::tensor::DataType::u8, kRows * 2}};
        architecture.batch = 16;
        architecture.optimizer.learning_rate = 5e-2F;
        const auto built = build_training_program(architecture);
        ASSERT_TRUE(built) << built.error().to_string();
        const vm::tensor::MemoryData source({rows, squares ? sums : signs});
        State state = initial_state(*built, 3);
        const auto before = evaluate(architecture, built->program, state, source, nullptr);
        vm::tensor::Executor executor(built->program, vm::tensor::arith::best_backend(), nullptr);
        for (int step = 0; step < 200; ++step) executor.step(state, source, kSeed);
        const auto after = evaluate(architecture, built->program, state, source, nullptr);
        ASSERT_TRUE(before && after);
        EXPECT_FALSE(after->accuracy);
        EXPECT_LT(after->loss, squares ? 1e-3 : 0.35) << before->loss;
    }
}

}  // namespace
}  // namespace quern::compute::program
