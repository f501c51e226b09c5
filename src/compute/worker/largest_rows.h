// Which segments of a claim its verifiers replay besides those that the beacon draws: those that move most by the
// solver's rows (compute/tolerance/judge/largest.h). A solver names them in its proof; a verifier comes to the same
// ones by the same rows, and sees that these are the states of the history, before it says that the data is there.
// Thread- safe; each call reads a whole stretch.
#pragma once

#include "compute/worker/claimed_rows.h"
#include "compute/worker/task_inputs.h"

namespace quern::compute::worker {

// What a pass over rows is run on. `cancellation` may not be null.
struct RowsRun {
    vm::tensor::arith::Backend backend;
    ThreadPool* pool;
    const Cancellation* cancellation;
};

// As many segments as the task wants of a stretch that this worker has trained, which begins with `first`: for the
// proof. It needs less memory than the steps of the task, which are not to run beside it. Errors: those of InputStore,
// DataReader and RowWalk.
[[nodiscard]] Expected<std::vector<std::uint64_t>> own_largest_rows(NodeView& node, InputStore& inputs,
                                                                    const chain::types::TaskClaim& live,
                                                                    const StateRef& first, const ClaimedRows& rows,
                                                                    const RowsRun& run);

// Whether a claim names these, and its rows are its states. Of a task that asks for none, that is no judged
// one, or whose exact slots cost too much, nothing is checked. Errors: tolerance.wrong_largest, tolerance.unbound_rows;
// what InputStore and DataReader say of data that cannot be had.
[[nodiscard]] Status check_largest_rows(NodeView& node, InputStore& inputs, const chain::types::TaskClaim& live,
                                        const RowsRun& run);

}  // namespace quern::compute::worker
