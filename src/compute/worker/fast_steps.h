// Steps by whatever is faster than the canonical arithmetic and differs from it by rounding: what a solver trains by in
// tolerance mode. The program that links libtorch makes them of compute/torch; a worker without has none.
#pragma once

#include <functional>
#include <memory>

#include "vm/tensor/executor.h"

namespace quern::compute::worker {

class FastSteps {
public:
    virtual ~FastSteps() = default;
    // state := the state after the step of the program that this was made for. The state is unchanged on error, which
    // is the implementation's, such as torch.failed.
    [[nodiscard]] virtual Status step(vm::tensor::State& state, const vm::tensor::DataSource& data,
                                      const vm::tensor::Tensor& seed) = 0;
};
// For a valid program, which outlives what is made.
using MakeFastSteps = std::function<std::unique_ptr<FastSteps>(const vm::tensor::Program& program)>;

}  // namespace quern::compute::worker
