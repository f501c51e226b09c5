// Choice of the backend that runs the canonical arithmetic. All backends give the same bits; they differ in speed only.
// Used by the executor, verifiers and benchmarks. Thread-safe.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "base/expected.h"
#include "vm/tensor/arith/kernel_table.h"

namespace quern::vm::tensor::arith {

enum class Backend : std::uint8_t {
    soft = 0,    // integer-only, as the chain judges; slow
    scalar = 1,  // plain C++ floats; the reference on any machine
    avx2 = 2,    // AVX2 and FMA
    avx512 = 3,  // AVX-512 F, BW, DQ, VL
    neon = 4,    // Advanced SIMD of 64-bit ARM
    vnni = 5,    // avx512 with VNNI for products of bytes
    cuda = 6,    // a graphics processor, where executors run whole steps (vm/tensor/executor.h)
};
// Of this processor.
inline constexpr std::array<Backend, 6> kBackends{Backend::soft,   Backend::scalar, Backend::avx2,
                                                  Backend::avx512, Backend::neon,   Backend::vnni};

[[nodiscard]] std::string_view name(Backend backend);
[[nodiscard]] std::optional<Backend> find_backend(std::string_view name);

// Whether this build has the backend and this processor and system run it. soft and scalar always, cuda never: it has
// no kernels for arrays of the host.
[[nodiscard]] bool available(Backend backend);
// The fastest available one.
[[nodiscard]] Backend best_backend();
// The backend's kernels; of cuda the fastest available one's, else scalar's where it is not available.
[[nodiscard]] const Kernels& kernels(Backend backend);

// While it lives, the calling thread's processor flushes subnormal operands and results to zero, as the ops that
// flushes() take them; of others nothing may run meanwhile. Kernels::elementwise does so by itself: around many calls
// for one op it saves each of them several ns.
class Flushing {
public:
    explicit Flushing(bool wanted);
    ~Flushing();
    Flushing(const Flushing&) = delete;
    Flushing& operator=(const Flushing&) = delete;

private:
    unsigned before_ = 0;  // 0: nothing to set right
};

// Error arith.bad_fp_environment when the calling thread's floating-point control is not the default one (round to
// nearest even, subnormals kept, exceptions masked): a library linked with fast-math can have changed it, and all
// backends but soft would then give other bits. Call at start-up and in each worker thread.
[[nodiscard]] Status check_floating_point_environment();

}  // namespace quern::vm::tensor::arith
