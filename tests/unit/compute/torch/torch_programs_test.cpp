// Programs of each further kind, one step and 200, on the canonical machine and on the torch executor, each with the
// bounds that doc/torch.md states.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>

#include "compute/program/architecture.h"
#include "compute/program/initial_state.h"
#include "compute/torch/torch_executor.h"
#include "vm/tensor/arith/random.h"

namespace quern::compute::torch_backend {
namespace {

using namespace quern::compute::program;
using vm::tensor::State;
using vm::tensor::Tensor;

using Type = OptimizerConfig::Type;
using Schedule = OptimizerConfig::Schedule;

const Tensor kSeed{DType::i32, vector_shape(4), {0x01234567, 0x89abcdef, 3, 4}};
constexpr int kSteps = 200;
constexpr std::uint32_t kContext = 16;
constexpr std::uint32_t kVocabulary = 40;

// The two may differ by so much at most: in the loss of any of 200 steps; in the parameters after one step and after
// 200, as parts of how far they went.
struct Bounds {
    double loss = 1e-5;
    double move = 1e-3;
    double way = 2e-5;
};

struct Row {
    const char* name;
    std::variant<TransformerSpec, LayersSpec> model;
    OptimizerConfig optimizer;
    Bounds bounds;
    double lowers_to;  // the mean loss of the last ten steps is below
};

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

std::vector<Row> rows() {
    using Loss = LayersSpec::Loss;
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
    };
}

std::uint32_t noise(std::uint32_t i) { return vm::tensor::arith::philox_word(i, 0, 0, 1, 2); }

Architecture architecture_of(const Row& row) {
    Architecture architecture;
    architecture.model = row.model;
    architecture.batch = 8;
    architecture.optimizer = row.optimizer;
    if (architecture.is_transformer()) {
        architecture.data[0].elements = 100 * kContext + 1;
    } else {
        const bool of_bits = architecture.layers().loss == LayersSpec::Loss::binary_cross_entropy;
        architecture.data = {{vm::tensor::DataType::u8, 8 * 64},
                             {of_bits ? vm::tensor::DataType::u8 : vm::tensor::DataType::f32, 8 * 64}};
    }
    return architecture;
}

// Each token follows from the one before and a choice of three; targets of rows from the rows.
vm::tensor::MemoryData data_of(const Architecture& architecture) {
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

double number(std::uint32_t word) { return static_cast<double>(__builtin_bit_cast(float, word)); }

// How far a and b are from one another in the parameters, as a part of how far a is from `start`.
double distance(const Program& program, const State& a, const State& b, const State& start) {
    double apart = 0;
    double way = 0;
    for (std::size_t s = 0; s < program.slots.size(); ++s) {
        if ((program.slots[s].flags & vm::tensor::kSlotParameter) == 0) continue;
        for (std::size_t e = 0; e < a[s].words.size(); ++e) {
            apart += std::pow(number(a[s].words[e]) - number(b[s].words[e]), 2);
            way += std::pow(number(a[s].words[e]) - number(start[s].words[e]), 2);
        }
    }
    return std::sqrt(apart / way);
}

class TorchPrograms : public testing::TestWithParam<Row> {};

TEST_P(TorchPrograms, train_within_their_bounds_of_the_canonical_machine) {
    const Row& row = GetParam();
    set_thread_count(1);
    const Architecture architecture = architecture_of(row);
    const vm::tensor::MemoryData data = data_of(architecture);
    const auto built = build_training_program(architecture);
    ASSERT_TRUE(built) << built.error().to_string();
    const Program& program = built->program;
    const State start = initial_state(*built, 5);
    State state = start;
    State on_torch = start;
    vm::tensor::Executor canonical(program, vm::tensor::arith::best_backend(), nullptr);
    TorchExecutor torch(program);
    double farthest = 0;
    double move = 0;
    double last = 0;
    for (int step = 0; step < kSteps; ++step) {
        ASSERT_TRUE(canonical.step(state, data, kSeed));
        const Status status = torch.step(on_torch, data, kSeed);
        ASSERT_TRUE(status) << status.error().to_string();
        const double loss = number(state[program.header.loss_slot].words[0]);
        farthest = std::max(farthest, std::fabs(loss - number(on_torch[program.header.loss_slot].words[0])));
        if (step == 0) move = distance(program, state, on_torch, start);
        if (step >= kSteps - 10) last += loss / 10;
    }
    const double way = distance(program, state, on_torch, start);
    std::array<char, 160> seen{};
    std::snprintf(seen.data(), seen.size(), "loss %.2g, move %.2g, way %.2g, last %.3f", farthest, move, way, last);
    RecordProperty("seen", seen.data());
    EXPECT_LT(farthest, row.bounds.loss);
    EXPECT_LT(move, row.bounds.move);
    EXPECT_LT(way, row.bounds.way);
    EXPECT_LT(last, row.lowers_to);
    EXPECT_TRUE(vm::tensor::check_state(program, on_torch));
}

INSTANTIATE_TEST_SUITE_P(Rows, TorchPrograms, testing::ValuesIn(rows()),
                         [](const auto& named) { return std::string(named.param.name); });

}  // namespace
}  // namespace quern::compute::torch_backend
