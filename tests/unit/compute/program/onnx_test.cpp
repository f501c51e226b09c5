// Networks in ONNX files that PyTorch wrote (tests/vectors/onnx, made by make.py there): what they compute and their
// gradients against PyTorch's own numbers, and files that no one should have written.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "compute/program/initial_state.h"
#include "compute/program/network_lowering.h"
#include "compute/program/onnx_file.h"
#include "unit/compute/program/network_cases.h"
#include "vm/tensor/arith/random.h"
#include "vm/tensor/executor.h"

namespace quern::compute::program {
namespace {

using vm::tensor::State;
using vm::tensor::Tensor;

const Tensor kSeed{DType::i32, vector_shape(4), {1, 2, 3, 4}};

Bytes file_of(const std::string& name) { return vector_file(QUERN_ONNX_VECTORS, name); }

Network network_of(const std::string& name) {
    auto network = read_onnx(file_of(name));
    EXPECT_TRUE(network) << network.error().to_string();
    return network ? std::move(*network) : Network{};
}

float as_float(std::uint32_t word) { return __builtin_bit_cast(float, word); }

// Sums of both sides go in other orders; the networks are a few layers deep.
constexpr std::array<NetworkCase, 6> kCases{{{"resnet", 4, true, 2e-4},
                                             {"zoo", 3, true, 2e-4},
                                             {"gpt", 40, false, 2e-4},
                                             {"encoder", 3, false, 2e-4},
                                             {"lstm", 30, false, 2e-4},
                                             {"gru", 2, false, 2e-4}}};

class OnnxFiles : public testing::TestWithParam<NetworkCase> {};

TEST_P(OnnxFiles, compute_and_have_the_gradients_that_their_framework_says) {
    const NetworkCase& each = GetParam();
    expect_trains_as_its_framework(network_of(std::string(each.name) + ".onnx"), each,
                                   numbers_of_case(QUERN_ONNX_VECTORS, each));
}

TEST_P(OnnxFiles, exported_for_inference_compute_the_same) {
    const NetworkCase& each = GetParam();
    expect_evaluates_as_its_framework(network_of(std::string(each.name) + "-eval.onnx"), each,
                                      numbers_of_case(QUERN_ONNX_VECTORS, each));
}

INSTANTIATE_TEST_SUITE_P(all, OnnxFiles, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

// --- Networks of a few nodes
// ---------------------------------------------------------------------------------------------

NetworkNode node(std::string op, std::vector<std::string> inputs, std::vector<std::string> outputs,
                 std::map<std::string, NetworkAttribute> attributes = {}) {
    return {std::move(op), "", std::move(inputs), std::move(outputs), std::move(attributes)};
}

NetworkTensor whole(Dims dims, std::vector<std::int64_t> numbers) {
    NetworkTensor tensor{std::move(dims), false, {}, {}};
    tensor.whole = std::move(numbers);
    return tensor;
}
NetworkTensor floats(Dims dims, const std::vector<float>& numbers) {
    std::vector<std::uint32_t> words;
    for (const float each : numbers) words.push_back(__builtin_bit_cast(std::uint32_t, each));
    return {std::move(dims), true, std::make_shared<const std::vector<std::uint32_t>>(std::move(words)), {}};
}

// Of rows of so many numbers, "x" to "y".
Network small(std::vector<NetworkNode> nodes, std::map<std::string, NetworkTensor> initializers = {},
              std::uint32_t opset = 13) {
    Network network;
    network.input = "x";
    network.output = "y";
    network.opset = opset;
    network.initializers = std::move(initializers);
    network.nodes = std::move(nodes);
    return network;
}

// The network's y of rows of x; the name of what is wrong with it as an error.
Expected<Tensor> outputs_of(const Network& network, const std::vector<float>& x, std::uint32_t rows,
                            const LayersPass& pass = {false, {}}) {
    Builder b;
    b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
    const Shape shape = matrix_shape(rows, static_cast<std::uint32_t>(x.size() / rows));
    const auto input = b.slot("x", DType::f32, shape, Initializer::given(floats({}, x).floats));
    LayersSlots slots;
    LayersPass with_key = pass;
    if (pass.training) with_key.key = b.seed();
    const auto y = apply_network(b, network, {}, {input, rows, {}}, with_key, slots).rows;
    const auto work = b.slot("work", DType::f32, matrix_shape(128, 128), Initializer::zeros());
    b.update(work, b.matmul(work, work));
    b.update(b.slot("y", DType::f32, b.shape(y), Initializer::zeros()), y);
    QUERN_TRY(const BuiltProgram built, b.finish());
    State state = initial_state(built, 1);
    vm::tensor::Executor executor(built.program, vm::tensor::arith::best_backend(), nullptr);
    EXPECT_TRUE(executor.step(state, vm::tensor::MemoryData{}, kSeed));
    QUERN_TRY(const std::size_t slot, slot_index(built.program, "y", "missing"));
    return state[slot];
}
std::string error_of(const Network& network, const std::vector<float>& x = {1, 2, 3, 4}, std::uint32_t rows = 2) {
    const auto result = outputs_of(network, x, rows);
    return result ? "none" : result.error().to_string();
}
std::vector<float> numbers_of(const Expected<Tensor>& tensor) {
    std::vector<float> numbers;
    EXPECT_TRUE(tensor) << tensor.error().to_string();
    if (tensor)
        for (const std::uint32_t word : tensor->words) numbers.push_back(as_float(word));
    return numbers;
}

using Numbers = std::vector<float>;
using Whole = std::vector<std::int64_t>;

TEST(Network, says_which_node_it_cannot_lay_and_why) {
    const auto starts = [](const std::string& text, const std::string& with) { return text.substr(0, with.size()); };
    auto network = small({node("Relu", {"x"}, {"a"}), node("Resize", {"a"}, {"y"})});
    network.nodes[1].name = "/up/Resize";
    const std::string unknown = "onnx.unsupported_op: node 1 (Resize /up/Resize): known: Abs, Add,";
    EXPECT_EQ(starts(error_of(network), unknown), unknown);
    EXPECT_EQ(error_of(small({node("Add", {"x"}, {"y"})})), "onnx.bad_node: node 0 (Add): 1 inputs, 1 outputs");
    EXPECT_EQ(error_of(small({node("Add", {"x", ""}, {"y"})})), "onnx.bad_node: node 0 (Add): input 1 is left out");
    EXPECT_EQ(error_of(small({node("Transpose", {"x"}, {"y"}, {{"perm", Whole{0, 0}}})})),
              "onnx.bad_node: node 0 (Transpose): an axis twice");
    EXPECT_EQ(error_of(small({node("MatMul", {"x", "w"}, {"y"})}, {{"w", floats({3, 1}, {1, 2, 3})}})),
              "onnx.bad_node: node 0 (MatMul): inner dims 2 and 3");
    EXPECT_EQ(error_of(small({node("Reshape", {"x", "s"}, {"y"})}, {{"s", whole({2}, {-1, 3})}})),
              "onnx.bad_node: node 0 (Reshape): the input has 4 elements");
    EXPECT_EQ(error_of(small({node("Reshape", {"x", "s"}, {"y"})}, {{"s", whole({2}, {1LL << 40, 1LL << 40})}})),
              "onnx.bad_node: node 0 (Reshape): more elements than there are");
    EXPECT_EQ(error_of(small({node("Softmax", {"x"}, {"y"}, {{"axis", std::int64_t{5}}})})),
              "onnx.bad_node: node 0 (Softmax): axis 5 of 2 dims");
    EXPECT_EQ(error_of(small({node("Softmax", {"x"}, {"y"}, {{"axis", 1.0F}})})),
              "onnx.bad_node: node 0 (Softmax): axis");
    EXPECT_EQ(error_of(small({node("Relu", {"i"}, {"y"})}, {{"i", whole({2}, {1, 2})}})),
              "onnx.bad_node: node 0 (Relu): numbers, not whole ones");
    EXPECT_EQ(error_of(small({node("ConstantOfShape", {"s"}, {"y"})}, {{"s", whole({2}, {1 << 30, 1 << 30})}})),
              "onnx.too_large: node 0 (ConstantOfShape): [1073741824,1073741824]");
    EXPECT_EQ(error_of(small({node("Shape", {"x"}, {"y"})})),
              "onnx.unsupported: the output y is none that is computed in numbers");
    EXPECT_EQ(error_of(small({node("Conv", {"x", "w"}, {"y"})}, {{"w", floats({1, 1, 1}, {1})}})),
              "onnx.bad_node: node 0 (Conv): dims of the weight");
}

TEST(Network, takes_the_input_that_its_dims_say) {
    auto network = small({node("Relu", {"x"}, {"y"})});
    network.input_dims = {0, 2};
    EXPECT_EQ(error_of(network), "none");
    network.input_dims = {0, 3};
    EXPECT_EQ(error_of(network), "onnx.bad_input: x is [0,3] (0: any), a batch is [2,2]");
    network.input_dims = {1, 2};
    EXPECT_EQ(error_of(network),
              "onnx.bad_input: x is [1,2] (0: any), a batch is [2,2]; export the batch as a dynamic axis");
}

// Shapes that are computed from shapes, as exporters leave them for batches of any size.
TEST(Network, folds_whole_numbers) {
    const auto network = small(
        {node("Shape", {"x"}, {"shape"}), node("Gather", {"shape", "one"}, {"width"}, {{"axis", std::int64_t{0}}}),
         node("Mul", {"width", "two"}, {"twice"}), node("Unsqueeze", {"twice", "zero"}, {"list"}),
         node("Concat", {"list", "minus"}, {"wanted"}, {{"axis", std::int64_t{0}}}),
         node("Reshape", {"x", "wanted"}, {"y"})},
        {{"one", whole({}, {1})}, {"two", whole({}, {2})}, {"zero", whole({1}, {0})}, {"minus", whole({1}, {-1})}});
    const auto result = outputs_of(network, {1, 2, 3, 4, 5, 6, 7, 8}, 4);
    ASSERT_TRUE(result) << result.error().to_string();
    EXPECT_EQ(result->shape, matrix_shape(4, 2));
    const auto wraps = small({node("Add", {"a", "a"}, {"b"}), node("Cast", {"b"}, {"c"}, {{"to", std::int64_t{1}}}),
                              node("Add", {"x", "c"}, {"y"})},
                             {{"a", whole({}, {std::numeric_limits<std::int64_t>::max()})}});
    EXPECT_EQ(numbers_of(outputs_of(wraps, {1, 2}, 1)), (Numbers{-1, 0}));
    const auto by_zero =
        small({node("Div", {"a", "b"}, {"c"}), node("Cast", {"c"}, {"d"}, {{"to", std::int64_t{1}}}),
               node("Add", {"x", "d"}, {"y"})},
              {{"a", whole({2}, {7, std::numeric_limits<std::int64_t>::min()})}, {"b", whole({2}, {0, -1})}});
    EXPECT_EQ(error_of(by_zero), "onnx.unsupported: node 1 (Cast): c holds -9223372036854775808, not of 32 bits");
}

TEST(Network, moves_words_as_the_standard_says) {
    const Numbers x{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    const auto moved = [&](std::vector<NetworkNode> nodes, std::map<std::string, NetworkTensor> initializers = {}) {
        return numbers_of(outputs_of(small(std::move(nodes), std::move(initializers)), x, 2));
    };
    EXPECT_EQ(moved({node("Reshape", {"x", "s"}, {"a"}), node("Transpose", {"a"}, {"y"}, {{"perm", Whole{2, 0, 1}}})},
                    {{"s", whole({3}, {2, 3, 2})}}),
              (Numbers{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11}));
    // Six dims that no neighbours can be joined of.
    EXPECT_EQ(
        moved({node("Reshape", {"x", "s"}, {"a"}), node("Transpose", {"a"}, {"b"}, {{"perm", Whole{4, 3, 2, 1, 0}}}),
               node("Reshape", {"b", "t"}, {"y"})},
              {{"s", whole({5}, {1, 2, 3, 2, 1})}, {"t", whole({2}, {2, -1})}}),
        (Numbers{0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11}));
    EXPECT_EQ(
        moved(
            {node("Slice", {"x", "b", "e", "a", "s"}, {"y"})},
            {{"b", whole({1}, {1})}, {"e", whole({1}, {INT64_MAX})}, {"a", whole({1}, {-1})}, {"s", whole({1}, {2})}}),
        (Numbers{1, 3, 5, 7, 9, 11}));
    EXPECT_EQ(moved({node("Slice", {"x", "b", "e"}, {"y"})}, {{"b", whole({2}, {0, -2})}, {"e", whole({2}, {1, 99})}}),
              (Numbers{4, 5}));
    EXPECT_EQ(moved({node("Split", {"x", "p"}, {"", "y"}, {{"axis", std::int64_t{1}}})}, {{"p", whole({2}, {4, 2})}}),
              (Numbers{4, 5, 10, 11}))
        << "the first output is left out";
}

TEST(Network, an_output_that_is_not_computed_is_refused) {
    EXPECT_EQ(error_of(small({node("Dropout", {"x"}, {"a", "mask"}), node("Add", {"a", "mask"}, {"y"})})),
              "onnx.unsupported: node 1 (Add): mask, an output that is not computed");
    EXPECT_EQ(
        error_of(small({node("Slice", {"x", "b", "b"}, {""}), node("Relu", {"x"}, {"y"})}, {{"b", whole({1}, {0})}})),
        "none");
}

// Operands of five dims, of which two neighbours go together.
TEST(Network, broadcasts_more_than_four_dims_where_they_join) {
    const auto network =
        small({node("Reshape", {"x", "s"}, {"a"}), node("Mul", {"a", "w"}, {"b"}), node("Flatten", {"b"}, {"y"})},
              {{"s", whole({5}, {2, 1, 2, 1, 2})}, {"w", floats({2, 1, 1}, {1, 10})}});
    EXPECT_EQ(numbers_of(outputs_of(network, {1, 2, 3, 4, 5, 6, 7, 8}, 2)), (Numbers{1, 2, 30, 40, 5, 6, 70, 80}));
    const auto apart =
        small({node("Reshape", {"x", "s"}, {"a"}), node("Mul", {"a", "w"}, {"b"}), node("Flatten", {"b"}, {"y"})},
              {{"s", whole({5}, {2, 2, 2, 2, 2})}, {"w", floats({2, 1, 2, 1, 2}, Numbers(8, 1))}});
    EXPECT_EQ(error_of(apart, Numbers(32, 1), 2).substr(0, 17), "onnx.unsupported:");
}

// The files of tests/vectors/onnx have all other operations.
TEST(Network, operations_of_no_file_compute_what_the_standard_says) {
    const Numbers x{-2, -0.5F, 1, 3};
    const auto expect = [&](const std::vector<NetworkNode>& nodes, const Numbers& wanted) {
        const std::string& op = nodes[nodes.size() > 1 && nodes.back().op == "Where" ? nodes.size() - 2 : 0].op;
        const auto found = numbers_of(outputs_of(small(nodes, {{"w", floats({1, 4}, {-2, 0, 1, 2})},
                                                               {"one", floats({1}, {1})},
                                                               {"zero", floats({1}, {0})},
                                                               {"axis", whole({1}, {1})},
                                                               {"thrice", whole({2}, {3, 4})},
                                                               {"pairs", whole({3}, {1, 2, 2})}}),
                                                 x, 1));
        ASSERT_EQ(found.size(), wanted.size()) << op;
        for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-6F) << op << " at " << i;
    };
    const auto truth = [&](std::vector<NetworkNode> nodes, const Numbers& wanted) {
        nodes.push_back(node("Where", {"c", "one", "zero"}, {"y"}));
        expect(nodes, wanted);
    };
    expect({node("Tanh", {"x"}, {"y"})}, {std::tanh(-2.0F), std::tanh(-0.5F), std::tanh(1.0F), std::tanh(3.0F)});
    expect({node("Selu", {"x"}, {"y"})}, {-1.5201665F, -0.6917582F, 1.050701F, 3.152103F});
    expect({node("Reciprocal", {"x"}, {"y"})}, {-0.5F, -2, 1, 1.0F / 3});
    expect({node("HardSigmoid", {"x"}, {"y"})}, {0.1F, 0.4F, 0.7F, 1});
    expect({node("Abs", {"x"}, {"a"}), node("Log", {"a"}, {"y"})}, {std::log(2.0F), std::log(0.5F), 0, std::log(3.0F)});
    expect({node("Max", {"x", "w"}, {"y"})}, {-2, 0, 1, 3});
    expect({node("Min", {"x", "w"}, {"y"})}, {-2, -0.5F, 1, 2});
    expect({node("Sum", {"x", "w", "x"}, {"y"})}, {-6, -1, 3, 8});
    expect({node("ReduceSum", {"x", "axis"}, {"y"})}, {1.5F});
    expect({node("Expand", {"x", "thrice"}, {"y"})}, {-2, -0.5F, 1, 3, -2, -0.5F, 1, 3, -2, -0.5F, 1, 3});
    expect({node("Reshape", {"x", "pairs"}, {"a"}), node("GlobalMaxPool", {"a"}, {"y"})}, {-0.5F, 3});
    truth({node("Greater", {"x", "w"}, {"c"})}, {0, 0, 0, 1});
    truth({node("GreaterOrEqual", {"x", "w"}, {"c"})}, {1, 0, 1, 1});
    truth({node("Less", {"x", "w"}, {"c"})}, {0, 1, 0, 0});
    truth({node("LessOrEqual", {"x", "w"}, {"c"})}, {1, 1, 1, 0});
    const std::vector<NetworkNode> both{node("LessOrEqual", {"x", "w"}, {"a"}), node("Greater", {"x", "w"}, {"b"})};
    truth({both[0], node("Not", {"a"}, {"c"})}, {0, 0, 0, 1});
    truth({both[0], node("GreaterOrEqual", {"x", "w"}, {"b"}), node("And", {"a", "b"}, {"c"})}, {1, 0, 1, 0});
    truth({both[1], node("Equal", {"x", "w"}, {"a"}), node("Or", {"a", "b"}, {"c"})}, {1, 0, 1, 1});
}

TEST(Network, dropout_is_drawn_by_the_key_in_training_alone) {
    const auto network = small({node("Dropout", {"x", "r", "t"}, {"a"}), node("Dropout", {"x", "r", "t"}, {"b"}),
                                node("Concat", {"a", "b"}, {"y"}, {{"axis", std::int64_t{1}}})},
                               {{"r", floats({}, {0.25F})}, {"t", whole({}, {1})}});
    const Numbers ones(512, 1.0F);
    EXPECT_EQ(numbers_of(outputs_of(network, ones, 1)), Numbers(1024, 1.0F));
    const Numbers dropped = numbers_of(outputs_of(network, ones, 1, {true, {}}));
    ASSERT_EQ(dropped.size(), 1024U);
    const auto zeros = std::count(dropped.begin(), dropped.end(), 0.0F);
    EXPECT_GT(zeros, 190);
    EXPECT_LT(zeros, 320);
    EXPECT_EQ(std::count(dropped.begin(), dropped.end(), 1.0F / 0.75F) + zeros, 1024);
    EXPECT_NE(Numbers(dropped.begin(), dropped.begin() + 512), Numbers(dropped.begin() + 512, dropped.end()))
        << "each use draws of its own";
}

std::vector<std::string> trained_by(const Network& network, const std::set<std::string>& frozen) {
    Builder b;
    const auto input = b.slot("x", DType::f32, matrix_shape(2, 2), Initializer::zeros());
    LayersSlots slots;
    (void)apply_network(b, network, {frozen, Precision::f32, {}}, {input, 2, {}}, {}, slots);
    std::vector<std::string> names;
    for (const Parameter& each : slots.parameters) names.push_back(each.name + (each.decay ? "*" : ""));
    if (!b.status()) names.push_back(b.status().error().to_string());
    return names;
}

TEST(Network, trains_what_has_a_derivative_and_is_not_frozen) {
    const auto network = small(
        {node("MatMul", {"x", "w"}, {"a"}), node("Mul", {"a", "scale"}, {"b"}), node("Mul", {"b", "/folded"}, {"c"}),
         node("Greater", {"mask", "c"}, {"d"}), node("Where", {"d", "c", "e"}, {"y"})},
        {{"w", floats({2, 2}, {1, 2, 3, 4})},
         {"scale", floats({1}, {2})},
         {"/folded", floats({1}, {2})},
         {"mask", floats({2, 2}, {1, 0, 1, 5})},
         {"e", floats({2}, {1, 2})}});
    EXPECT_EQ(trained_by(network, {}), (std::vector<std::string>{"model.w*", "model.scale", "model.e"}));
    EXPECT_EQ(trained_by(network, {"w", "e"}), (std::vector<std::string>{"model.scale"}));
    EXPECT_EQ(trained_by(network, {"nothing"}), (std::vector<std::string>{"onnx.unknown_frozen: nothing"}));
}

TEST(Network, trains_finite_numbers_alone) {
    const auto with = [](float number) {
        return small({node("Mul", {"x", "w"}, {"a"}), node("Add", {"a", "b"}, {"y"})},
                     {{"w", floats({2}, {1, number})}, {"b", floats({2}, {1, 2})}});
    };
    EXPECT_EQ(trained_by(with(3), {}), (std::vector<std::string>{"model.w", "model.b"}));
    EXPECT_EQ(trained_by(with(-INFINITY), {}), (std::vector<std::string>{"model.b"})) << "a mask";
    EXPECT_EQ(error_of(with(NAN)), "onnx.not_a_number: node 0 (Mul): w is to be trained");
    EXPECT_EQ(trained_by(with(NAN), {"w"}), (std::vector<std::string>{"model.b"}));
}

// Constants that a node can make take no slot; others keep their words in one.
TEST(Network, constants_are_patterns_or_slots) {
    const auto slots_of = [](const NetworkTensor& constant) {
        Builder b;
        const auto input = b.slot("x", DType::f32, matrix_shape(3, 3), Initializer::zeros());
        b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
        LayersSlots slots;
        const auto network =
            small({node("Constant", {}, {"c"}, {{"value", constant}}), node("Add", {"x", "c"}, {"y"})});
        const auto y = apply_network(b, network, {}, {input, 3, {}}, {}, slots).rows;
        b.update(input, y);
        const auto work = b.slot("work", DType::f32, matrix_shape(128, 128), Initializer::zeros());
        b.update(work, b.matmul(work, work));
        const auto built = b.finish();
        EXPECT_TRUE(built) << built.error().to_string();
        std::string names;
        for (const auto& slot : built->program.slots)
            if (slot.name.starts_with("constant.")) names += slot.name;
        State state = initial_state(*built, 1);
        vm::tensor::Executor executor(built->program, vm::tensor::arith::best_backend(), nullptr);
        EXPECT_TRUE(executor.step(state, vm::tensor::MemoryData{}, kSeed));
        EXPECT_EQ(std::vector<std::uint32_t>(state[0].words.begin(), state[0].words.end()), *constant.floats);
        return names;
    };
    EXPECT_EQ(slots_of(floats({3, 3}, Numbers(9, 2.5F))), "");
    EXPECT_EQ(slots_of(floats({3, 3}, {1, 0, 0, 1, 1, 0, 1, 1, 1})), "");
    EXPECT_EQ(slots_of(floats({3, 3}, {1, 0, 0, 1, 1, 0, 1, 2, 1})), "constant.c");
}

// Nodes that hand on large known tensors end before they take the memory.
TEST(Network, known_numbers_have_a_bound) {
    std::vector<NetworkNode> nodes{node("ConstantOfShape", {"s"}, {"0"}, {{"value", whole({1}, {7})}})};
    for (int i = 1; i < 40; ++i) nodes.push_back(node("Identity", {std::to_string(i - 1)}, {std::to_string(i)}));
    nodes.push_back(node("Relu", {"x"}, {"y"}));
    EXPECT_EQ(error_of(small(nodes, {{"s", whole({1}, {1 << 20})}})),
              "onnx.too_large: node 16 (Identity): whole numbers of more than 2^24 elements in all");
    EXPECT_EQ(error_of(small(nodes, {{"s", whole({1}, {(1 << 20) + 1})}})),
              "onnx.too_large: node 0 (ConstantOfShape): whole numbers of more than 2^20 elements");
}

// 2^20 whole numbers, "big", and their table, "table", of one column.
std::vector<NetworkNode> with_big(std::vector<NetworkNode> nodes) {
    std::vector<NetworkNode> all{node("ConstantOfShape", {"s"}, {"big"}, {{"value", whole({1}, {0})}}),
                                 node("Unsqueeze", {"big", "zero"}, {"table"})};
    for (NetworkNode& each : nodes) all.push_back(std::move(each));
    all.push_back(node("Relu", {"x"}, {"y"}));
    return all;
}
std::string error_with_big(std::vector<NetworkNode> nodes, const std::vector<std::int64_t>& dims = {1 << 20}) {
    return error_of(small(with_big(std::move(nodes)), {{"s", whole({dims.size()}, dims)},
                                                       {"zero", whole({1}, {0})},
                                                       {"empty", whole({0}, {})},
                                                       {"hole", whole({1, 0}, {})}}));
}

TEST(Network, known_numbers_are_counted_before_they_are_made) {
    const std::string too_large = "whole numbers of more than 2^20 elements";
    EXPECT_EQ(error_with_big({node("Gather", {"table", "big"}, {"g"}, {{"axis", std::int64_t{0}}})}),
              "onnx.too_large: node 2 (Gather): " + too_large)
        << "2^40";
    EXPECT_EQ(
        error_with_big({node("Concat", std::vector<std::string>(1024, "big"), {"g"}, {{"axis", std::int64_t{0}}})}),
        "onnx.too_large: node 2 (Concat): " + too_large)
        << "2^30";
    // Indices alone are work too.
    const std::vector<NetworkNode> gathers(17, node("Gather", {"hole", "big"}, {""}, {{"axis", std::int64_t{0}}}));
    EXPECT_EQ(error_with_big(gathers),
              "onnx.too_large: node 16 (Gather): whole numbers of more than 2^24 elements in all");
}

TEST(Network, known_numbers_without_a_name_are_counted) {
    const std::vector<NetworkNode> adds(50'000, node("Add", {"big", "big"}, {""}));
    EXPECT_EQ(error_with_big(adds), "onnx.too_large: node 16 (Add): whole numbers of more than 2^24 elements in all");
    const std::vector<NetworkNode> splits(50'000, node("Split", {"big"}, {"", ""}));
    EXPECT_EQ(error_with_big(splits),
              "onnx.too_large: node 16 (Split): whole numbers of more than 2^24 elements in all");
}

// Where one dim is 0 the others say nothing of the elements there are.
TEST(Network, empty_known_numbers_have_bounded_dims_and_take_no_time) {
    const auto with_list = [](std::vector<NetworkNode> nodes, const Whole& list, const Dims& hole) {
        nodes.push_back(node("Relu", {"x"}, {"y"}));
        return error_of(small(std::move(nodes), {{"list", whole({list.size()}, list)},
                                                 {"empty", whole({0}, {})},
                                                 {"hole", whole(hole, {})},
                                                 {"zero", whole({1}, {0})}}));
    };
    constexpr std::int64_t kFar = std::int64_t{1} << 62;
    const std::vector<NetworkNode> reads{node("Reshape", {"empty", "list"}, {"r"}),
                                         node("Gather", {"r", "zero"}, {"g"})};
    EXPECT_EQ(with_list(reads, {kFar, 4}, {0}), "onnx.bad_node: node 0 (Reshape): the input has 0 elements");
    EXPECT_EQ(with_list(reads, {kFar, 1 << 20, 4}, {0}), "onnx.bad_node: node 0 (Reshape): the input has 0 elements");
    EXPECT_EQ(with_list(reads, {0, kFar, 4}, {0}), "onnx.too_large: node 0 (Reshape): [0,4611686018427387904,4]");
    const Dims large{1 << 12, 1 << 12, 0};
    EXPECT_EQ(with_list({node("Concat", {"hole", "hole"}, {"c"}, {{"axis", std::int64_t{2}}}),
                         node("Gather", {"hole", "empty"}, {"g"}, {{"axis", std::int64_t{2}}})},
                        {0}, large),
              "none");
    EXPECT_EQ(with_list({node("Concat", {"hole", "hole"}, {"c"}, {{"axis", std::int64_t{1}}})}, {0}, large),
              "onnx.too_large: node 0 (Concat): [4096,8192,0]");
    EXPECT_EQ(with_list({node("Concat", {"hole", "hole"}, {"c"}, {{"axis", std::int64_t{2}}})}, {0},
                        {1ULL << 26, 1ULL << 26, 0}),
              "onnx.too_large: node 0 (Concat): [67108864,67108864,0]")
        << "at once: 2^52 rows of nothing";
}

TEST(Network, operations_are_found_by_name) {
    const std::string known = error_of(small({node("?", {"x"}, {"y"})}));
    std::vector<std::string> names;
    std::string rest = known.substr(known.find("known: ") + 7);
    for (std::size_t end = 0; end != std::string::npos; rest = end == std::string::npos ? "" : rest.substr(end + 2)) {
        end = rest.find(", ");
        names.push_back(rest.substr(0, end));
    }
    EXPECT_GT(names.size(), 60U);
    for (const std::string& name : names)
        EXPECT_EQ(error_of(small({node(name, std::vector<std::string>(2000, "x"), {"y"})})).substr(0, 14),
                  "onnx.bad_node:")
            << name;
}

// --- Files that no one should have written
// -------------------------------------------------------------------------------

std::string error_of_file(BytesView file) {
    const auto network = read_onnx(file);
    return network ? "none" : std::string(network.error().name);
}

onnx::ModelProto model_of(const std::string& name) {
    onnx::ModelProto model;
    const Bytes file = file_of(name);
    EXPECT_TRUE(model.ParseFromArray(file.data(), static_cast<int>(file.size())));
    return model;
}
std::string error_with(const std::function<void(onnx::ModelProto&)>& change) {
    onnx::ModelProto model = model_of("gru.onnx");
    change(model);
    const std::string bytes = model.SerializeAsString();
    return error_of_file(as_bytes(bytes));
}

TEST(OnnxFile, refuses_what_it_has_no_place_for) {
    EXPECT_EQ(error_with([](auto&) {}), "none");
    EXPECT_EQ(error_of_file(as_bytes(std::string_view("no model"))), "onnx.not_onnx");
    EXPECT_EQ(error_of_file({}), "onnx.not_onnx");
    EXPECT_EQ(error_with([](auto& m) { m.mutable_opset_import(0)->set_version(8); }), "onnx.unknown_version");
    EXPECT_EQ(error_with([](auto& m) { m.mutable_opset_import(0)->set_version(18); }), "onnx.unknown_version");
    EXPECT_EQ(error_with([](auto& m) { m.clear_opset_import(); }), "onnx.unknown_version");
    EXPECT_EQ(error_with([](auto& m) { m.add_functions(); }), "onnx.subgraph");
    EXPECT_EQ(error_with([](auto& m) { m.mutable_graph()->add_sparse_initializer(); }), "onnx.bad_tensor");
    EXPECT_EQ(error_with([](auto& m) { m.mutable_graph()->clear_output(); }), "onnx.no_output");
    EXPECT_EQ(error_with([](auto& m) { m.mutable_graph()->mutable_output(0)->set_name("?"); }), "onnx.no_output");
    EXPECT_EQ(error_with([](auto& m) { m.mutable_graph()->clear_input(); }), "onnx.inputs");
    EXPECT_EQ(error_with([](auto& m) { m.mutable_graph()->add_input()->set_name("second"); }), "onnx.inputs");
    EXPECT_EQ(error_with([](auto& m) {
                  auto* attribute = m.mutable_graph()->mutable_node(0)->add_attribute();
                  attribute->set_name("body");
                  attribute->set_type(onnx::AttributeProto_AttributeType_GRAPH);
              }),
              "onnx.subgraph");
    EXPECT_EQ(error_with([](auto& m) {
                  auto* attribute = m.mutable_graph()->mutable_node(0)->add_attribute();
                  attribute->set_name("names");
                  attribute->set_type(onnx::AttributeProto_AttributeType_STRINGS);
              }),
              "onnx.bad_attribute");
    EXPECT_EQ(error_with([](auto& m) { m.mutable_graph()->mutable_node(2)->set_input(0, "later"); }),
              "onnx.not_sorted");
    EXPECT_EQ(error_with([](auto& m) { m.mutable_graph()->mutable_node(2)->set_output(0, "input"); }),
              "onnx.duplicate");
    EXPECT_EQ(error_with([](auto& m) { *m.mutable_graph()->add_initializer() = m.graph().initializer(0); }),
              "onnx.duplicate");
    EXPECT_EQ(error_with([](auto& m) { m.mutable_graph()->mutable_node(2)->set_output(0, "a b"); }), "onnx.bad_name");
    // What a terminal would obey is in no name, and so in no message.
    EXPECT_EQ(error_with([](auto& m) { m.mutable_graph()->mutable_node(2)->set_input(0, "\x1b[2J"); }),
              "onnx.bad_name");
    EXPECT_EQ(error_with([](auto& m) { m.mutable_graph()->mutable_output(0)->set_name("\x1b[2J"); }), "onnx.bad_name");
    const auto with_text = [](const std::string& text) {
        return error_with([&](auto& m) {
            auto* attribute = m.mutable_graph()->mutable_node(0)->add_attribute();
            attribute->set_name("kind");
            attribute->set_type(onnx::AttributeProto_AttributeType_STRING);
            attribute->set_s(text);
        });
    };
    EXPECT_EQ(with_text("i,j -> ij"), "none");
    EXPECT_EQ(with_text(""), "none");
    EXPECT_EQ(with_text("\x1b[2J"), "onnx.bad_attribute");
    EXPECT_EQ(with_text("\x7f"), "onnx.bad_attribute");
    EXPECT_EQ(with_text("caf\xc3\xa9"), "onnx.bad_attribute");
    EXPECT_EQ(error_with([](auto& m) { m.mutable_graph()->mutable_initializer(0)->set_name(""); }), "onnx.bad_name");
    EXPECT_EQ(error_with([](auto& m) { m.mutable_graph()->mutable_initializer(0)->set_name(std::string(1025, 'a')); }),
              "onnx.bad_name");
    EXPECT_EQ(error_with([](auto& m) {
                  for (int i = 0; i < 1025; ++i) m.mutable_graph()->mutable_node(0)->add_input();
              }),
              "onnx.too_many");
    EXPECT_EQ(error_with([](auto& m) {
                  for (std::size_t i = 0; i <= kMaxNetworkNodes; ++i) m.mutable_graph()->add_node();
              }),
              "onnx.too_many");
    EXPECT_EQ(
        error_with([](auto& m) { m.mutable_graph()->mutable_node(0)->set_doc_string(std::string(17 << 20, ' ')); }),
        "onnx.too_long");
}

TEST(OnnxFile, tensors_are_what_their_dims_say) {
    const auto with = [](const std::function<void(onnx::TensorProto&)>& change) {
        return error_with([&](onnx::ModelProto& m) { change(*m.mutable_graph()->mutable_initializer(0)); });
    };
    EXPECT_EQ(with([](auto& t) { t.set_dims(0, t.dims(0) + 1); }), "onnx.bad_tensor");
    EXPECT_EQ(with([](auto& t) { t.set_dims(0, -1); }), "onnx.bad_tensor");
    EXPECT_EQ(with([](auto& t) { t.set_dims(0, 0); }), "onnx.bad_tensor");
    EXPECT_EQ(with([](auto& t) {
                  t.set_dims(0, INT64_MAX);
                  t.set_dims(1, INT64_MAX);
              }),
              "onnx.bad_tensor");
    EXPECT_EQ(with([](auto& t) {
                  for (int i = 0; i < 7; ++i) t.add_dims(1);
              }),
              "onnx.bad_tensor");
    const auto empty = [&](std::int64_t other) {
        return with([&](auto& t) {
            t.set_name("hole");
            t.set_data_type(onnx::TensorProto_DataType_INT64);
            t.clear_dims();
            for (const std::int64_t dim : {std::int64_t{0}, other, other}) t.add_dims(dim);
            t.clear_raw_data();
        });
    };
    EXPECT_EQ(empty(1 << 12), "onnx.not_sorted") << "read; a node takes the one that was here";
    EXPECT_EQ(empty(1 << 13), "onnx.bad_tensor") << "2^26 beside the 0";
    EXPECT_EQ(with([](auto& t) { t.mutable_raw_data()->pop_back(); }), "onnx.bad_tensor");
    EXPECT_EQ(with([](auto& t) { t.clear_raw_data(); }), "onnx.bad_tensor");
    EXPECT_EQ(with([](auto& t) { t.set_data_type(onnx::TensorProto_DataType_STRING); }), "onnx.bad_tensor");
    EXPECT_EQ(with([](auto& t) { t.set_data_type(99); }), "onnx.bad_tensor");
    EXPECT_EQ(with([](auto& t) { t.set_data_location(onnx::TensorProto_DataLocation_EXTERNAL); }),
              "onnx.external_data");
}

// Every way in which a tensor can hold its numbers.
TEST(OnnxFile, reads_all_types_of_numbers) {
    struct Way {
        onnx::TensorProto_DataType type;
        std::string raw;
        std::function<void(onnx::TensorProto&)> put;
    };
    const auto read = [](const std::function<void(onnx::TensorProto&)>& change) {
        onnx::ModelProto model = model_of("gru.onnx");
        auto& tensor = *model.mutable_graph()->add_initializer();
        tensor.set_name("extra");
        tensor.add_dims(2);
        change(tensor);
        const auto network = read_onnx(as_bytes(model.SerializeAsString()));
        EXPECT_TRUE(network) << network.error().to_string();
        return network ? network->initializers.at("extra") : NetworkTensor{};
    };
    const auto raw = [&](onnx::TensorProto_DataType type, const Bytes& bytes) {
        return read([&](auto& t) {
            t.set_data_type(type);
            t.set_raw_data(std::string(bytes.begin(), bytes.end()));
        });
    };
    const auto two = [](float a, float b) { return *floats({}, {a, b}).floats; };
    EXPECT_EQ(*raw(onnx::TensorProto_DataType_FLOAT16, {0x00, 0xbe, 0x01, 0x00}).floats, two(-1.5F, 0x1p-24F));
    EXPECT_EQ(*raw(onnx::TensorProto_DataType_FLOAT16, {0x00, 0x7c, 0xff, 0x7b}).floats, two(INFINITY, 65504.0F));
    EXPECT_EQ(*raw(onnx::TensorProto_DataType_BFLOAT16, {0x80, 0x3f, 0x00, 0xc0}).floats, two(1.0F, -2.0F));
    EXPECT_EQ(*raw(onnx::TensorProto_DataType_DOUBLE, {0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0}).floats,
              two(1.0F, -2.0F));
    EXPECT_EQ(raw(onnx::TensorProto_DataType_INT8, {0xff, 0x7f}).whole, (Whole{-1, 127}));
    EXPECT_EQ(raw(onnx::TensorProto_DataType_UINT8, {0xff, 0x7f}).whole, (Whole{255, 127}));
    EXPECT_EQ(raw(onnx::TensorProto_DataType_BOOL, {2, 0}).whole, (Whole{1, 0}));
    EXPECT_EQ(raw(onnx::TensorProto_DataType_INT16, {0xff, 0xff, 1, 0}).whole, (Whole{-1, 1}));
    EXPECT_EQ(raw(onnx::TensorProto_DataType_INT32, {0xfe, 0xff, 0xff, 0xff, 1, 0, 0, 0}).whole, (Whole{-2, 1}));
    EXPECT_EQ(read([](auto& t) {
                  t.set_data_type(onnx::TensorProto_DataType_FLOAT);
                  t.add_float_data(3);
                  t.add_float_data(4);
              }).floats->at(1),
              two(3, 4)[1]);
    EXPECT_EQ(read([](auto& t) {
                  t.set_data_type(onnx::TensorProto_DataType_INT64);
                  t.add_int64_data(-5);
                  t.add_int64_data(6);
              }).whole,
              (Whole{-5, 6}));
    EXPECT_EQ(read([](auto& t) {
                  t.set_data_type(onnx::TensorProto_DataType_INT32);
                  t.add_int32_data(-5);
                  t.add_int32_data(6);
              }).whole,
              (Whole{-5, 6}));
}

// Cut anywhere and with any byte changed a file is read or refused by name, and what is read is laid or refused.
TEST(OnnxFile, damaged_files_are_read_or_refused) {
    const Bytes file = file_of("gru.onnx");
    for (std::size_t size = 0; size < file.size(); size += 61)
        EXPECT_NE(error_of_file(BytesView(file).first(size)), "none");
    std::size_t refused = 0;
    for (std::uint32_t i = 0; i < 3000; ++i) {
        Bytes damaged = file;
        const std::uint32_t word = vm::tensor::arith::philox_word(i, 1, 2, 3, 4);
        damaged[word % damaged.size()] = static_cast<std::uint8_t>(word >> 24);
        const auto network = read_onnx(damaged);
        if (!network) {
            ++refused;
            continue;
        }
        Builder b;
        const auto input = b.slot("x", DType::f32, matrix_shape(kCaseBatch, 30), Initializer::zeros());
        LayersSlots slots;
        (void)apply_network(b, *network, {}, {input, kCaseBatch, {}}, LayersPass{false, {}}, slots);
    }
    EXPECT_GT(refused, 100U);
}

}  // namespace
}  // namespace quern::compute::program
