// How matrix products are computed: of rounded operands, and in double precision.
#include <gtest/gtest.h>

#include <cmath>

#include "compute/program/builder.h"
#include "compute/torch/torch_executor.h"
#include "vm/tensor/arith/random.h"

namespace quern::compute::torch_backend {
namespace {

using namespace quern::compute::program;
using vm::tensor::State;
using vm::tensor::Tensor;

constexpr std::uint32_t kSide = 32;

float as_float(std::uint32_t word) { return __builtin_bit_cast(float, word); }
// The nearest number with 8 bits of mantissa, of two the even one.
std::uint32_t to_bf16(std::uint32_t word) { return (word + 0x7fffU + ((word >> 16) & 1U)) & 0xffff0000U; }

Tensor random_square(std::uint32_t stream) {
    Tensor tensor{DType::f32, matrix_shape(kSide, kSide), {}};
    for (std::uint32_t i = 0; i < kSide * kSide; ++i) {
        const std::uint32_t bits = vm::tensor::arith::philox_word(i, stream, 0, 1, 2);
        tensor.words.push_back(__builtin_bit_cast(std::uint32_t, static_cast<float>(bits >> 8) * 0x1p-24F - 0.5F));
    }
    return tensor;
}

// a * b of a state {a, b, product, loss}.
Tensor product(State state, Products products) {
    Builder b;
    const Value left = b.slot("a", DType::f32, matrix_shape(kSide, kSide), Initializer::zeros());
    const Value right = b.slot("b", DType::f32, matrix_shape(kSide, kSide), Initializer::zeros());
    const Value result = b.slot("product", DType::f32, matrix_shape(kSide, kSide), Initializer::zeros());
    b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
    b.update(result, b.matmul(left, right, false, true));
    const auto built = b.finish();
    EXPECT_TRUE(built);
    TorchExecutor executor(built->program, {.products = products});
    const Tensor seed{DType::i32, vector_shape(4), {0, 0, 0, 0}};
    EXPECT_TRUE(executor.step(state, vm::tensor::MemoryData(), seed));
    return state[2];
}

TEST(TorchProducts, are_of_rounded_operands_or_in_double_precision) {
    const Tensor zeros{DType::f32, matrix_shape(kSide, kSide), std::vector<std::uint32_t>(kSide * kSide)};
    const State state{random_square(1), random_square(2), zeros, {DType::f32, scalar_shape(), {0}}};
    State rounded = state;
    for (std::size_t s = 0; s < 2; ++s)
        for (std::uint32_t& word : rounded[s].words) word = to_bf16(word);
    // Operands and result have 8 bits of mantissa; what lies between is summed in any order.
    const Tensor mixed = product(state, Products::bf16);
    const Tensor of_rounded = product(rounded, Products::f32);
    for (std::size_t i = 0; i < mixed.words.size(); ++i) {
        EXPECT_EQ(mixed.words[i] & 0xffffU, 0U);
        EXPECT_NEAR(as_float(mixed.words[i]), as_float(of_rounded.words[i]),
                    0x1p-8F * std::fabs(as_float(of_rounded.words[i])) + 0x1p-16F);
    }
    const Tensor plain = product(state, Products::f32);
    const Tensor exact = product(state, Products::f64);
    EXPECT_NE(mixed, plain);
    EXPECT_NE(exact, plain);
    for (std::uint32_t row = 0; row < kSide; ++row)
        for (std::uint32_t column = 0; column < kSide; ++column) {
            double sum = 0;
            for (std::uint32_t k = 0; k < kSide; ++k)
                sum += static_cast<double>(as_float(state[0].words[row * kSide + k])) *
                       static_cast<double>(as_float(state[1].words[column * kSide + k]));
            // Rounded once, the sum's own order aside.
            EXPECT_NEAR(static_cast<double>(as_float(exact.words[row * kSide + column])), sum,
                        std::fabs(sum) * 0x1.01p-24);
        }
}

}  // namespace
}  // namespace quern::compute::torch_backend
