#include "compute/program/builder.h"

#include <gtest/gtest.h>

#include <functional>

#include "compute/program/composite.h"
#include "vm/tensor/executor.h"

namespace quern::compute::program {
namespace {

// A builder with a loss slot, so that it can finish.
Builder with_loss() {
    Builder b({{vm::tensor::DataType::i32, 12}});
    b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
    return b;
}

std::string_view error_of(const std::function<void(Builder&)>& use) {
    Builder b = with_loss();
    use(b);
    const auto built = b.finish();
    return built ? "none" : built.error().name;
}

TEST(Builder, shares_equal_nodes_and_constants) {
    Builder b = with_loss();
    const auto x = b.slot("x", DType::f32, vector_shape(4), Initializer::zeros());
    EXPECT_EQ(b.constant(1.5F), b.constant(1.5F));
    EXPECT_EQ(b.add(x, b.constant(1.5F)), b.add(x, b.constant(1.5F)));
    EXPECT_NE(b.constant(0.0F), b.constant(-0.0F));
    EXPECT_NE(b.constant(0.0F), b.constant_i32(0));
}

TEST(Builder, drops_nodes_that_no_slot_needs) {
    Builder b = with_loss();
    const auto x = b.slot("x", DType::f32, vector_shape(4), Initializer::zeros());
    const auto used = b.exp(x);
    (void)b.tanh(used);
    b.update(x, used);
    const auto built = b.finish();
    ASSERT_TRUE(built) << built.error().to_string();
    for (const Node& node : built->program.nodes) EXPECT_NE(node.element, ElementOp::tanh);
    EXPECT_EQ(built->program.slots.size(), 2U);
    EXPECT_EQ(built->program.header.node_count, 3U);  // both slots and the exponential
}

TEST(Builder, merges_what_only_a_barrier_kept_apart) {
    Builder b = with_loss();
    const auto x = b.slot("x", DType::f32, vector_shape(4), Initializer::zeros());
    b.update(x, b.add(b.exp(x), b.exp(b.stop_gradient(x))));
    const auto built = b.finish();
    ASSERT_TRUE(built);
    std::size_t exponentials = 0;
    for (const Node& node : built->program.nodes) exponentials += node.element == ElementOp::exp ? 1U : 0U;
    EXPECT_EQ(exponentials, 1U);
}

TEST(Builder, leaves_out_what_changes_nothing) {
    Builder b = with_loss();
    const auto x = b.slot("x", DType::f32, Shape{{1, 2, 3, 4}}, Initializer::zeros());
    EXPECT_EQ(b.mul(b.exp(x), b.constant(1.0F)), b.exp(x));
    EXPECT_EQ(b.reshape(b.reshape(x, vector_shape(24)), Shape{{1, 2, 3, 4}}), x);
    EXPECT_EQ(b.permute(x, {0, 1, 2, 3}), x);
    EXPECT_EQ(b.slice(x, {0, 0, 0, 0}, Shape{{1, 2, 3, 4}}), x);
}

// A product has one NaN, while words of a state, of data and of constants may be any.
TEST(Builder, a_product_with_one_keeps_the_word_that_arithmetic_gives_a_nan) {
    constexpr std::uint32_t kOtherNan = 0xffc12345;
    Builder b = with_loss();
    const auto x = b.slot("x", DType::f32, vector_shape(4), Initializer::zeros());
    const auto moved = b.slot("moved", DType::f32, vector_shape(4), Initializer::zeros());
    const auto constant = b.slot("constant", DType::f32, vector_shape(4), Initializer::zeros());
    const auto one = b.constant(1.0F);
    b.update(x, b.mul(x, one));
    b.update(moved, b.mul(one, b.reshape(b.concat(b.slice(x, {}, vector_shape(2)), b.slice(x, {}, vector_shape(2)), 3),
                                         vector_shape(4))));
    b.update(constant, b.mul(b.full(DType::f32, vector_shape(4), kOtherNan), one));
    const auto built = b.finish();
    ASSERT_TRUE(built) << built.error().to_string();
    const vm::tensor::Program& program = built->program;
    vm::tensor::State state;
    for (const auto& slot : program.slots)
        state.push_back({slot.dtype, slot.shape, std::vector<std::uint32_t>(slot.shape.elements(), kOtherNan)});
    const vm::tensor::MemoryData data({Bytes(48)});
    vm::tensor::Executor executor(program, vm::tensor::arith::Backend::scalar, nullptr);
    executor.step(state, data, vm::tensor::seed_tensor({}));
    for (std::size_t slot = 1; slot < state.size(); ++slot)
        EXPECT_EQ(state[slot].words, std::vector<std::uint32_t>(4, 0x7fc00000)) << program.slots[slot].name;
}

TEST(Builder, keeps_a_slot_without_update) {
    Builder b = with_loss();
    (void)b.slot("kept", DType::i32, vector_shape(4), Initializer::constant_word(7));
    const auto built = b.finish();
    ASSERT_TRUE(built);
    EXPECT_EQ(built->program.nodes[built->program.updates[1]].op, Op::slot);
    EXPECT_EQ(built->initializers[1].word, 7U);
}

TEST(Builder, encodes_and_decodes_what_it_builds) {
    Builder b = with_loss();
    const auto x = b.slot("x", DType::f32, vector_shape(4), Initializer::zeros(), vm::tensor::kSlotParameter);
    b.update(x, softmax(b, x));
    const auto built = b.finish();
    ASSERT_TRUE(built);
    const auto decoded = vm::tensor::decode_program(vm::tensor::encode(built->program));
    ASSERT_TRUE(decoded) << decoded.error().to_string();
    EXPECT_EQ(vm::tensor::program_root(*decoded), vm::tensor::program_root(built->program));
}

TEST(Builder, names_the_first_mistake) {
    const Shape vector = vector_shape(4);
    EXPECT_EQ(error_of([](Builder& b) { (void)b.window(b.constant_i32(1), 0, 2, 3); }), "none");
    EXPECT_EQ(error_of([](Builder& b) { (void)b.window(b.constant_i32(1), 1, 2, 3); }), "builder.bad_window");
    EXPECT_EQ(error_of([](Builder& b) { (void)b.window(b.constant(1), 0, 2, 3); }), "builder.bad_window");
    EXPECT_EQ(error_of([](Builder& b) { (void)b.window(b.seed(), 0, 2, 3); }), "builder.bad_window");
    EXPECT_EQ(error_of([](Builder&) {}), "none");
    EXPECT_EQ(error_of([&](Builder& b) {
                  (void)b.slot("x", DType::f32, vector, Initializer::zeros());
                  (void)b.slot("x", DType::f32, vector, Initializer::zeros());
              }),
              "builder.duplicate_slot");
    EXPECT_EQ(error_of([&](Builder& b) {
                  const auto x = b.slot("x", DType::f32, vector, Initializer::zeros());
                  (void)b.add(x, b.iota(vector, 3));
                  (void)b.reshape(x, vector_shape(5));  // not reached
              }),
              "builder.bad_dtype");
    const auto with_x = [&](const std::function<Value(Builder&, Value)>& use) {
        return error_of([&](Builder& b) { (void)use(b, b.slot("x", DType::f32, vector, Initializer::zeros())); });
    };
    EXPECT_EQ(with_x([](Builder& b, Value x) { return b.add(x, b.full(DType::f32, vector_shape(5), 0)); }),
              "builder.bad_shape");
    EXPECT_EQ(with_x([](Builder& b, Value x) { return b.reshape(x, vector_shape(5)); }), "builder.bad_shape");
    EXPECT_EQ(with_x([](Builder& b, Value x) { return b.matmul(x, x); }), "builder.bad_shape");
    EXPECT_EQ(with_x([](Builder& b, Value x) {
                  return b.slice(x, {0, 0, 0, 2}, vector_shape(3));
              }),
              "builder.bad_shape");
    EXPECT_EQ(with_x([](Builder& b, Value x) { return b.permute(x, {0, 1, 2, 2}); }), "builder.bad_axis");
    EXPECT_EQ(with_x([](Builder& b, Value x) { return b.concat(x, x, 4); }), "builder.bad_axis");
    EXPECT_EQ(with_x([](Builder& b, Value x) { return b.gather_rows(x, x); }), "builder.bad_shape");
    EXPECT_EQ(with_x([](Builder& b, Value) { return b.neg(Value{}); }), "builder.invalid_value");
    EXPECT_EQ(with_x([](Builder& b, Value x) {
                  b.update(x, b.constant(1.0F));
                  return x;
              }),
              "builder.bad_update");
    EXPECT_EQ(with_x([](Builder& b, Value x) {
                  b.update(b.neg(x), x);
                  return x;
              }),
              "builder.not_a_slot");
    EXPECT_EQ(with_x([](Builder& b, Value) { return b.full(DType::f32, Shape{{1, 1, 0, 1}}, 0); }), "tensor.bad_shape");
    Builder none;
    EXPECT_EQ(none.finish().error().name, "builder.no_loss_slot");
}

}  // namespace
}  // namespace quern::compute::program
