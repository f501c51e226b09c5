// The same programs on libtorch and on the canonical machine: values, and gradients by torch's own autograd against
// compute/program's. Whole trainings are in torch_training_test.cpp.
#include "compute/torch/torch_executor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "compute/program/architecture.h"
#include "compute/program/autodiff.h"
#include "compute/program/composite.h"
#include "compute/program/initial_state.h"
#include "vm/tensor/arith/random.h"

namespace quern::compute::torch_backend {
namespace {

using namespace quern::compute::program;
using vm::tensor::State;
using vm::tensor::Tensor;

const vm::tensor::MemoryData kNoData;
const Tensor kSeed{DType::i32, vector_shape(4), {0x01234567, 0x89abcdef, 3, 4}};

float as_float(std::uint32_t word) { return __builtin_bit_cast(float, word); }

void expect_near(const Tensor& actual, const Tensor& expected, double tolerance, const std::string& what) {
    ASSERT_EQ(actual.shape, expected.shape) << what;
    ASSERT_EQ(actual.dtype, expected.dtype) << what;
    for (std::size_t i = 0; i < actual.words.size(); ++i) {
        if (actual.dtype == DType::i32) {
            ASSERT_EQ(actual.words[i], expected.words[i]) << what << " element " << i;
            continue;
        }
        const double a = static_cast<double>(as_float(actual.words[i]));
        const double e = static_cast<double>(as_float(expected.words[i]));
        if (std::isnan(e) || std::isinf(e))
            ASSERT_EQ(actual.words[i], expected.words[i]) << what << " element " << i;
        else
            ASSERT_NEAR(a, e, tolerance * (1 + std::fabs(e))) << what << " element " << i;
    }
}

using Function = std::function<Value(Builder&, std::span<const Value>)>;

// f of normal inputs on both executors, node by node, and the gradients of a weighted sum of it by both autodiffs.
void compare(const std::vector<Shape>& shapes, const Function& f) {
    Builder b;
    std::vector<Value> inputs;
    std::vector<std::uint32_t> slots;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        inputs.push_back(
            b.slot(std::string("x").append(std::to_string(i)), DType::f32, shapes[i], Initializer::normal(1.0F)));
        slots.push_back(static_cast<std::uint32_t>(i));
    }
    Value loss = f(b, inputs);
    const auto count = static_cast<std::uint32_t>(b.shape(loss).elements());
    const auto weights = b.mul(b.to_f32(b.iota(vector_shape(count), 3)), b.constant(0.25F));
    loss = sum_all(b, b.mul(b.reshape(loss, vector_shape(count)), weights));
    const auto derivatives = gradients(b, loss, inputs);
    const auto loss_slot = b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros());
    b.update(loss_slot, loss);
    b.set_loss_slot(loss_slot);
    for (std::size_t i = 0; i < shapes.size(); ++i) b.update(inputs[i], derivatives[i]);
    const auto built = b.finish();
    ASSERT_TRUE(built) << built.error().to_string();
    const Program& program = built->program;
    State state = initial_state(*built, 11);

    TorchExecutor torch(program);
    std::vector<std::uint32_t> all(program.nodes.size());
    for (std::uint32_t n = 0; n < all.size(); ++n) all[n] = n;
    const auto values = torch.run_nodes(state, kNoData, kSeed, all);
    ASSERT_TRUE(values) << values.error().to_string();
    vm::tensor::Executor canonical(program, vm::tensor::arith::Backend::scalar, nullptr);
    const auto expected = canonical.run_all(state, kNoData, kSeed);
    for (std::size_t n = 0; n < all.size(); ++n)
        expect_near((*values)[n], expected[n], 2e-4, std::string("node ").append(std::to_string(n)));

    const auto torch_gradients =
        torch.autograd(state, kNoData, kSeed, program.updates[program.header.loss_slot], slots);
    ASSERT_TRUE(torch_gradients) << torch_gradients.error().to_string();
    for (std::size_t i = 0; i < shapes.size(); ++i)
        expect_near(expected[program.updates[i]], (*torch_gradients)[i], 2e-4,
                    std::string("gradient ").append(std::to_string(i)));
}

const Shape kSmall{{1, 2, 3, 4}};

TEST(TorchExecutor, agrees_on_elementwise_ops_and_their_gradients) {
    for (const ElementOp op : {ElementOp::neg, ElementOp::abs, ElementOp::exp, ElementOp::tanh, ElementOp::sigmoid,
                               ElementOp::erf, ElementOp::sqrt, ElementOp::log}) {
        SCOPED_TRACE(vm::tensor::arith::find_element_op(op)->name);
        compare({kSmall}, [op](Builder& b, std::span<const Value> x) {
            return b.elementwise(op, {b.add(b.mul(x[0], x[0]), b.constant(0.1F))});
        });
    }
    for (const ElementOp op :
         {ElementOp::add, ElementOp::sub, ElementOp::mul, ElementOp::div, ElementOp::min, ElementOp::max}) {
        SCOPED_TRACE(vm::tensor::arith::find_element_op(op)->name);
        compare({kSmall, Shape{{1, 1, 3, 1}}}, [op](Builder& b, std::span<const Value> x) {
            return b.elementwise(op, {x[0], b.exp(x[1])});
        });
    }
    compare({kSmall, vector_shape(4), scalar_shape()}, [](Builder& b, std::span<const Value> x) {
        return b.fma(x[0], x[1], b.select(b.lt(x[0], x[2]), x[1], x[0]));
    });
}

TEST(TorchExecutor, agrees_on_linear_algebra_reductions_and_layout) {
    for (const bool ta : {false, true})
        for (const bool tb : {false, true})
            for (const std::uint32_t batch : {1U, 3U})
                compare({ta ? Shape{{1, batch, 4, 5}} : Shape{{1, batch, 5, 4}},
                         tb ? Shape{{1, 1, 6, 4}} : Shape{{1, 1, 4, 6}}},
                        [=](Builder& b, std::span<const Value> x) { return b.matmul(x[0], x[1], ta, tb); });
    compare({kSmall}, [](Builder& b, std::span<const Value> x) { return b.mul(b.sum_last(x[0]), b.max_last(x[0])); });
    compare({kSmall}, [](Builder& b, std::span<const Value> x) { return b.mul(b.sum_rows(x[0]), x[0]); });
    compare({kSmall}, [](Builder& b, std::span<const Value> x) {
        const auto turned = b.permute(b.reshape(x[0], Shape{{2, 2, 2, 3}}), {3, 0, 2, 1});
        return b.concat(b.slice(turned, {1, 0, 0, 1}, Shape{{2, 2, 2, 1}}),
                        b.slice(turned, {0, 0, 0, 0}, Shape{{2, 2, 2, 1}}), 3);
    });
    compare({matrix_shape(5, 3)}, [](Builder& b, std::span<const Value> x) {
        const auto index = b.elementwise(ElementOp::isub, {b.iota(vector_shape(8), 3), b.constant_i32(2)});
        const auto rows = b.gather_rows(x[0], index);  // -2 to 5: two below, one beyond
        return b.scatter_add_rows(b.mul(rows, rows), b.elementwise(ElementOp::irem, {index, b.constant_i32(3)}), 3);
    });
}

TEST(TorchExecutor, agrees_on_composites) {
    compare({matrix_shape(4, 7)}, [](Builder& b, std::span<const Value> x) { return softmax(b, x[0]); });
    compare({matrix_shape(4, 7)}, [](Builder& b, std::span<const Value> x) { return gelu(b, x[0]); });
    compare({matrix_shape(4, 7), vector_shape(7), vector_shape(7)},
            [](Builder& b, std::span<const Value> x) { return layer_norm(b, x[0], x[1], x[2], 1e-5F); });
    compare({matrix_shape(6, 5)}, [](Builder& b, std::span<const Value> x) {
        return cross_entropy(b, x[0],
                             b.elementwise(ElementOp::irem, {b.iota(matrix_shape(6, 1), 2), b.constant_i32(5)}));
    });
    compare({Shape{{1, 2, 4, 3}}}, [](Builder& b, std::span<const Value> x) {
        return softmax(b, causal_mask(b, b.matmul(x[0], x[0], false, true)));
    });
}

TEST(TorchExecutor, agrees_bit_for_bit_on_integers) {
    const std::vector<std::uint32_t> special{0, 1, 0xffffffff, 0x80000000, 0x7fffffff, 31, 32, 33, 1000003, 0xfffffff0};
    const auto n = static_cast<std::uint32_t>(special.size());
    Builder b({{vm::tensor::DataType::i32, n}});
    const auto row = b.window(b.constant_i32(0), 0, 0, n);
    const auto column = b.reshape(row, matrix_shape(n, 1));
    std::uint32_t outputs = 0;
    for (const ElementOp op : {ElementOp::iadd, ElementOp::isub, ElementOp::imul, ElementOp::idiv, ElementOp::irem,
                               ElementOp::iand, ElementOp::ior, ElementOp::ixor, ElementOp::ishl, ElementOp::ishr,
                               ElementOp::isar, ElementOp::imin, ElementOp::imax, ElementOp::ilt, ElementOp::ieq}) {
        const auto value = b.elementwise(op, {row, column});
        b.update(b.slot(std::string("o").append(std::to_string(outputs++)), DType::i32, matrix_shape(n, n),
                        Initializer::zeros()),
                 value);
    }
    const auto add = [&](const char* name, Value value) {
        b.update(b.slot(name, b.type(value).dtype, b.shape(value), Initializer::zeros()), value);
    };
    add("float", b.to_f32(row));
    add("back", b.elementwise(ElementOp::f2i, {b.mul(b.to_f32(row), b.constant(0.75F))}));
    add("bits", b.bits(b.to_f32(row)));
    const auto products = b.imul(row, column);
    add("largest", b.kth_last(products, 1));
    add("third", b.kth_last(products, 3));
    add("smallest", b.kth_last(products, n));
    // Of one strip and with scales whose exponents alone count the sums are whole numbers that a float holds.
    const auto scale_column = b.full(DType::f32, matrix_shape(n, 1), 0xbfffffff);
    const auto scale_row = b.full(DType::f32, vector_shape(n), 0x40123456);
    add("bytes", b.imatmul({products, scale_column}, {products, scale_row}));
    add("bytes_across", b.imatmul({products, scale_row}, {products, scale_column}, true, true));
    add("unknown_scale", b.imatmul({row, b.constant(std::numeric_limits<float>::infinity())}, {products, scale_row}));
    add("choice", b.elementwise(ElementOp::iselect, {b.ilt(row, column), row, column}));
    add("place", b.elementwise(ElementOp::permute_index, {row, column, row}, 77));
    add("random", b.philox(b.seed(), matrix_shape(3, 5)));
    add("random_words", b.philox_words(b.seed(), matrix_shape(3, 5)));
    b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
    const auto built = b.finish();
    ASSERT_TRUE(built) << built.error().to_string();
    Bytes words;
    for (const std::uint32_t word : special)
        for (unsigned byte = 0; byte < 4; ++byte) words.push_back(static_cast<std::uint8_t>(word >> (8 * byte)));
    const vm::tensor::MemoryData data({words});
    State torch_state = initial_state(*built, 1);
    State state = torch_state;
    TorchExecutor torch(built->program);
    ASSERT_TRUE(torch.step(torch_state, data, kSeed));
    vm::tensor::Executor canonical(built->program, vm::tensor::arith::Backend::scalar, nullptr);
    canonical.step(state, data, kSeed);
    for (std::size_t s = 0; s < state.size(); ++s) EXPECT_EQ(torch_state[s], state[s]) << built->program.slots[s].name;
}

TEST(TorchExecutor, counters_that_decay_are_the_definitions_to_the_bit) {
    Builder b;
    const auto power = b.slot("power", DType::f32, scalar_shape(), Initializer::constant(1.0F));
    const auto rest = b.slot("rest", DType::f32, scalar_shape(), Initializer::zeros());
    const auto next = b.mul(power, b.constant(0.9F));
    b.update(power, next);
    b.update(rest, b.div(b.constant(1.0F), b.sub(b.constant(1.0F), b.exp(b.sub(next, b.constant(80.0F))))));
    b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
    const auto built = b.finish();
    ASSERT_TRUE(built);
    State state = initial_state(*built, 1);
    State torch_state = state;
    TorchExecutor torch(built->program);
    vm::tensor::Executor canonical(built->program, vm::tensor::arith::Backend::scalar, nullptr);
    for (int step = 1; step <= 850; ++step) {
        ASSERT_TRUE(torch.step(torch_state, kNoData, kSeed));
        canonical.step(state, kNoData, kSeed);
        ASSERT_EQ(torch_state, state) << step;
    }
    EXPECT_EQ(state[0].words[0], 0U) << "0.9^829 is below 2^-126";
}

TEST(TorchExecutor, stores_canonical_nan) {
    Builder b;
    const auto x = b.slot("x", DType::f32, vector_shape(2), Initializer::constant(-1.0F));
    b.update(x, b.log(x));
    b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
    const auto built = b.finish();
    ASSERT_TRUE(built);
    State state = initial_state(*built, 1);
    TorchExecutor torch(built->program);
    ASSERT_TRUE(torch.step(state, kNoData, kSeed));
    EXPECT_EQ(state[0].words, (std::vector<std::uint32_t>{0x7fc00000, 0x7fc00000}));
    EXPECT_TRUE(vm::tensor::check_state(built->program, state));
}

TEST(TorchExecutor, trains_the_same_model_as_the_canonical_machine) {
    Architecture architecture;
    architecture.model = TransformerSpec{2, 32, 4, 32, 4, 40};
    architecture.data[0].elements = 50 * 32 + 1;
    architecture.batch = 8;
    architecture.optimizer.learning_rate = 3e-3F;
    architecture.optimizer.weight_decay = 0.1F;
    architecture.optimizer.clip_norm = 1.0F;
    architecture.optimizer.warmup = 5;
    architecture.optimizer.total_steps = 30;
    const auto built = build_training_program(architecture);
    ASSERT_TRUE(built) << built.error().to_string();
    Bytes tokens;
    for (std::uint32_t i = 0; i < architecture.data[0].elements; ++i) {
        const std::uint32_t word = vm::tensor::arith::philox_word(i, 0, 0, 1, 2);
        tokens.push_back(static_cast<std::uint8_t>(word % 7 * (word >> 16) % 40));
    }
    const vm::tensor::MemoryData data({tokens});
    State torch_state = initial_state(*built, 5);
    State state = torch_state;
    set_thread_count(2);
    TorchExecutor torch(built->program);
    ThreadPool pool(2);
    vm::tensor::Executor canonical(built->program, vm::tensor::arith::best_backend(), &pool);
    const std::uint64_t loss = built->program.header.loss_slot;
    float first = 0;
    for (int step = 0; step < 20; ++step) {
        const auto status = torch.step(torch_state, data, kSeed);
        ASSERT_TRUE(status) << status.error().to_string();
        canonical.step(state, data, kSeed);
        ASSERT_NEAR(as_float(torch_state[loss].words[0]), as_float(state[loss].words[0]), 1e-3) << "step " << step;
        if (step == 0) first = as_float(state[loss].words[0]);
    }
    EXPECT_LT(as_float(state[loss].words[0]), first - 0.3F);
    EXPECT_TRUE(vm::tensor::check_state(built->program, torch_state));
}

Window2d square(std::uint32_t kernel, std::uint32_t stride, std::uint32_t padding) {
    return {{kernel, kernel}, {stride, stride}, {padding, padding}, {1, 1}};
}

// A small residual network over images of noise, of which the class is how bright the first channel is.
TEST(TorchExecutor, trains_a_network_of_layers_as_the_canonical_machine) {
    constexpr std::uint32_t kImages = 48;
    constexpr std::uint32_t kSide = 10;
    constexpr std::uint32_t kChannels = 3;
    Architecture architecture;
    LayersSpec& model = architecture.model.emplace<LayersSpec>();
    model.input = LayersSpec::Input::image;
    model.image = {kSide, kSide};
    model.channels = kChannels;
    model.scale = 1.0F / 128;
    model.shift = -1.0F;
    model.outputs = 3;
    model.layers = {ConvLayer{16, square(3, 1, 1)},
                    BatchNormLayer{},
                    Activation::relu,
                    PoolLayer{PoolLayer::Kind::max, square(2, 2, 0)},
                    ResidualLayer{{ConvLayer{32, square(3, 2, 1), 2, false}, GroupNormLayer{4}, Activation::gelu},
                                  {ConvLayer{32, square(1, 2, 0)}}},
                    PoolLayer{PoolLayer::Kind::average, square(2, 1, 0)},
                    FlattenLayer{},
                    DropoutLayer{0.1F},
                    LinearLayer{3}};
    architecture.data = {{vm::tensor::DataType::u8, kImages * kSide * kSide * kChannels},
                         {vm::tensor::DataType::u8, kImages}};
    architecture.batch = 16;
    architecture.optimizer.learning_rate = 3e-3F;
    const auto built = build_training_program(architecture);
    ASSERT_TRUE(built) << built.error().to_string();
    Bytes images;
    Bytes labels;
    for (std::uint32_t i = 0; i < kImages; ++i) {
        labels.push_back(static_cast<std::uint8_t>(i % 3));
        for (std::uint32_t e = 0; e < kSide * kSide * kChannels; ++e) {
            const std::uint32_t noise = vm::tensor::arith::philox_word(e, i, 0, 1, 2) % 128;
            images.push_back(static_cast<std::uint8_t>(noise + (e % kChannels == 0 ? 60 * (i % 3) : 0)));
        }
    }
    const vm::tensor::MemoryData data({images, labels});
    State torch_state = initial_state(*built, 5);
    State state = torch_state;
    TorchExecutor torch(built->program);
    ThreadPool pool(2);
    vm::tensor::Executor canonical(built->program, vm::tensor::arith::best_backend(), &pool);
    const std::uint64_t loss = built->program.header.loss_slot;
    for (int step = 0; step < 12; ++step) {
        const auto status = torch.step(torch_state, data, kSeed);
        ASSERT_TRUE(status) << status.error().to_string();
        canonical.step(state, data, kSeed);
        ASSERT_NEAR(as_float(torch_state[loss].words[0]), as_float(state[loss].words[0]), 1e-3) << "step " << step;
    }
    EXPECT_LT(as_float(state[loss].words[0]), 0.8F);
    EXPECT_TRUE(vm::tensor::check_state(built->program, torch_state));
}

TEST(TorchExecutor, gradients_of_the_whole_model_are_those_of_torch) {
    Architecture architecture;
    architecture.model = TransformerSpec{2, 16, 2, 12, 2, 20};
    architecture.data[0].elements = 9 * 12 + 1;
    architecture.batch = 3;
    architecture.optimizer.type = OptimizerConfig::Type::sgd;
    architecture.optimizer.learning_rate = 1.0F;  // an update of exactly one gradient
    const auto built = build_training_program(architecture);
    ASSERT_TRUE(built) << built.error().to_string();
    const Program& program = built->program;
    Bytes tokens;
    for (std::uint32_t i = 0; i < architecture.data[0].elements; ++i)
        tokens.push_back(static_cast<std::uint8_t>(vm::tensor::arith::philox_word(i, 0, 0, 1, 2) % 20));
    const vm::tensor::MemoryData data({tokens});
    const State state = initial_state(*built, 5);
    State after = state;
    vm::tensor::Executor(program, vm::tensor::arith::Backend::scalar, nullptr).step(after, data, kSeed);
    std::vector<std::uint32_t> slots;
    for (std::uint32_t s = 0; s < program.slots.size(); ++s)
        if ((program.slots[s].flags & vm::tensor::kSlotParameter) != 0) slots.push_back(s);
    TorchExecutor torch(program);
    const auto gradients = torch.autograd(state, data, kSeed, program.updates[program.header.loss_slot], slots);
    ASSERT_TRUE(gradients) << gradients.error().to_string();
    double largest = 0;
    for (std::size_t i = 0; i < slots.size(); ++i)
        for (std::size_t e = 0; e < state[slots[i]].words.size(); ++e) {
            const double moved = static_cast<double>(as_float(state[slots[i]].words[e])) -
                                 static_cast<double>(as_float(after[slots[i]].words[e]));
            const double expected = static_cast<double>(as_float((*gradients)[i].words[e]));
            largest = std::max(largest, std::fabs(expected));
            ASSERT_NEAR(moved, expected, 1e-5) << program.slots[slots[i]].name << " element " << e;
        }
    EXPECT_GT(largest, 0.01);
}

TEST(TorchExecutor, names_its_version_and_its_blas) {
    EXPECT_FALSE(torch_version().empty());
    const auto status = check_blas();
    if (!status) {
        EXPECT_EQ(status.error().name, "torch.slow_blas");
    }
}

TEST(TorchExecutor, turns_exceptions_of_torch_into_errors) {
    Builder b;
    const auto x = b.slot("x", DType::f32, vector_shape(4), Initializer::zeros());
    const auto i = b.slot("i", DType::i32, vector_shape(4), Initializer::zeros());
    b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
    b.update(x, b.neg(x));
    b.update(i, b.iadd(i, i));
    const auto built = b.finish();
    ASSERT_TRUE(built);
    TorchExecutor torch(built->program);
    const std::vector<std::uint32_t> integer_slot{1};
    const auto result =
        torch.autograd(initial_state(*built, 1), kNoData, kSeed, built->program.updates[0], integer_slot);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().name, "torch.failed");
}

}  // namespace
}  // namespace quern::compute::torch_backend
