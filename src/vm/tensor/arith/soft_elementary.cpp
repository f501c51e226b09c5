// The elementary functions as fixed sequences of soft primitives, and the dispatch over all elementwise operations.
#include "vm/tensor/arith/elementary_constants.h"
#include "vm/tensor/arith/random.h"
#include "vm/tensor/arith/soft_float.h"

namespace quern::vm::tensor::arith {
namespace {

using u32 = std::uint32_t;
using namespace constants;

constexpr bool is_nan(u32 a) { return (a & 0x7fffffffU) > kInfinity; }
constexpr u32 negate(u32 a) { return a ^ kSignBit; }
constexpr u32 magnitude(u32 a) { return a & ~kSignBit; }
constexpr u32 with_sign_of(u32 value, u32 sign) { return magnitude(value) | (sign & kSignBit); }

// Horner's rule by fma, highest coefficient first.
template <std::size_t N>
u32 polynomial(const u32 (&coefficients)[N], u32 x) {
    u32 p = coefficients[0];
    for (std::size_t i = 1; i < N; ++i) p = soft_fma(p, x, coefficients[i]);
    return p;
}

u32 shift_right_arithmetic(u32 value, u32 count) {
    const u32 shifted = value >> count;
    return (value & kSignBit) != 0 && count != 0 ? shifted | ~(0xffffffffU >> count) : shifted;
}

u32 power_of_two(u32 n) { return (n + 127) << 23; }

u32 exp_core(u32 x) {
    if (soft_lt(x, kExpLow)) x = kExpLow;
    if (soft_lt(kExpHigh, x)) x = kExpHigh;
    const u32 n = soft_to_i32(soft_mul(x, kLog2E));
    const u32 nf = soft_from_i32(n);
    u32 r = soft_fma(nf, kMinusLn2High, x);
    r = soft_fma(nf, kMinusLn2Low, r);
    const u32 p = polynomial(kExpPolynomial, r);
    const u32 y = soft_add(soft_fma(p, soft_mul(r, r), r), kOne);
    const u32 n1 = shift_right_arithmetic(n, 1);
    return soft_mul(soft_mul(y, power_of_two(n1)), power_of_two(n - n1));
}

u32 divide_i32(u32 a, u32 b, bool remainder) {
    if (b == 0) return 0;
    const bool negative_a = (a & kSignBit) != 0;
    const bool negative_b = (b & kSignBit) != 0;
    const u32 x = negative_a ? 0U - a : a;
    const u32 y = negative_b ? 0U - b : b;
    if (remainder) return negative_a ? 0U - x % y : x % y;
    return negative_a != negative_b ? 0U - x / y : x / y;
}

constexpr bool less_i32(u32 a, u32 b) { return (a ^ kSignBit) < (b ^ kSignBit); }

u32 soft_exp(u32 a) { return is_nan(a) ? kCanonicalNan : exp_core(a); }

u32 soft_log(u32 a) {
    if (is_nan(a)) return kCanonicalNan;
    if (magnitude(a) == 0) return kMinusInfinity;
    if ((a & kSignBit) != 0) return kCanonicalNan;
    if (a == kInfinity) return kInfinity;
    const u32 e = shift_right_arithmetic(a - kSqrtHalfBits, 23);
    const u32 f = soft_sub(a - (e << 23), kOne);
    const u32 ef = soft_from_i32(e);
    const u32 z = soft_mul(f, f);
    const u32 p = polynomial(kLogPolynomial, f);
    u32 y = soft_mul(soft_mul(f, z), p);
    y = soft_fma(ef, kLogLn2Low, y);
    y = soft_fma(z, kMinusHalf, y);
    return soft_fma(ef, kLogLn2High, soft_add(f, y));
}

u32 soft_tanh(u32 a) {
    if (is_nan(a)) return kCanonicalNan;
    const u32 t = magnitude(a);
    u32 y;
    if (soft_lt(t, kTanhSmall)) {
        const u32 z = soft_mul(t, t);
        y = soft_fma(soft_mul(polynomial(kTanhPolynomial, z), z), t, t);
    } else {
        const u32 e = exp_core(soft_add(t, t));
        y = soft_sub(kOne, soft_div(kTwo, soft_add(e, kOne)));
    }
    return with_sign_of(y, a);
}

u32 soft_sigmoid(u32 a) {
    if (is_nan(a)) return kCanonicalNan;
    const u32 e = exp_core(a | kSignBit);
    const u32 y = soft_div(e, soft_add(kOne, e));
    return soft_lt(a, 0) ? soft_fma(negate(e), y, e) : soft_sub(kOne, y);
}

u32 soft_erf(u32 a) {
    if (is_nan(a)) return kCanonicalNan;
    u32 t = magnitude(a);
    if (!soft_lt(t, kErfHigh)) t = kErfHigh;
    u32 y;
    if (soft_lt(t, kErfSmall)) {
        y = soft_fma(polynomial(kErfSmallPolynomial, soft_mul(t, t)), t, t);
    } else {
        y = soft_sub(kOne, exp_core(soft_fma(polynomial(kErfLargePolynomial, t), t, negate(t))));
    }
    return with_sign_of(y, a);
}

u32 evaluate(ElementOp op, u32 a, u32 b, u32 c, u32 immediate) {
    switch (op) {
        case ElementOp::neg:
            return canonical(negate(a));
        case ElementOp::abs:
            return canonical(magnitude(a));
        case ElementOp::sqrt:
            return soft_sqrt(a);
        case ElementOp::exp:
            return soft_exp(a);
        case ElementOp::log:
            return soft_log(a);
        case ElementOp::tanh:
            return soft_tanh(a);
        case ElementOp::sigmoid:
            return soft_sigmoid(a);
        case ElementOp::erf:
            return soft_erf(a);
        case ElementOp::add:
            return soft_add(a, b);
        case ElementOp::sub:
            return soft_sub(a, b);
        case ElementOp::mul:
            return soft_mul(a, b);
        case ElementOp::div:
            return soft_div(a, b);
        case ElementOp::min:
            return soft_min(a, b);
        case ElementOp::max:
            return soft_max(a, b);
        case ElementOp::fma:
            return soft_fma(a, b, c);
        case ElementOp::lt:
            return soft_lt(a, b) ? 1 : 0;
        case ElementOp::le:
            return soft_le(a, b) ? 1 : 0;
        case ElementOp::eq:
            return soft_eq(a, b) ? 1 : 0;
        case ElementOp::ilt:
            return less_i32(a, b) ? 1 : 0;
        case ElementOp::ieq:
            return a == b ? 1 : 0;
        case ElementOp::select:
            return canonical(a != 0 ? b : c);
        case ElementOp::iselect:
            return a != 0 ? b : c;
        case ElementOp::iadd:
            return a + b;
        case ElementOp::isub:
            return a - b;
        case ElementOp::imul:
            return a * b;
        case ElementOp::idiv:
            return divide_i32(a, b, false);
        case ElementOp::irem:
            return divide_i32(a, b, true);
        case ElementOp::iand:
            return a & b;
        case ElementOp::ior:
            return a | b;
        case ElementOp::ixor:
            return a ^ b;
        case ElementOp::ishl:
            return a << (b & 31);
        case ElementOp::ishr:
            return a >> (b & 31);
        case ElementOp::isar:
            return shift_right_arithmetic(a, b & 31);
        case ElementOp::imin:
            return less_i32(b, a) ? b : a;
        case ElementOp::imax:
            return less_i32(a, b) ? b : a;
        case ElementOp::i2f:
            return soft_from_i32(a);
        case ElementOp::f2i:
            return soft_to_i32(a);
        case ElementOp::bits:
            return a;
        case ElementOp::permute_index:
            return permute_index(a, b, c, immediate);
    }
    return 0;
}

}  // namespace

u32 evaluate_soft(ElementOp op, u32 a, u32 b, u32 c, u32 immediate) {
    if (!flushes(op)) return evaluate(op, a, b, c, immediate);
    return flushed_result(evaluate(op, flushed_operand(a), flushed_operand(b), flushed_operand(c), immediate));
}

}  // namespace quern::vm::tensor::arith
