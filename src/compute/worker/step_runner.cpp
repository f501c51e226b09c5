#include "compute/worker/step_runner.h"

namespace quern::compute::worker {

StepRunner::StepRunner(const vm::tensor::Program& program, const vm::tensor::Tensor& data,
                       const vm::tensor::Tensor& seed, std::uint64_t steps, const FaultPlan& fault,
                       vm::tensor::arith::Backend backend, ThreadPool* pool)
    : program_(program), data_(data), seed_(seed), steps_(steps), fault_(fault), executor_(program, backend, pool) {}

void StepRunner::run(vm::tensor::State& state, std::uint64_t step) {
    if (alteration(fault_, program_, state, step, steps_))
        run_tapped(state, step, [](const vm::tensor::TappedNode&) {});
    else
        executor_.step(state, data_, seed_);
}

void StepRunner::run_tapped(vm::tensor::State& state, std::uint64_t step, const vm::tensor::Tap& tap) {
    executor_.step_tapped(state, data_, seed_, tap, alteration(fault_, program_, state, step, steps_));
}

}  // namespace quern::compute::worker
