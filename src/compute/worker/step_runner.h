// Runs a task's steps, each by the program that its plan says, in the canonical arithmetic, honestly or, in test
// builds, as a fault plan says. Shared by solver, verifier, whistleblower and dispute player, so that what one claims
// another replays. Used by one thread.
#pragma once

#include <deque>

#include "compute/core/task_plan.h"
#include "compute/worker/faults.h"
#include "vm/tensor/executor.h"

namespace quern::compute::worker {

class StepRunner {
public:
    // programs, data, seed and `cancellation` (null: never) must outlive the runner.
    StepRunner(const core::TaskPrograms& programs, const vm::tensor::DataSource& data, const vm::tensor::Tensor& seed,
               const FaultPlan& fault, vm::tensor::arith::Backend backend, ThreadPool* pool,
               const Cancellation* cancellation);

    // state := the state after `step` (1..N), from the state before it. False: cancelled, and the
    // state is of no more use (vm/tensor/executor.h).
    [[nodiscard]] bool run(vm::tensor::State& state, std::uint64_t step);
    // The same, and `tap` sees each node's output on the way.
    [[nodiscard]] bool run_tapped(vm::tensor::State& state, std::uint64_t step, const vm::tensor::Tap& tap);

    // As vm::tensor::Executor's.
    void set_before_writing(const std::function<void(std::size_t slot)>& hook) {
        for (vm::tensor::Executor& executor : executors_) executor.set_before_writing(hook);
    }

private:
    [[nodiscard]] Alteration altered(const vm::tensor::State& state, std::uint64_t step) const;
    [[nodiscard]] vm::tensor::Executor& executor(std::uint64_t step) {
        return executors_[programs_.plan.program_of(step)];
    }

    const core::TaskPrograms& programs_;
    const vm::tensor::DataSource& data_;
    const vm::tensor::Tensor& seed_;
    FaultPlan fault_;
    bool has_told_of_device_ = false;             // that failed
    std::deque<vm::tensor::Executor> executors_;  // by program: each keeps its plan and arena from step to step
};

}  // namespace quern::compute::worker
