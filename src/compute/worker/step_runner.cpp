#include "compute/worker/step_runner.h"

namespace quern::compute::worker {

vm::tensor::State state_after(const vm::tensor::Program& program, const vm::tensor::NodeOutputs& outputs) {
    vm::tensor::State state;
    state.reserve(program.slots.size());
    for (const auto& slot : program.slots) state.push_back(outputs[slot.update_node]);
    return state;
}

StepRunner::StepRunner(const vm::tensor::Program& program, const vm::tensor::Tensor& data,
                       const vm::tensor::Tensor& seed, std::uint64_t steps, const FaultPlan& fault,
                       vm::tensor::arith::Backend backend, ThreadPool* pool)
    : program_(program), data_(data), seed_(seed), steps_(steps), fault_(fault), executor_(program, backend, pool) {}

void StepRunner::run(vm::tensor::State& state, std::uint64_t step) {
    const Alteration alter = alteration(fault_, program_, state, step, steps_);
    if (!alter) {
        executor_.step(state, data_, seed_);
        return;
    }
    const vm::tensor::NodeOutputs outputs = executor_.run_altered(state, data_, seed_, alter);
    state = state_after(program_, outputs);
}

vm::tensor::NodeOutputs StepRunner::outputs(const vm::tensor::State& before, std::uint64_t step) {
    const Alteration alter = alteration(fault_, program_, before, step, steps_);
    return alter ? executor_.run_altered(before, data_, seed_, alter) : executor_.run_all(before, data_, seed_);
}

}  // namespace quern::compute::worker
