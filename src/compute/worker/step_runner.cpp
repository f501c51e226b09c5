#include "compute/worker/step_runner.h"

namespace quern::compute::worker {

StepRunner::StepRunner(const vm::tensor::Program& program, const vm::tensor::Tensor& data,
                       const vm::tensor::Tensor& seed, std::uint64_t steps, const FaultPlan& fault,
                       vm::tensor::arith::Backend backend, ThreadPool* pool, const Cancellation* cancellation)
    : program_(program),
      data_(data),
      seed_(seed),
      steps_(steps),
      fault_(fault),
      executor_(program, backend, pool, cancellation) {}

bool StepRunner::run(vm::tensor::State& state, std::uint64_t step) {
    if (alteration(fault_, program_, state, step, steps_))
        return run_tapped(state, step, [](const vm::tensor::TappedNode&) {});
    return executor_.step(state, data_, seed_);
}

bool StepRunner::run_tapped(vm::tensor::State& state, std::uint64_t step, const vm::tensor::Tap& tap) {
    return executor_.step_tapped(state, data_, seed_, tap, alteration(fault_, program_, state, step, steps_));
}

}  // namespace quern::compute::worker
