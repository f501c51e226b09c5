// Whole trainings, one step and 200, on the canonical machine against libtorch: the loss's gradients by torch's own
// autograd in fp32 and an optimizer written here in double precision, which share no code with compute/program's; and
// the same programs on the torch executor. Small models of each kind; where loops in double precision are quick enough,
// against those as well.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include "compute/program/architecture.h"
#include "compute/program/composite.h"
#include "compute/program/initial_state.h"
#include "compute/program/recurrent.h"
#include "compute/torch/torch_executor.h"
#include "unit/compute/program/double_evaluator.h"
#include "vm/tensor/arith/random.h"

namespace quern::compute::torch_backend {
namespace {

using namespace quern::compute::program;
using quern::test::step_in_double;
using quern::test::to_doubles;
using vm::tensor::State;
using vm::tensor::Tensor;

const Tensor kSeed{DType::i32, vector_shape(4), {0x01234567, 0x89abcdef, 3, 4}};
constexpr int kSteps = 200;

float as_float(std::uint32_t word) { return __builtin_bit_cast(float, word); }
std::uint32_t noise(std::uint32_t i, std::uint32_t j = 0) { return vm::tensor::arith::philox_word(i, j, 0, 1, 2); }

// Each some five times what was seen, over all models.
// Of one step: the distance between the two moves of all parameters, as a part of the move (seen: 2e-5). f32 rounds a
// gradient to some 1e-6 of its size; AdamW divides each element by its own size, so that small ones count as much.
constexpr double kMoveBound = 1e-4;
// Of the loss, at any of 200 steps (seen: 1.5e-6). Rounding differences grow along the way, where the loss is curved,
// and where a ReLU or a maximum turns the two take other branches.
constexpr double kLossBound = 1e-5;
// Of all parameters after 200 steps: their distance as a part of how far they went (seen: 2e-5).
constexpr double kWayBound = 1e-4;

struct Training {
    BuiltProgram built;
    vm::tensor::MemoryData data;
    OptimizerConfig optimizer;
    double lowers_to = 0;  // the mean loss of the last ten steps is below
    bool in_double = false;
};

std::string text_of(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.2g", value);
    return text.data();
}

std::size_t slot_of(const Program& program, const std::string& name) {
    for (std::size_t s = 0; s < program.slots.size(); ++s)
        if (program.slots[s].name == name) return s;
    ADD_FAILURE() << "no slot " << name;
    return 0;
}

// What a model is made of: what is trained, and running statistics.
std::vector<std::uint32_t> all_slots(const Program& program) {
    std::vector<std::uint32_t> slots;
    for (std::uint32_t s = 0; s < program.slots.size(); ++s)
        if ((program.slots[s].flags & vm::tensor::kSlotParameter) != 0) slots.push_back(s);
    return slots;
}
std::vector<std::uint32_t> trained_slots(const Program& program) {
    std::vector<std::uint32_t> slots = all_slots(program);
    std::erase_if(slots,
                  [&](std::uint32_t slot) { return program.slots[slot].name.find("running_") != std::string::npos; });
    return slots;
}

// AdamW and SGD with momentum as their papers have them (optimizer.h names them), of gradients by torch's autograd.
// Parameters are kept in f32, as a training in fp32 does, all else in double.
class Reference {
public:
    explicit Reference(const Training& training)
        : training_(training),
          program_(training.built.program),
          torch_(program_),
          slots_(trained_slots(program_)),
          step_(slot_of(program_, "step")),
          state(initial_state(training.built, 5)) {}

    // The loss before the step.
    double step() {
        const std::uint32_t loss = program_.updates[program_.header.loss_slot];
        const std::vector<std::uint32_t> nodes{loss};
        const auto value = torch_.run_nodes(state, training_.data, kSeed, nodes);
        const auto gradients = torch_.autograd(state, training_.data, kSeed, loss, slots_);
        EXPECT_TRUE(value && gradients);
        if (!value || !gradients) return NAN;
        std::vector<std::vector<double>> g;
        for (const Tensor& gradient : *gradients) g.push_back(to_doubles(gradient));
        clip(g);
        for (std::size_t i = 0; i < slots_.size(); ++i) update(i, g[i]);
        ++state[step_].words[0];
        ++steps_;
        return static_cast<double>(as_float((*value)[0].words[0]));
    }

private:
    const Training& training_;
    const Program& program_;
    TorchExecutor torch_;
    std::vector<std::uint32_t> slots_;
    std::size_t step_;
    int steps_ = 0;
    std::map<std::size_t, std::vector<double>> first_;
    std::map<std::size_t, std::vector<double>> second_;

    void clip(std::vector<std::vector<double>>& gradients) const {
        if (training_.optimizer.clip_norm == 0.0F) return;
        double squares = 0;
        for (const auto& gradient : gradients)
            for (const double g : gradient) squares += g * g;
        const double scale = std::min(1.0, static_cast<double>(training_.optimizer.clip_norm) / std::sqrt(squares));
        for (auto& gradient : gradients)
            for (double& g : gradient) g *= scale;
    }

    // Rising over the warm-up, then falling in a line (optimizer.h).
    [[nodiscard]] double rate_now() const {
        const OptimizerConfig& config = training_.optimizer;
        double factor = config.warmup == 0 ? 1 : std::min(1.0, (steps_ + 1.0) / config.warmup);
        if (config.total_steps > config.warmup) {
            const double gone = (steps_ - static_cast<double>(config.warmup)) / (config.total_steps - config.warmup);
            factor *= std::clamp(1 - gone, static_cast<double>(config.final_rate), 1.0);
        }
        return factor * static_cast<double>(config.learning_rate);
    }

    void update(std::size_t i, const std::vector<double>& gradient) {
        const OptimizerConfig& config = training_.optimizer;
        Tensor& tensor = state[slots_[i]];
        const double rate = rate_now();
        const auto beta1 = static_cast<double>(config.beta1);
        const auto beta2 = static_cast<double>(config.beta2);
        auto& m = first_[i];
        auto& v = second_[i];
        m.resize(gradient.size());
        v.resize(gradient.size());
        const bool decays = tensor.shape.rows() > 1;  // matrices of weights
        const double keep = decays ? 1 - rate * static_cast<double>(config.weight_decay) : 1;
        for (std::size_t e = 0; e < gradient.size(); ++e) {
            const double g = gradient[e];
            double move = 0;
            if (config.type == OptimizerConfig::Type::momentum) {
                m[e] = static_cast<double>(config.momentum) * m[e] + g;
                move = m[e];
            } else {
                m[e] = beta1 * m[e] + (1 - beta1) * g;
                v[e] = beta2 * v[e] + (1 - beta2) * g * g;
                move = m[e] / (1 - std::pow(beta1, steps_ + 1)) /
                       (std::sqrt(v[e] / (1 - std::pow(beta2, steps_ + 1))) + static_cast<double>(config.epsilon));
            }
            const double next = static_cast<double>(as_float(tensor.words[e])) * keep - rate * move;
            tensor.words[e] = __builtin_bit_cast(std::uint32_t, static_cast<float>(next));
        }
    }

public:
    State state;
};

// How far a and b are from one another in the slots, as a part of how far b is from `start`.
double distance(const State& a, const State& b, const State& start, const std::vector<std::uint32_t>& slots) {
    double apart = 0;
    double way = 0;
    for (const std::uint32_t slot : slots)
        for (std::size_t e = 0; e < a[slot].words.size(); ++e) {
            const auto at = [&](const State& state) { return static_cast<double>(as_float(state[slot].words[e])); };
            apart += (at(a) - at(b)) * (at(a) - at(b));
            way += (at(b) - at(start)) * (at(b) - at(start));
        }
    return std::sqrt(apart / way);
}

void check_training(const Training& training) {
    set_thread_count(1);
    const Program& program = training.built.program;
    const std::uint64_t loss_slot = program.header.loss_slot;
    const auto slots = trained_slots(program);
    const State start = initial_state(training.built, 5);
    ASSERT_TRUE(vm::tensor::check_state(program, start));
    State state = start;
    State on_torch = start;
    quern::test::DoubleState doubles = to_doubles(start);
    vm::tensor::Executor canonical(program, vm::tensor::arith::best_backend(), nullptr);
    TorchExecutor torch(program);
    Reference reference(training);
    double first = 0;
    double last = 0;
    std::map<std::string, double> farthest;
    for (int step = 0; step < kSteps; ++step) {
        canonical.step(state, training.data, kSeed);
        const auto status = torch.step(on_torch, training.data, kSeed);
        ASSERT_TRUE(status) << status.error().to_string();
        const double wanted = reference.step();
        const auto loss = static_cast<double>(as_float(state[loss_slot].words[0]));
        const auto apart = [&](const char* from, double other) {
            double& most = farthest[from];
            most = std::max(most, std::fabs(loss - other));
            ASSERT_LT(std::fabs(loss - other), kLossBound) << from << " at step " << step;
        };
        apart("autograd", wanted);
        apart("executor", static_cast<double>(as_float(on_torch[loss_slot].words[0])));
        if (training.in_double) {
            doubles = step_in_double(program, doubles, training.data, kSeed);
            apart("double", doubles[loss_slot][0]);
        }
        if (testing::Test::HasFatalFailure()) return;
        if (step == 0) {
            first = loss;
            const double moved = distance(state, reference.state, start, slots);
            EXPECT_LT(moved, kMoveBound);
            testing::Test::RecordProperty("move", text_of(moved));
        }
        if (step >= kSteps - 10) last += loss / 10;
    }
    const double way = distance(state, reference.state, start, slots);
    EXPECT_LT(way, kWayBound);
    EXPECT_LT(last, training.lowers_to) << "from " << first;
    EXPECT_TRUE(vm::tensor::check_state(program, on_torch));
    // Running statistics of batch norms as well, which no gradient reaches.
    EXPECT_LT(distance(state, on_torch, start, all_slots(program)), kWayBound);
    testing::Test::RecordProperty("way", text_of(way));
    for (const auto& [from, most] : farthest) testing::Test::RecordProperty(from, text_of(most));
}

OptimizerConfig adamw(float rate) {
    OptimizerConfig config;
    config.learning_rate = rate;
    config.weight_decay = 0.1F;
    config.clip_norm = 1.0F;
    return config;
}
OptimizerConfig momentum(float rate) {
    OptimizerConfig config;
    config.type = OptimizerConfig::Type::momentum;
    config.learning_rate = rate;
    return config;
}

Window2d square(std::uint32_t kernel, std::uint32_t stride, std::uint32_t padding) {
    return {{kernel, kernel}, {stride, stride}, {padding, padding}, {1, 1}};
}

constexpr std::uint32_t kSide = 8;
constexpr std::uint32_t kChannels = 3;

// Images of noise, of which the class is how bright the first channel is, or rows of as many numbers.
Training of_images(std::vector<Layer> layers, bool is_image, const OptimizerConfig& optimizer) {
    constexpr std::uint32_t kImages = 64;
    constexpr std::uint32_t kSize = kSide * kSide * kChannels;
    Architecture architecture;
    LayersSpec& model = architecture.model.emplace<LayersSpec>();
    model.input = is_image ? LayersSpec::Input::image : LayersSpec::Input::row;
    if (is_image) model.image = {kSide, kSide};
    model.channels = is_image ? kChannels : kSize;
    model.scale = 1.0F / 128;
    model.shift = -1.0F;
    model.outputs = 3;
    model.layers = std::move(layers);
    architecture.data = {{vm::tensor::DataType::u8, kImages * kSize}, {vm::tensor::DataType::u8, kImages}};
    architecture.batch = 16;
    architecture.optimizer = optimizer;
    auto built = build_training_program(architecture);
    EXPECT_TRUE(built) << built.error().to_string();
    Bytes images;
    Bytes labels;
    for (std::uint32_t i = 0; i < kImages; ++i) {
        labels.push_back(static_cast<std::uint8_t>(i % 3));
        for (std::uint32_t e = 0; e < kSize; ++e)
            images.push_back(static_cast<std::uint8_t>(noise(e, i) % 128 + (e % kChannels == 0 ? 60 * (i % 3) : 0)));
    }
    return {built ? std::move(*built) : BuiltProgram{}, vm::tensor::MemoryData({images, labels}), optimizer, 0};
}

// Each token follows from the one before and a choice of three.
Bytes tokens_of(std::uint32_t count, std::uint32_t vocabulary) {
    Bytes tokens{1};
    for (std::uint32_t i = 1; i < count; ++i)
        tokens.push_back(static_cast<std::uint8_t>((tokens.back() * 5U + noise(i) % 3) % vocabulary));
    return tokens;
}

std::vector<Layer> perceptron() { return {LinearLayer{16}, Activation::tanh, LinearLayer{3}}; }

TEST(TorchTraining, of_a_perceptron_with_momentum) {
    Training training = of_images(perceptron(), false, momentum(0.01F));
    training.lowers_to = 0.5;
    training.in_double = true;
    check_training(training);
}

TEST(TorchTraining, of_a_perceptron_with_adamw) {
    Training training = of_images(perceptron(), false, adamw(3e-3F));
    training.lowers_to = 0.5;
    training.in_double = true;
    check_training(training);
}

// Without biases before the norms, which take them out again: their gradients are rounding errors, of which AdamW makes
// steps of full size.
std::vector<Layer> convolutions() {
    return {ConvLayer{8, square(3, 1, 1), 1, false},
            BatchNormLayer{},
            Activation::relu,
            PoolLayer{PoolLayer::Kind::max, square(2, 2, 0)},
            ConvLayer{16, square(3, 2, 1), 1, false},
            BatchNormLayer{},
            Activation::relu,
            FlattenLayer{},
            DropoutLayer{0.1F},
            LinearLayer{3}};
}

TEST(TorchTraining, of_convolutions_with_batch_norm_and_momentum) {
    Training training = of_images(convolutions(), true, momentum(0.01F));
    training.lowers_to = 0.5;
    check_training(training);
}

TEST(TorchTraining, of_convolutions_with_batch_norm_and_adamw) {
    Training training = of_images(convolutions(), true, adamw(1e-3F));
    training.lowers_to = 0.5;
    check_training(training);
}

TEST(TorchTraining, of_a_residual_network_with_adamw) {
    Training training = of_images(
        {ConvLayer{16, square(3, 1, 1), 1, false}, BatchNormLayer{}, Activation::silu,
         ResidualLayer{{ConvLayer{16, square(3, 2, 1), 2, false}, GroupNormLayer{4}, Activation::gelu},
                       {ConvLayer{16, square(1, 2, 0)}}},
         ResidualLayer{{ConvLayer{16, square(3, 1, 1), 1, false}, BatchNormLayer{}, Activation::relu}, {}},
         PoolLayer{PoolLayer::Kind::average, square(2, 1, 0)}, FlattenLayer{}, DropoutLayer{0.1F}, LinearLayer{3}},
        true, adamw(1e-3F));
    training.lowers_to = 0.5;
    check_training(training);
}

TEST(TorchTraining, of_a_transformer_over_characters_with_adamw) {
    Architecture architecture;
    architecture.model = TransformerSpec{2, 32, 4, 16, 4, 40};
    architecture.data[0].elements = 100 * 16 + 1;
    architecture.batch = 8;
    architecture.optimizer = adamw(3e-3F);
    architecture.optimizer.warmup = 5;
    architecture.optimizer.total_steps = 150;
    auto built = build_training_program(architecture);
    ASSERT_TRUE(built) << built.error().to_string();
    const Bytes tokens = tokens_of(100 * 16 + 1, 40);
    const Training training{std::move(*built), vm::tensor::MemoryData({tokens}), architecture.optimizer, 2.0};
    check_training(training);
}

// The next token of windows, by a cell unrolled over each.
Training recurrent(const OptimizerConfig& optimizer) {
    constexpr std::uint32_t kTokens = 400;
    constexpr std::uint32_t kVocabulary = 20;
    constexpr std::uint32_t kWindow = 6;
    constexpr std::uint32_t kBatch = 8;
    constexpr std::uint32_t kWidth = 12;
    Builder b({{vm::tensor::DataType::u8, kTokens}});
    const auto step = b.slot("step", DType::i32, scalar_shape(), Initializer::zeros());
    const auto loss_slot = b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros());
    std::vector<Parameter> parameters;
    const auto parameter = [&](const char* name, const Shape& shape, bool decay) {
        const auto slot = b.slot(name, DType::f32, shape, decay ? Initializer::normal(0.3F) : Initializer::zeros(),
                                 vm::tensor::kSlotParameter);
        parameters.push_back({name, slot, decay});
        return slot;
    };
    const auto table = parameter("table", matrix_shape(kVocabulary, kWidth), true);
    CellWeights weights;
    weights.input = parameter("input", matrix_shape(kWidth, 4 * kWidth), true);
    weights.hidden = parameter("hidden", matrix_shape(kWidth, 4 * kWidth), true);
    weights.input_bias = parameter("input_bias", vector_shape(4 * kWidth), false);
    const auto head = parameter("head", matrix_shape(kWidth, kVocabulary), true);
    const auto bias = parameter("bias", vector_shape(kVocabulary), false);
    const auto first = b.imul(step, b.constant_i32(kBatch));
    const auto place = b.imul(b.iadd(b.iota(matrix_shape(kBatch, 1), 2), first), b.constant_i32(7));
    const auto index = b.elementwise(ElementOp::irem, {place, b.constant_i32(kTokens - kWindow)});
    const auto windows = b.window(index, 0, 1, kWindow + 1);
    const auto column = [&](std::uint32_t at) { return b.slice(windows, {0, 0, 0, at}, matrix_shape(kBatch, 1)); };
    const auto zeros = b.full(DType::f32, matrix_shape(kBatch, kWidth), 0);
    LstmState cell{zeros, zeros};
    Value sum;
    for (std::uint32_t at = 0; at < kWindow; ++at) {
        const auto x = embedding(b, table, b.reshape(column(at), vector_shape(kBatch)));
        cell = lstm_cell(b, x, cell, weights);
        const auto logits = linear(b, cell.hidden, head, bias);
        const auto part = cross_entropy(b, logits, column(at + 1));
        sum = sum.valid() ? b.add(sum, part) : part;
    }
    const auto loss = b.mul(sum, b.constant(1.0F / kWindow));
    const auto gradients = parameter_gradients(b, loss, parameters);
    b.update(loss_slot, loss);
    b.set_loss_slot(loss_slot);
    b.update(step, b.iadd(step, b.constant_i32(1)));
    append_optimizer(b, optimizer, gradients, step);
    auto built = b.finish();
    EXPECT_TRUE(built) << built.error().to_string();
    return {built ? std::move(*built) : BuiltProgram{}, vm::tensor::MemoryData({tokens_of(kTokens, kVocabulary)}),
            optimizer, 2.0, true};
}

TEST(TorchTraining, of_an_unrolled_lstm_with_momentum) { check_training(recurrent(momentum(0.1F))); }

TEST(TorchTraining, of_an_unrolled_lstm_with_adamw) { check_training(recurrent(adamw(1e-2F))); }

}  // namespace
}  // namespace quern::compute::torch_backend
