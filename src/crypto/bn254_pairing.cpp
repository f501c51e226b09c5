#include "crypto/bn254_pairing.h"

namespace quern::crypto::bn254 {
namespace {

// The loop's length, 6 x + 2, has 65 bits.
constexpr SignedDigits<68> kLoop = signed_digits_of(static_cast<Wide>(kParameter) * 6 + 2);

constexpr Fp2 kThriceCoefficient = kTwistedCoefficient + kTwistedCoefficient + kTwistedCoefficient;

// A multiple of Q on its way: (x / z, y / z). Both steps give the line through what they add, which is scaled by P's
// coordinates afterwards (Scott et al., https://eprint.iacr.org/2013/722, section 4.3).
struct Multiple {
    Fp2 x;
    Fp2 y;
    Fp2 z;

    Line double_it() {
        const Fp2 a = (x * y).halved();
        const Fp2 b = y.squared();
        const Fp2 c = z.squared();
        const Fp2 e = c * kThriceCoefficient;
        const Fp2 f = e.doubled() + e;
        const Fp2 g = (b + f).halved();
        const Fp2 h = (y + z).squared() - (b + c);
        const Fp2 j = x.squared();
        const Fp2 ee = e.squared();
        x = a * (b - f);
        y = g.squared() - (ee.doubled() + ee);
        z = b * h;
        return {-h, j.doubled() + j, e - b};
    }

    Line add(const G2& q) {
        const Fp2 theta = y - q.y * z;
        const Fp2 lambda = x - q.x * z;
        const Fp2 c = theta.squared();
        const Fp2 d = lambda.squared();
        const Fp2 e = lambda * d;
        const Fp2 f = z * c;
        const Fp2 g = x * d;
        const Fp2 h = e + f - g.doubled();
        x = lambda * h;
        y = theta * (g - h) - e * y;
        z = z * e;
        return {lambda, -theta, q.x * theta - lambda * q.y};
    }
};

Line at(const Line& line, const G1& p) { return {line.y0 * p.y, line.y1 * p.x, line.y3}; }

// The product of the pairs' Miller functions. No point is infinity, and as all have the order r, no step adds a point
// to itself or to its negative.
Fp12 miller_loop(std::span<const G1> ps, std::span<const G2> qs, std::span<Multiple> multiples) {
    for (std::size_t i = 0; i < qs.size(); ++i) multiples[i] = {qs[i].x, qs[i].y, Fp2::one()};
    Fp12 f = Fp12::one();
    for (std::size_t bit = kLoop.size - 1; bit-- > 0;) {
        if (bit + 2 != kLoop.size) f = f.squared();
        for (std::size_t i = 0; i < qs.size(); ++i) {
            f = f.times(at(multiples[i].double_it(), ps[i]));
            if (kLoop.digit[bit] != 0) f = f.times(at(multiples[i].add(kLoop.digit[bit] > 0 ? qs[i] : -qs[i]), ps[i]));
        }
    }
    for (std::size_t i = 0; i < qs.size(); ++i) {
        f = f.times(at(multiples[i].add(frobenius(qs[i], 1)), ps[i]));
        f = f.times(at(multiples[i].add(-frobenius(qs[i], 2)), ps[i]));
    }
    return f;
}

// f^(s (p^12 - 1) / r): p^6 - 1 and p^2 + 1, then s (p^4 - p^2 + 1) / r by three powers of the parameter
// (Fuentes-Castaneda et al., "Faster hashing to G2", 2011; Duquesne and Ghammam, https://eprint.iacr.org/2015/192,
// algorithm 6).
Fp12 final_power(const Fp12& f) {
    Fp12 m = f.conjugate() * f.inverted();
    m = m.frobenius(2) * m;
    const Fp12 t0 = m.cyclotomic_power_of_parameter().conjugate().cyclotomic_squared();             // -2x
    const Fp12 t1 = t0.cyclotomic_squared() * t0;                                                   // -6x
    const Fp12 t2 = t1.cyclotomic_power_of_parameter().conjugate();                                 // 6x^2
    const Fp12 t4 = t2.cyclotomic_squared().cyclotomic_power_of_parameter() * t2 * t1.conjugate();  // 12x^3 + 6x^2 + 6x
    const Fp12 t3 = t0 * t4;                                                                        // 12x^3 + 6x^2 + 4x
    return m * t2 * t4 * t3.frobenius(1) * t4.frobenius(2) * (m.conjugate() * t3).frobenius(3);
}

}  // namespace

void PairingProduct::multiply(const G1& p, const G2& q) {
    if (p.is_infinity() || q.is_infinity()) return;
    ps_[pending_] = p;
    qs_[pending_] = q;
    if (++pending_ == kAtOnce) flush();
}

void PairingProduct::flush() {
    if (pending_ == 0) return;
    std::array<Multiple, kAtOnce> multiples;
    product_ = product_ * miller_loop(std::span(ps_).first(pending_), std::span(qs_).first(pending_), multiples);
    pending_ = 0;
}

bool PairingProduct::is_one() {
    flush();
    return final_power(product_) == Fp12::one();
}

Fp12 pairing(const G1& p, const G2& q) {
    if (p.is_infinity() || q.is_infinity()) return Fp12::one();
    std::array<Multiple, 1> multiple;
    return final_power(miller_loop(std::span(&p, 1), std::span(&q, 1), multiple));
}

}  // namespace quern::crypto::bn254
