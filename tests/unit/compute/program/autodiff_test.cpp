// Gradients against central differences in double precision, op by op and for whole models, and the canonical
// executor's values against the double reference.
#include "compute/program/autodiff.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "compute/program/composite.h"
#include "compute/program/initial_state.h"
#include "unit/compute/program/double_evaluator.h"
#include "unit/compute/program/gradient_check.h"

namespace quern::compute::program {
namespace {

using quern::test::step_in_double;
using quern::test::to_doubles;
using test::check_gradient;
using test::Function;
using test::Range;
using vm::tensor::Tensor;

Function unary(ElementOp op) {
    return [op](Builder& b, std::span<const Value> x) { return b.elementwise(op, {x[0]}); };
}
Function binary(ElementOp op) {
    return [op](Builder& b, std::span<const Value> x) { return b.elementwise(op, {x[0], x[1]}); };
}

const Shape kSmall{{1, 2, 3, 4}};

TEST(Autodiff, differentiates_unary_ops) {
    for (const ElementOp op :
         {ElementOp::neg, ElementOp::abs, ElementOp::exp, ElementOp::tanh, ElementOp::sigmoid, ElementOp::erf}) {
        SCOPED_TRACE(vm::tensor::arith::find_element_op(op)->name);
        check_gradient({kSmall}, unary(op));
    }
    for (const ElementOp op : {ElementOp::sqrt, ElementOp::log}) check_gradient({kSmall}, unary(op), {0.3F, 3.0F});
}

TEST(Autodiff, differentiates_binary_ops_with_and_without_broadcasting) {
    const std::vector<Shape> partners{kSmall,
                                      scalar_shape(),
                                      vector_shape(4),
                                      Shape{{1, 1, 3, 1}},
                                      Shape{{1, 2, 1, 1}},
                                      Shape{{1, 2, 3, 1}},
                                      Shape{{1, 1, 3, 4}}};
    for (const ElementOp op :
         {ElementOp::add, ElementOp::sub, ElementOp::mul, ElementOp::div, ElementOp::min, ElementOp::max}) {
        SCOPED_TRACE(vm::tensor::arith::find_element_op(op)->name);
        for (const Shape& partner : partners) {
            SCOPED_TRACE(partner.to_string());
            check_gradient({kSmall, partner}, binary(op), {0.5F, 2.0F});
            check_gradient({partner, kSmall}, binary(op), {0.5F, 2.0F});
        }
    }
}

TEST(Autodiff, sums_over_every_set_of_broadcast_dims) {
    const Shape whole{{2, 3, 2, 3}};
    for (unsigned mask = 0; mask < 16; ++mask) {
        Shape part = whole;
        for (unsigned d = 0; d < 4; ++d)
            if ((mask >> d & 1) != 0) part.dims[d] = 1;
        SCOPED_TRACE(part.to_string());
        check_gradient({whole, part}, binary(ElementOp::mul));
    }
}

TEST(Autodiff, counts_entries_of_gradients_that_stay_broadcast) {
    // The gradient of the sum is one number; the operand that was broadcast to 3 x 4 counts it 12 times.
    check_gradient({matrix_shape(3, 4), scalar_shape()},
                   [](Builder& b, std::span<const Value> x) { return sum_all(b, b.add(x[0], x[1])); });
    check_gradient({matrix_shape(3, 4), vector_shape(4), matrix_shape(3, 1)},
                   [](Builder& b, std::span<const Value> x) { return b.sum_rows(b.add(b.add(x[0], x[1]), x[2])); });
}

TEST(Autodiff, differentiates_fma_and_select) {
    check_gradient({kSmall, vector_shape(4), Shape{{1, 1, 3, 1}}},
                   [](Builder& b, std::span<const Value> x) { return b.fma(x[0], x[1], x[2]); });
    check_gradient({kSmall, vector_shape(4), scalar_shape()}, [](Builder& b, std::span<const Value> x) {
        return b.select(b.lt(x[0], b.constant(0.2F)), b.mul(x[1], x[0]), b.mul(x[2], x[2]));
    });
}

TEST(Autodiff, differentiates_matmul_in_all_orientations) {
    const auto shape = [](std::uint32_t a, std::uint32_t b, std::uint32_t rows, std::uint32_t columns,
                          bool transposed) {
        return transposed ? Shape{{a, b, columns, rows}} : Shape{{a, b, rows, columns}};
    };
    for (const bool ta : {false, true})
        for (const bool tb : {false, true}) {
            const auto product = [=](Builder& b, std::span<const Value> x) { return b.matmul(x[0], x[1], ta, tb); };
            check_gradient({shape(2, 2, 3, 4, ta), shape(2, 2, 4, 2, tb)}, product);
            check_gradient({shape(1, 1, 3, 4, ta), shape(2, 2, 4, 2, tb)}, product);
            check_gradient({shape(2, 2, 3, 4, ta), shape(2, 1, 4, 2, tb)}, product);
        }
}

TEST(Autodiff, differentiates_reductions) {
    check_gradient({kSmall}, [](Builder& b, std::span<const Value> x) { return b.sum_last(x[0]); });
    check_gradient({kSmall}, [](Builder& b, std::span<const Value> x) { return b.sum_rows(x[0]); });
    check_gradient({kSmall}, [](Builder& b, std::span<const Value> x) { return b.max_last(x[0]); });
    check_gradient({kSmall}, [](Builder& b, std::span<const Value> x) { return mean_all(b, b.mul(x[0], x[0])); });
}

TEST(Autodiff, differentiates_layout_ops) {
    check_gradient({kSmall}, [](Builder& b, std::span<const Value> x) { return b.reshape(x[0], Shape{{2, 3, 1, 4}}); });
    check_gradient({kSmall}, [](Builder& b, std::span<const Value> x) { return b.permute(x[0], {2, 0, 3, 1}); });
    check_gradient({kSmall}, [](Builder& b, std::span<const Value> x) {
        return b.permute(b.mul(x[0], x[0]), {0, 3, 1, 2});
    });
    check_gradient({kSmall, Shape{{1, 2, 2, 4}}},
                   [](Builder& b, std::span<const Value> x) { return b.concat(x[0], b.mul(x[1], x[1]), 2); });
    check_gradient({kSmall}, [](Builder& b, std::span<const Value> x) {
        return b.slice(x[0], {0, 1, 1, 0}, Shape{{1, 1, 2, 3}});
    });
}

TEST(Autodiff, joins_gradients_of_slices) {
    const auto part = [](Builder& b, Value x, std::uint32_t from, std::uint32_t size) {
        return b.slice(x, {0, 0, 0, from}, Shape{{1, 2, 3, size}});
    };
    const auto square = [](Builder& b, Value x) { return b.mul(x, x); };
    // A partition, one with a gap, one that overlaps, and slices beside another use.
    check_gradient({kSmall}, [&](Builder& b, std::span<const Value> x) {
        return b.mul(part(b, x[0], 2, 2), square(b, part(b, x[0], 0, 2)));
    });
    check_gradient({kSmall}, [&](Builder& b, std::span<const Value> x) {
        return b.mul(part(b, x[0], 3, 1), square(b, part(b, x[0], 1, 1)));
    });
    check_gradient({kSmall}, [&](Builder& b, std::span<const Value> x) {
        return b.mul(part(b, x[0], 0, 3), square(b, part(b, x[0], 1, 3)));
    });
    check_gradient({kSmall}, [&](Builder& b, std::span<const Value> x) {
        return b.add(b.mul(part(b, x[0], 0, 1), b.sum_last(x[0])), part(b, x[0], 3, 1));
    });
}

TEST(Autodiff, differentiates_gather_and_scatter) {
    // Repeated rows and rows out of range.
    const auto index = [](Builder& b, std::uint32_t n) {
        const auto numbers = b.iota(vector_shape(n), 3);
        return b.elementwise(ElementOp::irem, {b.imul(numbers, b.constant_i32(3)), b.constant_i32(7)});
    };
    check_gradient({matrix_shape(5, 3)},
                   [&](Builder& b, std::span<const Value> x) { return b.gather_rows(b.mul(x[0], x[0]), index(b, 9)); });
    check_gradient({matrix_shape(5, 3)}, [&](Builder& b, std::span<const Value> x) {
        return b.gather_rows(x[0], b.reshape(index(b, 6), Shape{{2, 1, 3, 1}}));
    });
    check_gradient({matrix_shape(9, 2)}, [&](Builder& b, std::span<const Value> x) {
        return b.scatter_add_rows(b.mul(x[0], x[0]), index(b, 9), 5);
    });
}

TEST(Autodiff, differentiates_composites) {
    check_gradient({matrix_shape(3, 5)}, [](Builder& b, std::span<const Value> x) { return softmax(b, x[0]); });
    check_gradient({matrix_shape(3, 5)}, [](Builder& b, std::span<const Value> x) { return gelu(b, x[0]); });
    check_gradient({matrix_shape(4, 6), vector_shape(6), vector_shape(6)},
                   [](Builder& b, std::span<const Value> x) { return layer_norm(b, x[0], x[1], x[2], 1e-5F); });
    check_gradient({Shape{{2, 1, 3, 4}}, matrix_shape(4, 2), vector_shape(2)},
                   [](Builder& b, std::span<const Value> x) { return linear(b, x[0], x[1], x[2]); });
    check_gradient({matrix_shape(6, 5)}, [](Builder& b, std::span<const Value> x) {
        const auto target = b.elementwise(ElementOp::irem, {b.iota(matrix_shape(6, 1), 2), b.constant_i32(5)});
        return cross_entropy(b, x[0], target);
    });
    check_gradient({Shape{{1, 2, 4, 3}}, Shape{{1, 2, 4, 3}}}, [](Builder& b, std::span<const Value> x) {
        return b.matmul(softmax(b, causal_mask(b, b.matmul(x[0], x[1], false, true))), x[0]);
    });
    const Shape image{{2, 3, 2, 4}};
    check_gradient({image, vector_shape(4), vector_shape(4)},
                   [](Builder& b, std::span<const Value> x) { return group_norm(b, x[0], x[1], x[2], 2, 1e-5F); });
    check_gradient({image, vector_shape(4), vector_shape(4)},
                   [](Builder& b, std::span<const Value> x) { return batch_norm(b, x[0], x[1], x[2], 1e-5F).result; });
    check_gradient({matrix_shape(4, 6), vector_shape(6)},
                   [](Builder& b, std::span<const Value> x) { return rms_norm(b, x[0], x[1], 1e-5F); });
    check_gradient({matrix_shape(3, 5)}, [](Builder& b, std::span<const Value> x) { return relu(b, x[0]); });
    check_gradient({matrix_shape(3, 5)}, [](Builder& b, std::span<const Value> x) { return silu(b, x[0]); });
    check_gradient({matrix_shape(3, 5), matrix_shape(3, 5)},
                   [](Builder& b, std::span<const Value> x) { return mean_squared_error(b, x[0], x[1]); });
    check_gradient({matrix_shape(3, 5), matrix_shape(3, 5)},
                   [](Builder& b, std::span<const Value> x) { return binary_cross_entropy(b, x[0], x[1]); });
    check_gradient({matrix_shape(3, 5)},
                   [](Builder& b, std::span<const Value> x) { return dropout(b, x[0], b.seed(), 0.4F); });
    for (std::uint32_t mask = 0; mask < 16; ++mask) {
        Shape from{{2, 2, 3, 2}};
        for (unsigned d = 0; d < 4; ++d)
            if ((mask >> d & 1) != 0) from.dims[d] = 1;
        check_gradient({from}, [](Builder& b, std::span<const Value> x) {
            return broadcast_to(b, x[0], Shape{{2, 2, 3, 2}});
        });
    }
}

TEST(Autodiff, stops_at_barriers_and_gives_zero_without_dependence) {
    Builder b;
    const auto x = b.slot("x", DType::f32, vector_shape(3), Initializer::constant(2.0F));
    const auto y = b.slot("y", DType::f32, vector_shape(2), Initializer::constant(1.0F));
    const auto loss = sum_all(b, b.mul(x, b.stop_gradient(b.mul(x, x))));
    const std::vector<Value> wrt{x, y};
    const auto derivatives = gradients(b, loss, wrt);
    const auto loss_slot = b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros());
    b.update(loss_slot, loss);
    b.set_loss_slot(loss_slot);
    b.update(x, derivatives[0]);
    b.update(y, derivatives[1]);
    const auto built = b.finish();
    ASSERT_TRUE(built) << built.error().to_string();
    const vm::tensor::MemoryData data;
    const Tensor seed{DType::i32, vector_shape(4), {0, 0, 0, 0}};
    const auto after = step_in_double(built->program, to_doubles(initial_state(*built, 1)), data, seed);
    EXPECT_EQ(after[0], (quern::test::Doubles{4, 4, 4}));  // x * x as a constant, not 3 x^2
    EXPECT_EQ(after[1], (quern::test::Doubles{0, 0}));
    for (const Node& node : built->program.nodes)
        EXPECT_NE(node.op == Op::reshape && node.shape == vector_shape(3), true);
}

TEST(Autodiff, shares_the_gradient_between_equal_maxima) {
    Builder b;
    const auto x = b.slot("x", DType::f32, vector_shape(4), Initializer::constant(1.0F));
    const auto loss = b.max_last(x);
    const std::vector<Value> wrt{x};
    b.update(x, gradients(b, loss, wrt)[0]);
    b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
    const auto built = b.finish();
    ASSERT_TRUE(built);
    const vm::tensor::MemoryData data;
    const Tensor seed{DType::i32, vector_shape(4), {0, 0, 0, 0}};
    const auto after = step_in_double(built->program, to_doubles(initial_state(*built, 1)), data, seed);
    EXPECT_EQ(after[0], (quern::test::Doubles{0.25, 0.25, 0.25, 0.25}));
}

// No derivative of the value, which is shifted by the row's maximum: that is a constant here (composite.h).
TEST(Autodiff, gives_targets_outside_the_classes_the_gradient_of_the_log_sum) {
    Builder b;
    const auto x = b.slot("x", DType::f32, matrix_shape(3, 2), Initializer::zeros());
    const auto target = b.elementwise(ElementOp::isub, {b.iota(matrix_shape(3, 1), 2), b.constant_i32(1)});  // -1, 0, 1
    const auto loss = cross_entropy(b, x, b.imul(target, b.constant_i32(2)));                                // -2, 0, 2
    const std::vector<Value> wrt{x};
    b.update(x, gradients(b, loss, wrt)[0]);
    const auto loss_slot = b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros());
    b.update(loss_slot, loss);
    b.set_loss_slot(loss_slot);
    const auto built = b.finish();
    ASSERT_TRUE(built) << built.error().to_string();
    const vm::tensor::MemoryData data;
    const Tensor seed{DType::i32, vector_shape(4), {0, 0, 0, 0}};
    constexpr double kThird = 1e-7;       // 1/3 is f32 in the program
    const double second = std::log(3.0);  // softmax {1/4, 3/4}
    const auto after = step_in_double(built->program, {{0, second, 0, second, 0, second}, {0}}, data, seed);
    const quern::test::Doubles wanted{0.25, 0.75, -0.75, 0.75, 0.25, 0.75};
    for (std::size_t e = 0; e < wanted.size(); ++e) EXPECT_NEAR(after[0][e], wanted[e] / 3, kThird) << e;
    // The log of the sum is log(4/3) with the maximum taken out, -log(1/4) for the target.
    EXPECT_NEAR(after[1][0], (2 * std::log(4.0 / 3) + std::log(4.0)) / 3, kThird);
}

TEST(Autodiff, names_a_loss_that_is_no_scalar) {
    Builder b;
    const auto x = b.slot("x", DType::f32, vector_shape(4), Initializer::zeros());
    const std::vector<Value> wrt{x};
    const auto derivatives = gradients(b, x, wrt);
    EXPECT_FALSE(derivatives[0].valid());
    EXPECT_EQ(b.status().error().name, "builder.bad_loss");
}

}  // namespace
}  // namespace quern::compute::program
