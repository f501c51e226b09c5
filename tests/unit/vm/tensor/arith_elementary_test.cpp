// Accuracy of the elementary functions against the long double library, in units in the last place of the true value.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

#include "unit/vm/tensor/arith_inputs.h"
#include "vm/tensor/arith/kernels.h"
#include "vm/tensor/arith/soft_float.h"

namespace quern::vm::tensor::arith {
namespace {

using u32 = std::uint32_t;

u32 soft(ElementOp op, u32 x) { return evaluate_soft(op, x, 0, 0, 0); }

long double ulp(long double truth) {
    int exponent = 0;
    std::frexp(truth, &exponent);
    return std::ldexp(1.0L, std::max(exponent - 24, -149));
}

template <class Truth>
double largest_error(ElementOp op, float low, float high, Truth truth) {
    test::Words words(41);
    std::vector<u32> x;
    for (int i = 0; i <= 60000; ++i) {
        const float at = low + (high - low) * (static_cast<float>(i) / 60000.0F);
        x.push_back(std::bit_cast<u32>(at));
        // Small magnitudes too, which an even spacing leaves out.
        x.push_back(std::bit_cast<u32>(std::ldexp(at, -static_cast<int>(words.below(40)))));
    }
    std::vector<u32> y(x.size());
    kernels(best_backend()).elementwise(op, x.size(), x.data(), 1, nullptr, 0, nullptr, 0, 0, y.data());
    long double worst = 0;
    float worst_at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const long double expected = truth(static_cast<long double>(std::bit_cast<float>(x[i])));
        if (std::fabs(expected) > 3.4028235e38L) continue;
        const long double error =
            std::fabs(static_cast<long double>(std::bit_cast<float>(y[i])) - expected) / ulp(expected);
        if (!(error <= worst)) {
            worst = error;
            worst_at = std::bit_cast<float>(x[i]);
        }
    }
    std::printf("%-8s [%g, %g]: at most %.3Lf ulp, at %a\n", find_element_op(op)->name.data(), static_cast<double>(low),
                static_cast<double>(high), worst, static_cast<double>(worst_at));
    return static_cast<double>(worst);
}

TEST(Elementary, exp_is_within_2_ulp) {
    const auto truth = [](long double x) { return expl(x); };
    EXPECT_LE(largest_error(ElementOp::exp, -87.3F, 88.72F, truth), 2.0);
    EXPECT_LE(largest_error(ElementOp::exp, -1.0F, 1.0F, truth), 2.0);
}

TEST(Elementary, log_is_within_2_ulp) {
    const auto truth = [](long double x) { return logl(x); };
    EXPECT_LE(largest_error(ElementOp::log, 0x1p-86F, 0x1p-80F, truth), 2.0);
    EXPECT_LE(largest_error(ElementOp::log, 0.5F, 2.0F, truth), 2.0);
    EXPECT_LE(largest_error(ElementOp::log, 1.0F, 3e38F, truth), 2.0);
}

TEST(Elementary, tanh_is_within_2_ulp) {
    const auto truth = [](long double x) { return tanhl(x); };
    EXPECT_LE(largest_error(ElementOp::tanh, -10.0F, 10.0F, truth), 2.0);
    EXPECT_LE(largest_error(ElementOp::tanh, -0.7F, 0.7F, truth), 2.0);
}

TEST(Elementary, sigmoid_is_within_2_ulp) {
    const auto truth = [](long double x) { return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x)); };
    EXPECT_LE(largest_error(ElementOp::sigmoid, -87.3F, 30.0F, truth), 2.0);
    EXPECT_LE(largest_error(ElementOp::sigmoid, -5.0F, 5.0F, truth), 2.0);
}

TEST(Elementary, erf_is_within_2_ulp) {
    const auto truth = [](long double x) { return erfl(x); };
    EXPECT_LE(largest_error(ElementOp::erf, -4.5F, 4.5F, truth), 2.0);
    EXPECT_LE(largest_error(ElementOp::erf, 0.8F, 1.1F, truth), 2.0);
}

// The examples of doc/arithmetic.md.
TEST(Elementary, give_the_documented_examples) {
    struct Example {
        ElementOp op;
        u32 x, y;
    };
    const Example examples[] = {
        {ElementOp::exp, 0x3f800000U, 0x402df854U},     {ElementOp::exp, 0xbe99999aU, 0x3f3da643U},
        {ElementOp::exp, 0xc2b40000U, 0x00000000U},     {ElementOp::exp, 0x42b00000U, 0x7ef882b7U},
        {ElementOp::log, 0x40000000U, 0x3f317218U},     {ElementOp::log, 0x3e99999aU, 0xbf9a1bc8U},
        {ElementOp::log, 0x00000200U, 0xff800000U},     {ElementOp::log, 0x7149f2caU, 0x428a27b5U},
        {ElementOp::tanh, 0x3f000000U, 0x3eec9a9fU},    {ElementOp::tanh, 0x3f333333U, 0x3f1ab7d9U},
        {ElementOp::tanh, 0xc0400000U, 0xbf7ebbe9U},    {ElementOp::tanh, 0x3a83126fU, 0x3a83126cU},
        {ElementOp::sigmoid, 0x3f800000U, 0x3f3b26a8U}, {ElementOp::sigmoid, 0xbf800000U, 0x3e89b2b1U},
        {ElementOp::sigmoid, 0xc2b40000U, 0x00000000U}, {ElementOp::sigmoid, 0x40e00000U, 0x3f7fc44bU},
        {ElementOp::erf, 0x3f000000U, 0x3f053f7bU},     {ElementOp::erf, 0x3f800000U, 0x3f57bb3eU},
        {ElementOp::erf, 0xc0000000U, 0xbf7ecd71U},     {ElementOp::erf, 0x40400000U, 0x3f7ffe8dU},
    };
    for (const Example& e : examples) EXPECT_EQ(evaluate_soft(e.op, e.x, 0, 0, 0), e.y) << std::hex << e.x;

    std::vector<u32> row(600);
    for (u32 j = 0; j < 600; ++j) row[j] = soft_div(0x3f800000U, soft_from_i32(j + 1));
    for (Backend backend : kBackends) {
        u32 out = 0;
        kernels(backend).sum_last(1, 100, row.data(), 100, &out);
        EXPECT_EQ(out, 0x40a5ff00U) << name(backend);
        kernels(backend).matmul(1, 1, 300, {row.data(), 300, 1}, {row.data() + 1, 1, 1}, &out, 1);
        EXPECT_EQ(out, 0x3f7f264bU) << name(backend);
        kernels(backend).sum_rows(600, 1, row.data(), 1, &out);
        EXPECT_EQ(out, 0x40df3308U) << name(backend);
    }
    u32 chain = 0;
    for (const u32 word : row) chain = soft_add(chain, word);
    EXPECT_EQ(chain, 0x40df3309U) << "the blocks can be seen in the example";
}

TEST(Elementary, give_the_limits_exactly) {
    const u32 infinity = 0x7f800000U;
    const u32 minus_infinity = 0xff800000U;
    const u32 one = 0x3f800000U;
    EXPECT_EQ(soft(ElementOp::exp, infinity), infinity);
    EXPECT_EQ(soft(ElementOp::exp, minus_infinity), 0U);
    EXPECT_EQ(soft(ElementOp::exp, 0), one);
    EXPECT_EQ(soft(ElementOp::exp, 0x80000000U), one);
    EXPECT_EQ(soft(ElementOp::exp, std::bit_cast<u32>(88.73F)), infinity);
    EXPECT_EQ(soft(ElementOp::exp, std::bit_cast<u32>(-104.0F)), 0U);
    EXPECT_EQ(soft(ElementOp::log, 0), minus_infinity);
    EXPECT_EQ(soft(ElementOp::log, 0x80000000U), minus_infinity);
    EXPECT_EQ(soft(ElementOp::log, 0x80000001U), minus_infinity);
    EXPECT_EQ(soft(ElementOp::log, 0x80800000U), kCanonicalNan);
    EXPECT_EQ(soft(ElementOp::log, minus_infinity), kCanonicalNan);
    EXPECT_EQ(soft(ElementOp::log, infinity), infinity);
    EXPECT_EQ(soft(ElementOp::log, one), 0U);
    EXPECT_EQ(soft(ElementOp::tanh, infinity), one);
    EXPECT_EQ(soft(ElementOp::tanh, minus_infinity), 0xbf800000U);
    EXPECT_EQ(soft(ElementOp::tanh, 0x80000000U), 0x80000000U);
    EXPECT_EQ(soft(ElementOp::sigmoid, infinity), one);
    EXPECT_EQ(soft(ElementOp::sigmoid, minus_infinity), 0U);
    EXPECT_EQ(soft(ElementOp::sigmoid, 0), 0x3f000000U);
    EXPECT_EQ(soft(ElementOp::erf, infinity), one);
    EXPECT_EQ(soft(ElementOp::erf, minus_infinity), 0xbf800000U);
    EXPECT_EQ(soft(ElementOp::erf, 0x80000000U), 0x80000000U);
    for (u32 nan : {0x7f800001U, 0xffffffffU})
        for (ElementOp op : {ElementOp::exp, ElementOp::log, ElementOp::tanh, ElementOp::sigmoid, ElementOp::erf,
                             ElementOp::sqrt, ElementOp::neg, ElementOp::abs})
            EXPECT_EQ(evaluate_soft(op, nan, 0, 0, 0), kCanonicalNan);
}

}  // namespace
}  // namespace quern::vm::tensor::arith
