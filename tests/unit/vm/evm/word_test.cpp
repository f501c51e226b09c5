#include "vm/evm/word.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace quern::vm::evm::word {
namespace {

const Uint256 kMax{~0ULL, ~0ULL, ~0ULL, ~0ULL};
const Uint256 kMinSigned{std::uint64_t{1} << 63, 0, 0, 0};

// All widths, and limbs of all ones and zeros, which carries and Knuth's corrections need.
Uint256 random_value(Rng& rng) {
    Uint256 value(rng.u64(), rng.u64(), rng.u64(), rng.u64());
    for (auto& limb : value.limb)
        if (const auto kind = rng.below(8); kind < 2) limb = kind == 0 ? 0 : ~std::uint64_t{0};
    return value >> static_cast<unsigned>(rng.below(257));
}

TEST(Word, agrees_with_the_general_form) {
    SeededRng rng(1);
    for (int i = 0; i < 50'000; ++i) {
        const Uint256 a = random_value(rng);
        const Uint256 b = random_value(rng);
        const auto n = static_cast<unsigned>(rng.below(256));
        ASSERT_EQ(add(a, b), a + b);
        ASSERT_EQ(sub(a, b), a - b);
        ASSERT_EQ(mul(a, b), a * b);
        ASSERT_EQ(less(a, b), a < b);
        ASSERT_EQ(same(a, b), a == b);
        ASSERT_EQ(shift_left(a, n), a << n);
        ASSERT_EQ(shift_right(a, n), a >> n);
        ASSERT_EQ(div(a, b), a / b) << a.to_decimal() << " " << b.to_decimal();
        ASSERT_EQ(mod(a, b), a % b) << a.to_decimal() << " " << b.to_decimal();
        ASSERT_EQ(from_hash(to_hash(a)), a);
        ASSERT_EQ(to_hash(a), a.to_be32());
    }
}

TEST(Word, divides_where_the_first_guess_is_too_large) {
    // Knuth's exercise 4.3.1.22: the quotient's limb must be corrected after the subtraction.
    const Uint256 a{0x7fffffffffffffff, 0x8000000000000000, 0, 0};
    const Uint256 b{0, 0x8000000000000000, 0, 1};
    EXPECT_EQ(div(a, b), a / b);
    EXPECT_EQ(mod(a, b), a % b);
    // The top limbs are equal: the guess is all ones.
    const Uint256 c{0x8000000000000000, 0, 0, 0};
    const Uint256 d{0, 0x8000000000000000, 0xffffffffffffffff, 0xffffffffffffffff};
    EXPECT_EQ(div(c, d), c / d);
    EXPECT_EQ(mod(c, d), c % d);
}

TEST(Word, signed_division_rounds_towards_zero) {
    EXPECT_EQ(signed_div(negate(7), 2), negate(3));
    EXPECT_EQ(signed_mod(negate(7), 2), negate(1));
    EXPECT_EQ(signed_div(7, negate(2)), negate(3));
    EXPECT_EQ(signed_mod(7, negate(2)), Uint256(1));
    EXPECT_EQ(signed_div(kMinSigned, kMax), kMinSigned);
    EXPECT_EQ(signed_mod(kMinSigned, kMax), Uint256());
    EXPECT_EQ(signed_div(kMinSigned, 0), Uint256());
    EXPECT_EQ(signed_mod(kMinSigned, 0), Uint256());
    EXPECT_TRUE(signed_less(kMax, 0));
    EXPECT_FALSE(signed_less(0, kMax));
}

// Modulo m by doubling and adding, of residues.
Uint256 slow_mul_mod(Uint256 a, const Uint256& b, const Uint256& m) {
    const auto add_residues = [&m](const Uint256& x, const Uint256& y) { return x >= m - y ? x - (m - y) : x + y; };
    a = a % m;
    Uint256 result;
    for (unsigned i = 0; i < 256; ++i) {
        if (b.bit(i)) result = add_residues(result, a);
        a = add_residues(a, a);
    }
    return result;
}

TEST(Word, sums_and_products_are_reduced_whole) {
    SeededRng rng(2);
    for (int i = 0; i < 5'000; ++i) {
        const Uint256 a = random_value(rng);
        const Uint256 b = random_value(rng);
        const Uint256 m = random_value(rng);
        if (m.is_zero()) continue;
        ASSERT_EQ(mul_mod(a, b, m), slow_mul_mod(a, b, m)) << m.to_decimal();
        const Uint256 x = a % m;
        const Uint256 y = b % m;
        ASSERT_EQ(add_mod(a, b, m), y.is_zero() ? x : (x >= m - y ? x - (m - y) : x + y));
    }
    EXPECT_EQ(mul_mod(kMax, kMax, 0), Uint256());
    EXPECT_EQ(add_mod(kMax, kMax, 0), Uint256());
    EXPECT_EQ(add_mod(kMax, 2, kMax), Uint256(2));
}

TEST(Word, powers) {
    EXPECT_EQ(power(0, 0), Uint256(1));
    EXPECT_EQ(power(2, 255), kMinSigned);
    EXPECT_EQ(power(2, 256), Uint256());
    EXPECT_EQ(power(2, kMax), Uint256());
    EXPECT_EQ(power(3, 40), Uint256(12157665459056928801ULL));
    EXPECT_EQ(power(kMax, kMax), kMax);
}

TEST(Word, extends_signs) {
    EXPECT_EQ(sign_extend(0, 0x80), negate(0x80));
    EXPECT_EQ(sign_extend(0, 0x17f), Uint256(0x7f));
    EXPECT_EQ(sign_extend(1, 0x8000), negate(0x8000));
    EXPECT_EQ(sign_extend(30, kMinSigned), Uint256());
    EXPECT_EQ(sign_extend(31, kMinSigned), kMinSigned);
    EXPECT_EQ(sign_extend(kMax, 0x80), Uint256(0x80));
}

TEST(Word, shifts_right_with_sign) {
    EXPECT_EQ(shift_right(kMinSigned, 255, ~std::uint64_t{0}), kMax);
    EXPECT_EQ(shift_right(kMinSigned, 64, ~std::uint64_t{0}), (Uint256{~0ULL, std::uint64_t{1} << 63, 0, 0}));
    EXPECT_EQ(shift_right(kMinSigned, 65, ~std::uint64_t{0}), (Uint256{~0ULL, std::uint64_t{3} << 62, 0, 0}));
}

}  // namespace
}  // namespace quern::vm::evm::word
