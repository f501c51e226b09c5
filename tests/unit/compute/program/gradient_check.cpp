#include "unit/compute/program/gradient_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "compute/program/autodiff.h"
#include "compute/program/composite.h"
#include "compute/program/initial_state.h"
#include "unit/compute/program/double_evaluator.h"

namespace quern::compute::program::test {
namespace {

using quern::test::DoubleState;
using quern::test::step_in_double;
using quern::test::to_doubles;
using vm::tensor::State;
using vm::tensor::Tensor;

std::vector<Value> slots_of(Builder& b, const std::vector<Shape>& shapes) {
    std::vector<Value> inputs;
    for (std::size_t i = 0; i < shapes.size(); ++i)
        inputs.push_back(
            b.slot(std::string("x").append(std::to_string(i)), DType::f32, shapes[i], Initializer::zeros()));
    return inputs;
}

Value weighted_sum(Builder& b, Value y) {
    if (b.failed()) return {};
    const auto count = static_cast<std::uint32_t>(b.shape(y).elements());
    const auto numbers = b.to_f32(b.iota(vector_shape(count), 3));
    const auto weights = b.add(b.mul(numbers, b.constant(0.37F)), b.constant(0.5F));
    return sum_all(b, b.mul(b.reshape(y, vector_shape(count)), weights));
}

}  // namespace

void check_gradient(const std::vector<Shape>& shapes, const Function& f, Range range, std::uint32_t random) {
    Builder b;
    const std::vector<Value> inputs = slots_of(b, shapes);
    const auto loss = weighted_sum(b, f(b, inputs));
    const auto derivatives = gradients(b, loss, inputs);
    const auto loss_slot = b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros());
    b.update(loss_slot, loss);
    b.set_loss_slot(loss_slot);
    for (std::size_t i = 0; i < shapes.size(); ++i)
        b.update(b.slot(std::string("g").append(std::to_string(i)), DType::f32, shapes[i], Initializer::zeros()),
                 derivatives[i]);
    const auto built = b.finish();
    ASSERT_TRUE(built) << built.error().to_string();
    const Program& program = built->program;

    State state = initial_state(*built, 1);
    std::mt19937 generator(random);
    for (std::size_t i = 0; i < shapes.size(); ++i)
        for (std::uint32_t& word : state[i].words) {
            const float unit = static_cast<float>(generator() >> 8) * 0x1p-24F;
            word = __builtin_bit_cast(std::uint32_t, range.low + unit * (range.high - range.low));
        }
    const vm::tensor::MemoryData data;
    const Tensor seed{DType::i32, vector_shape(4), {1, 2, 3, 4}};
    const DoubleState start = to_doubles(state);
    const DoubleState after = step_in_double(program, start, data, seed);
    const std::size_t loss_index = shapes.size();

    for (std::size_t i = 0; i < shapes.size(); ++i)
        for (std::size_t e = 0; e < start[i].size(); ++e) {
            constexpr double kStep = 1e-5;
            DoubleState moved = start;
            moved[i][e] = start[i][e] + kStep;
            const double up = step_in_double(program, moved, data, seed)[loss_index][0];
            moved[i][e] = start[i][e] - kStep;
            const double down = step_in_double(program, moved, data, seed)[loss_index][0];
            const double expected = (up - down) / (2 * kStep);
            const double actual = after[loss_index + 1 + i][e];
            ASSERT_NEAR(actual, expected, 2e-6 * (1 + std::fabs(expected))) << "input " << i << " element " << e;
        }

    vm::tensor::Executor executor(program, vm::tensor::arith::Backend::scalar, nullptr);
    executor.step(state, data, seed);
    const DoubleState canonical = to_doubles(state);
    for (std::size_t s = 0; s < canonical.size(); ++s)
        for (std::size_t e = 0; e < canonical[s].size(); ++e)
            ASSERT_NEAR(canonical[s][e], after[s][e], 1e-4 * (1 + std::fabs(after[s][e]))) << program.slots[s].name;
}

std::vector<double> numbers(std::uint64_t count, double scale) {
    std::vector<double> result(count);
    for (std::size_t i = 0; i < count; ++i) result[i] = std::sin(scale * static_cast<double>(i) + scale);
    return result;
}

std::vector<double> values_of(const std::vector<Shape>& shapes, const std::vector<std::vector<double>>& values,
                              const Function& f, Arithmetic arithmetic) {
    Builder b;
    const auto y = f(b, slots_of(b, shapes));
    const auto result = b.slot("y", DType::f32, b.shape(y), Initializer::zeros());
    b.update(result, y);
    b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
    const auto built = b.finish();
    EXPECT_TRUE(built) << built.error().to_string();
    if (!built) return {};
    State state = initial_state(*built, 1);
    for (std::size_t i = 0; i < values.size(); ++i)
        for (std::size_t e = 0; e < values[i].size(); ++e)
            state[i].words[e] = __builtin_bit_cast(std::uint32_t, static_cast<float>(values[i][e]));
    DoubleState start = to_doubles(state);
    std::copy(values.begin(), values.end(), start.begin());
    const vm::tensor::MemoryData data;
    const Tensor seed{DType::i32, vector_shape(4), {1, 2, 3, 4}};
    if (arithmetic == Arithmetic::doubles) return step_in_double(built->program, start, data, seed)[shapes.size()];
    vm::tensor::Executor(built->program, vm::tensor::arith::Backend::scalar, nullptr).step(state, data, seed);
    return to_doubles(state)[shapes.size()];
}

}  // namespace quern::compute::program::test
