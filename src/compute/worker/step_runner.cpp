#include "compute/worker/step_runner.h"

#include "base/log.h"

namespace quern::compute::worker {

StepRunner::StepRunner(const core::TaskPrograms& programs, const vm::tensor::DataSource& data,
                       const vm::tensor::Tensor& seed, const FaultPlan& fault, vm::tensor::arith::Backend backend,
                       ThreadPool* pool, const Cancellation* cancellation)
    : programs_(programs), data_(data), seed_(seed), fault_(fault) {
    for (const vm::tensor::Program& program : programs.programs)
        executors_.emplace_back(program, backend, pool, cancellation);
}

Alteration StepRunner::altered(const vm::tensor::State& state, std::uint64_t step) const {
    return alteration(fault_, programs_.at(step), state, step, programs_.plan.steps());
}

bool StepRunner::run(vm::tensor::State& state, std::uint64_t step) {
    if (altered(state, step)) return run_tapped(state, step, [](const vm::tensor::TappedNode&) {});
    vm::tensor::Executor& runs = executor(step);
    const bool is_done = runs.step(state, data_, seed_);
    if (const Error* const failure = runs.device_failure(); failure != nullptr && !has_told_of_device_) {
        has_told_of_device_ = true;
        log::warning(log::Category::worker, "steps run on the processor step={} reason={}", step, failure->to_string());
    }
    return is_done;
}

bool StepRunner::run_tapped(vm::tensor::State& state, std::uint64_t step, const vm::tensor::Tap& tap) {
    return executor(step).step_tapped(state, data_, seed_, tap, altered(state, step));
}

}  // namespace quern::compute::worker
