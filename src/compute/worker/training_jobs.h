// The solver's work: fetching and judging what open tasks name (ExamineJobs), and training what was won
// (TrainingJobs): a stretch at a time, the next one while this one is verified. Progress is saved when a checkpoint is
// in the store, so that a killed solver goes on from the last one; the training goes on meanwhile, as far as the next
// checkpoint. Few states stay in the store (kept_states.h); those that verifiers are drawn for it puts there again
// (regeneration.h). One thread each, and one for each state on its way.
#pragma once

#include "compute/worker/board.h"
#include "compute/worker/context.h"
#include "compute/worker/custody_run.h"
#include "compute/worker/decide.h"
#include "compute/worker/kept_states.h"
#include "compute/worker/publisher.h"
#include "compute/worker/regeneration.h"
#include "compute/worker/step_runner.h"
#include "compute/worker/tolerant_steps.h"
#include "compute/worker/workspace.h"

namespace quern::compute::worker {

struct TrainingProgress {
    Bytes state_roots;                          // S_a, S_{a+u}, … of the last checkpoint, 32 bytes each
    std::vector<CheckpointRecord> checkpoints;  // S_a first
    std::vector<KeptState> kept;                // of them, ascending; S_a only if this worker put it there
    std::vector<KeptState> leaving;             // whose contents are still to be taken out of the store
    std::uint64_t segment_ms = 0;               // the longest that one has taken
    QUERN_FIELDS(v("stateRoots", state_roots), v("checkpoints", checkpoints), v("kept", kept), v("leaving", leaving),
                 v("segmentMs", segment_ms))
};

class ExamineJobs {
public:
    using Orders = Board<TaskOrder, Examined>;
    ExamineJobs(Context& context, Orders& board) : context_(context), board_(board) {}
    // False when there is nothing to do until new orders come.
    bool work();

private:
    // When a task is looked at again whose contents did not come.
    struct Later {
        std::uint64_t at_ms = 0;
        std::uint64_t wait_ms = 1'000;
    };
    [[nodiscard]] bool has_room();
    [[nodiscard]] Status examine(const Task& task);

    Context& context_;
    Orders& board_;
    std::map<JobId, Later> later_;
    bool full_ = false;  // and it was said
};

class TrainingJobs {
public:
    using Orders = Board<TaskOrder, Trained>;
    TrainingJobs(Context& context, Orders& board) : context_(context), board_(board) {}
    // Trains for about `milliseconds`; false when there is nothing to do until new orders come.
    bool work(std::uint64_t milliseconds);

private:
    struct Training {
        TaskOrder order;
        bool failed = false;         // tried again with the next orders ...
        std::uint64_t again_ms = 0;  // ... from then on, where other trainings go on meanwhile
        Workspace workspace;
        std::shared_ptr<const TaskInputs> inputs;  // null: complete, nothing to run
        vm::tensor::Tensor seed;
        std::unique_ptr<DataReader> data;
        std::unique_ptr<StepRunner> runner;       // in exact mode,
        InputStore::Hold fast_room;               // of steps that are not canonical; null: there was none
        std::unique_ptr<TolerantSteps> tolerant;  // in tolerance mode
        vm::tensor::State state;
        std::uint64_t step = 0;     // that `state` is after
        std::vector<Hash32> roots;  // S_a, S_{a+u}, … of the last stride
        TrainingProgress saved;
        Trained told;
        // Checkpoints without their contents: the one on its way into the store, and `state` where it is the next one,
        // which waits for that.
        struct Waiting {
            CheckpointRecord record;
            std::vector<Hash32> slots;  // their roots
        };
        Waiting sent;
        std::optional<Waiting> waits;
        std::uint64_t segment_ms = 0;                // that the present segment has taken so far
        std::unique_ptr<Publisher> publisher;        // null: complete since before; ends before the state that it reads
        std::unique_ptr<Regeneration> regeneration;  // of what was drawn; null: nothing is missing
        std::shared_ptr<Hash32> custody_manifest;    // that `fragments` makes
        std::unique_ptr<CustodyRun> fragments;       // of the proof's contents; null: not begun, or over

        [[nodiscard]] std::uint64_t last() const { return chain::market::stretch_of(*order.live).last(); }
        [[nodiscard]] bool complete() const { return step == last(); }
        [[nodiscard]] bool holds_programs() const { return runner != nullptr || tolerant != nullptr; }
        [[nodiscard]] bool can_step() const { return !complete() && !waits; }
        [[nodiscard]] bool is_sending() const { return publisher != nullptr && publisher->runs(); }
        [[nodiscard]] bool runs() const;
        // When what comes next must be posted: later by a window for each checkpoint that is ready and not posted yet.
        [[nodiscard]] std::uint64_t due() const;
        // Of `state`, after this step, whose slots have these roots: without its content.
        [[nodiscard]] CheckpointRecord checkpoint(std::uint64_t at, std::span<const Hash32> slots) const;
        void tell_metrics(std::uint64_t at) const;  // of a training that evaluates itself, into the log
    };
    void take_orders();
    [[nodiscard]] Status begin(Training& training);
    // What the stretch begins with: where this solver has trained to, or where the task goes on. In the first case it
    // is kept for as long as this stretch is.
    [[nodiscard]] Expected<StateRef> start_of(Training& training);
    [[nodiscard]] Status begin_stretch(Training& training);
    // Of a stretch that is settled nobody asks any more.
    [[nodiscard]] Status forget_settled(Training& training);
    [[nodiscard]] Status regenerate(Training& training);  // begins to, where something was drawn that is not kept
    [[nodiscard]] Status advance(Training& training, const Slice& slice);
    [[nodiscard]] Status make_runner(Training& training);
    // state := the state after `step`. False: the worker stops.
    [[nodiscard]] Expected<bool> run_step(Training& training, std::uint64_t step);
    [[nodiscard]] Status train(Training& training, const Slice& slice);
    [[nodiscard]] Status publish(Training& training);
    [[nodiscard]] Status finish(Training& training);
    // What the solver claims in tolerance mode, put into the store, and the segments that move most by it.
    [[nodiscard]] Status claim_rows(Training& training, chain::types::TaskProvePayload& proof);
    // The custody manifest of the history; nullopt while its fragments are made. Zero where there are no custodians.
    [[nodiscard]] Expected<std::optional<Hash32>> custody_manifest(Training& training, const Hash32& history,
                                                                   core::HistoryManifest manifest);
    // The progress, and what it says is leaving goes from the store.
    [[nodiscard]] Status save(Training& training);
    void drop_leaving(Training& training);
    void tell(Training& training);

    Context& context_;
    Orders& board_;
    std::map<JobId, Training> trainings_;
    bool refused_ = false;  // to drop contents, and it was said
    Turns turns_;
};

}  // namespace quern::compute::worker
