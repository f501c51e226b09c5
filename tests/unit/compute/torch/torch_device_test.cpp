// That an executor makes all its tensors on its device, where there is none: whole steps on torch's meta device,
// watched op by op; and that what it does there in place of the processor's loops gives the same values, on the
// processor.
#include "compute/torch/device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compute/program/arch_json.h"
#include "compute/program/initial_state.h"
#include "compute/torch/torch_executor.h"
#include "unit/compute/program/gradient_rows.h"
#include "unit/compute/torch/device_watch.h"
#include "unit/compute/torch/torch_rows.h"
#include "vm/tensor/arith/random.h"

namespace quern::compute::torch_backend {
namespace {

using namespace quern::compute::program;
using test::DeviceWatch;
using vm::tensor::State;
using vm::tensor::Tensor;

const Tensor kSeed{DType::i32, vector_shape(4), {0x01234567, 0x89abcdef, 3, 4}};
const vm::tensor::MemoryData kNoData;

struct Case {
    std::string name;
    BuiltProgram built;
    vm::tensor::MemoryData data;
};

// Layers that no row of torch_rows.h has: convolutions, pooling, norms of batches and groups.
Case layers_case() {
    const auto architecture = parse_architecture(
        R"({"format": "quern-arch-1", "model": {"type": "layers",
            "input": {"height": 8, "width": 8, "channels": 3, "scale": 0.0078125, "shift": -1},
            "layers": [{"type": "conv2d", "channels": 8, "kernel": 3, "padding": 1}, {"type": "batch_norm"},
                       {"type": "silu"}, {"type": "max_pool2d", "kernel": 2},
                       {"type": "residual", "inner": [{"type": "conv2d", "channels": 8, "kernel": 3, "padding": 1},
                                                      {"type": "group_norm", "groups": 2}]},
                       {"type": "global_avg_pool2d"}, {"type": "dropout", "rate": 0.1},
                       {"type": "linear", "size": 10}],
            "outputs": 10}, "data": [{"dtype": "u8", "elements": 12288}, {"dtype": "u8", "elements": 64}], "batch": 4,
            "optimizer": {"type": "momentum", "lr": 1e-3, "weight_decay": 0.01}})");
    EXPECT_TRUE(architecture) << architecture.error().to_string();
    auto built = build_training_program(*architecture);
    EXPECT_TRUE(built) << built.error().to_string();
    Bytes images;
    for (std::uint32_t i = 0; i < 12288; ++i)
        images.push_back(static_cast<std::uint8_t>(vm::tensor::arith::philox_word(i, 0, 0, 1, 2)));
    Bytes labels;
    for (std::uint32_t i = 0; i < 64; ++i) labels.push_back(static_cast<std::uint8_t>(i % 10));
    return {"layers", std::move(*built), vm::tensor::MemoryData({images, labels})};
}

// Whole trainings: forward, backward, optimizer.
std::vector<Case> trainings() {
    std::vector<Case> cases;
    for (const test::Row& row : test::rows()) {
        const Architecture architecture = test::architecture_of(row);
        auto built = build_training_programs(architecture);
        EXPECT_TRUE(built) << row.name << ": " << built.error().to_string();
        for (BuiltProgram& each : built->programs)
            cases.push_back({row.name, std::move(each), test::data_of(architecture)});
    }
    cases.push_back(layers_case());
    return cases;
}

TEST(TorchDevice, makes_all_tensors_of_a_training_on_its_device) {
    for (const Case& each : trainings())
        for (const Products products : {Products::f32, Products::bf16, Products::f64}) {
            SCOPED_TRACE(each.name);
            const Program& program = each.built.program;
            const State start = initial_state(each.built, 5);
            State state = start;
            TorchExecutor torch(program, {products, Device::meta});
            DeviceWatch watch;
            const Status status = torch.step(state, each.data, kSeed);
            ASSERT_TRUE(status) << status.error().to_string();
            EXPECT_EQ(watch.mixed, std::set<std::string>());
            EXPECT_GT(watch.ops_of_device, program.nodes.size() / 2);
            EXPECT_LE(watch.reads, program.slots.size()) << "values that are read before the state comes back";
            EXPECT_GE(watch.uploads, 1U);
            EXPECT_EQ(watch.late_uploads, 0U)
                << "for each the processor waits until the device has done what is before";
            const bool multiplies = std::any_of(program.nodes.begin(), program.nodes.end(), [](const auto& node) {
                return node.op == vm::tensor::Op::matmul;  // not in bytes
            });
            EXPECT_EQ(watch.bf16.contains("aten::mm") || watch.bf16.contains("aten::bmm"),
                      multiplies && products == Products::bf16);
            ASSERT_EQ(state.size(), start.size());
            for (std::size_t s = 0; s < state.size(); ++s) {
                EXPECT_EQ(state[s].shape, start[s].shape);
                EXPECT_EQ(state[s].dtype, start[s].dtype);
            }
            // Few and small: the state, the batch, and counters.
            RecordProperty(each.name + " uploads", static_cast<int>(watch.uploads - program.slots.size()));
        }
}

TEST(TorchDevice, makes_all_tensors_of_each_op_and_composite_on_its_device) {
    std::vector<program::test::GradientRow> all = program::test::op_rows();
    for (program::test::GradientRow& row : program::test::composite_rows()) all.push_back(std::move(row));
    ASSERT_GT(all.size(), 40U);
    for (const auto& row : all) {
        SCOPED_TRACE(row.name);
        const auto built = program::test::build_row(row);
        ASSERT_TRUE(built) << built.error().to_string();
        State state = built->state;
        TorchExecutor torch(built->built.program, {.device = Device::meta});
        DeviceWatch watch;
        const Status status = torch.step(state, kNoData, kSeed);
        ASSERT_TRUE(status) << status.error().to_string();
        EXPECT_EQ(watch.mixed, std::set<std::string>());
    }
}

TEST(TorchDevice, trains_with_the_values_of_the_processor) {
    set_thread_count(1);
    for (const Case& each : trainings()) {
        SCOPED_TRACE(each.name);
        const Program& program = each.built.program;
        State state = initial_state(each.built, 5);
        State emulated = state;
        TorchExecutor torch(program);
        TorchExecutor torch_emulated(program, {.device = Device::emulated});
        for (int step = 0; step < 3; ++step) {
            ASSERT_TRUE(torch.step(state, each.data, kSeed));
            ASSERT_TRUE(torch_emulated.step(emulated, each.data, kSeed));
        }
        for (std::size_t s = 0; s < state.size(); ++s) EXPECT_EQ(emulated[s], state[s]) << program.slots[s].name;
    }
}

TEST(TorchDevice, has_the_gradients_of_the_processor) {
    const Case layers = layers_case();
    const Program& program = layers.built.program;
    std::vector<std::uint32_t> slots;
    for (std::uint32_t s = 0; s < program.slots.size(); ++s)
        if ((program.slots[s].flags & vm::tensor::kSlotParameter) != 0) slots.push_back(s);
    const State state = initial_state(layers.built, 5);
    const std::uint32_t loss = program.updates[program.header.loss_slot];
    TorchExecutor torch(program);
    TorchExecutor emulated(program, {.device = Device::emulated});
    const auto expected = torch.autograd(state, layers.data, kSeed, loss, slots);
    const auto actual = emulated.autograd(state, layers.data, kSeed, loss, slots);
    ASSERT_TRUE(expected && actual) << actual.error().to_string();
    EXPECT_EQ(*actual, *expected);
}

// Words that integer ops and conversions have to do with, each with each: more than a device leaves to the processor.
TEST(TorchDevice, computes_words_as_they_are_defined) {
    const std::vector<std::uint32_t> special{0,  1,  2,  0xffffffff, 0x80000000, 0x80000001, 0x7fffffff,
                                             31, 32, 33, 1000003,    0xfffffff0, 0xfffefff1};
    const auto side = static_cast<std::uint32_t>(special.size());
    const std::vector<float> numbers{0.0F,
                                     -0.0F,
                                     0.5F,
                                     -0.5F,
                                     1.5F,
                                     2.5F,
                                     -2.5F,
                                     0.49999997F,
                                     8388609.0F,
                                     1e20F,
                                     -1e20F,
                                     0x1p31F,
                                     0x1p31F - 128,
                                     -0x1p31F,
                                     -0x1p31F - 256,
                                     std::numeric_limits<float>::infinity(),
                                     -std::numeric_limits<float>::infinity(),
                                     std::numeric_limits<float>::quiet_NaN(),
                                     0x1p-149F};
    std::vector<Bytes> sets(3);
    const auto append = [](Bytes& to, std::uint32_t word) {
        for (unsigned shift = 0; shift < 32; shift += 8) to.push_back(static_cast<std::uint8_t>(word >> shift));
    };
    for (const std::uint32_t a : special)
        for (const std::uint32_t b : special) {
            append(sets[0], a);
            append(sets[1], b);
        }
    const std::uint32_t n = side * side;
    for (std::uint32_t i = 0; i < n; ++i)
        append(sets[2], __builtin_bit_cast(std::uint32_t, numbers[i % numbers.size()]));
    using vm::tensor::DataType;
    Builder b({{DataType::i32, n}, {DataType::i32, n}, {DataType::f32, n}});
    const auto at = b.constant_i32(0);
    const auto left = b.window(at, 0, 0, n);
    const auto right = b.window(at, 1, 0, n);
    const auto real = b.window(at, 2, 0, n);
    const auto add = [&](const std::string& name, Value value) {
        b.update(b.slot(name, b.type(value).dtype, b.shape(value), Initializer::zeros()), value);
    };
    for (const auto& info : vm::tensor::arith::kElementOps)
        if (info.arity == 2 && info.inputs[0] == vm::tensor::arith::WordType::i32)
            add(std::string(info.name), b.elementwise(info.op, {left, right}));
    add("float", b.to_f32(left));
    add("back", b.elementwise(ElementOp::f2i, {real}));
    add("bits", b.bits(real));
    add("choice", b.elementwise(ElementOp::iselect, {b.ilt(left, right), left, right}));
    add("place", b.elementwise(ElementOp::permute_index, {left, right, left}, 77));
    add("constant", b.add(b.full(DType::f32, vector_shape(n), 0xbfffffff), b.constant(0.5F)));
    add("rows", b.iota(matrix_shape(37, 3), 2));
    add("random", b.philox(b.seed(), matrix_shape(37, 3)));
    add("random_words", b.philox_words(b.seed(), matrix_shape(37, 3)));
    add("largest", b.kth_last(b.imul(left, right), 5));
    b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
    const auto built = b.finish();
    ASSERT_TRUE(built) << built.error().to_string();
    const vm::tensor::MemoryData data(std::move(sets));
    State state = initial_state(*built, 1);
    State emulated = state;
    State meta = state;
    vm::tensor::Executor(built->program, vm::tensor::arith::Backend::scalar, nullptr).step(state, data, kSeed);
    ASSERT_TRUE(TorchExecutor(built->program, {.device = Device::emulated}).step(emulated, data, kSeed));
    for (std::size_t s = 0; s < state.size(); ++s) EXPECT_EQ(emulated[s], state[s]) << built->program.slots[s].name;
    DeviceWatch watch;
    const Status status = TorchExecutor(built->program, {.device = Device::meta}).step(meta, data, kSeed);
    ASSERT_TRUE(status) << status.error().to_string();
    EXPECT_EQ(watch.mixed, std::set<std::string>());
}

// Counters are computed on the processor, whatever the device: to the bit.
TEST(TorchDevice, leaves_counters_to_the_processor) {
    Builder b;
    const auto power = b.slot("power", DType::f32, scalar_shape(), Initializer::constant(0x1p-126F));
    const auto weights = b.slot("weights", DType::f32, vector_shape(100), Initializer::constant(1.0F));
    const auto next = b.mul(power, b.constant(0.9F));
    b.update(power, next);
    b.update(weights, b.mul(weights, b.add(b.constant(1.0F), next)));
    b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
    const auto built = b.finish();
    ASSERT_TRUE(built);
    State state = initial_state(*built, 1);
    TorchExecutor torch(built->program, {.device = Device::meta});
    DeviceWatch watch;
    ASSERT_TRUE(torch.step(state, kNoData, kSeed));
    EXPECT_EQ(state[0].words[0], 0U) << "the definition flushes what is subnormal";
    EXPECT_EQ(watch.reads, 1U) << "the weights, and no counter";
    EXPECT_EQ(watch.uploads, 2U) << "the weights, and what they are multiplied by";
}

// An index that follows from the device's values is read, and the data come to the device.
TEST(TorchDevice, reads_windows_where_the_index_is_its_own) {
    Builder b({{vm::tensor::DataType::i32, 64}});
    const auto table = b.slot("table", DType::f32, matrix_shape(4, 70), Initializer::constant(1.0F));
    const auto rows = b.elementwise(ElementOp::f2i, {b.sum_last(table)});
    const auto seen = b.window(b.elementwise(ElementOp::imin, {rows, b.constant_i32(3)}), 0, 8, 5);
    const auto kept = b.slot("seen", DType::i32, b.shape(seen), Initializer::zeros());
    b.update(kept, b.iadd(seen, kept));
    b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
    const auto built = b.finish();
    ASSERT_TRUE(built) << built.error().to_string();
    Bytes bytes;
    for (std::uint32_t i = 0; i < 64; ++i) bytes.insert(bytes.end(), {static_cast<std::uint8_t>(i), 0, 0, 0});
    const vm::tensor::MemoryData data({bytes});
    State state = initial_state(*built, 1);
    State meta = state;
    ASSERT_TRUE(TorchExecutor(built->program, {.device = Device::emulated}).step(state, data, kSeed));
    EXPECT_EQ(state[1].words[0], 24U) << "the third of eight each";
    EXPECT_EQ(state[1].words[4], 28U);
    DeviceWatch watch;
    ASSERT_TRUE(TorchExecutor(built->program, {.device = Device::meta}).step(meta, data, kSeed));
    EXPECT_EQ(watch.mixed, std::set<std::string>());
    EXPECT_EQ(watch.reads, 2U) << "the index, and the result";
}

TEST(TorchDevice, is_chosen_by_name) {
    EXPECT_EQ(find_device("cpu"), Device::cpu);
    for (const char* name : {"", "CUDA", "cuda:0", "meta", "emulated", "gpu"}) {
        const auto found = find_device(name);
        ASSERT_FALSE(found) << name;
        EXPECT_EQ(found.error().name, "torch.unknown_device");
    }
    const bool has_cuda = check_device(Device::cuda).has_value();
    EXPECT_EQ(find_device("auto"), has_cuda ? Device::cuda : Device::cpu);
    EXPECT_EQ(find_device("cuda").has_value(), has_cuda);
    EXPECT_TRUE(check_device(Device::cpu));
    for (const Device device : {Device::cpu, Device::cuda})
        if (check_device(device)) {
            EXPECT_EQ(find_device(name_of(device)), device);
        }
    EXPECT_TRUE(has_bf16_products(Device::meta));
}

TEST(TorchDevice, is_refused_by_name_where_libtorch_lacks_it) {
    const Status status = check_device(Device::cuda);
    if (status) GTEST_SKIP() << "this machine has a graphics processor";
    EXPECT_EQ(status.error().name, "torch.no_cuda");
    EXPECT_EQ(find_device("cuda").error().name, "torch.no_cuda");
    EXPECT_FALSE(has_bf16_products(Device::cuda));
    const Case layers = layers_case();
    const State start = initial_state(layers.built, 5);
    State state = start;
    TorchExecutor torch(layers.built.program, {.device = Device::cuda});
    const Status step = torch.step(state, layers.data, kSeed);
    ASSERT_FALSE(step);
    EXPECT_EQ(step.error().name, "torch.no_cuda");
    EXPECT_EQ(state, start);
    const auto gradients = torch.autograd(state, layers.data, kSeed, 0, {});
    ASSERT_FALSE(gradients);
    EXPECT_EQ(gradients.error().name, "torch.no_cuda");
}

}  // namespace
}  // namespace quern::compute::torch_backend
