// Reverse-mode differentiation of a builder's graph, into nodes of the same op set (Griewank and Walther, "Evaluating
// Derivatives", ch. 3). Used by model builders. Pure functions on a Builder.
//
// Rules worth knowing: comparisons, integer ops and conversions have no derivative; min and max send the gradient to
// the second operand's side only where it is strictly smaller or larger; max_last shares it equally between equal
// maxima; abs and select take the branch that the forward pass took (abs: +1 at zero); stop_gradient() ends it.
#pragma once

#include <span>
#include <vector>

#include "compute/program/builder.h"

namespace quern::compute::program {

// d loss / d wrt[i], each of wrt[i]'s shape (+0 where the loss does not depend on it). `loss` is an f32 scalar, `wrt`
// are f32. Errors are the builder's (builder.bad_loss, builder.bad_dtype); the result then holds invalid values.
[[nodiscard]] std::vector<Value> gradients(Builder& b, Value loss, std::span<const Value> wrt);

}  // namespace quern::compute::program
