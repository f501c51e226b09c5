// A settled task's final state, fetched and compared with everything that the chain says of it. Used by quern-train.
// One thread.
#pragma once

#include "compute/client/options.h"
#include "compute/client/progress.h"
#include "compute/client/training.h"
#include "compute/worker/node_view.h"
#include "vm/tensor/executor.h"

namespace quern::compute::client {

inline constexpr std::string_view kNotTheTask = "train.other_task";

// That the task is the one that was submitted: its specification byte by byte, but for the root of limits that
// profilers have found since. Error: train.other_task (the node is of another chain).
[[nodiscard]] Status check_task(const chain::types::Task& task, const chain::types::TaskSubmitPayload& spec);
// That the record of the settled task (proof_get) is about this specification: submission, plan, initial state, data;
// and that it ends where the claim does. Error: train.wrong_proof.
[[nodiscard]] Status check_proof(const chain::types::ProofRecord& proof, const Look& look);

// What a training that evaluates itself found so far, as `evaluation` in an event's data and at its text's end; of
// another nothing.
void tell_metrics(const vm::tensor::Program& program, const vm::tensor::State& state, Event& event);

// That the state's root, computed from all its words, is this one. Error: train.wrong_root.
[[nodiscard]] Status check_root(const vm::tensor::State& state, const Hash32& root, ThreadPool* pool);

// Of the claim's checkpoint, by content id, from custodians' fragments where nobody else serves it; its root is the
// claim's final root. Errors: worker::InputStore::checkpoint()'s; those of check_root().
[[nodiscard]] Expected<vm::tensor::State> fetch_result(worker::NodeView& node, const vm::tensor::Program& program,
                                                       const Look& look, ThreadPool* pool);

// What of a result that an earlier run has written is still on disk.
enum class Kept {
    nothing,  // no state with that root is in the job's folder
    whole,    // the outputs are what is exported of that state, byte by byte
    mended,   // one was missing or another: it is written anew
};
// Looks for the final state in the job's folder (state.safetensors), and compares the outputs with it. Errors: those of
// exports_of(), fs.*, safetensors.*.
[[nodiscard]] Expected<Kept> keep_result(const TrainOptions& options, const Training& training, const Hash32& root,
                                         const std::string& folder, ThreadPool* pool);

}  // namespace quern::compute::client
