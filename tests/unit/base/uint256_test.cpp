#include "base/uint256.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace quern {
namespace {

const Uint256 kMax{~0ULL, ~0ULL, ~0ULL, ~0ULL};

Uint256 random_value(Rng& rng) {
    // All widths, so that carries across limbs and short operands both come up.
    Uint256 value(rng.u64(), rng.u64(), rng.u64(), rng.u64());
    return value >> static_cast<unsigned>(rng.below(257));
}

TEST(Uint256, division_and_multiplication_agree) {
    SeededRng rng(7);
    for (int i = 0; i < 20000; ++i) {
        const Uint256 a = random_value(rng);
        const Uint256 b = random_value(rng);
        const auto [quotient, remainder] = Uint256::divmod(a, b);
        if (b.is_zero()) {
            EXPECT_TRUE(quotient.is_zero() && remainder.is_zero());
            continue;
        }
        ASSERT_LT(remainder, b);
        ASSERT_EQ(quotient * b + remainder, a);
        ASSERT_TRUE(checked_mul(quotient, b).has_value());
    }
}

TEST(Uint256, decimal_and_hexadecimal_round_trip) {
    SeededRng rng(8);
    for (int i = 0; i < 2000; ++i) {
        const Uint256 a = random_value(rng);
        ASSERT_EQ(*Uint256::from_decimal(a.to_decimal()), a);
        ASSERT_EQ(*Uint256::from_hex_quantity(a.to_hex_quantity()), a);
        ASSERT_EQ(Uint256::from_be(a.to_be32()), a);
        ASSERT_EQ(Uint256::from_be(a.to_be_minimal()), a);
    }
    EXPECT_EQ(Uint256().to_decimal(), "0");
    EXPECT_EQ(Uint256().to_hex_quantity(), "0x0");
    EXPECT_TRUE(Uint256().to_be_minimal().empty());
    EXPECT_EQ(kMax.to_decimal(), "115792089237316195423570985008687907853269984665640564039457584007913129639935");
}

TEST(Uint256, refuses_text_that_is_no_number_or_too_large) {
    EXPECT_EQ(Uint256::from_decimal("").error().name, "uint256.empty");
    EXPECT_EQ(Uint256::from_decimal("12a").error().name, "uint256.bad_digit");
    EXPECT_EQ(Uint256::from_decimal("-1").error().name, "uint256.bad_digit");
    EXPECT_EQ(Uint256::from_decimal("115792089237316195423570985008687907853269984665640564039457584007913129639936")
                  .error()
                  .name,
              "uint256.overflow");
    EXPECT_FALSE(Uint256::from_hex_quantity("0x").has_value());
    EXPECT_FALSE(Uint256::from_hex_quantity("12").has_value());
    EXPECT_FALSE(Uint256::from_hex_quantity("0x1" + std::string(64, '0')).has_value());
    EXPECT_EQ(*Uint256::from_hex_quantity("0x" + std::string(64, 'f')), kMax);
}

TEST(Uint256, checked_forms_report_overflow_and_the_plain_ones_wrap) {
    EXPECT_FALSE(checked_add(kMax, Uint256(1)));
    EXPECT_FALSE(checked_sub(Uint256(0), Uint256(1)));
    EXPECT_FALSE(checked_mul(kMax, Uint256(2)));
    EXPECT_EQ(*checked_add(kMax, Uint256(0)), kMax);
    EXPECT_EQ(kMax + Uint256(1), Uint256(0));
    EXPECT_EQ(Uint256(0) - Uint256(1), kMax);
    EXPECT_EQ(kMax * kMax, Uint256(1));
}

TEST(Uint256, mul_div_uses_the_full_product) {
    EXPECT_EQ(*mul_div(kMax, kMax, kMax), kMax);
    EXPECT_FALSE(mul_div(kMax, Uint256(2), Uint256(1)));
    EXPECT_FALSE(mul_div(Uint256(1), Uint256(1), Uint256(0)));
    EXPECT_EQ(*mul_div(Uint256(7), Uint256(3), Uint256(2)), Uint256(10));
    SeededRng rng(9);
    for (int i = 0; i < 5000; ++i) {
        const Uint256 a = random_value(rng) >> 128;
        const Uint256 b = random_value(rng) >> 128;
        const Uint256 c = random_value(rng);
        if (c.is_zero()) continue;
        ASSERT_EQ(*mul_div(a, b, c), a * b / c);
    }
}

TEST(Uint256, shifts_move_across_limbs) {
    for (unsigned n = 0; n < 256; ++n) {
        EXPECT_EQ((Uint256(1) << n) >> n, Uint256(1));
        EXPECT_EQ((Uint256(1) << n).bit_length(), n + 1);
        EXPECT_TRUE((Uint256(1) << n).bit(n));
    }
    EXPECT_TRUE((kMax << 256).is_zero());
    EXPECT_TRUE((kMax >> 256).is_zero());
}

}  // namespace
}  // namespace quern
