// The field of the curve BN254 (alt_bn128; EIP-196) and its quadratic extension, for crypto/bn254*. Elements are in
// Montgomery form with R = 2^256 and always reduced; nothing here is secret, so that times may depend on values. What
// pairings spend their time on has two forms of equal results: portable C++, which is also what the compiler evaluates,
// and for x86-64 a few lines of assembler (compilers make three times as many instructions of a chain of carries as it
// takes). Plain values; thread-safe.
#pragma once

#include <type_traits>

#include "base/uint256.h"

namespace quern::crypto::bn254 {

using Wide = unsigned __int128;

inline constexpr Uint256 kPrime{0x30644e72e131a029, 0xb85045b68181585d, 0x97816a916871ca8d, 0x3c208c16d87cfd47};
// Of the groups that are paired.
inline constexpr Uint256 kOrder{0x30644e72e131a029, 0xb85045b68181585d, 0x2833e84879b97091, 0x43e1f593f0000001};
// The parameter x of the family (Barreto and Naehrig): p = 36x^4 + 36x^3 + 24x^2 + 6x + 1.
inline constexpr std::uint64_t kParameter = 0x44e992b44a6909f1;

struct Fp {
    Uint256 form;  // value * R mod p

    // The element of a number below p.
    [[nodiscard]] static constexpr Fp of(const Uint256& number) {
        constexpr Uint256 kSquareOfR{0x06d89f71cab8351f, 0x47ab1eff0a417ff6, 0xb5e71911d44501fb, 0xf32cfc5b538afa89};
        return Fp{number} * Fp{kSquareOfR};
    }
    [[nodiscard]] static constexpr Fp one() {
        return {{0x0e0a77c19a07df2f, 0x666ea36f7879462c, 0x0a78eb28f5c70b3d, 0xd35d438dc58f0d9d}};
    }
    [[nodiscard]] constexpr Uint256 number() const { return (*this * Fp{Uint256(1)}).form; }
    [[nodiscard]] constexpr bool is_zero() const { return form.is_zero(); }
    constexpr bool operator==(const Fp&) const = default;

    friend constexpr Fp operator+(const Fp& a, const Fp& b) {
        if (std::is_constant_evaluated()) return sum(a, b);
        return fast_sum(a, b);
    }
    friend constexpr Fp operator-(const Fp& a, const Fp& b) {
        if (std::is_constant_evaluated()) return difference(a, b);
        return fast_difference(a, b);
    }
    friend constexpr Fp operator-(const Fp& a) { return Fp{} - a; }
    friend constexpr Fp operator*(const Fp& a, const Fp& b) {
        if (std::is_constant_evaluated()) return product(a, b);
        return fast_product(a, b);
    }
    // The portable forms.
    [[nodiscard]] static constexpr Fp sum(const Fp& a, const Fp& b) { return {reduced_once(a.form + b.form)}; }
    [[nodiscard]] static constexpr Fp difference(const Fp& a, const Fp& b) {
        return {a.form >= b.form ? a.form - b.form : a.form + kPrime - b.form};
    }
    // Montgomery's product with the two carries of each round in one, since p leaves the highest bit free
    // (https://hackmd.io/@gnark/modular_multiplication).
    [[nodiscard]] static constexpr Fp product(const Fp& a, const Fp& b) {
        std::uint64_t t0 = 0, t1 = 0, t2 = 0, t3 = 0;
        for (std::size_t i = 0; i < 4; ++i) {
            const std::uint64_t factor = b.form.limb[i];
            Wide u = static_cast<Wide>(a.form.limb[0]) * factor + t0;
            const std::uint64_t m = static_cast<std::uint64_t>(u) * kNegativeInverse;
            Wide v = static_cast<Wide>(m) * kPrime.limb[0] + static_cast<std::uint64_t>(u);
            u = static_cast<Wide>(a.form.limb[1]) * factor + t1 + static_cast<std::uint64_t>(u >> 64);
            v = static_cast<Wide>(m) * kPrime.limb[1] + static_cast<std::uint64_t>(u) +
                static_cast<std::uint64_t>(v >> 64);
            t0 = static_cast<std::uint64_t>(v);
            u = static_cast<Wide>(a.form.limb[2]) * factor + t2 + static_cast<std::uint64_t>(u >> 64);
            v = static_cast<Wide>(m) * kPrime.limb[2] + static_cast<std::uint64_t>(u) +
                static_cast<std::uint64_t>(v >> 64);
            t1 = static_cast<std::uint64_t>(v);
            u = static_cast<Wide>(a.form.limb[3]) * factor + t3 + static_cast<std::uint64_t>(u >> 64);
            v = static_cast<Wide>(m) * kPrime.limb[3] + static_cast<std::uint64_t>(u) +
                static_cast<std::uint64_t>(v >> 64);
            t2 = static_cast<std::uint64_t>(v);
            t3 = static_cast<std::uint64_t>(u >> 64) + static_cast<std::uint64_t>(v >> 64);
        }
        return {reduced_once({t3, t2, t1, t0})};
    }
    [[nodiscard]] constexpr Fp squared() const { return *this * *this; }
    [[nodiscard]] constexpr Fp doubled() const { return *this + *this; }
    // a / 2: of an odd form p makes it even.
    [[nodiscard]] constexpr Fp halved() const {
        const std::uint64_t mask = 0 - (form.limb[0] & 1);
        return {(form +
                 Uint256{kPrime.limb[3] & mask, kPrime.limb[2] & mask, kPrime.limb[1] & mask, kPrime.limb[0] & mask}) >>
                1};
    }
    // Zero's is zero.
    [[nodiscard]] Fp inverted() const;

    // What the operators are at run time.
    [[nodiscard]] static Fp fast_sum(const Fp& a, const Fp& b);
    [[nodiscard]] static Fp fast_difference(const Fp& a, const Fp& b);
    [[nodiscard]] static Fp fast_product(const Fp& a, const Fp& b);

    static constexpr std::uint64_t kNegativeInverse = 0x87d20782e4866389;  // -1 / p modulo 2^64

private:
    // Of a number below 2 p.
    [[nodiscard]] static constexpr Uint256 reduced_once(const Uint256& number) {
        return number >= kPrime ? number - kPrime : number;
    }
};

#if defined(__x86_64__)
inline Fp Fp::fast_sum(const Fp& a, const Fp& b) {
    std::uint64_t t0 = a.form.limb[0], t1 = a.form.limb[1], t2 = a.form.limb[2], t3 = a.form.limb[3];
    std::uint64_t u0, u1, u2, u3;
    asm("addq 0(%[b]), %[t0]\n\tadcq 8(%[b]), %[t1]\n\tadcq 16(%[b]), %[t2]\n\tadcq 24(%[b]), %[t3]\n\t"
        "movq %[t0], %[u0]\n\tmovq %[t1], %[u1]\n\tmovq %[t2], %[u2]\n\tmovq %[t3], %[u3]\n\t"
        "subq 0(%[p]), %[u0]\n\tsbbq 8(%[p]), %[u1]\n\tsbbq 16(%[p]), %[u2]\n\tsbbq 24(%[p]), %[u3]\n\t"
        "cmovncq %[u0], %[t0]\n\tcmovncq %[u1], %[t1]\n\tcmovncq %[u2], %[t2]\n\tcmovncq %[u3], %[t3]"
        : [t0] "+&r"(t0), [t1] "+&r"(t1), [t2] "+&r"(t2), [t3] "+&r"(t3), [u0] "=&r"(u0), [u1] "=&r"(u1),
          [u2] "=&r"(u2), [u3] "=&r"(u3)
        : [b] "r"(b.form.limb.data()), [p] "r"(kPrime.limb.data()), "m"(b), "m"(kPrime)
        : "cc");
    return {{t3, t2, t1, t0}};
}
inline Fp Fp::fast_difference(const Fp& a, const Fp& b) {
    std::uint64_t t0 = a.form.limb[0], t1 = a.form.limb[1], t2 = a.form.limb[2], t3 = a.form.limb[3];
    std::uint64_t u0, u1, u2, u3;
    // u: p where the difference borrows, else zero.
    asm("subq 0(%[b]), %[t0]\n\tsbbq 8(%[b]), %[t1]\n\tsbbq 16(%[b]), %[t2]\n\tsbbq 24(%[b]), %[t3]\n\t"
        "sbbq %[u0], %[u0]\n\tmovq %[u0], %[u1]\n\tmovq %[u0], %[u2]\n\tmovq %[u0], %[u3]\n\t"
        "andq 0(%[p]), %[u0]\n\tandq 8(%[p]), %[u1]\n\tandq 16(%[p]), %[u2]\n\tandq 24(%[p]), %[u3]\n\t"
        "addq %[u0], %[t0]\n\tadcq %[u1], %[t1]\n\tadcq %[u2], %[t2]\n\tadcq %[u3], %[t3]"
        : [t0] "+&r"(t0), [t1] "+&r"(t1), [t2] "+&r"(t2), [t3] "+&r"(t3), [u0] "=&r"(u0), [u1] "=&r"(u1),
          [u2] "=&r"(u2), [u3] "=&r"(u3)
        : [b] "r"(b.form.limb.data()), [p] "r"(kPrime.limb.data()), "m"(b), "m"(kPrime)
        : "cc");
    return {{t3, t2, t1, t0}};
}
#else
inline Fp Fp::fast_sum(const Fp& a, const Fp& b) { return sum(a, b); }
inline Fp Fp::fast_difference(const Fp& a, const Fp& b) { return difference(a, b); }
#endif

// a + b i with i^2 = -1.
struct Fp2 {
    Fp a;
    Fp b;

    [[nodiscard]] static constexpr Fp2 of(const Uint256& a, const Uint256& b) { return {Fp::of(a), Fp::of(b)}; }
    [[nodiscard]] static constexpr Fp2 one() { return {Fp::one(), {}}; }
    [[nodiscard]] constexpr bool is_zero() const { return a.is_zero() && b.is_zero(); }
    constexpr bool operator==(const Fp2&) const = default;

    friend constexpr Fp2 operator+(const Fp2& x, const Fp2& y) { return {x.a + y.a, x.b + y.b}; }
    friend constexpr Fp2 operator-(const Fp2& x, const Fp2& y) { return {x.a - y.a, x.b - y.b}; }
    friend constexpr Fp2 operator-(const Fp2& x) { return {-x.a, -x.b}; }
    // Karatsuba's, three products.
    friend constexpr Fp2 operator*(const Fp2& x, const Fp2& y) {
        if (std::is_constant_evaluated()) return product(x, y);
        return fast_product(x, y);
    }
    [[nodiscard]] static constexpr Fp2 product(const Fp2& x, const Fp2& y) {
        const Fp aa = x.a * y.a;
        const Fp bb = x.b * y.b;
        return {aa - bb, (x.a + x.b) * (y.a + y.b) - aa - bb};
    }
    [[nodiscard]] static Fp2 fast_product(const Fp2& x, const Fp2& y);
    friend constexpr Fp2 operator*(const Fp2& x, const Fp& y) { return {x.a * y, x.b * y}; }
    // (a + b)(a - b) + 2 a b i.
    [[nodiscard]] constexpr Fp2 squared() const {
        if (!std::is_constant_evaluated()) return fast_square();
        const Fp product = a * b;
        return {(a + b) * (a - b), product + product};
    }
    [[nodiscard]] Fp2 fast_square() const;
    [[nodiscard]] constexpr Fp2 doubled() const { return {a.doubled(), b.doubled()}; }
    [[nodiscard]] constexpr Fp2 halved() const { return {a.halved(), b.halved()}; }
    [[nodiscard]] constexpr Fp2 conjugate() const { return {a, -b}; }
    // Times xi = 9 + i, of which the extensions above take roots.
    [[nodiscard]] constexpr Fp2 times_xi() const {
        const Fp2 eight = doubled().doubled().doubled();
        return {eight.a + a - b, eight.b + b + a};
    }
    // Zero's is zero.
    [[nodiscard]] Fp2 inverted() const {
        const Fp norm = (a.squared() + b.squared()).inverted();
        return {a * norm, -b * norm};
    }
};

}  // namespace quern::crypto::bn254
