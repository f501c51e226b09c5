// Compiled like everything else with -ffp-contract=off: a * b + c in this file is two roundings.
#include "vm/tensor/arith/scalar.h"

#include <cfloat>

#include "vm/tensor/arith/scalar_ops.h"

static_assert(FLT_EVAL_METHOD == 0 && FLT_RADIX == 2 && FLT_MANT_DIG == 24,
              "the scalar reference needs binary32 arithmetic without excess precision");

namespace quern::vm::tensor::arith {

std::uint32_t evaluate_scalar(ElementOp op, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                              std::uint32_t immediate) {
    return scalar::evaluate(op, a, b, c, immediate);
}

}  // namespace quern::vm::tensor::arith
