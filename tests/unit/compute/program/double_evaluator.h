// A step program evaluated in double precision with plain loops and libm: an independent reference for gradients and
// for the canonical executor's values. Integers are held as doubles, which are exact for int32. Test code.
#pragma once

#include <vector>

#include "vm/tensor/executor.h"

namespace quern::test {

using Doubles = std::vector<double>;
using DoubleState = std::vector<Doubles>;  // one per slot

[[nodiscard]] DoubleState to_doubles(const vm::tensor::State& state);
[[nodiscard]] Doubles to_doubles(const vm::tensor::Tensor& tensor);

// The output of every node of one step.
[[nodiscard]] std::vector<Doubles> evaluate_in_double(const vm::tensor::Program& program, const DoubleState& state,
                                                      const vm::tensor::DataSource& data,
                                                      const vm::tensor::Tensor& seed);
// The state after the step.
[[nodiscard]] DoubleState step_in_double(const vm::tensor::Program& program, const DoubleState& state,
                                         const vm::tensor::DataSource& data, const vm::tensor::Tensor& seed);

}  // namespace quern::test
