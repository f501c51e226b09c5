#include "crypto/bn254_field.h"

#include <bit>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace quern::crypto::bn254 {
namespace {

#if defined(__x86_64__)
// Processors since 2014 (Intel) and 2017 (AMD) multiply without flags (BMI2) and add in two chains of carries at once
// (ADX), of which compilers make no use.
const bool kHasAdx = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) == 1 && (b & bit_BMI2) != 0 && (b & bit_ADX) != 0;
}();

// As Fp::product: a row for each word of b, t += a b_i, then t = (t + m p) / 2^64 with m that makes it divide.
inline Fp product_by_adx(const Fp& a, const Fp& b) {
    std::uint64_t t0, t1, t2, t3, u0, u1;
    // The words of a times rdx, added to t; the word above goes to u1.
#define QUERN_ROW                                                                  \
    "xorl %%eax, %%eax\n\t"                                                        \
    "mulxq 0(%[a]), %%rax, %[u1]\n\tadoxq %%rax, %[t0]\n\t"                        \
    "adcxq %[u1], %[t1]\n\tmulxq 8(%[a]), %%rax, %[u1]\n\tadoxq %%rax, %[t1]\n\t"  \
    "adcxq %[u1], %[t2]\n\tmulxq 16(%[a]), %%rax, %[u1]\n\tadoxq %%rax, %[t2]\n\t" \
    "adcxq %[u1], %[t3]\n\tmulxq 24(%[a]), %%rax, %[u1]\n\tadoxq %%rax, %[t3]\n\t" \
    "movl $0, %%eax\n\tadcxq %%rax, %[u1]\n\tadoxq %%rax, %[u1]\n\t"
#define QUERN_REDUCE                                                               \
    "movabsq %[inverse], %%rdx\n\timulq %[t0], %%rdx\n\txorl %%eax, %%eax\n\t"     \
    "mulxq 0(%[p]), %%rax, %[u0]\n\tadcxq %[t0], %%rax\n\tmovq %[u0], %[t0]\n\t"   \
    "adcxq %[t1], %[t0]\n\tmulxq 8(%[p]), %%rax, %[t1]\n\tadoxq %%rax, %[t0]\n\t"  \
    "adcxq %[t2], %[t1]\n\tmulxq 16(%[p]), %%rax, %[t2]\n\tadoxq %%rax, %[t1]\n\t" \
    "adcxq %[t3], %[t2]\n\tmulxq 24(%[p]), %%rax, %[t3]\n\tadoxq %%rax, %[t2]\n\t" \
    "movl $0, %%eax\n\tadcxq %%rax, %[t3]\n\tadoxq %[u1], %[t3]\n\t"
    asm("movq 0(%[b]), %%rdx\n\txorl %%eax, %%eax\n\t"
        "mulxq 0(%[a]), %[t0], %[t1]\n\t"
        "mulxq 8(%[a]), %%rax, %[t2]\n\tadoxq %%rax, %[t1]\n\t"
        "mulxq 16(%[a]), %%rax, %[t3]\n\tadoxq %%rax, %[t2]\n\t"
        "mulxq 24(%[a]), %%rax, %[u1]\n\tadoxq %%rax, %[t3]\n\t"
        "movl $0, %%eax\n\tadoxq %%rax, %[u1]\n\t" QUERN_REDUCE "movq 8(%[b]), %%rdx\n\t" QUERN_ROW QUERN_REDUCE
        "movq 16(%[b]), %%rdx\n\t" QUERN_ROW QUERN_REDUCE "movq 24(%[b]), %%rdx\n\t" QUERN_ROW QUERN_REDUCE
        // Below 2 p: p less where that does not borrow.
        "movq %[t0], %[u0]\n\tmovq %[t1], %[u1]\n\tmovq %[t2], %%rax\n\tmovq %[t3], %%rdx\n\t"
        "subq 0(%[p]), %[u0]\n\tsbbq 8(%[p]), %[u1]\n\tsbbq 16(%[p]), %%rax\n\tsbbq 24(%[p]), %%rdx\n\t"
        "cmovncq %[u0], %[t0]\n\tcmovncq %[u1], %[t1]\n\tcmovncq %%rax, %[t2]\n\tcmovncq %%rdx, %[t3]"
        : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [u0] "=&r"(u0), [u1] "=&r"(u1)
        : [a] "r"(a.form.limb.data()), [b] "r"(b.form.limb.data()), [p] "r"(kPrime.limb.data()),
          [inverse] "i"(Fp::kNegativeInverse)
        : "rax", "rdx", "cc", "memory");
#undef QUERN_ROW
#undef QUERN_REDUCE
    return {{t3, t2, t1, t0}};
}
#else
constexpr bool kHasAdx = false;
inline Fp product_by_adx(const Fp& a, const Fp& b) { return Fp::product(a, b); }
#endif

template <class Multiply>
inline Fp2 karatsuba(const Fp2& x, const Fp2& y, const Multiply& multiply) {
    const Fp aa = multiply(x.a, y.a);
    const Fp bb = multiply(x.b, y.b);
    return {aa - bb, multiply(x.a + x.b, y.a + y.b) - aa - bb};
}
template <class Multiply>
inline Fp2 square(const Fp2& x, const Multiply& multiply) {
    const Fp product = multiply(x.a, x.b);
    return {multiply(x.a + x.b, x.a - x.b), product + product};
}

// Inversion by division steps (Bernstein and Yang, "Fast constant-time gcd computation and modular inversion", 2019) in
// the variable-time form of libsecp256k1's modinv64, 62 steps at a time on the lowest words: a tenth of the time that
// raising to p - 2 takes. Numbers are five signed words of 62 bits, the lowest first.
using Signed = __int128;
using Words = std::array<std::int64_t, 5>;
constexpr std::uint64_t kMask = ~std::uint64_t{0} >> 2;
constexpr std::int64_t kInverse = 0x382df87d1b799c77;  // 1 / p modulo 2^62

constexpr Words words_of(const Uint256& number) {
    Words words{};
    for (unsigned i = 0; i < 5; ++i) words[i] = static_cast<std::int64_t>((number >> (62 * i)).limb[0] & kMask);
    return words;
}
constexpr Words kModulus = words_of(kPrime);

// What 62 steps do to (f, g), times 2^62: (u v; q r).
struct Matrix {
    std::int64_t u, v, q, r;
};

std::int64_t division_steps(std::int64_t eta, std::uint64_t f, std::uint64_t g, Matrix& matrix) {
    std::uint64_t u = 1, v = 0, q = 0, r = 1;
    for (int left = 62;;) {
        const int zeros = std::countr_zero(g | ~std::uint64_t{0} << left);
        g >>= zeros;
        u <<= zeros;
        v <<= zeros;
        eta -= zeros;
        left -= zeros;
        if (left == 0) break;
        if (eta < 0) {
            eta = -eta;
            std::uint64_t t = f;
            f = g;
            g = 0 - t;
            t = u;
            u = q;
            q = 0 - t;
            t = v;
            v = r;
            r = 0 - t;
        }
        // As many low bits of g as steps are certain go at once: g += f w with w = -g / f modulo 2^limit, at most 6
        // bits.
        const int limit = static_cast<int>(std::min<std::int64_t>(eta + 1, left));
        const std::uint64_t mask = (~std::uint64_t{0} >> (64 - limit)) & 63;
        const std::uint64_t w = (f * g * (f * f - 2)) & mask;
        g += f * w;
        q += u * w;
        r += v * w;
    }
    matrix = {static_cast<std::int64_t>(u), static_cast<std::int64_t>(v), static_cast<std::int64_t>(q),
              static_cast<std::int64_t>(r)};
    return eta;
}

// (f, g) = matrix (f, g) / 2^62, which divides exactly.
void apply(const Matrix& m, Words& f, Words& g) {
    Signed to_f = static_cast<Signed>(m.u) * f[0] + static_cast<Signed>(m.v) * g[0];
    Signed to_g = static_cast<Signed>(m.q) * f[0] + static_cast<Signed>(m.r) * g[0];
    to_f >>= 62;
    to_g >>= 62;
    for (std::size_t i = 1; i < 5; ++i) {
        to_f += static_cast<Signed>(m.u) * f[i] + static_cast<Signed>(m.v) * g[i];
        to_g += static_cast<Signed>(m.q) * f[i] + static_cast<Signed>(m.r) * g[i];
        f[i - 1] = static_cast<std::int64_t>(static_cast<std::uint64_t>(to_f) & kMask);
        g[i - 1] = static_cast<std::int64_t>(static_cast<std::uint64_t>(to_g) & kMask);
        to_f >>= 62;
        to_g >>= 62;
    }
    f[4] = static_cast<std::int64_t>(to_f);
    g[4] = static_cast<std::int64_t>(to_g);
}

// The same modulo p: multiples of p are added so that it divides. In and out above -2 p and below p.
void apply_modulo(const Matrix& m, Words& d, Words& e) {
    const std::int64_t d_negative = d[4] >> 63;
    const std::int64_t e_negative = e[4] >> 63;
    std::int64_t more_d = (m.u & d_negative) + (m.v & e_negative);
    std::int64_t more_e = (m.q & d_negative) + (m.r & e_negative);
    Signed to_d = static_cast<Signed>(m.u) * d[0] + static_cast<Signed>(m.v) * e[0];
    Signed to_e = static_cast<Signed>(m.q) * d[0] + static_cast<Signed>(m.r) * e[0];
    const auto correction = [](Signed low, std::int64_t more) {
        const std::uint64_t excess =
            static_cast<std::uint64_t>(kInverse) * static_cast<std::uint64_t>(low) + static_cast<std::uint64_t>(more);
        return more - static_cast<std::int64_t>(excess & kMask);
    };
    more_d = correction(to_d, more_d);
    more_e = correction(to_e, more_e);
    to_d += static_cast<Signed>(kModulus[0]) * more_d;
    to_e += static_cast<Signed>(kModulus[0]) * more_e;
    to_d >>= 62;
    to_e >>= 62;
    for (std::size_t i = 1; i < 5; ++i) {
        to_d += static_cast<Signed>(m.u) * d[i] + static_cast<Signed>(m.v) * e[i];
        to_e += static_cast<Signed>(m.q) * d[i] + static_cast<Signed>(m.r) * e[i];
        to_d += static_cast<Signed>(kModulus[i]) * more_d;
        to_e += static_cast<Signed>(kModulus[i]) * more_e;
        d[i - 1] = static_cast<std::int64_t>(static_cast<std::uint64_t>(to_d) & kMask);
        e[i - 1] = static_cast<std::int64_t>(static_cast<std::uint64_t>(to_e) & kMask);
        to_d >>= 62;
        to_e >>= 62;
    }
    d[4] = static_cast<std::int64_t>(to_d);
    e[4] = static_cast<std::int64_t>(to_e);
}

// The number modulo p of words above -2 p and below p, negated first when `negate`.
Uint256 normalized(const Words& words, bool negate) {
    Uint256 number;  // two's complement
    for (unsigned i = 0; i < 5; ++i) number += Uint256(static_cast<std::uint64_t>(words[i])) << (62 * i);
    if (negate) number = Uint256() - number;
    // Now above -2 p and below 2 p.
    while (number.bit(255)) number += kPrime;
    return number >= kPrime ? number - kPrime : number;
}

}  // namespace

Fp Fp::fast_product(const Fp& a, const Fp& b) { return kHasAdx ? product_by_adx(a, b) : product(a, b); }

Fp2 Fp2::fast_product(const Fp2& x, const Fp2& y) {
    return kHasAdx ? karatsuba(x, y, product_by_adx) : karatsuba(x, y, Fp::product);
}

Fp2 Fp2::fast_square() const { return kHasAdx ? square(*this, product_by_adx) : square(*this, Fp::product); }

Fp Fp::inverted() const {
    Words d{};
    Words e{1};
    Words f = kModulus;
    Words g = words_of(form);
    std::int64_t eta = -1;
    while ((g[0] | g[1] | g[2] | g[3] | g[4]) != 0) {
        Matrix matrix;
        eta = division_steps(eta, static_cast<std::uint64_t>(f[0]), static_cast<std::uint64_t>(g[0]), matrix);
        apply_modulo(matrix, d, e);
        apply(matrix, f, g);
    }
    // f is 1 or -1 (of zero p), and d the inverse of the form, up to f's sign: 1 / (a R). Times R^3, by way of a
    // product that takes one R, that is R / a.
    constexpr Uint256 kCubeOfR{0x20fd6e902d592544, 0xef7f0b0c0ada0afb, 0x62f210e6a7283db6, 0xb1cd6dafda1530df};
    return Fp{normalized(d, f[4] < 0)} * Fp{kCubeOfR};
}

}  // namespace quern::crypto::bn254
