#include "crypto/bn254_tower.h"

namespace quern::crypto::bn254 {
namespace {

constexpr std::array<std::array<Fp2, 5>, 3> kFrobeniusFactors = {{
    {{
        Fp2::of({0x1284b71c2865a7df, 0xe8b99fdd76e68b60, 0x5c521e08292f2176, 0xd60b35dadcc9e470},
                {0x246996f3b4fae7e6, 0xa6327cfe12150b8e, 0x747992778eeec7e5, 0xca5cf05f80f362ac}),
        Fp2::of({0x2fb347984f7911f7, 0x4c0bec3cf559b143, 0xb78cc310c2c3330c, 0x99e39557176f553d},
                {0x16c9e55061ebae20, 0x4ba4cc8bd75a0794, 0x32ae2a1d0b7c9dce, 0x1665d51c640fcba2}),
        Fp2::of({0x063cf305489af5dc, 0xdc5ec698b6e2f9b9, 0xdbaae0eda9c95998, 0xdc54014671a0135a},
                {0x07c03cbcac41049a, 0x0704b5a7ec796f2b, 0x21807dc98fa25bd2, 0x82d37f632623b0e3}),
        Fp2::of({0x05b54f5e64eea801, 0x80f3c0b75a181e84, 0xd33365f7be94ec72, 0x848a1f55921ea762},
                {0x2c145edbe7fd8aee, 0x9f3a80b03b0b1c92, 0x3685d2ea1bdec763, 0xc13b4711cd2b8126}),
        Fp2::of({0x0183c1e74f798649, 0xe93a3661a4353ff4, 0x425c459b55aa1bd3, 0x2ea2c810eab7692f},
                {0x12acf2ca76fd0675, 0xa27fb246c7729f7d, 0xb080cb99678e2ac0, 0x24c6b8ee6e0c2c4b}),
    }},
    {{
        Fp2::of({0x30644e72e131a029, 0x5e6dd9e7e0acccb0, 0xc28f069fbb966e3d, 0xe4bd44e5607cfd49}, 0),
        Fp2::of({0x30644e72e131a029, 0x5e6dd9e7e0acccb0, 0xc28f069fbb966e3d, 0xe4bd44e5607cfd48}, 0),
        Fp2::of({0x30644e72e131a029, 0xb85045b68181585d, 0x97816a916871ca8d, 0x3c208c16d87cfd46}, 0),
        Fp2::of({0x0000000000000000, 0x59e26bcea0d48bac, 0xd4f263f1acdb5c4f, 0x5763473177fffffe}, 0),
        Fp2::of({0x0000000000000000, 0x59e26bcea0d48bac, 0xd4f263f1acdb5c4f, 0x5763473177ffffff}, 0),
    }},
    {{
        Fp2::of({0x19dc81cfcc82e4bb, 0xefe9608cd0acaa90, 0x894cb38dbe55d24a, 0xe86f7d391ed4a67f},
                {0x00abf8b60be77d73, 0x06cbeee33576139d, 0x7f03a5e397d439ec, 0x7694aa2bf4c0c101}),
        Fp2::of({0x0856e078b755ef0a, 0xbaff1c77959f25ac, 0x805ffd3d5d6942d3, 0x7b746ee87bdcfb6d},
                {0x04f1de41b3d1766f, 0xa9f30e6dec26094f, 0x0fdf31bf98ff2631, 0x380cab2baaa586de}),
        Fp2::of({0x2a275b6d9896aa4c, 0xdbf17f1dca9e5ea3, 0xbbd689a3bea870f4, 0x5fcc8ad066dce9ed},
                {0x28a411b634f09b8f, 0xb14b900e9507e932, 0x7600ecc7d8cf6eba, 0xb94d0cb3b2594c64}),
        Fp2::of({0x0bc58c6611c08dab, 0x19bee0f7b5b2444e, 0xe633094575b06bcb, 0x0e1a92bc3ccbf066},
                {0x23d5e999e1910a12, 0xfeb0f6ef0cd21d04, 0xa44a9e08737f96e5, 0x5fe3ed9d730c239f}),
        Fp2::of({0x13c49044952c0905, 0x711699fa3b4d3f69, 0x2ed68098967c84a5, 0xebde847076261b43},
                {0x16db366a59b1dd0b, 0x9fb1b2282a48633d, 0x3e2ddaea20028021, 0x1f25041384282499}),
    }},
}};

constexpr SignedDigits<68> kParameterDigits = signed_digits_of(kParameter);

}  // namespace

const Fp2& frobenius_factor(unsigned power, unsigned i) { return kFrobeniusFactors[power - 1][i - 1]; }

// Karatsuba's, six products.
Fp6 operator*(const Fp6& x, const Fp6& y) {
    const Fp2 t0 = x.c[0] * y.c[0];
    const Fp2 t1 = x.c[1] * y.c[1];
    const Fp2 t2 = x.c[2] * y.c[2];
    return {{t0 + ((x.c[1] + x.c[2]) * (y.c[1] + y.c[2]) - t1 - t2).times_xi(),
             (x.c[0] + x.c[1]) * (y.c[0] + y.c[1]) - t0 - t1 + t2.times_xi(),
             (x.c[0] + x.c[2]) * (y.c[0] + y.c[2]) - t0 - t2 + t1}};
}

Fp6 Fp6::times_sparse(const Fp2& y0, const Fp2& y1) const {
    const Fp2 t0 = c[0] * y0;
    const Fp2 t1 = c[1] * y1;
    return {
        {t0 + ((c[1] + c[2]) * y1 - t1).times_xi(), (c[0] + c[1]) * (y0 + y1) - t0 - t1, (c[0] + c[2]) * y0 - t0 + t1}};
}

// By the adjoint: (A + B v + C v^2) (c0 + c1 v + c2 v^2) is in Fp2.
Fp6 Fp6::inverted() const {
    const Fp2 a = c[0].squared() - (c[1] * c[2]).times_xi();
    const Fp2 b = c[2].squared().times_xi() - c[0] * c[1];
    const Fp2 d = c[1].squared() - c[0] * c[2];
    const Fp2 norm = c[0] * a + (c[2] * b + c[1] * d).times_xi();
    return Fp6{{a, b, d}} * norm.inverted();
}

Fp12 operator*(const Fp12& x, const Fp12& y) {
    const Fp6 t0 = x.c[0] * y.c[0];
    const Fp6 t1 = x.c[1] * y.c[1];
    return {{t0 + t1.times_v(), (x.c[0] + x.c[1]) * (y.c[0] + y.c[1]) - t0 - t1}};
}

// (c0 + c1)(c0 + c1 v) = c0^2 + c1^2 v + c0 c1 (1 + v).
Fp12 Fp12::squared() const {
    const Fp6 product = c[0] * c[1];
    return {{(c[0] + c[1]) * (c[0] + c[1].times_v()) - product - product.times_v(), product + product}};
}

Fp12 Fp12::times(const Line& line) const {
    const Fp6 t0 = c[0] * line.y0;
    const Fp6 t1 = c[1].times_sparse(line.y1, line.y3);
    return {{t0 + t1.times_v(), (c[0] + c[1]).times_sparse(line.y0 + line.y1, line.y3) - t0 - t1}};
}

Fp12 Fp12::inverted() const {
    const Fp6 norm = (c[0] * c[0] - (c[1] * c[1]).times_v()).inverted();
    return {{c[0] * norm, -(c[1] * norm)}};
}

Fp12 Fp12::frobenius(unsigned power) const {
    const auto map = [&](const Fp2& x, unsigned i) {
        const Fp2 moved = power % 2 == 1 ? x.conjugate() : x;
        if (i == 0) return moved;
        const Fp2& factor = frobenius_factor(power, i);
        return power == 2 ? moved * factor.a : moved * factor;
    };
    // The coefficient of w^i is c[i % 2].c[i / 2].
    Fp12 r;
    for (unsigned i = 0; i < 6; ++i) r.c[i % 2].c[i / 2] = map(c[i % 2].c[i / 2], i);
    return r;
}

Fp12 Fp12::cyclotomic_squared() const {
    // Three squarings in Fp4, of (c00, c11), (c10, c02) and (c01, c12): of each pair x^2 + xi y^2 and 2 x y.
    struct Fp4 {
        Fp2 squares;
        Fp2 product;
    };
    const auto square = [](const Fp2& x, const Fp2& y) {
        const Fp2 xx = x.squared();
        const Fp2 yy = y.squared();
        return Fp4{xx + yy.times_xi(), (x + y).squared() - xx - yy};
    };
    const Fp4 s0 = square(c[0].c[0], c[1].c[1]);
    const Fp4 s1 = square(c[1].c[0], c[0].c[2]);
    const Fp4 s2 = square(c[0].c[1], c[1].c[2]);
    const auto lower = [](const Fp2& s, const Fp2& x) { return (s - x).doubled() + s; };
    const auto upper = [](const Fp2& s, const Fp2& x) { return (s + x).doubled() + s; };
    const Fp6 low{{lower(s0.squares, c[0].c[0]), lower(s1.squares, c[0].c[1]), lower(s2.squares, c[0].c[2])}};
    const Fp6 high{
        {upper(s2.product.times_xi(), c[1].c[0]), upper(s0.product, c[1].c[1]), upper(s1.product, c[1].c[2])}};
    return {{low, high}};
}

Fp12 Fp12::cyclotomic_power_of_parameter() const {
    const Fp12 inverse = conjugate();
    Fp12 r = *this;
    for (std::size_t i = kParameterDigits.size - 1; i-- > 0;) {
        r = r.cyclotomic_squared();
        if (kParameterDigits.digit[i] != 0) r = r * (kParameterDigits.digit[i] > 0 ? *this : inverse);
    }
    return r;
}

}  // namespace quern::crypto::bn254
