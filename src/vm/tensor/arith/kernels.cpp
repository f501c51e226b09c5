#include "vm/tensor/arith/kernels.h"

#include <cfenv>

#include "vm/tensor/arith/backends.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace quern::vm::tensor::arith {
namespace {

const Kernels* vnni_table() {
    static const Kernels table = [] {
        Kernels made = avx512_kernels() == nullptr ? Kernels{} : *avx512_kernels();
        made.imatmul = vnni_imatmul();
        return made;
    }();
    return avx512_kernels() == nullptr || vnni_imatmul() == nullptr ? nullptr : &table;
}

const Kernels* table_of(Backend backend) {
    switch (backend) {
        case Backend::soft:
            return soft_kernels();
        case Backend::scalar:
            return scalar_kernels();
        case Backend::avx2:
            return avx2_kernels();
        case Backend::avx512:
            return avx512_kernels();
        case Backend::neon:
            return neon_kernels();
        case Backend::vnni:
            return vnni_table();
    }
    return nullptr;
}

bool processor_runs(Backend backend) {
#if defined(__x86_64__)
    // These also ask the system whether it saves the wide registers.
    if (backend == Backend::avx2) return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    if (backend == Backend::vnni && __builtin_cpu_supports("avx512vnni") == 0) return false;
    if (backend == Backend::avx512 || backend == Backend::vnni)
        return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
               __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
#elif defined(__aarch64__)
    if (backend == Backend::neon) return true;  // part of the base instruction set
#endif
    return backend == Backend::soft || backend == Backend::scalar;
}

}  // namespace

std::string_view name(Backend backend) {
    switch (backend) {
        case Backend::soft:
            return "soft";
        case Backend::scalar:
            return "scalar";
        case Backend::avx2:
            return "avx2";
        case Backend::avx512:
            return "avx512";
        case Backend::neon:
            return "neon";
        case Backend::vnni:
            return "vnni";
    }
    return "unknown";
}

bool available(Backend backend) { return table_of(backend) != nullptr && processor_runs(backend); }

Backend best_backend() {
    static const Backend best = available(Backend::vnni)     ? Backend::vnni
                                : available(Backend::avx512) ? Backend::avx512
                                : available(Backend::avx2)   ? Backend::avx2
                                : available(Backend::neon)   ? Backend::neon
                                                             : Backend::scalar;
    return best;
}

const Kernels& kernels(Backend backend) { return available(backend) ? *table_of(backend) : *scalar_kernels(); }

Status check_floating_point_environment() {
#if defined(__x86_64__)
    // Exceptions masked; rounding to nearest; no flush-to-zero, no denormals-are-zero. The low six bits are flags.
    constexpr unsigned kControlBits = 0xffc0U;
    constexpr unsigned kDefault = 0x1f80U;
    if ((_mm_getcsr() & kControlBits) != kDefault)
        return fail("arith.bad_fp_environment", "MXCSR is not in its default state");
#elif defined(__aarch64__)
    // All zero: to nearest, no flush-to-zero (FZ, FIZ), no traps, IEEE 754's NaN and half-precision rules.
    std::uint64_t control = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    if (control != 0) return fail("arith.bad_fp_environment", "FPCR is not in its default state");
#endif
    if (std::fegetround() != FE_TONEAREST) return fail("arith.bad_fp_environment", "rounding is not to nearest even");
    volatile float smallest = 0x1p-149F;
    volatile float scale = 0x1p-126F;
    volatile float one = 1.0F;
    if (smallest * one == 0.0F || scale * 0.5F == 0.0F)
        return fail("arith.bad_fp_environment", "subnormal numbers are flushed to zero");
    return {};
}

}  // namespace quern::vm::tensor::arith
