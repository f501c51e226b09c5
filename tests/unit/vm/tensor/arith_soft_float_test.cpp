// The integer-only arithmetic against this machine's floating-point unit, bit for bit.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>

#include "unit/vm/tensor/arith_inputs.h"
#include "vm/tensor/arith/soft_float.h"

namespace quern::vm::tensor::arith {
namespace {

using u32 = std::uint32_t;

float f(u32 bits) { return std::bit_cast<float>(bits); }
u32 word(float value) { return value != value ? kCanonicalNan : std::bit_cast<u32>(value); }

void expect_as_hardware(u32 a, u32 b, u32 c) {
    const float x = f(a);
    const float y = f(b);
    const float z = f(c);
    ASSERT_EQ(soft_add(a, b), word(x + y)) << std::hex << a << " " << b;
    ASSERT_EQ(soft_sub(a, b), word(x - y)) << std::hex << a << " " << b;
    ASSERT_EQ(soft_mul(a, b), word(x * y)) << std::hex << a << " " << b;
    ASSERT_EQ(soft_div(a, b), word(x / y)) << std::hex << a << " " << b;
    ASSERT_EQ(soft_sqrt(a), word(__builtin_sqrtf(x))) << std::hex << a;
    ASSERT_EQ(soft_fma(a, b, c), word(__builtin_fmaf(x, y, z))) << std::hex << a << " " << b << " " << c;
    ASSERT_EQ(soft_lt(a, b), x < y) << std::hex << a << " " << b;
    ASSERT_EQ(soft_le(a, b), x <= y) << std::hex << a << " " << b;
    ASSERT_EQ(soft_eq(a, b), x == y) << std::hex << a << " " << b;
    ASSERT_EQ(soft_from_i32(a), word(static_cast<float>(static_cast<std::int32_t>(a)))) << std::hex << a;
}

TEST(SoftFloat, equals_the_hardware_on_all_special_triples) {
    for (u32 a : test::kSpecialWords)
        for (u32 b : test::kSpecialWords)
            for (u32 c : test::kSpecialWords) {
                expect_as_hardware(a, b, c);
                if (HasFatalFailure()) return;
            }
}

TEST(SoftFloat, equals_the_hardware_on_random_words) {
    test::Words words(2);
    for (int i = 0; i < 1000000; ++i) {
        expect_as_hardware(words.mixed(), words.mixed(), words.mixed());
        if (HasFatalFailure()) return;
    }
    for (int i = 0; i < 1000000; ++i) {
        expect_as_hardware(words.bits(), words.bits(), words.bits());
        if (HasFatalFailure()) return;
    }
}

// c close to -a * b at every distance of exponents: cancellation, ties and sticky bits.
TEST(SoftFloat, fma_equals_the_hardware_when_product_and_addend_meet) {
    test::Words words(3);
    for (int i = 0; i < 1000000; ++i) {
        const u32 a = (words.bits() & 0x807fffffU) | (90U + words.below(75)) << 23;
        const u32 b = (words.bits() & 0x807fffffU) | (90U + words.below(75)) << 23;
        const u32 product = std::bit_cast<u32>(f(a) * f(b));
        u32 c = product ^ 0x80000000U;
        if (words.below(2) == 0) c += words.below(9) - 4;
        if (words.below(2) == 0) c = (c & 0x807fffffU) | (((c >> 23 & 255) + words.below(160) - 80U) & 255U) << 23;
        if (words.below(4) == 0) c &= 0xff800000U;
        expect_as_hardware(a, b, c);
        if (HasFatalFailure()) return;
    }
}

TEST(SoftFloat, rounds_subnormal_results_once) {
    test::Words words(4);
    for (int i = 0; i < 300000; ++i) {
        const u32 a = (words.bits() & 0x807fffffU) | (1U + words.below(80)) << 23;
        const u32 b = (words.bits() & 0x807fffffU) | (40U + words.below(60)) << 23;
        expect_as_hardware(a, b, words.bits() & 0x81ffffffU);
        if (HasFatalFailure()) return;
    }
}

TEST(SoftFloat, square_root_equals_the_hardware_in_every_exponent) {
    test::Words words(5);
    for (u32 exponent = 0; exponent < 255; ++exponent)
        for (int i = 0; i < 1000; ++i) {
            const u32 a = exponent << 23 | (i == 0 ? 0 : words.bits() & 0x7fffffU);
            ASSERT_EQ(soft_sqrt(a), word(__builtin_sqrtf(f(a)))) << std::hex << a;
        }
}

TEST(SoftFloat, converts_to_integers_to_nearest_even_and_saturates) {
    const auto convert = [](float x) { return static_cast<std::int32_t>(soft_to_i32(std::bit_cast<u32>(x))); };
    EXPECT_EQ(convert(0.5F), 0);
    EXPECT_EQ(convert(1.5F), 2);
    EXPECT_EQ(convert(2.5F), 2);
    EXPECT_EQ(convert(-0.5F), 0);
    EXPECT_EQ(convert(-1.5F), -2);
    EXPECT_EQ(convert(-2.5F), -2);
    EXPECT_EQ(convert(0.49999997F), 0);
    EXPECT_EQ(convert(8388607.5F), 8388608);
    EXPECT_EQ(convert(2147483520.0F), 2147483520);
    EXPECT_EQ(convert(2147483648.0F), std::numeric_limits<std::int32_t>::max());
    EXPECT_EQ(convert(-2147483648.0F), std::numeric_limits<std::int32_t>::min());
    EXPECT_EQ(convert(-3e9F), std::numeric_limits<std::int32_t>::min());
    EXPECT_EQ(convert(std::numeric_limits<float>::infinity()), std::numeric_limits<std::int32_t>::max());
    EXPECT_EQ(convert(-std::numeric_limits<float>::infinity()), std::numeric_limits<std::int32_t>::min());
    EXPECT_EQ(soft_to_i32(0x7fc00000U), 0U);
    EXPECT_EQ(soft_to_i32(0xffffffffU), 0U);
}

TEST(SoftFloat, minimum_and_maximum_are_total) {
    EXPECT_EQ(soft_min(0x80000000U, 0), 0x80000000U);
    EXPECT_EQ(soft_min(0, 0x80000000U), 0x80000000U);
    EXPECT_EQ(soft_max(0x80000000U, 0), 0U);
    EXPECT_EQ(soft_max(0, 0x80000000U), 0U);
    EXPECT_EQ(soft_max(0x80000000U, 0x80000000U), 0x80000000U);
    for (u32 nan : {0x7f800001U, 0x7fc00000U, 0xffffffffU}) {
        for (u32 other : test::kSpecialWords) {
            EXPECT_EQ(soft_min(nan, other), kCanonicalNan);
            EXPECT_EQ(soft_max(nan, other), kCanonicalNan);
            EXPECT_EQ(soft_min(other, nan), kCanonicalNan);
            EXPECT_EQ(soft_max(other, nan), kCanonicalNan);
        }
    }
    EXPECT_EQ(soft_max(0xff800000U, 0xff7fffffU), 0xff7fffffU);
    EXPECT_EQ(soft_min(0x00000001U, 0x00800000U), 0x00000001U);
}

TEST(SoftFloat, squashes_only_below_two_to_the_minus_40) {
    EXPECT_EQ(soft_squash(std::bit_cast<u32>(0x1p-40F)), std::bit_cast<u32>(0x1p-40F));
    EXPECT_EQ(soft_squash(std::bit_cast<u32>(-0x1p-40F)), std::bit_cast<u32>(-0x1p-40F));
    EXPECT_EQ(soft_squash(std::bit_cast<u32>(0x1.fffffep-41F)), 0U);
    EXPECT_EQ(soft_squash(std::bit_cast<u32>(-0x1.fffffep-41F)), 0U);
    EXPECT_EQ(soft_squash(0x80000000U), 0U);
    EXPECT_EQ(soft_squash(0xff812345U), 0xff812345U);
    EXPECT_EQ(soft_squash(0x7f800000U), 0x7f800000U);
}

TEST(SoftFloat, integer_division_is_total) {
    const auto evaluate = [](ElementOp op, u32 a, u32 b) { return evaluate_soft(op, a, b, 0, 0); };
    EXPECT_EQ(evaluate(ElementOp::idiv, 7, 0), 0U);
    EXPECT_EQ(evaluate(ElementOp::irem, 7, 0), 0U);
    EXPECT_EQ(evaluate(ElementOp::idiv, 0x80000000U, ~0U), 0x80000000U);
    EXPECT_EQ(evaluate(ElementOp::irem, 0x80000000U, ~0U), 0U);
    EXPECT_EQ(evaluate(ElementOp::idiv, 0U - 7U, 2), 0U - 3U);
    EXPECT_EQ(evaluate(ElementOp::irem, 0U - 7U, 2), 0U - 1U);
    EXPECT_EQ(evaluate(ElementOp::irem, 7, 0U - 2U), 1U);
    EXPECT_EQ(evaluate(ElementOp::ishl, 1, 33), 2U);
    EXPECT_EQ(evaluate(ElementOp::isar, 0x80000000U, 31), ~0U);
    EXPECT_EQ(evaluate(ElementOp::isar, 0x80000000U, 32), 0x80000000U);
    EXPECT_EQ(evaluate(static_cast<ElementOp>(200), 3, 4), 0U);
}

TEST(SoftFloat, fold_and_chain_equal_plain_loops) {
    test::Words words(6);
    for (int round = 0; round < 200; ++round) {
        u32 lanes[kReductionLanes];
        for (u32& lane : lanes) lane = round % 2 == 0 ? words.usual() : words.mixed();
        float sums[kReductionLanes];
        for (std::size_t j = 0; j < kReductionLanes; ++j) sums[j] = f(lanes[j]);
        for (std::size_t width = 16; width > 0; width /= 2)
            for (std::size_t j = 0; j < width; ++j) sums[j] = sums[j] + sums[j + width];
        EXPECT_EQ(fold_sum_soft(lanes), word(sums[0]));

        u32 a[32];
        u32 b[32];
        for (u32& x : a) x = round % 2 == 0 ? words.usual() : words.mixed();
        for (u32& x : b) x = round % 2 == 0 ? words.usual() : words.mixed();
        float chain = f(lanes[0]);
        for (int k = 0; k < 32; ++k) chain = __builtin_fmaf(f(soft_squash(a[k])), f(soft_squash(b[k])), chain);
        EXPECT_EQ(mm_chain_soft(lanes[0], a, b, 32), word(chain));
    }
}

}  // namespace
}  // namespace quern::vm::tensor::arith
