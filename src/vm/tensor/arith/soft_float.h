// IEEE-754 binary32 in integer arithmetic only: what the chain judges leaves with. No floating-point instruction or
// type is used (soft_float.cpp is compiled for general registers only where the compiler can enforce that), so neither
// the compiler's flags nor the FPU's state can change a verdict. Round to nearest even, each NaN
// result is kCanonicalNan. All functions are total and pure; thread-safe. Definitions: doc/arithmetic.md.
//
// The primitives keep subnormal numbers; evaluate_soft flushes them where flushes(op).
#pragma once

#include <cstddef>
#include <cstdint>

#include "vm/tensor/arith/kernel_table.h"

namespace quern::vm::tensor::arith {

[[nodiscard]] std::uint32_t soft_add(std::uint32_t a, std::uint32_t b);
[[nodiscard]] std::uint32_t soft_sub(std::uint32_t a, std::uint32_t b);
[[nodiscard]] std::uint32_t soft_mul(std::uint32_t a, std::uint32_t b);
[[nodiscard]] std::uint32_t soft_div(std::uint32_t a, std::uint32_t b);
[[nodiscard]] std::uint32_t soft_sqrt(std::uint32_t a);
[[nodiscard]] std::uint32_t soft_fma(std::uint32_t a, std::uint32_t b, std::uint32_t c);  // a * b + c, one rounding
[[nodiscard]] std::uint32_t soft_min(std::uint32_t a, std::uint32_t b);  // NaN if any is; min(+0, -0) = -0
[[nodiscard]] std::uint32_t soft_max(std::uint32_t a, std::uint32_t b);  // NaN if any is; max(+0, -0) = +0
[[nodiscard]] bool soft_lt(std::uint32_t a, std::uint32_t b);            // comparisons: false on NaN, -0 = +0
[[nodiscard]] bool soft_le(std::uint32_t a, std::uint32_t b);
[[nodiscard]] bool soft_eq(std::uint32_t a, std::uint32_t b);
[[nodiscard]] std::uint32_t soft_from_i32(std::uint32_t a);  // two's complement -> f32, nearest even
[[nodiscard]] std::uint32_t soft_to_i32(std::uint32_t a);    // nearest even, NaN -> 0, saturating

// Any NaN -> kCanonicalNan, all else unchanged.
[[nodiscard]] constexpr std::uint32_t canonical(std::uint32_t a) {
    return (a & 0x7fffffffU) > 0x7f800000U ? kCanonicalNan : a;
}
// How matmul reads an operand: |x| < 2^-40 -> +0, all else (NaN too) unchanged.
[[nodiscard]] constexpr std::uint32_t soft_squash(std::uint32_t x) { return (x & 0x7fffffffU) < 0x2b800000U ? 0 : x; }

// How an op that flushes() reads an operand: a subnormal number as the zero of its sign.
[[nodiscard]] constexpr std::uint32_t flushed_operand(std::uint32_t x) {
    return (x & 0x7f800000U) == 0 ? x & 0x80000000U : x;
}
// What it gives for a result: zero of its sign up to kLargestFlushed.
[[nodiscard]] constexpr std::uint32_t flushed_result(std::uint32_t x) {
    return (x & 0x7fffffffU) <= kLargestFlushed ? x & 0x80000000U : x;
}

// One element of an elementwise op; inputs beyond the arity are ignored. An op that does not exist gives 0.
[[nodiscard]] std::uint32_t evaluate_soft(ElementOp op, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                          std::uint32_t immediate);

// The fold of the 32 lanes of a sum or a maximum over the last axis: lane j op= lane j + 16, 8, 4, 2, 1.
[[nodiscard]] std::uint32_t fold_sum_soft(const std::uint32_t lanes[kReductionLanes]);
[[nodiscard]] std::uint32_t fold_max_soft(const std::uint32_t lanes[kReductionLanes]);

// How imatmul reads an operand's word: its lowest byte with its sign.
[[nodiscard]] constexpr std::int32_t signed_byte(std::uint32_t x) {
    return static_cast<std::int32_t>((x & 0xffU) ^ 0x80U) - 0x80;
}
// How imatmul reads a scale: 2^-60 to 2^52 by its exponent field alone, NaN where that is full.
[[nodiscard]] constexpr std::uint32_t strip_scale(std::uint32_t x) {
    const std::uint32_t exponent = x >> 23 & 0xffU;
    if (exponent == 0xffU) return kCanonicalNan;
    return (exponent < 67 ? 67 : exponent > 179 ? 179 : exponent) << 23;
}
// `count` steps of an imatmul's partial sum: partial + a[k] * b[k] modulo 2^32, of signed bytes.
[[nodiscard]] std::uint32_t imm_chain_soft(std::uint32_t partial, const std::uint32_t* a, const std::uint32_t* b,
                                           std::size_t count);
// The end of a strip: total + i2f(partial) * (scale_a * scale_b), scales as imatmul reads them.
[[nodiscard]] std::uint32_t strip_sum_soft(std::uint32_t total, std::uint32_t partial, std::uint32_t scale_a,
                                           std::uint32_t scale_b);

// `count` steps of a matmul chain: partial = fma(squash(a[k]), squash(b[k]), partial) for k ascending.
[[nodiscard]] std::uint32_t mm_chain_soft(std::uint32_t partial, const std::uint32_t* a, const std::uint32_t* b,
                                          std::size_t count);

}  // namespace quern::vm::tensor::arith
