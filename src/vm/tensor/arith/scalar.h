// The scalar reference of the canonical arithmetic in plain C++ floats, independent of the integer-only and the vector
// code: tests hold the three together. Needs the default floating-point environment. Pure; thread-safe.
#pragma once

#include <cstdint>

#include "vm/tensor/arith/element_op.h"

namespace quern::vm::tensor::arith {

// One element of an elementwise op on words; inputs beyond the arity are ignored. An op that does not exist gives 0.
[[nodiscard]] std::uint32_t evaluate_scalar(ElementOp op, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                            std::uint32_t immediate);

}  // namespace quern::vm::tensor::arith
