#include "crypto/modexp.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/uint256.h"

namespace quern::crypto {
namespace {

std::string power(std::string_view base, std::string_view exponent, std::string_view modulus, std::size_t size,
                  std::uint64_t exponent_zeros = 0) {
    const Bytes b = *from_hex(base);
    const Bytes e = *from_hex(exponent);
    const Bytes m = *from_hex(modulus);
    Bytes result(size, 0xcc);
    modexp({b}, {e, exponent_zeros}, {m}, result);
    return to_hex(result);
}

TEST(Modexp, small_numbers_and_those_without_a_value) {
    EXPECT_EQ(power("03", "05", "07", 1), "05");
    EXPECT_EQ(power("03", "05", "07", 4), "00000005");
    EXPECT_EQ(power("", "", "07", 1), "01");      // 0^0
    EXPECT_EQ(power("00", "00", "01", 1), "00");  // modulo one everything is zero
    EXPECT_EQ(power("05", "", "0001", 2), "0000");
    EXPECT_EQ(power("00", "09", "07", 1), "00");
    EXPECT_EQ(power("03", "05", "00", 2), "0000");
    EXPECT_EQ(power("03", "05", "", 2), "0000");
    EXPECT_EQ(power("02", "0a", "0400", 2), "0000");  // an even modulus
    EXPECT_EQ(power("03", "0a", "0400", 2), "02a9");
}

TEST(Modexp, agrees_with_squaring_and_multiplying) {
    SeededRng rng(198);
    for (int round = 0; round < 200; ++round) {
        const std::uint64_t modulus = rng.below(0xffff'ffff) + 1;
        const std::uint64_t base = rng.below(~std::uint64_t{0});
        const std::uint64_t exponent = rng.below(1 << 20) << rng.below(9);
        std::uint64_t wanted = 1 % modulus;
        std::uint64_t square = base % modulus;
        for (std::uint64_t e = exponent; e != 0; e >>= 1) {
            if ((e & 1) != 0) wanted = wanted * square % modulus;
            square = square * square % modulus;
        }
        const Bytes b = Uint256(base).to_be_minimal();
        const Bytes e = Uint256(exponent).to_be_minimal();
        const Bytes m = Uint256(modulus).to_be_minimal();
        Bytes result(8);
        modexp({b}, {e}, {m}, result);
        EXPECT_EQ(Uint256::from_be(result), Uint256(wanted)) << base << " " << exponent << " " << modulus;
    }
}

TEST(Modexp, zeros_behind_a_number_are_as_good_as_there) {
    SeededRng rng(7823);
    for (const std::uint64_t zeros : {1, 2, 31, 4095, 4096, 4097, 9000}) {
        Bytes base(20);
        Bytes exponent(5);
        Bytes modulus(40);
        for (auto* number : {&base, &exponent, &modulus}) rng.fill(*number);
        Bytes whole = exponent;
        whole.resize(exponent.size() + zeros);
        Bytes wanted(40);
        modexp({base}, {whole}, {modulus}, wanted);
        Bytes result(40);
        modexp({base}, {exponent, zeros}, {modulus}, result);
        EXPECT_EQ(result, wanted) << zeros;
        EXPECT_NE(result, Bytes(40)) << zeros;
    }
    EXPECT_EQ(power("03", "", "07", 1, 5000), "01");
    EXPECT_EQ(power("03", "00", "01", 1, 5000), "00");
    EXPECT_EQ(power("06", "01", "07", 1, 1), "01");

    const Bytes two{2};
    const Bytes one{1};
    const Bytes modulus = *from_hex("0100000000000000000000000000000001");
    Bytes shifted_base = two;
    shifted_base.resize(1 + 10);
    Bytes wanted(17);
    modexp({shifted_base}, {one}, {modulus}, wanted);
    Bytes result(17);
    modexp({two, 10}, {one}, {modulus}, result);
    EXPECT_EQ(result, wanted);
    // 2^81 and 2^65, modulo 2^73.
    Bytes wide(10);
    modexp({two, 10}, {one}, {two, 9}, wide);
    EXPECT_EQ(to_hex(wide), "00000000000000000000");
    modexp({two, 8}, {one}, {two, 9}, wide);
    EXPECT_EQ(to_hex(wide), "00020000000000000000");
}

}  // namespace
}  // namespace quern::crypto
