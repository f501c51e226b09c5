#include "vm/tensor/arith/backends.h"
#include "vm/tensor/arith/reference_kernels.h"
#include "vm/tensor/arith/soft_float.h"

namespace quern::vm::tensor::arith {
namespace {

struct SoftArithmetic {
    static std::uint32_t add(std::uint32_t a, std::uint32_t b) { return soft_add(a, b); }
    static std::uint32_t mul(std::uint32_t a, std::uint32_t b) { return soft_mul(a, b); }
    static std::uint32_t from_i32(std::uint32_t a) { return soft_from_i32(a); }
    static std::uint32_t max(std::uint32_t a, std::uint32_t b) { return soft_max(a, b); }
    static std::uint32_t fma(std::uint32_t a, std::uint32_t b, std::uint32_t c) { return soft_fma(a, b, c); }
    static std::uint32_t evaluate(ElementOp op, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t imm) {
        return evaluate_soft(op, a, b, c, imm);
    }
};

constexpr Kernels kTable = ReferenceKernels<SoftArithmetic>::table();

}  // namespace

const Kernels* soft_kernels() { return &kTable; }

}  // namespace quern::vm::tensor::arith
