// Compiled like everything else with -ffp-contract=off: a * b + c in this file is two roundings.
#include "vm/tensor/arith/scalar.h"

#include <bit>
#include <cfloat>

#include "vm/tensor/arith/elementary_constants.h"
#include "vm/tensor/arith/kernel_table.h"
#include "vm/tensor/arith/random.h"

static_assert(FLT_EVAL_METHOD == 0 && FLT_RADIX == 2 && FLT_MANT_DIG == 24,
              "the scalar reference needs binary32 arithmetic without excess precision");

namespace quern::vm::tensor::arith {
namespace {

using u32 = std::uint32_t;
using i32 = std::int32_t;
using namespace constants;

float f(u32 bits) { return std::bit_cast<float>(bits); }
u32 bits(float value) { return std::bit_cast<u32>(value); }
bool is_nan(float x) { return x != x; }
u32 word(float value) { return is_nan(value) ? kCanonicalNan : bits(value); }
float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }  // the only use of a library function
float absolute(float x) { return f(bits(x) & ~kSignBit); }
float with_sign_of(float value, float sign) { return f((bits(value) & ~kSignBit) | (bits(sign) & kSignBit)); }

template <std::size_t N>
float polynomial(const u32 (&coefficients)[N], float x) {
    float p = f(coefficients[0]);
    for (std::size_t i = 1; i < N; ++i) p = fused(p, x, f(coefficients[i]));
    return p;
}

i32 to_i32(float x) {
    if (is_nan(x)) return 0;
    if (x >= 0x1p31F) return INT32_MAX;
    if (x <= -0x1p31F) return INT32_MIN;
    float magnitude = absolute(x);
    if (magnitude < 0x1p23F) magnitude = (magnitude + 0x1p23F) - 0x1p23F;  // rounds to an integer, nearest even
    return static_cast<i32>(with_sign_of(magnitude, x));
}

float power_of_two(i32 n) { return f(static_cast<u32>(n + 127) << 23); }

float exp_core(float x) {
    if (x < f(kExpLow)) x = f(kExpLow);
    if (x > f(kExpHigh)) x = f(kExpHigh);
    const i32 n = to_i32(x * f(kLog2E));
    const float nf = static_cast<float>(n);
    float r = fused(nf, f(kMinusLn2High), x);
    r = fused(nf, f(kMinusLn2Low), r);
    const float square = r * r;
    const float y = fused(polynomial(kExpPolynomial, r), square, r) + 1.0F;
    const i32 n1 = n >> 1;
    const float scaled = y * power_of_two(n1);
    return scaled * power_of_two(n - n1);
}

float natural_log(float x) {
    if (x == 0.0F) return f(kMinusInfinity);
    if (x < 0.0F) return f(kCanonicalNan);
    if (is_nan(x) || x == f(kInfinity)) return x;
    const i32 e = static_cast<i32>(bits(x) - kSqrtHalfBits) >> 23;
    const float m1 = f(bits(x) - (static_cast<u32>(e) << 23)) - 1.0F;
    const float ef = static_cast<float>(e);
    const float z = m1 * m1;
    const float cube = m1 * z;
    float y = cube * polynomial(kLogPolynomial, m1);
    y = fused(ef, f(kLogLn2Low), y);
    y = fused(z, -0.5F, y);
    const float sum = m1 + y;
    return fused(ef, f(kLogLn2High), sum);
}

float hyperbolic_tangent(float x) {
    if (is_nan(x)) return x;
    const float t = absolute(x);
    float y;
    if (t < f(kTanhSmall)) {
        const float z = t * t;
        const float pz = polynomial(kTanhPolynomial, z) * z;
        y = fused(pz, t, t);
    } else {
        const float d = exp_core(t + t) + 1.0F;
        y = 1.0F - 2.0F / d;
    }
    return with_sign_of(y, x);
}

float sigmoid(float x) {
    if (is_nan(x)) return x;
    const float e = exp_core(-absolute(x));
    const float d = 1.0F + e;
    const float y = e / d;
    return x < 0.0F ? fused(-e, y, e) : 1.0F - y;
}

float error_function(float x) {
    if (is_nan(x)) return x;
    float t = absolute(x);
    if (!(t < f(kErfHigh))) t = f(kErfHigh);
    float y;
    if (t < f(kErfSmall)) {
        const float z = t * t;
        y = fused(polynomial(kErfSmallPolynomial, z), t, t);
    } else {
        y = 1.0F - exp_core(fused(polynomial(kErfLargePolynomial, t), t, -t));
    }
    return with_sign_of(y, x);
}

float smaller(float a, float b) {
    if (is_nan(a) || is_nan(b)) return f(kCanonicalNan);
    if (a == b) return f(bits(a) | bits(b));
    return a < b ? a : b;
}

float larger(float a, float b) {
    if (is_nan(a) || is_nan(b)) return f(kCanonicalNan);
    if (a == b) return f(bits(a) & bits(b));
    return a > b ? a : b;
}

u32 divide(i32 a, i32 b) { return b == 0 ? 0 : static_cast<u32>(std::int64_t{a} / b); }
u32 remainder(i32 a, i32 b) { return b == 0 ? 0 : static_cast<u32>(std::int64_t{a} % b); }

u32 evaluate(ElementOp op, u32 a, u32 b, u32 c, u32 immediate) {
    const float x = f(a);
    const float y = f(b);
    const i32 i = static_cast<i32>(a);
    const i32 j = static_cast<i32>(b);
    switch (op) {
        case ElementOp::neg:
            return word(-x);
        case ElementOp::abs:
            return word(absolute(x));
        case ElementOp::sqrt:
            return word(__builtin_sqrtf(x));
        case ElementOp::exp:
            return is_nan(x) ? kCanonicalNan : bits(exp_core(x));
        case ElementOp::log:
            return word(natural_log(x));
        case ElementOp::tanh:
            return word(hyperbolic_tangent(x));
        case ElementOp::sigmoid:
            return word(sigmoid(x));
        case ElementOp::erf:
            return word(error_function(x));
        case ElementOp::add:
            return word(x + y);
        case ElementOp::sub:
            return word(x - y);
        case ElementOp::mul:
            return word(x * y);
        case ElementOp::div:
            return word(x / y);
        case ElementOp::min:
            return bits(smaller(x, y));
        case ElementOp::max:
            return bits(larger(x, y));
        case ElementOp::fma:
            return word(fused(x, y, f(c)));
        case ElementOp::lt:
            return x < y ? 1 : 0;
        case ElementOp::le:
            return x <= y ? 1 : 0;
        case ElementOp::eq:
            return x == y ? 1 : 0;
        case ElementOp::ilt:
            return i < j ? 1 : 0;
        case ElementOp::ieq:
            return i == j ? 1 : 0;
        case ElementOp::select:
            return word(f(a != 0 ? b : c));
        case ElementOp::iselect:
            return a != 0 ? b : c;
        case ElementOp::iadd:
            return a + b;
        case ElementOp::isub:
            return a - b;
        case ElementOp::imul:
            return a * b;
        case ElementOp::idiv:
            return divide(i, j);
        case ElementOp::irem:
            return remainder(i, j);
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
            return static_cast<u32>(i >> (b & 31));
        case ElementOp::imin:
            return static_cast<u32>(i < j ? i : j);
        case ElementOp::imax:
            return static_cast<u32>(i < j ? j : i);
        case ElementOp::i2f:
            return bits(static_cast<float>(i));
        case ElementOp::f2i:
            return static_cast<u32>(to_i32(x));
        case ElementOp::bits:
            return a;
        case ElementOp::permute_index:
            return permute_index(a, b, c, immediate);
    }
    return 0;
}

float flushed_operand(float x) { return absolute(x) < f(kMinNormal) ? with_sign_of(0.0F, x) : x; }

}  // namespace

u32 evaluate_scalar(ElementOp op, u32 a, u32 b, u32 c, u32 immediate) {
    if (!flushes(op)) return evaluate(op, a, b, c, immediate);
    const float y = f(
        evaluate(op, bits(flushed_operand(f(a))), bits(flushed_operand(f(b))), bits(flushed_operand(f(c))), immediate));
    return bits(absolute(y) <= f(kLargestFlushed) ? with_sign_of(0.0F, y) : y);
}

}  // namespace quern::vm::tensor::arith
