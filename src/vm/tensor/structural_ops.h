// Ops that compute nothing: each word of the output is one of an operand's, which one follows from shapes and
// attributes. What such an op is stands in one entry of structural_ops.cpp (its shapes, and where each element comes
// from); the leaf, the micro-trace, the executor and the planner ask here. Internal to vm/tensor; integers only. Pure;
// thread-safe.
#pragma once

#include "vm/tensor/element_map.h"
#include "vm/tensor/view.h"

namespace quern::vm::tensor {

// What the op says of shapes and attributes; numbers of inputs and attributes fit. Errors: program.*.
[[nodiscard]] Status check_structural(const Node& node, std::span<const OperandType> inputs);
// Which element of which operand the element `at` of the output is. `inputs` fit the node.
[[nodiscard]] ElementSource copy_source(const Node& node, std::span<const OperandType> inputs, const Coordinates& at);
// The strides, and the offset in words, with which the input's own words are the output; false when that needs a copy.
[[nodiscard]] bool view_of(const Node& node, const Shape& input, const Strides& strides, Strides& result,
                           std::ptrdiff_t& offset);

}  // namespace quern::vm::tensor
