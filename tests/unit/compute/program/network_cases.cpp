#include "unit/compute/program/network_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/fs.h"
#include "compute/program/composite.h"
#include "compute/program/initial_state.h"
#include "compute/program/network_lowering.h"
#include "vm/tensor/executor.h"

namespace quern::compute::program {
namespace {

using vm::tensor::State;
using vm::tensor::Tensor;

constexpr std::size_t kMaxFile = 1U << 20;
const Tensor kSeed{DType::i32, vector_shape(4), {1, 2, 3, 4}};

float as_float(std::uint32_t word) { return __builtin_bit_cast(float, word); }

// [n,c,h,w] as the rows of places that a program has.
Tensor places_of(const Tensor& images) {
    const auto& [n, c, h, w] = images.shape.dims;
    Tensor rows{images.dtype, matrix_shape(n * h * w, c), {}};
    for (std::uint32_t i = 0; i < n; ++i)
        for (std::uint32_t place = 0; place < h * w; ++place)
            for (std::uint32_t channel = 0; channel < c; ++channel)
                rows.words.push_back(images.words[(std::uint64_t{i} * c + channel) * h * w + place]);
    return rows;
}

// What dropout does has no reference number: it is taken out, and has tests of its own.
void take_out_dropout(Network& network) {
    for (NetworkNode& node : network.nodes)
        if (node.op == "Dropout") {
            node.op = "Identity";
            node.inputs.resize(1);
        }
}

struct Result {
    State state;
    vm::tensor::Program program;

    [[nodiscard]] const Tensor& at(const std::string& name) const {
        const auto slot = slot_index(program, name, "missing");
        EXPECT_TRUE(slot) << name;
        return state[slot ? *slot : 0];
    }
};

// The network's outputs, its loss against i % classes, and the gradients of all that is trained.
Result run(const Network& network, const NetworkCase& each, const Safetensors& expected, bool training) {
    Tensor input = *expected.find("input");
    Features x{{}, kCaseBatch, {}};
    if (each.is_image) {
        x.image = Extent2d{input.shape.dims[2], input.shape.dims[3]};
        input = places_of(input);
    }
    Builder b;
    const auto loss_slot = b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros());
    b.set_loss_slot(loss_slot);
    x.rows = b.slot("input", input.dtype, input.shape, Initializer::zeros());
    LayersSlots slots;
    const auto outputs = apply_network(b, network, {}, x, LayersPass{training, {}}, slots).rows;
    EXPECT_TRUE(b.status()) << b.status().error().to_string();
    if (b.failed()) return {};
    b.update(b.slot("output", DType::f32, b.shape(outputs), Initializer::zeros()), outputs);
    const auto row = b.iota(matrix_shape(b.shape(outputs).rows(), 1), 2);
    const auto targets = b.elementwise(ElementOp::irem, {row, b.constant_i32(static_cast<std::int32_t>(each.classes))});
    const auto loss = cross_entropy(b, outputs, targets);
    b.update(loss_slot, loss);
    for (const ParameterGradient& parameter : parameter_gradients(b, loss, slots.parameters))
        b.update(b.slot("gradient." + parameter.name, DType::f32, b.shape(parameter.slot), Initializer::zeros()),
                 parameter.gradient);
    for (const SlotUpdate& statistic : slots.statistics) b.update(statistic.slot, statistic.next);
    // Work, without which so small a network has too large a trace.
    const auto work = b.slot("work", DType::f32, matrix_shape(128, 128), Initializer::zeros());
    b.update(work, b.matmul(work, work));
    const auto built = b.finish();
    EXPECT_TRUE(built) << built.error().to_string();
    if (!built) return {};
    Result result{initial_state(*built, 1), built->program};
    const auto place = slot_index(built->program, "input", "missing");
    result.state[*place] = input;
    vm::tensor::Executor executor(result.program, vm::tensor::arith::best_backend(), nullptr);
    EXPECT_TRUE(executor.step(result.state, vm::tensor::MemoryData{}, kSeed));
    return result;
}

double largest_of(const Tensor& tensor) {
    double largest = 0;
    for (const std::uint32_t word : tensor.words) largest = std::max(largest, std::fabs(double{as_float(word)}));
    return largest;
}

void expect_near(const Tensor& ours, const Tensor& theirs, double bound, const std::string& what) {
    ASSERT_EQ(ours.words.size(), theirs.words.size()) << what;
    for (std::size_t i = 0; i < ours.words.size(); ++i)
        ASSERT_NEAR(as_float(ours.words[i]), as_float(theirs.words[i]), bound) << what << " at " << i;
}

}  // namespace

Bytes vector_file(const std::string& folder, const std::string& name) {
    auto bytes = fs::read_file(folder + "/" + name, kMaxFile);
    EXPECT_TRUE(bytes) << name;
    return bytes ? *bytes : Bytes{};
}

Safetensors numbers_of_case(const std::string& folder, const NetworkCase& each) {
    auto expected = read_safetensors(vector_file(folder, std::string(each.name) + ".safetensors"));
    EXPECT_TRUE(expected) << expected.error().to_string();
    return expected ? std::move(*expected) : Safetensors{};
}

void expect_trains_as_its_framework(Network network, const NetworkCase& each, const Safetensors& expected) {
    take_out_dropout(network);
    const Result result = run(network, each, expected, true);
    ASSERT_FALSE(result.state.empty());
    expect_near(result.at("output"), *expected.find("output"), each.bound, "output");
    expect_near(result.at("loss"), *expected.find("loss"), each.bound, "loss");
    std::size_t parameters = 0;
    for (const NamedTensor& tensor : expected.tensors) {
        if (!tensor.name.starts_with("gradient.")) continue;
        ++parameters;
        const std::string name = "gradient.model." + tensor.name.substr(9);
        expect_near(result.at(name), tensor.tensor, each.bound * std::max(0.1, largest_of(tensor.tensor)), tensor.name);
    }
    for (const NamedTensor& tensor : expected.tensors)
        if (tensor.name.starts_with("after."))
            expect_near(result.at("model." + tensor.name.substr(6)), tensor.tensor, 1e-5, tensor.name);
    std::size_t ours = 0;
    for (const vm::tensor::Slot& slot : result.program.slots) ours += slot.name.starts_with("gradient.") ? 1 : 0;
    EXPECT_EQ(ours, parameters) << "of buffers as well";
}

void expect_evaluates_as_its_framework(const Network& network, const NetworkCase& each, const Safetensors& expected) {
    const Result result = run(network, each, expected, false);
    ASSERT_FALSE(result.state.empty());
    expect_near(result.at("output"), *expected.find("evaluated"), each.bound, "output");
}

}  // namespace quern::compute::program
