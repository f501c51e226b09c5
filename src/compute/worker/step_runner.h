// Runs a task's steps in the canonical arithmetic, honestly or, in test builds, as a fault plan says. Shared by solver,
// verifier, whistleblower and dispute player, so that what one claims another replays. Used by one thread.
#pragma once

#include "compute/worker/faults.h"
#include "vm/tensor/executor.h"

namespace quern::compute::worker {

class StepRunner {
public:
    // program, data, seed and `cancellation` (null: never) must outlive the runner.
    StepRunner(const vm::tensor::Program& program, const vm::tensor::Tensor& data, const vm::tensor::Tensor& seed,
               std::uint64_t steps, const FaultPlan& fault, vm::tensor::arith::Backend backend, ThreadPool* pool,
               const Cancellation* cancellation);

    // state := the state after `step` (1..N), from the state before it. False: cancelled, and the
    // state is of no more use (vm/tensor/executor.h).
    [[nodiscard]] bool run(vm::tensor::State& state, std::uint64_t step);
    // The same, and `tap` sees each node's output on the way.
    [[nodiscard]] bool run_tapped(vm::tensor::State& state, std::uint64_t step, const vm::tensor::Tap& tap);

    // As vm::tensor::Executor's.
    void set_before_writing(std::function<void(std::size_t slot)> hook) {
        executor_.set_before_writing(std::move(hook));
    }

private:
    const vm::tensor::Program& program_;
    const vm::tensor::Tensor& data_;
    const vm::tensor::Tensor& seed_;
    std::uint64_t steps_;
    FaultPlan fault_;
    vm::tensor::Executor executor_;
};

}  // namespace quern::compute::worker
