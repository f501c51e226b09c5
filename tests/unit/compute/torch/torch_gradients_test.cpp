// Every row of the table of gradients (program/gradient_rows.h): gradients() on the canonical machine against
// libtorch's own autograd, element by element.
#include <gtest/gtest.h>

#include <cmath>

#include "compute/torch/torch_executor.h"
#include "unit/compute/program/gradient_rows.h"

namespace quern::compute::torch_backend {
namespace {

using program::test::GradientRow;
using vm::tensor::Tensor;

const vm::tensor::MemoryData kNoData;
const Tensor kSeed{vm::tensor::DType::i32, program::vector_shape(4), {1, 2, 3, 4}};
// Both are f32, which sum in other orders: some thousand terms of size 1.
constexpr double kBound = 1e-4;

void check_rows(const std::vector<GradientRow>& rows) {
    set_thread_count(1);
    for (const GradientRow& row : rows) {
        SCOPED_TRACE(row.name);
        const auto made = program::test::build_row(row);
        ASSERT_TRUE(made) << made.error().to_string();
        const vm::tensor::Program& program = made->built.program;
        vm::tensor::State state = made->state;
        vm::tensor::Executor(program, vm::tensor::arith::best_backend(), nullptr).step(state, kNoData, kSeed);
        std::vector<std::uint32_t> slots;
        for (std::uint32_t i = 0; i < made->inputs; ++i) slots.push_back(i);
        TorchExecutor torch(program);
        const auto expected = torch.autograd(made->state, kNoData, kSeed, program.updates[made->loss_slot()], slots);
        ASSERT_TRUE(expected) << expected.error().to_string();
        for (std::size_t i = 0; i < made->inputs; ++i) {
            const Tensor& actual = state[made->gradient_slot(i)];
            ASSERT_EQ(actual.shape, (*expected)[i].shape);
            for (std::size_t e = 0; e < actual.words.size(); ++e) {
                const double ours = static_cast<double>(__builtin_bit_cast(float, actual.words[e]));
                const double theirs = static_cast<double>(__builtin_bit_cast(float, (*expected)[i].words[e]));
                ASSERT_NEAR(ours, theirs, kBound * (1 + std::fabs(theirs))) << "input " << i << " element " << e;
            }
        }
    }
}

TEST(TorchGradients, of_ops_are_those_of_autograd) { check_rows(program::test::op_rows()); }

TEST(TorchGradients, of_composites_are_those_of_autograd) { check_rows(program::test::composite_rows()); }

}  // namespace
}  // namespace quern::compute::torch_backend
