#include <bit>

#include "vm/tensor/arith/backends.h"
#include "vm/tensor/arith/reference_kernels.h"
#include "vm/tensor/arith/scalar.h"

namespace quern::vm::tensor::arith {
namespace {

// NaN results inside a chain keep whatever payload the hardware gives; the loops make the stored ones canonical.
struct ScalarArithmetic {
    using u32 = std::uint32_t;
    static float f(u32 bits) { return std::bit_cast<float>(bits); }
    static u32 add(u32 a, u32 b) { return std::bit_cast<u32>(f(a) + f(b)); }
    static u32 mul(u32 a, u32 b) { return std::bit_cast<u32>(f(a) * f(b)); }
    static u32 from_i32(u32 a) { return std::bit_cast<u32>(static_cast<float>(static_cast<std::int32_t>(a))); }
    static u32 max(u32 a, u32 b) { return evaluate_scalar(ElementOp::max, a, b, 0, 0); }
    static u32 fma(u32 a, u32 b, u32 c) { return std::bit_cast<u32>(__builtin_fmaf(f(a), f(b), f(c))); }
    static u32 evaluate(ElementOp op, u32 a, u32 b, u32 c, u32 immediate) {
        return evaluate_scalar(op, a, b, c, immediate);
    }
};

constexpr Kernels kTable = ReferenceKernels<ScalarArithmetic>::table();

}  // namespace

const Kernels* scalar_kernels() { return &kTable; }

}  // namespace quern::vm::tensor::arith
