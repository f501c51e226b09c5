// The answer to a question about a settled task's last state (doc/market.md, "The held share"), out of the contents
// that its solver has put into its node's store: read by a thread of its own, since a slot may have gigabytes. One
// thread.
#pragma once

#include "chain/types/native_objects.h"
#include "compute/worker/board.h"
#include "compute/worker/context.h"
#include "compute/worker/node_view.h"
#include "vm/tensor/graph.h"

namespace quern::compute::worker {

// A slot is read in parts of so many bytes, of which the hashes of their tiles stay: 1/128 of the slot.
inline constexpr std::uint64_t kPiecePartBytes = std::uint64_t{1} << 20;
static_assert(kPiecePartBytes % vm::tensor::kTileBytes == 0 && crypto::kContentShardBytes % kPiecePartBytes == 0);

// The piece that is asked for; the task has a question, and `live` its last claim. What is given would be taken by the
// chain. Errors: those of NodeView::get_content; history.*, state.*, inputs.wrong_program_root, data.bad_answer.
[[nodiscard]] Expected<chain::types::DataAnswerPayload> read_piece(NodeView& node, const chain::types::TaskClaim& live,
                                                                   const Cancellation* cancellation = nullptr);

// A tile, modulo the slot's, of the state of this program that `content` is and that has this root. Errors as above;
// worker.stopped (busy).
[[nodiscard]] Expected<chain::types::DataAnswerPayload> piece_of(NodeView& node, const vm::tensor::Program& program,
                                                                 const Hash32& content, const Hash32& state_root,
                                                                 const chain::types::DataChallenge& asked,
                                                                 const Cancellation* cancellation = nullptr);

// A question: a task has one at a time.
struct PieceOrder {
    std::shared_ptr<const chain::types::TaskClaim> live;
    [[nodiscard]] std::uint64_t id() const { return live->task.id; }
    [[nodiscard]] bool same_job(const PieceOrder& other) const {
        return id() == other.id() && live->task.asked[0].until == other.live->task.asked[0].until;
    }
};
using Piece = std::shared_ptr<const chain::types::DataAnswerPayload>;  // null: not read so far

class PieceJobs {
public:
    using Orders = Board<PieceOrder, Piece>;
    PieceJobs(Context& context, Orders& board) : context_(context), board_(board) {}
    // False when there is nothing to do until new orders come.
    bool work();

private:
    Context& context_;
    Orders& board_;
    std::map<std::uint64_t, std::uint64_t> again_ms_;  // task -> when what could not be read is tried again
};

}  // namespace quern::compute::worker
