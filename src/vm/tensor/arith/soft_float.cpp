#include "vm/tensor/arith/soft_float.h"

#include "vm/tensor/arith/elementary_constants.h"

namespace quern::vm::tensor::arith {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using u128 = unsigned __int128;
using constants::kInfinity;
using constants::kSignBit;

constexpr bool is_nan(u32 a) { return (a & 0x7fffffffU) > kInfinity; }
constexpr bool is_infinite(u32 a) { return (a & 0x7fffffffU) == kInfinity; }
constexpr bool is_zero(u32 a) { return (a & 0x7fffffffU) == 0; }

// A finite number: (-1)^sign * mantissa * 2^exponent.
struct Finite {
    u32 sign;
    int exponent;
    u32 mantissa;
};

constexpr Finite unpack(u32 a) {
    const int biased = static_cast<int>(a >> 23 & 255);
    const u32 fraction = a & 0x7fffffU;
    if (biased == 0) return {a >> 31, -149, fraction};
    return {a >> 31, biased - 150, fraction | 0x800000U};
}

// Rounds (-1)^sign * mantissa * 2^exponent. Bit 0 of the mantissa may stand for any nonzero rest below it ("sticky"),
// if the mantissa then has at least two bits below the last one kept.
constexpr u32 round_pack(u32 sign, int exponent, u64 mantissa) {
    const u32 sign_bit = sign << 31;
    if (mantissa == 0) return sign_bit;
    const int top = 63 - __builtin_clzll(mantissa);
    const bool subnormal = exponent + top < -126;
    const int drop = subnormal ? -149 - exponent : top - 23;
    if (drop > 63) return sign_bit;  // below half of the smallest subnormal
    if (drop > 0) {
        const u64 rest = mantissa & ((u64{1} << drop) - 1);
        const u64 half = u64{1} << (drop - 1);
        mantissa >>= drop;
        if (rest > half || (rest == half && (mantissa & 1) != 0)) ++mantissa;
    } else {
        mantissa <<= -drop;
    }
    exponent += drop;
    if (mantissa >= 0x1000000U) {
        mantissa >>= 1;
        ++exponent;
    }
    if (mantissa < 0x800000U) return sign_bit | static_cast<u32>(mantissa);  // exponent is -149
    const int biased = exponent + 150;
    if (biased >= 255) return sign_bit | kInfinity;
    return sign_bit | static_cast<u32>(biased) << 23 | (static_cast<u32>(mantissa) & 0x7fffffU);
}

// pm * 2^pe (48 bits, sign ps) + zm * 2^ze (24 bits, sign zs), both nonzero, one rounding.
u32 add_aligned(u32 ps, int pe, u64 pm, u32 zs, int ze, u64 zm) {
    // Both on one exponent in 128 bits. Beyond a distance of 78 the smaller one lies wholly below the last bit that
    // rounding looks at, and 1 stands for it.
    u128 p = pm;
    u128 z = zm;
    int exponent;
    const int distance = pe - ze;
    if (distance > 78) {
        p <<= 28;
        z = 1;
        exponent = pe - 28;
    } else if (distance >= 0) {
        p <<= distance;
        exponent = ze;
    } else if (distance >= -78) {
        z <<= -distance;
        exponent = pe;
    } else {
        z <<= 64;
        p = 1;
        exponent = ze - 64;
    }
    u32 sign = ps;
    u128 sum;
    if (ps == zs) {
        sum = p + z;
    } else if (p >= z) {
        sum = p - z;
    } else {
        sum = z - p;
        sign = zs;
    }
    if (sum == 0) return 0;  // exact cancellation gives +0
    const u64 high = static_cast<u64>(sum >> 63);
    if (high != 0) {
        const int shift = 64 - __builtin_clzll(high);
        const bool rest = (sum & ((u128{1} << shift) - 1)) != 0;
        sum >>= shift;
        exponent += shift;
        if (rest) sum |= 1;
    }
    return round_pack(sign, exponent, static_cast<u64>(sum));
}

inline u32 fma_words(u32 a, u32 b, u32 c) {
    if (is_nan(a) || is_nan(b) || is_nan(c)) return kCanonicalNan;
    const u32 sign = (a ^ b) >> 31;
    if (is_infinite(a) || is_infinite(b)) {
        if (is_zero(a) || is_zero(b)) return kCanonicalNan;
        if (is_infinite(c) && c >> 31 != sign) return kCanonicalNan;
        return sign << 31 | kInfinity;
    }
    if (is_infinite(c)) return c;
    const Finite x = unpack(a);
    const Finite y = unpack(b);
    const Finite z = unpack(c);
    const u64 product = u64{x.mantissa} * y.mantissa;
    if (product == 0) return z.mantissa == 0 ? (sign & z.sign) << 31 : c;
    const int exponent = x.exponent + y.exponent;
    if (z.mantissa == 0) return round_pack(sign, exponent, product);
    return add_aligned(sign, exponent, product, z.sign, z.exponent, z.mantissa);
}

inline u32 add_words(u32 a, u32 b) {
    if (is_nan(a) || is_nan(b)) return kCanonicalNan;
    if (is_infinite(a)) return is_infinite(b) && a != b ? kCanonicalNan : a;
    if (is_infinite(b)) return b;
    if (is_zero(a)) return is_zero(b) ? (a & b) : b;
    if (is_zero(b)) return a;
    const Finite x = unpack(a);
    const Finite y = unpack(b);
    return add_aligned(x.sign, x.exponent, x.mantissa, y.sign, y.exponent, y.mantissa);
}

// Orders finite and infinite numbers as signed integers; -0 and +0 are equal.
constexpr std::int64_t order(u32 a) {
    const std::int64_t magnitude = a & 0x7fffffffU;
    return (a & kSignBit) != 0 ? -magnitude : magnitude;
}

}  // namespace

u32 soft_fma(u32 a, u32 b, u32 c) { return fma_words(a, b, c); }
u32 soft_add(u32 a, u32 b) { return add_words(a, b); }
u32 soft_sub(u32 a, u32 b) { return is_nan(b) ? kCanonicalNan : add_words(a, b ^ kSignBit); }

u32 soft_mul(u32 a, u32 b) {
    if (is_nan(a) || is_nan(b)) return kCanonicalNan;
    const u32 sign = (a ^ b) >> 31;
    if (is_infinite(a) || is_infinite(b)) return is_zero(a) || is_zero(b) ? kCanonicalNan : (sign << 31 | kInfinity);
    const Finite x = unpack(a);
    const Finite y = unpack(b);
    return round_pack(sign, x.exponent + y.exponent, u64{x.mantissa} * y.mantissa);
}

u32 soft_div(u32 a, u32 b) {
    if (is_nan(a) || is_nan(b)) return kCanonicalNan;
    const u32 sign = (a ^ b) >> 31;
    if (is_infinite(a)) return is_infinite(b) ? kCanonicalNan : (sign << 31 | kInfinity);
    if (is_infinite(b)) return sign << 31;
    const Finite x = unpack(a);
    const Finite y = unpack(b);
    if (y.mantissa == 0) return x.mantissa == 0 ? kCanonicalNan : (sign << 31 | kInfinity);
    if (x.mantissa == 0) return sign << 31;
    // Dividend in [2^62, 2^63), divisor below 2^24: the quotient has at least 38 bits.
    const int shift = __builtin_clzll(x.mantissa) - 1;
    const u64 dividend = u64{x.mantissa} << shift;
    const u64 quotient = dividend / y.mantissa;
    const u64 sticky = dividend % y.mantissa != 0 ? 1 : 0;
    return round_pack(sign, x.exponent - shift - y.exponent, quotient | sticky);
}

u32 soft_sqrt(u32 a) {
    if (is_nan(a)) return kCanonicalNan;
    if (is_zero(a)) return a;
    if ((a & kSignBit) != 0) return kCanonicalNan;
    if (a == kInfinity) return a;
    const Finite x = unpack(a);
    int shift = __builtin_clzll(x.mantissa) - 2;
    if ((x.exponent - shift) % 2 != 0) --shift;
    // Root of an integer in [2^60, 2^62), digit by digit; half_exponent is exact.
    u64 rest = u64{x.mantissa} << shift;
    u64 root = 0;
    for (u64 bit = u64{1} << 60; bit != 0; bit >>= 2) {
        if (rest >= root + bit) {
            rest -= root + bit;
            root = (root >> 1) + bit;
        } else {
            root >>= 1;
        }
    }
    const int half_exponent = (x.exponent - shift) / 2;
    return round_pack(0, half_exponent - 1, root << 1 | (rest != 0 ? 1 : 0));
}

bool soft_lt(u32 a, u32 b) { return !is_nan(a) && !is_nan(b) && order(a) < order(b); }
bool soft_le(u32 a, u32 b) { return !is_nan(a) && !is_nan(b) && order(a) <= order(b); }
bool soft_eq(u32 a, u32 b) { return !is_nan(a) && !is_nan(b) && order(a) == order(b); }

u32 soft_min(u32 a, u32 b) {
    if (is_nan(a) || is_nan(b)) return kCanonicalNan;
    if (order(a) == order(b)) return a | b;
    return order(a) < order(b) ? a : b;
}

u32 soft_max(u32 a, u32 b) {
    if (is_nan(a) || is_nan(b)) return kCanonicalNan;
    if (order(a) == order(b)) return a & b;
    return order(a) > order(b) ? a : b;
}

u32 soft_from_i32(u32 a) {
    const bool negative = (a & kSignBit) != 0;
    return round_pack(negative ? 1 : 0, 0, negative ? 0U - a : a);
}

u32 soft_to_i32(u32 a) {
    if (is_nan(a)) return 0;
    const bool negative = (a & kSignBit) != 0;
    if ((a & 0x7fffffffU) >= 0x4f000000U) return negative ? 0x80000000U : 0x7fffffffU;  // |a| >= 2^31
    const Finite x = unpack(a);
    u32 magnitude;
    if (x.exponent >= 0) {
        magnitude = x.mantissa << x.exponent;
    } else if (x.exponent < -25) {
        magnitude = 0;
    } else {
        const int drop = -x.exponent;
        const u32 rest = x.mantissa & ((1U << drop) - 1);
        const u32 half = 1U << (drop - 1);
        magnitude = x.mantissa >> drop;
        if (rest > half || (rest == half && (magnitude & 1) != 0)) ++magnitude;
    }
    return negative ? 0U - magnitude : magnitude;
}

u32 fold_sum_soft(const u32 lanes[kReductionLanes]) {
    u32 fold[kReductionLanes];
    for (std::size_t j = 0; j < kReductionLanes; ++j) fold[j] = lanes[j];
    for (std::size_t width = kReductionLanes / 2; width > 0; width /= 2)
        for (std::size_t j = 0; j < width; ++j) fold[j] = add_words(fold[j], fold[j + width]);
    return fold[0];
}

u32 fold_max_soft(const u32 lanes[kReductionLanes]) {
    u32 fold[kReductionLanes];
    for (std::size_t j = 0; j < kReductionLanes; ++j) fold[j] = lanes[j];
    for (std::size_t width = kReductionLanes / 2; width > 0; width /= 2)
        for (std::size_t j = 0; j < width; ++j) fold[j] = soft_max(fold[j], fold[j + width]);
    return fold[0];
}

u32 imm_chain_soft(u32 partial, const u32* a, const u32* b, std::size_t count) {
    for (std::size_t k = 0; k < count; ++k) partial += static_cast<u32>(signed_byte(a[k]) * signed_byte(b[k]));
    return partial;
}

u32 strip_sum_soft(u32 total, u32 partial, u32 scale_a, u32 scale_b) {
    const u32 scale = soft_mul(strip_scale(scale_a), strip_scale(scale_b));
    return soft_add(total, soft_mul(soft_from_i32(partial), scale));
}

u32 mm_chain_soft(u32 partial, const u32* a, const u32* b, std::size_t count) {
    partial = canonical(partial);
    for (std::size_t k = 0; k < count; ++k) partial = fma_words(soft_squash(a[k]), soft_squash(b[k]), partial);
    return partial;
}

}  // namespace quern::vm::tensor::arith
