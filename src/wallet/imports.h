// What a task's first state has from the final states of settled tasks, found by comparing the files: the imports of a
// specification and their openings. Used by quern-wallet. One thread.
#pragma once

#include <string>
#include <vector>

#include "chain/types/native_tx.h"
#include "vm/tensor/executor.h"

namespace quern::wallet {

// A settled task, its final state and the (first) program of its plan, as files.
struct ImportFiles {
    std::uint64_t task = 0;
    std::string state, program;
};

// Sets the payload's imports: of each task the slots that have the same name, dtype, dims and words in its state and in
// `init`, zeros left out; a slot that two tasks' states have is the first one's. Error task.imports_nothing: a state
// has no slot of it. Those of fs, program.* and state_file.* name the file.
[[nodiscard]] Status add_imports(const std::vector<ImportFiles>& files, const vm::tensor::Program& program,
                                 const vm::tensor::State& init, chain::types::TaskSubmitPayload& spec);

}  // namespace quern::wallet
