#include "crypto/bn254.h"

#include "crypto/bn254_tower.h"

namespace quern::crypto::bn254 {
namespace {

// G1 has an endomorphism that costs one product, (x, y) -> (beta x, y), and multiplies by lambda (Gallant, Lambert and
// Vanstone, 2001): k = k1 + k2 lambda modulo the order with halves of 127 bits at most.
constexpr Fp kBeta = Fp::of({0, 0x59e26bcea0d48bac, 0xd4f263f1acdb5c4f, 0x5763473177fffffe});
// A reduced basis of the (a, b) with a + b lambda = 0: (kA1, -kB1) and (kA2, kA1).
constexpr Uint256 kA1{0x89d3256894d213e3};
constexpr Uint256 kB1{0, 0, 0x6f4d8248eeb859fc, 0x8211bbeb7d4f1128};
constexpr Uint256 kA2{0, 0, 0x6f4d8248eeb859fd, 0x0be4e1541221250b};
// 2^256 kA1 / order and 2^256 kB1 / order, rounded.
constexpr Uint256 kRounding1{0, 0, 0x2, 0xd91d232ec7e0b3d7};
constexpr Uint256 kRounding2{0, 0x2, 0x4ccef014a773d2cf, 0x7a7bd9d4391eb18e};

struct Half {
    Uint256 size;
    bool is_negative = false;
};
Half half_of(const Uint256& twos_complement) {
    return twos_complement.bit(255) ? Half{Uint256() - twos_complement, true} : Half{twos_complement, false};
}

// a b / 2^256.
Uint256 high_half_of_product(const Uint256& a, const Uint256& b) {
    std::array<std::uint64_t, 8> limb{};
    for (std::size_t i = 0; i < 4; ++i) {
        std::uint64_t carry = 0;
        for (std::size_t j = 0; j < 4; ++j) {
            const Wide t = static_cast<Wide>(a.limb[i]) * b.limb[j] + limb[i + j] + carry;
            limb[i + j] = static_cast<std::uint64_t>(t);
            carry = static_cast<std::uint64_t>(t >> 64);
        }
        limb[i + 4] = carry;
    }
    return {limb[7], limb[6], limb[5], limb[4]};
}

// Digits of the width-5 non-adjacent form: each odd, at most 15, or zero; the lowest first.
struct Digits {
    std::array<std::int8_t, 132> digit{};
    std::size_t size = 0;
};
Digits digits_of(Half half) {
    Digits digits;
    for (; !half.size.is_zero(); half.size = half.size >> 1) {
        if (half.size.bit(0)) {
            int digit = static_cast<int>(half.size.limb[0] & 31);
            if (digit > 16) digit -= 32;
            half.size = digit > 0 ? half.size - Uint256(static_cast<std::uint64_t>(digit))
                                  : half.size + Uint256(static_cast<std::uint64_t>(-digit));
            digits.digit[digits.size] = static_cast<std::int8_t>(half.is_negative ? -digit : digit);
        }
        ++digits.size;
    }
    return digits;
}

// The odd multiples P, 3 P, ..., 15 P, affine by one inversion for all.
std::array<G1, 8> odd_multiples(const G1& point) {
    std::array<Jacobian<Fp>, 8> multiples;
    multiples[0] = Jacobian<Fp>::of(point);
    const Jacobian<Fp> twice = multiples[0].doubled();
    for (std::size_t i = 1; i < 8; ++i) multiples[i] = multiples[i - 1] + twice;
    // The order is a prime above 15, so that none of them is infinity.
    std::array<Fp, 8> products;
    products[0] = multiples[0].z;
    for (std::size_t i = 1; i < 8; ++i) products[i] = products[i - 1] * multiples[i].z;
    Fp inverse = products[7].inverted();
    std::array<G1, 8> affine;
    for (std::size_t i = 8; i-- > 0;) {
        const Fp own = i == 0 ? inverse : inverse * products[i - 1];
        inverse = inverse * multiples[i].z;
        const Fp square = own.squared();
        affine[i] = {multiples[i].x * square, multiples[i].y * square * own};
    }
    return affine;
}

Expected<Fp> decode_fp(BytesView bytes) {
    const Uint256 number = Uint256::from_be(bytes);
    if (number >= kPrime) return fail("bn254.not_reduced");
    return Fp::of(number);
}

constexpr SignedDigits<68> kParameterDigits = signed_digits_of(kParameter);

}  // namespace

Expected<G1> decode_g1(BytesView bytes) {
    if (bytes.size() != kG1Bytes) return fail("bn254.wrong_length");
    QUERN_TRY(const Fp x, decode_fp(bytes.first(32)));
    QUERN_TRY(const Fp y, decode_fp(bytes.subspan(32)));
    const G1 point{x, y};
    if (!point.is_infinity() && !(y.squared() == x.squared() * x + kCoefficient)) return fail("bn254.not_on_curve");
    return point;
}

Expected<G2> decode_g2(BytesView bytes) {
    if (bytes.size() != kG2Bytes) return fail("bn254.wrong_length");
    QUERN_TRY(const Fp x_imaginary, decode_fp(bytes.first(32)));
    QUERN_TRY(const Fp x_real, decode_fp(bytes.subspan(32, 32)));
    QUERN_TRY(const Fp y_imaginary, decode_fp(bytes.subspan(64, 32)));
    QUERN_TRY(const Fp y_real, decode_fp(bytes.subspan(96)));
    const G2 point{{x_real, x_imaginary}, {y_real, y_imaginary}};
    if (point.is_infinity()) return point;
    if (!(point.y.squared() == point.x.squared() * point.x + kTwistedCoefficient)) return fail("bn254.not_on_curve");
    if (!is_in_group(point)) return fail("bn254.not_in_group");
    return point;
}

FixedBytes<kG1Bytes> encode(const G1& point) {
    FixedBytes<kG1Bytes> bytes;
    const Hash32 x = point.x.number().to_be32();
    const Hash32 y = point.y.number().to_be32();
    std::copy(x.data.begin(), x.data.end(), bytes.data.begin());
    std::copy(y.data.begin(), y.data.end(), bytes.data.begin() + 32);
    return bytes;
}

G1 add(const G1& p, const G1& q) { return (Jacobian<Fp>::of(p) + q).affine(); }

G1 multiply(const G1& point, const Uint256& scalar) {
    Uint256 k = scalar;
    while (k >= kOrder) k -= kOrder;  // at most five times
    if (point.is_infinity() || k.is_zero()) return {};
    const Uint256 c1 = high_half_of_product(k, kRounding1);
    const Uint256 c2 = high_half_of_product(k, kRounding2);
    const Digits low = digits_of(half_of(k - c1 * kA1 - c2 * kA2));
    const Digits high = digits_of(half_of(c1 * kB1 - c2 * kA1));
    const std::array<G1, 8> multiples = odd_multiples(point);
    Jacobian<Fp> sum;
    const auto add_digit = [&](std::int8_t digit, bool times_lambda) {
        if (digit == 0) return;
        G1 multiple = multiples[static_cast<std::size_t>(digit > 0 ? digit : -digit) / 2];
        if (times_lambda) multiple.x = multiple.x * kBeta;
        sum = sum + (digit > 0 ? multiple : -multiple);
    };
    for (std::size_t i = std::max(low.size, high.size); i-- > 0;) {
        sum = sum.doubled();
        add_digit(low.digit[i], false);
        add_digit(high.digit[i], true);
    }
    return sum.affine();
}

G2 frobenius(const G2& point, unsigned power) {
    const auto map = [&](const Fp2& number, unsigned i) {
        const Fp2& factor = frobenius_factor(power, i);
        return power == 2 ? number * factor.a : number.conjugate() * factor;
    };
    return {map(point.x, 2), map(point.y, 3)};
}

// [x + 1] Q + pi([x] Q) + pi^2([x] Q) = pi^3([2 x] Q) with the family's parameter x: one multiplication of 63 bits
// instead of 254 (Dai, Lin, Zhao and Zhou, "Fast subgroup membership testings for G1, G2 and GT on pairing-friendly
// curves", 2022, sections 3 and 5.1).
bool is_in_group(const G2& point) {
    if (point.is_infinity()) return true;
    const auto map = [](const Jacobian<Fp2>& p) {
        return Jacobian<Fp2>{p.x.conjugate() * frobenius_factor(1, 2), p.y.conjugate() * frobenius_factor(1, 3),
                             p.z.conjugate()};
    };
    const G2 negative = -point;
    Jacobian<Fp2> multiple = Jacobian<Fp2>::of(point);
    for (std::size_t i = kParameterDigits.size - 1; i-- > 0;) {
        multiple = multiple.doubled();
        if (kParameterDigits.digit[i] != 0) multiple = multiple + (kParameterDigits.digit[i] > 0 ? point : negative);
    }
    const Jacobian<Fp2> once = map(multiple);
    const Jacobian<Fp2> twice = map(once);
    return same_point(multiple + point + once + twice, map(twice).doubled());
}

}  // namespace quern::crypto::bn254
