// imatmul for AVX-512 with VNNI; see avx2_kernels.cpp about what may be used here.
#include "vm/tensor/arith/backends.h"

#if defined(__x86_64__) && defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__) && defined(__AVX512VNNI__)
#include <immintrin.h>

#include <cstdlib>

namespace quern::vm::tensor::arith {
namespace {

#include "vm/tensor/arith/avx512_words.inc"

inline F canonical_nan(F a) { return choose(unordered(a, a), as_float(words(kCanonicalNan)), a); }

// Four bytes a word. The instruction takes unsigned bytes by signed ones: those of B are 128 larger, and the sums begin
// 128 times a row's sum lower.
constexpr std::size_t kGroup = 4;
constexpr std::size_t kNarrowed = 16;  // words of a row at a time
constexpr bool kUnsignedColumns = true;
inline I dot(I sum, I a, I b) { return _mm512_dpbusd_epi32(sum, b, a); }
inline void narrow(const u32* from, u32* to) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(load(from)));
}

#include "vm/tensor/arith/vector_imatmul.inc"

}  // namespace

ImatmulKernel vnni_imatmul() { return &imatmul; }

}  // namespace quern::vm::tensor::arith

#else

namespace quern::vm::tensor::arith {
ImatmulKernel vnni_imatmul() { return nullptr; }
}  // namespace quern::vm::tensor::arith

#endif
