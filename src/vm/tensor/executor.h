// Runs a step program in the canonical arithmetic, bit for bit the same on every machine, backend and thread count.
// Used by solvers (exact mode), verifiers and whistleblowers. An Executor is used by one thread at a time; it spreads
// work over the given pool.
#pragma once

#include <functional>
#include <memory>

#include "base/cancellation.h"
#include "base/thread_pool.h"
#include "vm/tensor/arith/kernels.h"
#include "vm/tensor/cuda/device.h"
#include "vm/tensor/data.h"
#include "vm/tensor/graph.h"
#include "vm/tensor/tap.h"
#include "vm/tensor/tensor.h"

namespace quern::vm::tensor {

using State = std::vector<Tensor>;  // one tensor per slot, in slot order

// Error executor.bad_state when dtypes or shapes are not the program's. The words may be any, NaNs of every payload
// too.
[[nodiscard]] Status check_state(const Program& program, const State& state);
// Once `cancellation` was requested the result is of no use: whoever gives one asks it afterwards.
[[nodiscard]] Hash32 state_root(const State& state, ThreadPool* pool = nullptr,
                                const Cancellation* cancellation = nullptr);
[[nodiscard]] std::vector<Hash32> slot_roots(const State& state, ThreadPool* pool = nullptr,
                                             const Cancellation* cancellation = nullptr);

// Outputs of every node of one step (input nodes included).
using NodeOutputs = std::vector<Tensor>;

// May change a node's output before later nodes read it: for tests of disputes and test builds' planted faults.
using Alter = std::function<void(std::uint32_t node, Tensor& output)>;

inline constexpr std::uint32_t kLastNode = 0xffffffff;

// Whether executors run on this backend here. Errors: executor.backend_unavailable, cuda.not_built, cuda.no_card.
[[nodiscard]] Status check_backend(arith::Backend backend);
// Of the card that the backend `cuda` runs on; empty: there is none.
[[nodiscard]] std::string card_name();

class Executor {
public:
    // `program` must be valid and outlive the executor, as must `cancellation`. pool may be null (one thread),
    // `cancellation` too (never). On the backend `cuda` whole steps run on the first card, from the first one on, which
    // then holds arena, constants and state as well; tapped runs, and steps once the card has failed, on this
    // processor.
    Executor(const Program& program, arith::Backend backend, ThreadPool* pool,
             const Cancellation* cancellation = nullptr);
    // The same on a device of the caller's.
    Executor(const Program& program, std::unique_ptr<cuda::Device> device, ThreadPool* pool,
             const Cancellation* cancellation = nullptr);
    ~Executor();

    // Why steps do not run on the card any more: cuda.not_built, cuda.no_card, cuda.too_little_memory, cuda.failed,
    // cuda.unsuitable (device_run.h). Null: they do, or were never to.
    [[nodiscard]] const Error* device_failure() const;

    // Runs end between two nodes once the cancellation is requested: false. Slots are written over as soon as nobody
    // reads what was there: the state that a cancelled step was given is as before, or where some of it was written
    // over empty, so that nobody goes on with it; so where a card failed while it gave the state back. A window of data
    // that the source has not ends a run in the same way.

    // state := the state after the step, in the same words. `data` holds what the program's header says (checked by the
    // caller), `seed` is seed_tensor's.
    bool step(State& state, const DataSource& data, const Tensor& seed);

    // `hook(slot)` is called on the thread of the run before a word of that slot is written over, and of each slot
    // before a cancelled run empties the state: who still reads the state keeps the run waiting there. Null: none.
    void set_before_writing(std::function<void(std::size_t slot)> hook);

    // A **tapped run** gives the same bits and calls `tap` for each node, in order and exactly once, with its output
    // and its operands' outputs, while they are alive: also of nodes that no update needs, that are views of others, or
    // that are known before the run. Each output lies in the arena for as long as it is read and no longer; what the
    // tap keeps of it is the tap's. `alter` acts before `tap` sees the output; with it each output has a buffer of its
    // own.
    bool step_tapped(State& state, const DataSource& data, const Tensor& seed, const Tap& tap, const Alter& alter = {});
    // The same of the nodes up to `last`; the state is not changed.
    bool run_tapped(const State& state, const DataSource& data, const Tensor& seed, const Tap& tap,
                    const Alter& alter = {}, std::uint32_t last = kLastNode);

    // The outputs of all nodes of the step from `state`, one node after the other, without a plan and all at once in
    // memory: what the runs above are compared with. `data` has all that is asked for.
    [[nodiscard]] NodeOutputs run_all(const State& state, const DataSource& data, const Tensor& seed);
    [[nodiscard]] NodeOutputs run_altered(const State& state, const DataSource& data, const Tensor& seed,
                                          const Alter& alter);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// What an executor takes for runs of one kind, beside the state, which it writes over, data and seed: arena and
// constants. An executor that does both holds one arena for both. A step and its state keep within the header's peak
// bytes (doc/program-format.md, "Sizes"). Not counted: the plan, and blocks of scratch, at most half a MiB a thread.
// Takes no memory itself: look at it before running a stranger's program.
[[nodiscard]] std::uint64_t step_bytes(const Program& program);
[[nodiscard]] std::uint64_t tapped_bytes(const Program& program);

}  // namespace quern::vm::tensor
