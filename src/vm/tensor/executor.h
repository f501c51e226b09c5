// Runs a step program in the canonical arithmetic, bit for bit the same on every machine, backend and thread count.
// Used by solvers (exact mode), verifiers and whistleblowers. An Executor is used by one thread at a time; it spreads
// work over the given pool.
#pragma once

#include <functional>
#include <memory>

#include "base/thread_pool.h"
#include "vm/tensor/arith/kernels.h"
#include "vm/tensor/graph.h"
#include "vm/tensor/tensor.h"

namespace quern::vm::tensor {

using State = std::vector<Tensor>;  // one tensor per slot, in slot order

// Error executor.bad_state when dtypes or shapes are not the program's; executor.non_canonical_nan when an f32 holds a
// NaN other than 0x7fc00000.
[[nodiscard]] Status check_state(const Program& program, const State& state);
[[nodiscard]] Status check_data(const Program& program, const Tensor& data);
[[nodiscard]] Hash32 state_root(const State& state);
[[nodiscard]] std::vector<Hash32> slot_roots(const State& state);

// Outputs of every node of one step (input nodes included): what step traces are built from.
using NodeOutputs = std::vector<Tensor>;

class Executor {
public:
    // `program` must be valid and outlive the executor. pool may be null (one thread).
    Executor(const Program& program, arith::Backend backend, ThreadPool* pool);
    ~Executor();

    // state := the state after the step. `data` and `seed` as the program's header says (checked by the caller).
    void step(State& state, const Tensor& data, const Tensor& seed);
    // The outputs of all nodes of the step from `state`, which is not changed. Memory: the sum of all outputs.
    [[nodiscard]] NodeOutputs run_all(const State& state, const Tensor& data, const Tensor& seed);
    // As run_all, and `alter(node, output)` may change an output before later nodes read it: for tests of disputes and
    // test builds' planted faults.
    [[nodiscard]] NodeOutputs run_altered(const State& state, const Tensor& data, const Tensor& seed,
                                          const std::function<void(std::uint32_t, Tensor&)>& alter);

private:
    struct Plan;
    std::unique_ptr<Plan> plan_;
};

// Executes one node on given inputs (whole tensors). The reference for tests and for rebuilding micro-traces.
[[nodiscard]] Tensor execute_node(const Program& program, std::uint32_t node, std::span<const Tensor* const> inputs,
                                  arith::Backend backend, ThreadPool* pool);

}  // namespace quern::vm::tensor
