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
[[nodiscard]] Hash32 state_root(const State& state, ThreadPool* pool = nullptr);
[[nodiscard]] std::vector<Hash32> slot_roots(const State& state, ThreadPool* pool = nullptr);

// Outputs of every node of one step (input nodes included): what step traces are built from.
using NodeOutputs = std::vector<Tensor>;

class Executor {
public:
    // `program` must be valid and outlive the executor. pool may be null (one thread).
    Executor(const Program& program, arith::Backend backend, ThreadPool* pool);
    ~Executor();

    // What step() takes on its first call and then keeps, beside the state: look at it before running a stranger's
    // program. Constants computed at construction are at most 64 MiB.
    [[nodiscard]] std::uint64_t memory_bytes() const;

    // state := the state after the step. `data` and `seed` as the program's header says (checked by the caller).
    void step(State& state, const Tensor& data, const Tensor& seed);
    // The outputs of all nodes of the step from `state`, which is not changed. Memory: run_all_bytes(program).
    [[nodiscard]] NodeOutputs run_all(const State& state, const Tensor& data, const Tensor& seed);
    // As run_all, and `alter(node, output)` may change an output before later nodes read it: for tests of disputes and
    // test builds' planted faults.
    [[nodiscard]] NodeOutputs run_altered(const State& state, const Tensor& data, const Tensor& seed,
                                          const std::function<void(std::uint32_t, Tensor&)>& alter);

private:
    struct Plan;
    std::unique_ptr<Plan> plan_;
};

// The size of all outputs of one step together.
[[nodiscard]] std::uint64_t run_all_bytes(const Program& program);

// Executes one node on given inputs (whole tensors). The reference for tests and for rebuilding micro-traces.
[[nodiscard]] Tensor execute_node(const Program& program, std::uint32_t node, std::span<const Tensor* const> inputs,
                                  arith::Backend backend, ThreadPool* pool);

}  // namespace quern::vm::tensor
