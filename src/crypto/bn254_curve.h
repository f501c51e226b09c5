// Points of y^2 = x^3 + b over a field of BN254's (crypto/bn254_field.h) in Jacobian coordinates: (x / z^2, y / z^3),
// infinity where z is zero. Formulas: https://hyperelliptic.org/EFD, "short Weierstrass, a = 0". Used by crypto/bn254*.
// Plain values; thread-safe.
#pragma once

#include "crypto/bn254_field.h"

namespace quern::crypto::bn254 {

// b of the curves: 3, and of the twisted one 3 / (9 + i).
inline constexpr Fp kCoefficient = Fp::of(3);
inline constexpr Fp2 kTwistedCoefficient =
    Fp2::of({0x2b149d40ceb8aaae, 0x81be18991be06ac3, 0xb5b4c5e559dbefa3, 0x3267e6dc24a138e5},
            {0x009713b03af0fed4, 0xcd2cafadeed8fdf4, 0xa74fa084e52d1852, 0xe4a2bd0685c315d2});

template <class Field>
struct Affine {
    Field x;
    Field y;
    // (0, 0) stands for infinity; it lies on neither curve.
    [[nodiscard]] constexpr bool is_infinity() const { return x.is_zero() && y.is_zero(); }
    friend constexpr Affine operator-(const Affine& p) { return {p.x, -p.y}; }
    constexpr bool operator==(const Affine&) const = default;
};
using G1 = Affine<Fp>;
using G2 = Affine<Fp2>;

template <class Field>
struct Jacobian {
    Field x;
    Field y;
    Field z;

    [[nodiscard]] static Jacobian of(const Affine<Field>& p) {
        if (p.is_infinity()) return {};
        return {p.x, p.y, Field::one()};
    }
    [[nodiscard]] bool is_infinity() const { return z.is_zero(); }
    friend Jacobian operator-(const Jacobian& p) { return {p.x, -p.y, p.z}; }

    // dbl-2009-l. Neither curve has a point of order two, so that y is never zero.
    [[nodiscard]] Jacobian doubled() const {
        const Field a = x.squared();
        const Field b = y.squared();
        const Field c = b.squared();
        const Field d = ((x + b).squared() - a - c).doubled();
        const Field e = a.doubled() + a;
        Jacobian r;
        r.x = e.squared() - d.doubled();
        r.y = e * (d - r.x) - c.doubled().doubled().doubled();
        r.z = (y * z).doubled();
        return r;
    }
    // madd-2007-bl.
    friend Jacobian operator+(const Jacobian& p, const Affine<Field>& q) {
        if (q.is_infinity()) return p;
        if (p.is_infinity()) return of(q);
        const Field zz = p.z.squared();
        const Field h = q.x * zz - p.x;
        const Field s = q.y * p.z * zz - p.y;
        if (h.is_zero()) return s.is_zero() ? p.doubled() : Jacobian{};
        const Field hh = h.squared();
        const Field i = hh.doubled().doubled();
        const Field j = h * i;
        const Field t = s.doubled();
        const Field v = p.x * i;
        Jacobian r;
        r.x = t.squared() - j - v.doubled();
        r.y = t * (v - r.x) - (p.y * j).doubled();
        r.z = (p.z + h).squared() - zz - hh;
        return r;
    }
    // add-2007-bl.
    friend Jacobian operator+(const Jacobian& p, const Jacobian& q) {
        if (q.is_infinity()) return p;
        if (p.is_infinity()) return q;
        const Field pp = p.z.squared();
        const Field qq = q.z.squared();
        const Field u = p.x * qq;
        const Field h = q.x * pp - u;
        const Field w = p.y * q.z * qq;
        const Field s = q.y * p.z * pp - w;
        if (h.is_zero()) return s.is_zero() ? p.doubled() : Jacobian{};
        const Field i = h.doubled().squared();
        const Field j = h * i;
        const Field t = s.doubled();
        const Field v = u * i;
        Jacobian r;
        r.x = t.squared() - j - v.doubled();
        r.y = t * (v - r.x) - (w * j).doubled();
        r.z = ((p.z + q.z).squared() - pp - qq) * h;
        return r;
    }
    [[nodiscard]] Affine<Field> affine() const {
        if (is_infinity()) return {};
        const Field inverse = z.inverted();
        const Field square = inverse.squared();
        return {x * square, y * square * inverse};
    }
    // Whether both are the same point.
    friend bool same_point(const Jacobian& p, const Jacobian& q) { return (p + -q).is_infinity(); }
};

}  // namespace quern::crypto::bn254
