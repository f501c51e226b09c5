// Linear layers in bytes, by model and by layer, of each kind of model: which products are, how near their gradients
// are to those of f32, and that a model learns as well.
#include "compute/program/precision.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "compute/program/architecture.h"
#include "compute/program/initial_state.h"
#include "vm/tensor/executor.h"

namespace quern::compute::program {
namespace {

using vm::tensor::State;
using vm::tensor::Tensor;

const Tensor kSeed{DType::i32, vector_shape(4), {5, 6, 7, 8}};
constexpr std::uint32_t kExamples = 64;
constexpr std::uint32_t kFeatures = 40;
constexpr std::uint32_t kClasses = 3;
constexpr std::uint32_t kVocabulary = 11;
constexpr std::uint32_t kContext = 16;

std::size_t count_of(const Program& program, Op op) {
    std::size_t count = 0;
    for (const Node& node : program.nodes) count += node.op == op ? 1U : 0U;
    return count;
}

struct Products {
    std::size_t floats;
    std::size_t bytes;
    bool operator==(const Products&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Products& products) {
    return out << products.floats << " of f32, " << products.bytes << " of bytes";
}
Products products_of(const Architecture& architecture) {
    const auto built = build_training_program(architecture);
    EXPECT_TRUE(built) << built.error().to_string();
    if (!built) return {};
    return {count_of(built->program, Op::matmul), count_of(built->program, Op::imatmul)};
}
std::string error_of(const Architecture& architecture) {
    const auto built = build_training_program(architecture);
    return built ? "none" : std::string(built.error().name);
}

float unit(std::uint32_t& state) {
    state = state * 1664525 + 1013904223;
    return static_cast<float>(state >> 8) * 0x1p-23F - 1;
}
void put(Bytes& out, float value) {
    const auto word = __builtin_bit_cast(std::uint32_t, value);
    for (unsigned i = 0; i < 4; ++i) out.push_back(static_cast<std::uint8_t>(word >> (8 * i)));
}

// --- Models ----------------------------------------------------------------------------------------------------------

struct Task {
    Architecture architecture;
    vm::tensor::MemoryData data;
};

// Rows of numbers; the class is which third of them has the largest sum.
Task rows_task(LayersSpec model) {
    Task task;
    model.channels = kFeatures;
    model.outputs = kClasses;
    task.architecture.model = std::move(model);
    task.architecture.data = {{vm::tensor::DataType::f32, kExamples * kFeatures},
                              {vm::tensor::DataType::u8, kExamples}};
    task.architecture.batch = 16;
    Bytes rows;
    Bytes classes;
    std::uint32_t noise = 3;
    for (std::uint32_t i = 0; i < kExamples; ++i) {
        float sums[kClasses]{};
        for (std::uint32_t k = 0; k < kFeatures; ++k) {
            const float x = unit(noise);
            put(rows, x);
            sums[k * kClasses / kFeatures] += x;
        }
        classes.push_back(
            static_cast<std::uint8_t>(std::distance(sums, std::max_element(sums, std::next(sums, kClasses)))));
    }
    task.data = vm::tensor::MemoryData({rows, classes});
    return task;
}

LayersSpec layers(Precision first, Precision second, Precision last) {
    LayersSpec model;
    model.layers = {LinearLayer{48, true, first}, Activation::gelu,
                    ResidualLayer{{LinearLayer{48, false, second}, Activation::tanh}, {}},
                    LinearLayer{kClasses, true, last}};
    return model;
}

NetworkTensor weights(Dims dims, float size) {
    std::vector<std::uint32_t> words;
    std::uint32_t noise = 17;
    for (std::uint64_t i = 0; i < product(dims); ++i)
        words.push_back(__builtin_bit_cast(std::uint32_t, size * unit(noise)));
    return {std::move(dims), true, std::make_shared<const std::vector<std::uint32_t>>(std::move(words)), {}};
}

// As PyTorch exports it: a linear layer as a product by a weight turned in a node of its own, another one as a Gemm,
// and a product of two activations, which is none.
LayersSpec network(NetworkTraining training) {
    Network network;
    network.input = "x";
    network.output = "y";
    network.opset = 13;
    network.initializers = {{"encoder.first.weight", weights({48, kFeatures}, 0.3F)},
                            {"encoder.second.weight", weights({48, 48}, 0.25F)},
                            {"head.weight", weights({kClasses, 48}, 0.3F)},
                            {"head.bias", weights({kClasses}, 0.1F)}};
    network.nodes = {{"Transpose", "/encoder/first/Transpose", {"encoder.first.weight"}, {"turned"}, {}},
                     {"MatMul", "/encoder/first/MatMul", {"x", "turned"}, {"a"}, {}},
                     {"Tanh", "/encoder/Tanh", {"a"}, {"b"}, {}},
                     {"Transpose", "/encoder/mix/Transpose", {"b"}, {"c"}, {}},
                     {"MatMul", "/encoder/mix/MatMul", {"b", "c"}, {"d"}, {}},
                     {"Softmax", "/encoder/mix/Softmax", {"d"}, {"e"}, {}},
                     {"MatMul", "/encoder/mix/MatMul_1", {"e", "b"}, {"f"}, {}},
                     {"Add", "/encoder/Add", {"b", "f"}, {"g"}, {}},
                     {"MatMul", "/encoder/second/MatMul", {"g", "encoder.second.weight"}, {"h"}, {}},
                     {"Tanh", "/encoder/Tanh_1", {"h"}, {"i"}, {}},
                     {"Gemm", "", {"i", "head.weight", "head.bias"}, {"y"}, {{"transB", std::int64_t{1}}}}};
    LayersSpec model;
    model.network_file = "network.onnx";
    model.network = std::make_shared<const Network>(std::move(network));
    model.training = std::move(training);
    return model;
}

Task tokens_task(const TransformerSpec& model) {
    Task task;
    task.architecture.model = model;
    task.architecture.data = {{vm::tensor::DataType::u8, 40 * kContext + 1}};
    task.architecture.batch = 4;
    Bytes tokens(40 * kContext + 1);
    for (std::size_t i = 0; i < tokens.size(); ++i)
        tokens[i] = static_cast<std::uint8_t>((i * i + i / 7) % 13 % kVocabulary);
    task.data = vm::tensor::MemoryData({tokens});
    return task;
}

TransformerSpec transformer_spec(std::uint32_t layer_count) {
    return TransformerSpec{layer_count, 32, 4, kContext, 2, kVocabulary};
}

// --- Which products are in bytes
// ----------------------------------------------------------------------------------------

TEST(LayerPrecision, is_that_of_the_longest_name_up_to_a_dot_or_slash) {
    const LayerPrecision given{{"h.0", Precision::int8}, {"h.0.mlp", Precision::f32}, {"/a/b", Precision::int8}};
    PrecisionOfLayers of(given);
    EXPECT_EQ(of.of("h.0.mlp.w_in", Precision::int8), Precision::f32);
    EXPECT_EQ(of.of("h.0.mlp", Precision::int8), Precision::f32);
    EXPECT_EQ(of.of("h.0.attn.w_o", Precision::f32), Precision::int8);
    EXPECT_EQ(of.of("h.0.mlps", Precision::f32), Precision::int8) << "of h.0, not of h.0.mlp";
    EXPECT_EQ(of.of("h.01", Precision::f32), Precision::f32);
    EXPECT_EQ(of.of("", Precision::int8), Precision::int8);
    ASSERT_NE(of.unused(), nullptr);
    EXPECT_EQ(*of.unused(), "/a/b");
    EXPECT_EQ(of.of("/a/b/MatMul", Precision::f32), Precision::int8);
    EXPECT_EQ(of.unused(), nullptr);
    const LayerPrecision none{{"", Precision::int8}};
    PrecisionOfLayers nothing(none);
    EXPECT_EQ(nothing.of("/a", Precision::f32), Precision::f32);
    EXPECT_NE(nothing.unused(), nullptr);
}

constexpr Precision kF32 = Precision::f32;
constexpr Precision kInt8 = Precision::int8;

// A product, the gradient of its weight, and of its input where that is no data.
TEST(LayerPrecision, of_layers_is_each_layers_own) {
    EXPECT_EQ(products_of(rows_task(layers(kF32, kF32, kF32)).architecture), (Products{8, 0}));
    EXPECT_EQ(products_of(rows_task(layers(kInt8, kInt8, kInt8)).architecture), (Products{0, 8}));
    EXPECT_EQ(products_of(rows_task(layers(kInt8, kF32, kF32)).architecture), (Products{6, 2}));
    EXPECT_EQ(products_of(rows_task(layers(kF32, kInt8, kF32)).architecture), (Products{5, 3}));
}

TEST(LayerPrecision, of_networks_is_of_products_by_weights_with_exceptions_by_node) {
    const auto of = [](NetworkTraining training) { return products_of(rows_task(network(training)).architecture); };
    // Of the mixture two products with two gradients each.
    EXPECT_EQ(of({}), (Products{8 + 6, 0}));
    EXPECT_EQ(of({{}, kInt8, {}}), (Products{6, 8}));
    EXPECT_EQ(of({{}, kInt8, {{"/encoder/second/MatMul", kF32}}}), (Products{9, 5}));
    EXPECT_EQ(of({{}, kInt8, {{"/encoder", kF32}, {"/encoder/first", kInt8}}}), (Products{9, 5}));
    EXPECT_EQ(of({{}, kF32, {{"y", kInt8}}}), (Products{11, 3})) << "a node without a name has its output's";
    EXPECT_EQ(of({{"encoder.second.weight"}, kInt8, {}}), (Products{6, 7})) << "frozen, a linear layer all the same";

    const auto unknown = build_training_program(rows_task(network({{}, kInt8, {{"/encoder/mix", kF32}}})).architecture);
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().name, "onnx.unknown_layer");
    EXPECT_NE(unknown.error().detail.find("/encoder/first/MatMul, /encoder/second/MatMul, y"), std::string::npos)
        << unknown.error().detail;
}

TEST(LayerPrecision, of_transformers_is_by_the_names_of_parameters) {
    const auto of = [](Precision precision, LayerPrecision given) {
        TransformerSpec model = transformer_spec(2);
        model.precision = precision;
        model.layer_precision = std::move(given);
        return products_of(tokens_task(model).architecture);
    };
    // Four matrices a layer; attention's two products and the head are of f32.
    const std::size_t others = 3 * (2 * 2 + 1);
    EXPECT_EQ(of(kF32, {}), (Products{3 * 8 + others, 0}));
    EXPECT_EQ(of(kInt8, {}), (Products{others, 3 * 8}));
    EXPECT_EQ(of(kInt8, {{"h.1", kF32}}), (Products{3 * 4 + others, 3 * 4}));
    EXPECT_EQ(of(kInt8, {{"h.1", kF32}, {"h.1.mlp.w_out", kInt8}, {"h.0.attn", kF32}}),
              (Products{3 * 5 + others, 3 * 3}));
    EXPECT_EQ(of(kF32, {{"h.0.attn.w_qkv", kInt8}}), (Products{3 * 7 + others, 3}));

    for (const char* const name : {"h.2", "h.0.mlp.w_gate", "head", "h.0.attn.b_q", "h", ""}) {
        TransformerSpec model = transformer_spec(2);
        model.layer_precision = {{name, kInt8}};
        if (std::string_view(name) == "h") model.layer_precision = {{"h", kInt8}, {"h.0", kF32}, {"h.1", kF32}};
        EXPECT_EQ(error_of(tokens_task(model).architecture), "arch.unknown_matrix") << name;
    }
}

TEST(LayerPrecision, of_experts_is_as_of_one_mlp_and_routers_stay_in_f32) {
    const auto of = [](Precision precision, LayerPrecision given, TransformerSpec::Activation activation) {
        TransformerSpec model = transformer_spec(1);
        model.activation = activation;
        model.experts = {4, 2, 1.25F, 0.01F};
        model.precision = precision;
        model.layer_precision = std::move(given);
        return products_of(tokens_task(model).architecture);
    };
    const auto gelu = TransformerSpec::Activation::gelu;
    const auto swiglu = TransformerSpec::Activation::swiglu;
    const Products plain = of(kF32, {}, gelu);
    EXPECT_EQ(plain.bytes, 0U);
    EXPECT_EQ(of(kInt8, {}, gelu), (Products{plain.floats - 3 * 4, 3 * 4}));
    EXPECT_EQ(of(kInt8, {{"h.0.attn", kF32}}, gelu), (Products{plain.floats - 3 * 2, 3 * 2}));
    EXPECT_EQ(of(kF32, {{"h.0.experts", kInt8}}, swiglu).bytes, 3U * 3);
    EXPECT_EQ(of(kF32, {{"h.0.experts.w_gate", kInt8}}, swiglu).bytes, 3U);
}

// --- What they compute
// --------------------------------------------------------------------------------------------------

struct Pair {
    const char* name;
    Task floats;
    Task bytes;
};
std::vector<Pair> pairs() {
    std::vector<Pair> result;
    result.push_back({"layers", rows_task(layers(kF32, kF32, kF32)), rows_task(layers(kInt8, kInt8, kInt8))});
    result.push_back({"network", rows_task(network({})), rows_task(network({{}, kInt8, {}}))});
    TransformerSpec model = transformer_spec(2);
    const Task plain = tokens_task(model);
    model.precision = kInt8;
    model.layer_precision = {{"h.0.mlp", kF32}};
    result.push_back({"transformer", plain, tokens_task(model)});
    // Attention in f32, so that its tokens go to the same experts.
    TransformerSpec experts = transformer_spec(1);
    experts.experts = {4, 2, 1.25F, 0.01F};
    const Task routed = tokens_task(experts);
    experts.layer_precision = {{"h.0.experts", kInt8}};
    result.push_back({"experts", routed, tokens_task(experts)});
    return result;
}

double number(const State& state, std::size_t slot, std::size_t at) {
    return __builtin_bit_cast(float, state[slot].words[at]);
}
double loss_of(const BuiltProgram& built, const State& state) {
    return number(state, built.program.header.loss_slot, 0);
}

// By a step of plain descent with the rate 1, which takes the gradient from each parameter.
TEST(BytesOfModels, have_gradients_near_those_of_f32) {
    for (Pair& pair : pairs()) {
        SCOPED_TRACE(pair.name);
        State before;
        std::vector<State> after;
        std::vector<BuiltProgram> programs;
        for (Task* const task : {&pair.floats, &pair.bytes}) {
            task->architecture.optimizer.type = OptimizerConfig::Type::sgd;
            task->architecture.optimizer.learning_rate = 1.0F;
            auto built = build_training_program(task->architecture);
            ASSERT_TRUE(built) << built.error().to_string();
            before = initial_state(*built, 3);
            State state = before;
            vm::tensor::Executor executor(built->program, vm::tensor::arith::best_backend(), nullptr);
            ASSERT_TRUE(executor.step(state, task->data, kSeed));
            after.push_back(std::move(state));
            programs.push_back(std::move(*built));
        }
        ASSERT_EQ(programs[0].program.slots, programs[1].program.slots) << "the same slots, in either precision";
        const double loss = loss_of(programs[0], after[0]);
        EXPECT_NEAR(loss_of(programs[1], after[1]), loss, 0.01 * loss);
        for (std::size_t slot = 0; slot < before.size(); ++slot) {
            const auto& spec = programs[0].program.slots[slot];
            if ((spec.flags & vm::tensor::kSlotParameter) == 0) continue;
            double difference = 0;
            double size = 0;
            for (std::size_t i = 0; i < spec.shape.elements(); ++i) {
                const double gradient = number(before, slot, i) - number(after[0], slot, i);
                difference += std::pow(number(after[1], slot, i) - number(after[0], slot, i), 2);
                size += gradient * gradient;
            }
            EXPECT_GT(size, 0.0) << spec.name;
            EXPECT_LT(difference, 0.06 * 0.06 * size) << spec.name;
            EXPECT_GT(difference, 0.0) << spec.name;
        }
    }
}

TEST(BytesOfModels, learn_as_f32_does) {
    for (Pair& pair : pairs()) {
        SCOPED_TRACE(pair.name);
        std::vector<double> losses;
        for (Task* const task : {&pair.floats, &pair.bytes}) {
            task->architecture.optimizer.learning_rate = 3e-3F;
            const auto built = build_training_program(task->architecture);
            ASSERT_TRUE(built) << built.error().to_string();
            State state = initial_state(*built, 3);
            vm::tensor::Executor executor(built->program, vm::tensor::arith::best_backend(), nullptr);
            double first = 0;
            double last = 0;
            for (int step = 0; step < 120; ++step) {
                ASSERT_TRUE(executor.step(state, task->data, kSeed));
                (step < 10 ? first : last) += step < 10 || step >= 110 ? loss_of(*built, state) / 10 : 0;
            }
            EXPECT_LT(last, 0.7 * first);
            losses.push_back(last);
        }
        EXPECT_NEAR(losses[1], losses[0], 0.15 * losses[0]);
    }
}

TEST(BytesOfModels, give_the_same_bits_on_every_backend) {
    for (const Pair& pair : pairs()) {
        SCOPED_TRACE(pair.name);
        const auto built = build_training_program(pair.bytes.architecture);
        ASSERT_TRUE(built) << built.error().to_string();
        std::set<std::string> roots;
        for (const auto backend : vm::tensor::arith::kBackends) {
            if (!vm::tensor::arith::available(backend)) continue;
            State state = initial_state(*built, 3);
            vm::tensor::Executor executor(built->program, backend, nullptr);
            for (int step = 0; step < 3; ++step) ASSERT_TRUE(executor.step(state, pair.bytes.data, kSeed));
            roots.insert(to_hex(vm::tensor::state_root(state)));
        }
        EXPECT_EQ(roots.size(), 1U);
    }
}

// What rounds gradients and what drops are drawn by keys of their own.
TEST(BytesOfModels, draw_by_other_keys_than_dropout) {
    LayersSpec model = layers(kInt8, kInt8, kInt8);
    model.layers.insert(model.layers.begin() + 1, DropoutLayer{0.5F});
    model.layers.push_back(DropoutLayer{0.5F});
    const auto built = build_training_program(rows_task(model).architecture);
    ASSERT_TRUE(built) << built.error().to_string();
    const Task task = rows_task(model);
    const auto outputs = vm::tensor::Executor(built->program, vm::tensor::arith::best_backend(), nullptr)
                             .run_all(initial_state(*built, 3), task.data, kSeed);
    std::set<std::vector<std::uint32_t>> keys;
    std::size_t uses = 0;
    for (const Node& node : built->program.nodes)
        if (node.op == Op::philox || node.op == Op::philox_words) {
            keys.insert(outputs[node.inputs[0]].words);
            ++uses;
        }
    EXPECT_EQ(uses, 2U + 5) << "two layers that drop; gradients of three weights and two inputs";
    EXPECT_EQ(keys.size(), uses);
}

// Outside training nothing is rounded at random, and what is sampled is what was trained.
TEST(BytesOfModels, are_evaluated_in_bytes_without_a_key) {
    for (const Pair& pair : pairs()) {
        const auto built = build_evaluation_program(pair.bytes.architecture);
        ASSERT_TRUE(built) << pair.name << ": " << built.error().to_string();
        EXPECT_GT(count_of(built->program, Op::imatmul), 0U) << pair.name;
        EXPECT_EQ(count_of(built->program, Op::philox_words), 0U) << pair.name;
    }
}

}  // namespace
}  // namespace quern::compute::program
