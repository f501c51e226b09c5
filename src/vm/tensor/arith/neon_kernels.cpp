// Advanced SIMD, which each 64-bit ARM processor has: compiled like everything else. Multiplications and additions are
// separate intrinsics, and -ffp-contract=off keeps them so. FPCR must be in its default state (kernels.h).
#include "vm/tensor/arith/backends.h"

#if defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>

#include <cstdlib>

#include "vm/tensor/arith/elementary_constants.h"

namespace quern::vm::tensor::arith {
namespace {

using u32 = std::uint32_t;
using F = float32x4_t;  // floats
using I = uint32x4_t;   // words
using M = uint32x4_t;   // lanes chosen by a comparison: all bits or none

constexpr std::size_t kWidth = 4;
constexpr std::size_t kPanelRows = 6;     // rows of C that one microkernel holds in registers
constexpr std::size_t kPanelVectors = 4;  // vectors of columns: 24 sums, 4 of B and 1 of A in 32 registers

inline I load(const u32* p) { return vld1q_u32(p); }
inline void store(u32* p, I v) { vst1q_u32(p, v); }
inline I words(u32 value) { return vdupq_n_u32(value); }
// The first `count` of at most kWidth words; nothing beyond them is touched.
inline I load_tail_or(const u32* p, std::size_t count, I fill) {
    if (count >= kWidth) return load(p);
    I v = fill;
    if (count > 0) v = vld1q_lane_u32(p, v, 0);
    if (count > 1) v = vld1q_lane_u32(p + 1, v, 1);
    if (count > 2) v = vld1q_lane_u32(p + 2, v, 2);
    return v;
}
inline I load_tail(const u32* p, std::size_t count) { return load_tail_or(p, count, words(0)); }
inline void store_tail(u32* p, I v, std::size_t count) {
    if (count >= kWidth) return store(p, v);
    if (count > 0) vst1q_lane_u32(p, v, 0);
    if (count > 1) vst1q_lane_u32(p + 1, v, 1);
    if (count > 2) vst1q_lane_u32(p + 2, v, 2);
}
inline F as_float(I v) { return vreinterpretq_f32_u32(v); }
inline I as_words(F v) { return vreinterpretq_u32_f32(v); }
inline int32x4_t as_signed(I v) { return vreinterpretq_s32_u32(v); }
inline I as_unsigned(int32x4_t v) { return vreinterpretq_u32_s32(v); }
inline F zero() { return vdupq_n_f32(0.0F); }
inline F broadcast(const u32* p) { return as_float(vld1q_dup_u32(p)); }

inline F add(F a, F b) { return vaddq_f32(a, b); }
inline F sub(F a, F b) { return vsubq_f32(a, b); }
inline F mul(F a, F b) { return vmulq_f32(a, b); }
inline F div(F a, F b) { return vdivq_f32(a, b); }
inline F sqrt(F a) { return vsqrtq_f32(a); }
inline F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
inline F raw_min(F a, F b) { return vminq_f32(a, b); }
inline F raw_max(F a, F b) { return vmaxq_f32(a, b); }
inline M less(F a, F b) { return vcltq_f32(a, b); }
inline M less_equal(F a, F b) { return vcleq_f32(a, b); }
inline M equal(F a, F b) { return vceqq_f32(a, b); }
inline M unordered(F a, F b) { return vmvnq_u32(vandq_u32(vceqq_f32(a, a), vceqq_f32(b, b))); }
inline M less_words(I a, I b) { return vcltq_s32(as_signed(a), as_signed(b)); }
inline M equal_words(I a, I b) { return vceqq_u32(a, b); }
inline F choose(M mask, F yes, F no) { return vbslq_f32(mask, yes, no); }
inline I choose_words(M mask, I yes, I no) { return vbslq_u32(mask, yes, no); }

inline I add_words(I a, I b) { return vaddq_u32(a, b); }
inline I sub_words(I a, I b) { return vsubq_u32(a, b); }
inline I mul_words(I a, I b) { return vmulq_u32(a, b); }
inline I and_words(I a, I b) { return vandq_u32(a, b); }
inline I or_words(I a, I b) { return vorrq_u32(a, b); }
inline I xor_words(I a, I b) { return veorq_u32(a, b); }
inline I and_not_words(I a, I b) { return vbicq_u32(b, a); }  // ~a & b
// Counts are below 32; a negative one shifts to the right.
inline I shift_left(I a, I count) { return vshlq_u32(a, as_signed(count)); }
inline I shift_right(I a, I count) { return vshlq_u32(a, vnegq_s32(as_signed(count))); }
inline I shift_right_signed(I a, I count) { return as_unsigned(vshlq_s32(as_signed(a), vnegq_s32(as_signed(count)))); }
inline I min_words(I a, I b) { return as_unsigned(vminq_s32(as_signed(a), as_signed(b))); }
inline I max_words(I a, I b) { return as_unsigned(vmaxq_s32(as_signed(a), as_signed(b))); }
inline I round_to_words(F a) { return as_unsigned(vcvtnq_s32_f32(a)); }
inline F from_words(I a) { return vcvtq_f32_s32(as_signed(a)); }
inline u32 first_word(I a) { return vgetq_lane_u32(a, 0); }

// The products of two vectors' words, 64 bits each.
struct Wide {
    I high;
    I low;
};
inline Wide multiply_wide(I a, I b) {
    const I first = vreinterpretq_u32_u64(vmull_u32(vget_low_u32(a), vget_low_u32(b)));
    const I second = vreinterpretq_u32_u64(vmull_high_u32(a, b));
    return {vuzp2q_u32(first, second), vuzp1q_u32(first, second)};
}

// As an op that flushes() reads it. The processor need not do so: it takes no longer for subnormal numbers.
inline F flushed_operand(F a) {
    const I word = as_words(a);
    const I subnormal = vceqq_u32(vandq_u32(word, words(0x7f800000U)), words(0));
    return as_float(vbslq_u32(subnormal, vandq_u32(word, words(0x80000000U)), word));
}
// What exp and sigmoid give for a result.
inline F flushed_positive(F a) { return as_float(vandq_u32(as_words(a), vcgtq_u32(as_words(a), words(0x00800000U)))); }

// Lane j of the result is lane j + distance for j < distance; other lanes do not matter.
inline F upper_half_2(F a) { return vextq_f32(a, a, 2); }
inline F upper_half_1(F a) { return vextq_f32(a, a, 1); }
template <class Operation>
inline F fold_lanes(F a, Operation operation) {
    a = operation(a, upper_half_2(a));
    return operation(a, upper_half_1(a));
}

// Of imatmul: two bytes a word, each widened to 16 bits.
constexpr std::size_t kGroup = 2;
constexpr std::size_t kNarrowed = 4;  // words of a row at a time
constexpr bool kUnsignedColumns = false;
inline I dot(I sum, I a, I b) {
    const int16x8_t x = vreinterpretq_s16_u32(a);
    const int16x8_t y = vreinterpretq_s16_u32(b);
    const int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(y));
    return vaddq_u32(sum, as_unsigned(vpaddq_s32(low, vmull_high_s16(x, y))));
}
inline void narrow(const u32* from, u32* to) {
    const int32x4_t bytes = vshrq_n_s32(vshlq_n_s32(as_signed(load(from)), 24), 24);
    vst1_u32(to, vreinterpret_u32_s16(vmovn_s32(bytes)));
}

// Blocks of 4 x 4 words turned in registers, for vector_matmul.inc.
constexpr std::size_t kTurn = 4;
using TurnRow = I;

inline void turn(TurnRow (&r)[kTurn]) {
    const I t0 = vtrn1q_u32(r[0], r[1]);
    const I t1 = vtrn2q_u32(r[0], r[1]);
    const I t2 = vtrn1q_u32(r[2], r[3]);
    const I t3 = vtrn2q_u32(r[2], r[3]);
    const auto low = [](I a, I b) { return vcombine_u32(vget_low_u32(a), vget_low_u32(b)); };
    const auto high = [](I a, I b) { return vcombine_u32(vget_high_u32(a), vget_high_u32(b)); };
    r[0] = low(t0, t2);
    r[1] = low(t1, t3);
    r[2] = high(t0, t2);
    r[3] = high(t1, t3);
}
inline TurnRow turn_zero() { return words(0); }
// Four words, each squashed as a matmul's operand is.
inline TurnRow turn_load_squashed(const u32* p) {
    const I v = load(p);
    return vbicq_u32(v, vcltq_u32(vbicq_u32(v, words(constants::kSignBit)), words(0x2b800000U)));
}
inline void turn_store(u32* p, TurnRow row) { store(p, row); }

#include "vm/tensor/arith/vector_elementwise.inc"
#include "vm/tensor/arith/vector_imatmul.inc"
#include "vm/tensor/arith/vector_matmul.inc"
#include "vm/tensor/arith/vector_random.inc"
#include "vm/tensor/arith/vector_reduce.inc"

constexpr Kernels kTable = {elementwise, matmul, matmul_block, imatmul, sum_last, max_last, sum_rows, add_rows, philox};

}  // namespace

const Kernels* neon_kernels() { return &kTable; }

}  // namespace quern::vm::tensor::arith

#else

namespace quern::vm::tensor::arith {
const Kernels* neon_kernels() { return nullptr; }
}  // namespace quern::vm::tensor::arith

#endif
