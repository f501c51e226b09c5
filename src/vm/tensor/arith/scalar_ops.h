// The elementwise operations in binary32 floats, one word at a time: what the scalar backend is, and what each thread
// of a graphics processor runs (vm/tensor/cuda). There the primitives are the instructions that round to nearest even
// and that no compiler contracts; elsewhere -ffp-contract=off keeps them apart. Needs the default floating-point
// environment. Pure; thread-safe. Definitions: doc/arithmetic.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "vm/tensor/arith/element_op.h"
#include "vm/tensor/arith/elementary_constants.h"
#include "vm/tensor/arith/host_device.h"
#include "vm/tensor/arith/kernel_table.h"
#include "vm/tensor/arith/random.h"
#include "vm/tensor/arith/soft_float.h"

#if !defined(__CUDA_ARCH__)
#include <bit>
#endif

namespace quern::vm::tensor::arith::scalar {

using u32 = std::uint32_t;
using i32 = std::int32_t;

// --- Primitives ------------------------------------------------------------------------------------------------------
#if defined(__CUDA_ARCH__)
QUERN_HD inline float f(u32 bits) { return __uint_as_float(bits); }
QUERN_HD inline u32 bits(float value) { return __float_as_uint(value); }
QUERN_HD inline float sum(float a, float b) { return __fadd_rn(a, b); }
QUERN_HD inline float difference(float a, float b) { return __fsub_rn(a, b); }
QUERN_HD inline float product(float a, float b) { return __fmul_rn(a, b); }
QUERN_HD inline float quotient(float a, float b) { return __fdiv_rn(a, b); }
QUERN_HD inline float root(float a) { return __fsqrt_rn(a); }
QUERN_HD inline float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
QUERN_HD inline float from_i32(i32 a) { return __int2float_rn(a); }
#else
QUERN_HD inline float f(u32 bits) { return std::bit_cast<float>(bits); }
QUERN_HD inline u32 bits(float value) { return std::bit_cast<u32>(value); }
QUERN_HD inline float sum(float a, float b) { return a + b; }
QUERN_HD inline float difference(float a, float b) { return a - b; }
QUERN_HD inline float product(float a, float b) { return a * b; }
QUERN_HD inline float quotient(float a, float b) { return a / b; }
QUERN_HD inline float root(float a) { return __builtin_sqrtf(a); }
QUERN_HD inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
QUERN_HD inline float from_i32(i32 a) { return static_cast<float>(a); }
#endif
QUERN_HD inline bool is_nan(float x) { return x != x; }
QUERN_HD inline u32 word(float value) { return is_nan(value) ? kCanonicalNan : bits(value); }
QUERN_HD inline float absolute(float x) { return f(bits(x) & ~constants::kSignBit); }
QUERN_HD inline float negated(float x) { return f(bits(x) ^ constants::kSignBit); }
QUERN_HD inline float with_sign_of(float value, float sign) {
    return f((bits(value) & ~constants::kSignBit) | (bits(sign) & constants::kSignBit));
}

// --- Elementary functions --------------------------------------------------------------------------------------------
// Horner's rule. Coefficients are arguments of the template: a table of the host's is nowhere on a device.
template <u32 kFirst, u32... kOthers>
QUERN_HD inline float horner(float x) {
    float p = f(kFirst);
    ((p = fused(p, x, f(kOthers))), ...);
    return p;
}
template <const auto& kTable, std::size_t... I>
QUERN_HD inline float horner_of(float x, std::index_sequence<I...>) {
    return horner<kTable[I]...>(x);
}
template <const auto& kTable>
QUERN_HD inline float polynomial(float x) {
    return horner_of<kTable>(x, std::make_index_sequence<sizeof(kTable) / sizeof(u32)>());
}

QUERN_HD inline i32 to_i32(float x) {
    if (is_nan(x)) return 0;
    if (x >= 0x1p31F) return INT32_MAX;
    if (x <= -0x1p31F) return INT32_MIN;
    float magnitude = absolute(x);
    // Rounds to an integer, nearest even.
    if (magnitude < 0x1p23F) magnitude = difference(sum(magnitude, 0x1p23F), 0x1p23F);
    return static_cast<i32>(with_sign_of(magnitude, x));
}

QUERN_HD inline float power_of_two(i32 n) { return f(static_cast<u32>(n + 127) << 23); }

QUERN_HD inline float exp_core(float x) {
    if (x < f(constants::kExpLow)) x = f(constants::kExpLow);
    if (x > f(constants::kExpHigh)) x = f(constants::kExpHigh);
    const i32 n = to_i32(product(x, f(constants::kLog2E)));
    const float nf = from_i32(n);
    float r = fused(nf, f(constants::kMinusLn2High), x);
    r = fused(nf, f(constants::kMinusLn2Low), r);
    const float square = product(r, r);
    const float y = sum(fused(polynomial<constants::kExpPolynomial>(r), square, r), 1.0F);
    const i32 n1 = n >> 1;
    const float scaled = product(y, power_of_two(n1));
    return product(scaled, power_of_two(n - n1));
}

QUERN_HD inline float natural_log(float x) {
    if (x == 0.0F) return f(constants::kMinusInfinity);
    if (x < 0.0F) return f(kCanonicalNan);
    if (is_nan(x) || x == f(constants::kInfinity)) return x;
    const i32 e = static_cast<i32>(bits(x) - constants::kSqrtHalfBits) >> 23;
    const float m1 = difference(f(bits(x) - (static_cast<u32>(e) << 23)), 1.0F);
    const float ef = from_i32(e);
    const float z = product(m1, m1);
    const float cube = product(m1, z);
    float y = product(cube, polynomial<constants::kLogPolynomial>(m1));
    y = fused(ef, f(constants::kLogLn2Low), y);
    y = fused(z, -0.5F, y);
    return fused(ef, f(constants::kLogLn2High), sum(m1, y));
}

QUERN_HD inline float hyperbolic_tangent(float x) {
    if (is_nan(x)) return x;
    const float t = absolute(x);
    float y;
    if (t < f(constants::kTanhSmall)) {
        const float z = product(t, t);
        const float pz = product(polynomial<constants::kTanhPolynomial>(z), z);
        y = fused(pz, t, t);
    } else {
        const float d = sum(exp_core(sum(t, t)), 1.0F);
        y = difference(1.0F, quotient(2.0F, d));
    }
    return with_sign_of(y, x);
}

QUERN_HD inline float sigmoid(float x) {
    if (is_nan(x)) return x;
    const float e = exp_core(negated(absolute(x)));
    const float y = quotient(e, sum(1.0F, e));
    return x < 0.0F ? fused(negated(e), y, e) : difference(1.0F, y);
}

QUERN_HD inline float error_function(float x) {
    if (is_nan(x)) return x;
    float t = absolute(x);
    if (!(t < f(constants::kErfHigh))) t = f(constants::kErfHigh);
    float y;
    if (t < f(constants::kErfSmall)) {
        const float z = product(t, t);
        y = fused(polynomial<constants::kErfSmallPolynomial>(z), t, t);
    } else {
        y = difference(1.0F, exp_core(fused(polynomial<constants::kErfLargePolynomial>(t), t, negated(t))));
    }
    return with_sign_of(y, x);
}

// --- Operations ------------------------------------------------------------------------------------------------------
QUERN_HD inline float smaller(float a, float b) {
    if (is_nan(a) || is_nan(b)) return f(kCanonicalNan);
    if (a == b) return f(bits(a) | bits(b));
    return a < b ? a : b;
}

QUERN_HD inline float larger(float a, float b) {
    if (is_nan(a) || is_nan(b)) return f(kCanonicalNan);
    if (a == b) return f(bits(a) & bits(b));
    return a > b ? a : b;
}

QUERN_HD inline u32 divide(i32 a, i32 b) { return b == 0 ? 0 : static_cast<u32>(std::int64_t{a} / b); }
QUERN_HD inline u32 remainder(i32 a, i32 b) { return b == 0 ? 0 : static_cast<u32>(std::int64_t{a} % b); }

// As if nothing were flushed.
QUERN_HD inline u32 evaluate_unflushed(ElementOp op, u32 a, u32 b, u32 c, u32 immediate) {
    const float x = f(a);
    const float y = f(b);
    const i32 i = static_cast<i32>(a);
    const i32 j = static_cast<i32>(b);
    switch (op) {
        case ElementOp::neg:
            return word(negated(x));
        case ElementOp::abs:
            return word(absolute(x));
        case ElementOp::sqrt:
            return word(root(x));
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
            return word(sum(x, y));
        case ElementOp::sub:
            return word(difference(x, y));
        case ElementOp::mul:
            return word(product(x, y));
        case ElementOp::div:
            return word(quotient(x, y));
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
            return bits(from_i32(i));
        case ElementOp::f2i:
            return static_cast<u32>(to_i32(x));
        case ElementOp::bits:
            return a;
        case ElementOp::permute_index:
            return permute_index(a, b, c, immediate);
    }
    return 0;
}

// One element of an elementwise op on words; inputs beyond the arity are ignored. An op that does not exist gives 0.
QUERN_HD inline u32 evaluate(ElementOp op, u32 a, u32 b, u32 c, u32 immediate) {
    if (!flushes(op)) return evaluate_unflushed(op, a, b, c, immediate);
    return flushed_result(
        evaluate_unflushed(op, flushed_operand(a), flushed_operand(b), flushed_operand(c), immediate));
}

}  // namespace quern::vm::tensor::arith::scalar
