// Activation checkpointing: less memory, more work, the same bits.
#include "compute/program/recomputation.h"

#include <gtest/gtest.h>

#include "base/fs.h"
#include "compute/program/arch_json.h"
#include "compute/program/autodiff.h"
#include "compute/program/initial_state.h"
#include "compute/program/network_fit.h"
#include "compute/program/onnx_file.h"
#include "vm/tensor/executor.h"
#include "vm/tensor/plan.h"

namespace quern::compute::program {
namespace {

const vm::tensor::Tensor kSeed{DType::i32, vector_shape(4), {0x01234567, 0x89abcdef, 3, 4}};

Architecture deep_transformer() {
    Architecture architecture;
    architecture.model = TransformerSpec{8, 32, 2, 64, 4, 20};
    architecture.data = {{vm::tensor::DataType::u8, 40'000}};
    architecture.batch = 8;
    architecture.optimizer.clip_norm = 1.0F;
    return architecture;
}

BuiltProgram built(Architecture architecture, std::uint32_t parts) {
    architecture.recompute = parts;
    auto result = build_training_program(architecture);
    EXPECT_TRUE(result) << result.error().to_string();
    return result ? std::move(*result) : BuiltProgram{};
}

// Bytes like text of 20 characters, for each data tensor.
vm::tensor::MemoryData data_of(const Architecture& architecture, std::uint32_t values) {
    std::vector<Bytes> sets;
    std::uint32_t state = 7;
    for (const vm::tensor::DataSet& set : architecture.data) {
        Bytes bytes(set.elements * vm::tensor::element_bytes(set.type));
        for (std::size_t i = 0; i < bytes.size(); i += vm::tensor::element_bytes(set.type))
            bytes[i] = static_cast<std::uint8_t>(((state = state * 1'664'525 + 1'013'904'223) >> 24) % values);
        sets.push_back(std::move(bytes));
    }
    return vm::tensor::MemoryData(std::move(sets));
}

Hash32 root_after(const BuiltProgram& program, const vm::tensor::MemoryData& data, int steps) {
    auto state = initial_state(program, 7);
    vm::tensor::Executor executor(program.program, vm::tensor::arith::best_backend(), nullptr);
    for (int i = 0; i < steps; ++i) executor.step(state, data, kSeed);
    return vm::tensor::state_root(state);
}

std::uint64_t peak_beside_state(const BuiltProgram& built) {
    return built.program.header.sizes.peak_bytes - built.program.header.sizes.state_bytes;
}

TEST(Recomputation, of_each_layer_lowers_the_peak_for_a_third_more_work) {
    const BuiltProgram all = built(deep_transformer(), 0);
    const BuiltProgram by_layer = built(deep_transformer(), 8);
    EXPECT_LT(peak_beside_state(by_layer), peak_beside_state(all) / 3);
    // What the executor asks for keeps within that.
    const auto plan = [](const BuiltProgram& of) {
        return vm::tensor::make_plan(of.program, nullptr, vm::tensor::PlanMode::step).bytes();
    };
    EXPECT_LE(plan(by_layer), peak_beside_state(by_layer));
    EXPECT_LT(plan(by_layer), plan(all) / 3);
    // The forward pass is a third of the work; of a layer the last products are not done again.
    const auto work = [](const BuiltProgram& of) { return static_cast<double>(of.program.header.work_units); };
    EXPECT_GT(work(by_layer), 1.15 * work(all));
    EXPECT_LT(work(by_layer), 1.36 * work(all));
}

TEST(Recomputation, in_fewer_parts_keeps_fewer_boundaries_and_more_inside) {
    std::vector<std::uint64_t> peaks;
    for (const std::uint32_t parts : {0U, 2U, 4U, 8U})
        peaks.push_back(peak_beside_state(built(deep_transformer(), parts)));
    for (std::size_t i = 1; i < peaks.size(); ++i) EXPECT_LT(peaks[i], peaks[i - 1]);
}

TEST(Recomputation, gives_the_same_bits) {
    Architecture plain = deep_transformer();
    plain.transformer() = TransformerSpec{3, 16, 2, 8, 2, 20};
    plain.data[0].elements = 1'000;
    plain.batch = 2;
    Architecture random = plain;  // drawn words, products in bytes with rules of their own, experts with a second loss
    random.transformer().dropout = 0.2F;
    random.transformer().precision = TransformerSpec::Precision::int8;
    random.transformer().tied = true;
    Architecture experts = plain;
    experts.transformer().experts = {4, 2};
    experts.transformer().positions = TransformerSpec::Positions::rotary;
    for (const Architecture& each : {plain, random, experts}) {
        const auto data = data_of(each, 20);
        const Hash32 expected = root_after(built(each, 0), data, 4);
        for (const std::uint32_t parts : {1U, 2U, 3U})
            EXPECT_EQ(root_after(built(each, parts), data, 4), expected) << parts;
    }
}

constexpr const char* kConvolutions = R"({"format": "quern-arch-1",
 "model": {"type": "layers", "input": {"height": 16, "width": 16, "channels": 3, "scale": 0.0078125, "shift": -1},
  "layers": [{"type": "conv2d", "channels": 32, "kernel": 3, "padding": 1}, {"type": "batch_norm"}, {"type": "relu"},
             {"type": "residual", "inner": [{"type": "conv2d", "channels": 32, "kernel": 3, "padding": 1},
                                            {"type": "batch_norm"}, {"type": "relu"}]},
             {"type": "residual", "inner": [{"type": "conv2d", "channels": 32, "kernel": 3, "padding": 1},
                                            {"type": "batch_norm"}, {"type": "relu"}]},
             {"type": "max_pool2d", "kernel": 2}, {"type": "dropout", "rate": 0.1},
             {"type": "residual", "inner": [{"type": "conv2d", "channels": 32, "kernel": 3, "padding": 1},
                                            {"type": "batch_norm"}, {"type": "relu"}]},
             {"type": "global_avg_pool2d"}, {"type": "linear", "size": 4}],
  "outputs": 4},
 "data": [{"dtype": "u8", "elements": 30720}, {"dtype": "u8", "elements": 40}],
 "batch": 8, "recompute": 3, "optimizer": {"type": "momentum", "lr": 0.1}})";

TEST(Recomputation, of_layers_gives_the_same_bits_and_statistics) {
    const auto architecture = parse_architecture(kConvolutions);
    ASSERT_TRUE(architecture) << architecture.error().to_string();
    EXPECT_EQ(architecture->recompute, 3U);
    const auto data = data_of(*architecture, 4);
    const BuiltProgram all = built(*architecture, 0);
    const BuiltProgram in_parts = built(*architecture, 3);
    EXPECT_LT(peak_beside_state(in_parts), peak_beside_state(all) * 2 / 3);
    EXPECT_EQ(root_after(in_parts, data, 3), root_after(all, data, 3));
}

TEST(Recomputation, of_networks_of_other_tools_gives_the_same_bits) {
    for (const char* const name : {"resnet", "gpt"}) {
        const auto file = fs::read_file(std::string(QUERN_ONNX_VECTORS) + "/" + name + ".onnx", 1U << 20);
        ASSERT_TRUE(file);
        auto network = read_onnx(*file);
        ASSERT_TRUE(network) << network.error().to_string();
        std::vector<DataFile> files{{20 * 768, {}}, {20, {}}};
        if (network->input_is_whole) files = {{500, {}}};
        const auto text = fit_architecture(*network, name, files, {"", 4, "0.001", 0, "", "", {}, 4});
        ASSERT_TRUE(text) << text.error().to_string();
        auto read = parse_architecture(*text);
        ASSERT_TRUE(read) << read.error().to_string();
        Architecture& architecture = *read;
        EXPECT_EQ(architecture.recompute, 4U);
        architecture.layers().network = std::make_shared<const Network>(std::move(*network));
        const auto data = data_of(architecture, 4);
        const BuiltProgram all = built(architecture, 0);
        const BuiltProgram in_parts = built(architecture, 4);
        EXPECT_LT(peak_beside_state(in_parts), peak_beside_state(all) * 9 / 10) << name;
        EXPECT_EQ(root_after(in_parts, data, 2), root_after(all, data, 2)) << name;
    }
}

TEST(Recomputation, goes_with_accumulated_gradients) {
    Architecture architecture = deep_transformer();
    architecture.accumulate = 2;
    const auto all = build_training_programs(architecture);
    architecture.recompute = 8;
    const auto in_parts = build_training_programs(architecture);
    ASSERT_TRUE(all && in_parts);
    EXPECT_LT(peak_beside_state(in_parts->programs[0]), peak_beside_state(all->programs[0]) / 2);
    EXPECT_EQ(in_parts->programs[1].program.nodes, all->programs[1].program.nodes);
}

TEST(Recomputation, refuses_more_parts_than_there_are_layers) {
    Architecture architecture = deep_transformer();
    architecture.recompute = 9;
    const auto result = build_training_program(architecture);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().name, "arch.out_of_range");
}

// exp(x) is equal to itself wherever it is written; fenced off it is computed twice, and its first value is not kept.
TEST(Recomputation, copies_are_not_merged_with_what_they_are_copies_of) {
    Builder b;
    const auto loss = b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros());
    b.set_loss_slot(loss);
    const auto x = b.slot("x", DType::f32, scalar_shape(), Initializer::zeros());
    b.cut();
    const auto y = b.exp(b.tanh(x));
    b.cut();
    const auto z = b.neg(y);
    b.recompute(1);
    b.update(loss, z);
    b.update(x, b.mul(b.tanh(x), b.log(z)));
    const auto result = b.finish();
    ASSERT_TRUE(result);
    std::size_t twice = 0;
    std::size_t once = 0;
    for (const Node& node : result->program.nodes) {
        if (node.op != Op::elementwise) continue;
        twice += node.element == ElementOp::tanh ? 1 : 0;
        once += node.element == ElementOp::exp ? 1 : 0;
    }
    EXPECT_EQ(twice, 2U);
    EXPECT_EQ(once, 1U) << "what goes out of a part is kept";
}

}  // namespace
}  // namespace quern::compute::program
