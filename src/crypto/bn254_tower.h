// The twelfth extension of BN254's field, in which pairings lie, over the sixth, over the second
// (crypto/bn254_field.h). Used by crypto/bn254_pairing.cpp and tests. Plain values; thread-safe.
//
//   Fp6  = Fp2[v] / (v^3 - xi), xi = 9 + i
//   Fp12 = Fp6[w] / (w^2 - v)
#pragma once

#include "crypto/bn254_field.h"

namespace quern::crypto::bn254 {

struct Fp6 {
    std::array<Fp2, 3> c;  // c0 + c1 v + c2 v^2

    constexpr bool operator==(const Fp6&) const = default;
    friend Fp6 operator+(const Fp6& x, const Fp6& y) { return {{x.c[0] + y.c[0], x.c[1] + y.c[1], x.c[2] + y.c[2]}}; }
    friend Fp6 operator-(const Fp6& x, const Fp6& y) { return {{x.c[0] - y.c[0], x.c[1] - y.c[1], x.c[2] - y.c[2]}}; }
    friend Fp6 operator-(const Fp6& x) { return {{-x.c[0], -x.c[1], -x.c[2]}}; }
    friend Fp6 operator*(const Fp6& x, const Fp6& y);
    friend Fp6 operator*(const Fp6& x, const Fp2& y) { return {{x.c[0] * y, x.c[1] * y, x.c[2] * y}}; }
    // Times y0 + y1 v.
    [[nodiscard]] Fp6 times_sparse(const Fp2& y0, const Fp2& y1) const;
    [[nodiscard]] Fp6 times_v() const { return {{c[2].times_xi(), c[0], c[1]}}; }
    [[nodiscard]] Fp6 inverted() const;
};

// What a line through points of the twisted curve is at a point: y0 + y1 w + y3 w^3.
struct Line {
    Fp2 y0;
    Fp2 y1;
    Fp2 y3;
};

struct Fp12 {
    std::array<Fp6, 2> c;  // c0 + c1 w

    [[nodiscard]] static Fp12 one() {
        Fp12 r;
        r.c[0].c[0] = Fp2::one();
        return r;
    }
    constexpr bool operator==(const Fp12&) const = default;
    friend Fp12 operator*(const Fp12& x, const Fp12& y);
    [[nodiscard]] Fp12 squared() const;
    [[nodiscard]] Fp12 times(const Line& line) const;
    // Raised to p^6.
    [[nodiscard]] Fp12 conjugate() const { return {{c[0], -c[1]}}; }
    // Of one that is not zero.
    [[nodiscard]] Fp12 inverted() const;
    // Raised to p^power, power 1 to 3.
    [[nodiscard]] Fp12 frobenius(unsigned power) const;

    // Of elements whose norm over Fp6 and order divide p^4 - p^2 + 1 (Granger and Scott, "Faster squaring in the
    // cyclotomic subgroup of sixth degree extensions", 2010); there the conjugate is the inverse.
    [[nodiscard]] Fp12 cyclotomic_squared() const;
    // Raised to the family's parameter, likewise.
    [[nodiscard]] Fp12 cyclotomic_power_of_parameter() const;
};

// xi^(i (p^power - 1) / 6), i = 1 to 5, power = 1 to 3: what Frobenius' map multiplies by; also in the twist's.
[[nodiscard]] const Fp2& frobenius_factor(unsigned power, unsigned i);

// The signed digits of a number without neighbours that are not zero, the lowest first.
template <std::size_t N>
struct SignedDigits {
    std::array<std::int8_t, N> digit{};
    std::size_t size = 0;
};
[[nodiscard]] constexpr SignedDigits<68> signed_digits_of(Wide number) {
    SignedDigits<68> digits;
    for (; number != 0; number >>= 1) {
        if ((number & 1) != 0) {
            digits.digit[digits.size] = static_cast<std::int8_t>(2 - static_cast<int>(number & 3));
            if (digits.digit[digits.size] > 0)
                number -= 1;
            else
                number += 1;
        }
        ++digits.size;
    }
    return digits;
}

}  // namespace quern::crypto::bn254
