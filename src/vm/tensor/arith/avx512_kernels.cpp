// Compiled for AVX-512 F, BW, DQ and VL; see avx2_kernels.cpp about what may be used here.
#include "vm/tensor/arith/backends.h"

#if defined(__x86_64__) && defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__)
#include <immintrin.h>

#include <cstdlib>

#include "vm/tensor/arith/elementary_constants.h"

namespace quern::vm::tensor::arith {
namespace {

using u32 = std::uint32_t;
using F = __m512;     // floats
using I = __m512i;    // words
using M = __mmask16;  // lanes chosen by a comparison

constexpr std::size_t kWidth = 16;
constexpr std::size_t kPanelRows = 14;    // rows of C that one microkernel holds in registers
constexpr std::size_t kPanelVectors = 2;  // vectors of columns

inline M tail_mask(std::size_t count) { return static_cast<M>((1U << count) - 1); }
inline I load(const u32* p) { return _mm512_loadu_si512(p); }
inline void store(u32* p, I v) { _mm512_storeu_si512(p, v); }
inline I load_tail(const u32* p, std::size_t count) { return _mm512_maskz_loadu_epi32(tail_mask(count), p); }
inline void store_tail(u32* p, I v, std::size_t count) { _mm512_mask_storeu_epi32(p, tail_mask(count), v); }
inline I words(u32 value) { return _mm512_set1_epi32(static_cast<int>(value)); }
inline F as_float(I v) { return _mm512_castsi512_ps(v); }
inline I as_words(F v) { return _mm512_castps_si512(v); }
inline F zero() { return _mm512_setzero_ps(); }
inline F broadcast(const u32* p) { return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(*p))); }
inline I load_tail_or(const u32* p, std::size_t count, I fill) {
    return _mm512_mask_loadu_epi32(fill, tail_mask(count), p);
}

inline F add(F a, F b) { return _mm512_add_ps(a, b); }
inline F sub(F a, F b) { return _mm512_sub_ps(a, b); }
inline F mul(F a, F b) { return _mm512_mul_ps(a, b); }
inline F div(F a, F b) { return _mm512_div_ps(a, b); }
inline F sqrt(F a) { return _mm512_sqrt_ps(a); }
inline F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
inline F raw_min(F a, F b) { return _mm512_min_ps(a, b); }
inline F raw_max(F a, F b) { return _mm512_max_ps(a, b); }
inline M less(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
inline M less_equal(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
inline M equal(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
inline M unordered(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); }
inline M less_words(I a, I b) { return _mm512_cmplt_epi32_mask(a, b); }
inline M equal_words(I a, I b) { return _mm512_cmpeq_epi32_mask(a, b); }
inline F choose(M mask, F yes, F no) { return _mm512_mask_blend_ps(mask, no, yes); }
inline I choose_words(M mask, I yes, I no) { return _mm512_mask_blend_epi32(mask, no, yes); }

inline I add_words(I a, I b) { return _mm512_add_epi32(a, b); }
inline I sub_words(I a, I b) { return _mm512_sub_epi32(a, b); }
inline I mul_words(I a, I b) { return _mm512_mullo_epi32(a, b); }
inline I and_words(I a, I b) { return _mm512_and_si512(a, b); }
inline I or_words(I a, I b) { return _mm512_or_si512(a, b); }
inline I xor_words(I a, I b) { return _mm512_xor_si512(a, b); }
inline I and_not_words(I a, I b) { return _mm512_andnot_si512(a, b); }  // ~a & b
inline I shift_left(I a, I count) { return _mm512_sllv_epi32(a, count); }
inline I shift_right(I a, I count) { return _mm512_srlv_epi32(a, count); }
inline I shift_right_signed(I a, I count) { return _mm512_srav_epi32(a, count); }
inline I min_words(I a, I b) { return _mm512_min_epi32(a, b); }
inline I max_words(I a, I b) { return _mm512_max_epi32(a, b); }
inline I round_to_words(F a) { return _mm512_cvtps_epi32(a); }
inline F from_words(I a) { return _mm512_cvtepi32_ps(a); }
inline u32 first_word(I a) { return static_cast<u32>(_mm512_cvtsi512_si32(a)); }

// Lane j of the result is lane j + distance for j < distance; other lanes do not matter.
inline F upper_half_8(F a) { return _mm512_shuffle_f32x4(a, a, 0x4e); }
inline F upper_half_4(F a) { return _mm512_shuffle_f32x4(a, a, 0xb1); }
inline F upper_half_2(F a) { return _mm512_permute_ps(a, 0x4e); }
inline F upper_half_1(F a) { return _mm512_permute_ps(a, 0xb1); }
template <class Operation>
inline F fold_lanes(F a, Operation operation) {
    a = operation(a, upper_half_8(a));
    a = operation(a, upper_half_4(a));
    a = operation(a, upper_half_2(a));
    return operation(a, upper_half_1(a));
}

#include "vm/tensor/arith/avx_turn.inc"
#include "vm/tensor/arith/vector_elementwise.inc"
#include "vm/tensor/arith/vector_matmul.inc"
#include "vm/tensor/arith/vector_reduce.inc"

constexpr Kernels kTable = {elementwise, matmul, matmul_block, sum_last, max_last, sum_rows, add_rows};

}  // namespace

const Kernels* avx512_kernels() { return &kTable; }

}  // namespace quern::vm::tensor::arith

#else

namespace quern::vm::tensor::arith {
const Kernels* avx512_kernels() { return nullptr; }
}  // namespace quern::vm::tensor::arith

#endif
