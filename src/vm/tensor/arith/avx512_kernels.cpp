// Compiled for AVX-512 F, BW, DQ and VL; see avx2_kernels.cpp about what may be used here.
#include "vm/tensor/arith/backends.h"

#if defined(__x86_64__) && defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__)
#include <immintrin.h>

#include <cstdlib>

#include "vm/tensor/arith/elementary_constants.h"

namespace quern::vm::tensor::arith {
namespace {

#include "vm/tensor/arith/avx512_words.inc"

// Of imatmul: two bytes a word, each widened to 16 bits.
constexpr std::size_t kGroup = 2;
constexpr std::size_t kNarrowed = 16;  // words of a row at a time
constexpr bool kUnsignedColumns = false;
inline I dot(I sum, I a, I b) { return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b)); }
inline void narrow(const u32* from, u32* to) {
    const I bytes = shift_right_signed(shift_left(load(from), words(24)), words(24));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(bytes));
}

#include "vm/tensor/arith/avx_turn.inc"
#include "vm/tensor/arith/vector_elementwise.inc"
#include "vm/tensor/arith/vector_imatmul.inc"
#include "vm/tensor/arith/vector_matmul.inc"
#include "vm/tensor/arith/vector_random.inc"
#include "vm/tensor/arith/vector_reduce.inc"

constexpr Kernels kTable = {elementwise, matmul, matmul_block, imatmul, sum_last, max_last, sum_rows, add_rows, philox};

}  // namespace

const Kernels* avx512_kernels() { return &kTable; }

}  // namespace quern::vm::tensor::arith

#else

namespace quern::vm::tensor::arith {
const Kernels* avx512_kernels() { return nullptr; }
}  // namespace quern::vm::tensor::arith

#endif
