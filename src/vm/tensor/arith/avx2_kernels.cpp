// Compiled for AVX2 and FMA: all code of this file is in an unnamed namespace and uses no inline library function, so
// that nothing compiled for the newer instruction set can be linked into code that runs before the processor is known.
#include "vm/tensor/arith/backends.h"

#if defined(__x86_64__) && defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

#include <cstdlib>

#include "vm/tensor/arith/elementary_constants.h"

namespace quern::vm::tensor::arith {
namespace {

using u32 = std::uint32_t;
using F = __m256;   // floats
using I = __m256i;  // words
using M = __m256;   // lanes chosen by a comparison: all bits or none

constexpr std::size_t kWidth = 8;
constexpr std::size_t kPanelRows = 6;     // rows of C that one microkernel holds in registers
constexpr std::size_t kPanelVectors = 2;  // vectors of columns

alignas(32) constexpr std::int32_t kTailMasks[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

inline I tail_mask(std::size_t count) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kTailMasks + kWidth - count));
}
inline I load(const u32* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
inline void store(u32* p, I v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
inline I load_tail(const u32* p, std::size_t count) {
    return _mm256_maskload_epi32(reinterpret_cast<const int*>(p), tail_mask(count));
}
inline void store_tail(u32* p, I v, std::size_t count) {
    _mm256_maskstore_epi32(reinterpret_cast<int*>(p), tail_mask(count), v);
}
inline I words(u32 value) { return _mm256_set1_epi32(static_cast<int>(value)); }
inline F as_float(I v) { return _mm256_castsi256_ps(v); }
inline I as_words(F v) { return _mm256_castps_si256(v); }
inline F zero() { return _mm256_setzero_ps(); }
inline F broadcast(const u32* p) { return _mm256_broadcast_ss(reinterpret_cast<const float*>(p)); }
inline I load_tail_or(const u32* p, std::size_t count, I fill) {
    return _mm256_blendv_epi8(fill, load_tail(p, count), tail_mask(count));
}

inline F add(F a, F b) { return _mm256_add_ps(a, b); }
inline F sub(F a, F b) { return _mm256_sub_ps(a, b); }
inline F mul(F a, F b) { return _mm256_mul_ps(a, b); }
inline F div(F a, F b) { return _mm256_div_ps(a, b); }
inline F sqrt(F a) { return _mm256_sqrt_ps(a); }
inline F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
inline F raw_min(F a, F b) { return _mm256_min_ps(a, b); }
inline F raw_max(F a, F b) { return _mm256_max_ps(a, b); }
inline M less(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
inline M less_equal(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
inline M equal(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
inline M unordered(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_UNORD_Q); }
inline M less_words(I a, I b) { return as_float(_mm256_cmpgt_epi32(b, a)); }
inline M equal_words(I a, I b) { return as_float(_mm256_cmpeq_epi32(a, b)); }
inline F choose(M mask, F yes, F no) { return _mm256_blendv_ps(no, yes, mask); }
inline I choose_words(M mask, I yes, I no) { return as_words(choose(mask, as_float(yes), as_float(no))); }

inline I add_words(I a, I b) { return _mm256_add_epi32(a, b); }
inline I sub_words(I a, I b) { return _mm256_sub_epi32(a, b); }
inline I mul_words(I a, I b) { return _mm256_mullo_epi32(a, b); }
inline I and_words(I a, I b) { return _mm256_and_si256(a, b); }
inline I or_words(I a, I b) { return _mm256_or_si256(a, b); }
inline I xor_words(I a, I b) { return _mm256_xor_si256(a, b); }
inline I and_not_words(I a, I b) { return _mm256_andnot_si256(a, b); }  // ~a & b
inline I shift_left(I a, I count) { return _mm256_sllv_epi32(a, count); }
inline I shift_right(I a, I count) { return _mm256_srlv_epi32(a, count); }
inline I shift_right_signed(I a, I count) { return _mm256_srav_epi32(a, count); }
inline I min_words(I a, I b) { return _mm256_min_epi32(a, b); }
inline I max_words(I a, I b) { return _mm256_max_epi32(a, b); }
inline I round_to_words(F a) { return _mm256_cvtps_epi32(a); }
inline F from_words(I a) { return _mm256_cvtepi32_ps(a); }
inline u32 first_word(I a) { return static_cast<u32>(_mm256_cvtsi256_si32(a)); }

// The products of two vectors' words, 64 bits each.
struct Wide {
    I high;
    I low;
};
inline Wide multiply_wide(I a, I b) {
    const I even = _mm256_mul_epu32(a, b);
    const I odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
    return {_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa),
            _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa)};
}

// As an op that flushes() reads it: kernels.cpp has the processor do so.
inline F flushed_operand(F a) { return a; }
// What exp and sigmoid give for a result, which is never -0 and, for no operand, 2^-126: the processor has flushed it.
inline F flushed_positive(F a) { return a; }

// Lane j of the result is lane j + distance for j < distance; other lanes do not matter.
inline F upper_half_4(F a) { return _mm256_permute2f128_ps(a, a, 1); }
inline F upper_half_2(F a) { return _mm256_permute_ps(a, 0x4e); }
inline F upper_half_1(F a) { return _mm256_permute_ps(a, 0xb1); }
template <class Operation>
inline F fold_lanes(F a, Operation operation) {
    a = operation(a, upper_half_4(a));
    a = operation(a, upper_half_2(a));
    return operation(a, upper_half_1(a));
}

// Of imatmul: two bytes a word, each widened to 16 bits.
constexpr std::size_t kGroup = 2;
constexpr std::size_t kNarrowed = 16;  // words of a row at a time
constexpr bool kUnsignedColumns = false;
inline I dot(I sum, I a, I b) { return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)); }
inline I signed_bytes(I v) { return shift_right_signed(shift_left(v, words(24)), words(24)); }
inline void narrow(const u32* from, u32* to) {
    const I halves = _mm256_packs_epi32(signed_bytes(load(from)), signed_bytes(load(from + kWidth)));
    store(to, _mm256_permute4x64_epi64(halves, 0xd8));
}

#include "vm/tensor/arith/avx_turn.inc"
#include "vm/tensor/arith/vector_elementwise.inc"
#include "vm/tensor/arith/vector_imatmul.inc"
#include "vm/tensor/arith/vector_matmul.inc"
#include "vm/tensor/arith/vector_random.inc"
#include "vm/tensor/arith/vector_reduce.inc"

constexpr Kernels kTable = {elementwise, matmul, matmul_block, imatmul, sum_last, max_last, sum_rows, add_rows, philox};

}  // namespace

const Kernels* avx2_kernels() { return &kTable; }

}  // namespace quern::vm::tensor::arith

#else

namespace quern::vm::tensor::arith {
const Kernels* avx2_kernels() { return nullptr; }
}  // namespace quern::vm::tensor::arith

#endif
