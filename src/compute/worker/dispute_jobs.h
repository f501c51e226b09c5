// Works out the moves of the disputes in which this worker is a party, with compute/core's strategy. Nothing that would
// be missed is saved: the game is on the chain, the claim comes with the order, states are replayed from checkpoints,
// once: what was replayed to stays on disk while the task lasts, as far as --max-disk-mib reaches. Games about one task
// share what they execute and take turns, so that many rivals cost little more than one; of those in which this worker
// defends one claim the chain asks a move in one at a time. Several threads may work at
// once, each for a task of its own; the game with the earliest deadline comes first. A move that nobody asks for
// any more, because the worker stops, the dispute is closed or the deadline has passed, is given up half done.
// Thread-safe.
#pragma once

#include <set>

#include "compute/core/dispute_strategy.h"
#include "compute/worker/board.h"
#include "compute/worker/context.h"
#include "compute/worker/decide.h"
#include "compute/worker/local_states.h"
#include "compute/worker/step_runner.h"

namespace quern::compute::worker {

struct PlayOrder {
    std::shared_ptr<const TaskClaim> live;
    std::shared_ptr<const Dispute> dispute;
    std::shared_ptr<const core::Game> game;
    Play play;
    std::string position;
    std::shared_ptr<const core::SplitMove> post{};  // that waits for the rival; null: none does, or it is not known
    [[nodiscard]] std::uint64_t id() const { return play.dispute; }
    [[nodiscard]] bool same_job(const PlayOrder& other) const {
        return play.dispute == other.play.dispute && position == other.position;
    }
};
using PlayBoard = Board<PlayOrder, std::shared_ptr<const PlannedMove>>;

class DisputeJobs {
public:
    explicit DisputeJobs(PlayBoard& board) : board_(board) {}

    // Works out one move with what `context` has; false when there is nothing to do until new orders come.
    bool work(Context& context);

private:
    struct Playing {
        std::shared_ptr<const TaskClaim> live;
        std::shared_ptr<const TaskInputs> inputs;
        std::unique_ptr<DataReader> data;
        std::shared_ptr<const core::HistoryManifest> manifest;
        FaultPlan fault;
        std::uint64_t before = 0;       // steps before the history's
        std::set<std::uint64_t> drawn;  // steps after which verifiers began
        LocalStates kept;               // replayed to
        vm::tensor::Tensor seed;
        vm::tensor::State altered_from;              // state before the step that `alter` speaks of
        unsigned refusals = 0;                       // of the checkpoint that was asked for last
        Context* context = nullptr;                  // of the thread that works on it now
        const Cancellation* cancellation = nullptr;  // of the move that it works out
        InputStore::Hold room;  // for what the strategy keeps between two moves; none, where memory is short
        std::unique_ptr<core::DisputeStrategy> strategy;
    };
    // Of the games about one task, in one round.
    struct Shared {
        std::uint64_t round = 0;
        std::shared_ptr<core::StepShare> steps;
        InputStore::Hold room;  // for states kept besides the one that each task may hold
    };
    static constexpr std::size_t kKeptStates = 4;  // before steps that games about one task dispute
    // The most urgent game that nobody works on and that has no move for its position yet.
    [[nodiscard]] std::optional<PlayOrder> claim_next(std::shared_ptr<Playing>& playing);
    void release(const PlayOrder& order, std::shared_ptr<Playing> playing, bool done);
    [[nodiscard]] Expected<std::shared_ptr<Playing>> begin(Context& context, const PlayOrder& order);
    [[nodiscard]] static Expected<std::shared_ptr<const core::HistoryManifest>> manifest_of(Context& context,
                                                                                            const PlayOrder& order);
    [[nodiscard]] std::shared_ptr<core::StepShare> share_of(Context& context, const PlayOrder& order,
                                                            const core::TaskPrograms& programs);
    // Of a run that did not come to its end: dispute.cancelled or dispute.data_missing.
    [[nodiscard]] static std::string_view unfinished(const Playing& playing);
    [[nodiscard]] static Expected<vm::tensor::State> state_before(Playing& playing, std::uint64_t step);
    // Segments up to this one whose first states may be had, the nearest first.
    [[nodiscard]] static std::vector<std::uint64_t> checkpoints_before(Playing& playing, std::uint64_t segment);
    static void keep_state(const Playing& playing, std::uint64_t step, const vm::tensor::State& state);
    [[nodiscard]] static Expected<std::vector<Hash32>> states_of(Playing& playing, std::uint64_t first,
                                                                 std::uint64_t last);

    PlayBoard& board_;
    Mutex mutex_;
    PlayBoard::Orders orders_ QUERN_GUARDED_BY(mutex_);
    std::set<std::uint64_t> busy_ QUERN_GUARDED_BY(mutex_);   // tasks about which a thread plays a game
    std::set<std::uint64_t> tried_ QUERN_GUARDED_BY(mutex_);  // since the last orders: answered, or in vain
    std::map<std::uint64_t, std::shared_ptr<Playing>> playing_ QUERN_GUARDED_BY(mutex_);  // by dispute
    std::map<std::uint64_t, Shared> shared_ QUERN_GUARDED_BY(mutex_);                     // by task
};

}  // namespace quern::compute::worker
