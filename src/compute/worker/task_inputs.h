// What a task names, fetched by content id and checked against the roots that the chain judges by: program, data set,
// initial state, and after a proof the history manifest and checkpoints. Used by one thread.
#pragma once

#include <map>
#include <memory>

#include "chain/types/native_objects.h"
#include "compute/core/history.h"
#include "compute/worker/node_client.h"
#include "vm/tensor/executor.h"

namespace quern::compute::worker {

struct TaskInputs {
    vm::tensor::Program program;
    vm::tensor::Tensor data;
    vm::tensor::State initial;
};

// A tensor's scalar as the chain opens it: bits of the loss slot.
[[nodiscard]] std::uint32_t loss_bits(const vm::tensor::Program& program, const vm::tensor::State& state);

class InputStore {
public:
    // `node` must outlive the store. Contents above `max_bytes` are refused.
    InputStore(NodeClient& node, std::uint64_t max_bytes) : node_(node), max_bytes_(max_bytes) {}

    // Errors: content.*, http.* (may pass), inputs.wrong_program_root, inputs.wrong_header, inputs.wrong_data_root,
    // inputs.wrong_init_root, program.*, state_file.* (will not). Kept for the last few tasks.
    [[nodiscard]] Expected<std::shared_ptr<const TaskInputs>> load(const chain::types::Task& task);

    // The history behind task.history_root. Errors: content.*, history.*, inputs.wrong_history_root.
    [[nodiscard]] Expected<std::shared_ptr<const core::HistoryManifest>> manifest(const chain::types::Task& task);

    // The state in `content`, which must have this root. Errors: content.*, state_file.*, inputs.wrong_state_root.
    [[nodiscard]] Expected<vm::tensor::State> checkpoint(const vm::tensor::Program& program, const Hash32& content,
                                                         const Hash32& state_root);

private:
    NodeClient& node_;
    std::uint64_t max_bytes_;
    std::map<std::uint64_t, std::shared_ptr<const TaskInputs>> inputs_;         // by task
    std::map<Hash32, std::shared_ptr<const core::HistoryManifest>> manifests_;  // by content
};

}  // namespace quern::compute::worker
