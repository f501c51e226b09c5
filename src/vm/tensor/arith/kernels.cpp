#include "vm/tensor/arith/kernels.h"

#include <cfenv>

#include "vm/tensor/arith/backends.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace quern::vm::tensor::arith {
namespace {

// A vector backend's elementwise kernel, under the control that its ops ask for. Set here, behind a call that no
// compiler looks through: it might move arithmetic across the change of a register that it does not know.
template <const Kernels* (*Table)()>
void controlled(ElementOp op, std::size_t n, const std::uint32_t* a, std::size_t stride_a, const std::uint32_t* b,
                std::size_t stride_b, const std::uint32_t* c, std::size_t stride_c, std::uint32_t immediate,
                std::uint32_t* out) {
    const Flushing flushing(flushes(op));
    Table()->elementwise(op, n, a, stride_a, b, stride_b, c, stride_c, immediate, out);
}

template <const Kernels* (*Table)()>
const Kernels* controlled_table() {
    static const Kernels table = [] {
        Kernels made = Table() == nullptr ? Kernels{} : *Table();
        made.elementwise = controlled<Table>;
        return made;
    }();
    return Table() == nullptr ? nullptr : &table;
}

const Kernels* vnni_table() {
    static const Kernels* const wide = controlled_table<avx512_kernels>();
    static const Kernels table = [] {
        Kernels made = wide == nullptr ? Kernels{} : *wide;
        made.imatmul = vnni_imatmul();
        return made;
    }();
    return wide == nullptr || vnni_imatmul() == nullptr ? nullptr : &table;
}

const Kernels* table_of(Backend backend) {
    switch (backend) {
        case Backend::soft:
            return soft_kernels();
        case Backend::scalar:
            return scalar_kernels();
        case Backend::avx2:
            return controlled_table<avx2_kernels>();
        case Backend::avx512:
            return controlled_table<avx512_kernels>();
        case Backend::neon:
            return neon_kernels();
        case Backend::vnni:
            return vnni_table();
        case Backend::cuda:
            break;
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
        case Backend::cuda:
            return "cuda";
    }
    return "unknown";
}

std::optional<Backend> find_backend(std::string_view wanted) {
    for (const Backend backend : kBackends)
        if (name(backend) == wanted) return backend;
    if (wanted == name(Backend::cuda)) return Backend::cuda;
    return std::nullopt;
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

const Kernels& kernels(Backend backend) {
    if (backend == Backend::cuda) backend = best_backend();
    return available(backend) ? *table_of(backend) : *scalar_kernels();
}

#if defined(__x86_64__)
namespace {
constexpr unsigned kFlush = 0x8040U;  // flush-to-zero, denormals-are-zero
}

Flushing::Flushing(bool wanted) {
    if (!wanted) return;
    const unsigned control = _mm_getcsr();
    if ((control & kFlush) == kFlush) return;
    before_ = control;
    _mm_setcsr(control | kFlush);
}
Flushing::~Flushing() {
    if (before_ != 0) _mm_setcsr(before_);
}
#else
Flushing::Flushing(bool) {}
Flushing::~Flushing() = default;
#endif

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
