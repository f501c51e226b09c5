// The answer to a question about a settled task's last state (doc/market.md, "The held share"), out of the contents
// that its solver has put into its node's store. Used by the shell.
#pragma once

#include "chain/types/native_objects.h"
#include "compute/worker/node_view.h"
#include "vm/tensor/graph.h"

namespace quern::compute::worker {

// The piece that is asked for; the task has a question, and `live` its last claim. What is given would be taken by the
// chain. Errors: those of NodeView::get_content; history.*, state.*, inputs.wrong_program_root, data.bad_answer.
[[nodiscard]] Expected<chain::types::DataAnswerPayload> read_piece(NodeView& node, const chain::types::TaskClaim& live);

// A tile, modulo the slot's, of the state of this program that `content` is and that has this root. Errors as above.
[[nodiscard]] Expected<chain::types::DataAnswerPayload> piece_of(NodeView& node, const vm::tensor::Program& program,
                                                                 const Hash32& content, const Hash32& state_root,
                                                                 const chain::types::DataChallenge& asked);

}  // namespace quern::compute::worker
