// The solver's work: fetching and judging what open tasks name (ExamineJobs), and training what was won
// (TrainingJobs): a stretch at a time, the next one while this one is verified. Progress is saved when a checkpoint is
// in the store, so that a killed solver goes on from the last one; the training goes on meanwhile, as far as the next
// checkpoint. One thread each, and one for each checkpoint on its way.
#pragma once

#include "compute/worker/board.h"
#include "compute/worker/context.h"
#include "compute/worker/decide.h"
#include "compute/worker/publisher.h"
#include "compute/worker/step_runner.h"
#include "compute/worker/workspace.h"

namespace quern::compute::worker {

struct TrainingProgress {
    Bytes state_roots;                          // S_a, S_{a+u}, … of the last checkpoint, 32 bytes each
    std::vector<CheckpointRecord> checkpoints;  // S_a first
    QUERN_FIELDS(v("stateRoots", state_roots), v("checkpoints", checkpoints))
};

class ExamineJobs {
public:
    using Orders = Board<TaskOrder, Examined>;
    ExamineJobs(Context& context, Orders& board) : context_(context), board_(board) {}
    // False when there is nothing to do until new orders come.
    bool work(std::uint64_t milliseconds);

private:
    [[nodiscard]] bool has_room();
    [[nodiscard]] Status examine(const Task& task);

    Context& context_;
    Orders& board_;
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
        bool failed = false;  // tried again with the next orders
        Workspace workspace;
        std::shared_ptr<const TaskInputs> inputs;  // null: complete, nothing to run
        vm::tensor::Tensor seed;
        std::unique_ptr<DataReader> data;
        std::unique_ptr<StepRunner> runner;
        vm::tensor::State state;
        std::uint64_t step = 0;     // that `state` is after
        std::vector<Hash32> roots;  // S_a, S_{a+u}, … of the last stride
        TrainingProgress saved;
        Trained told;
        // Checkpoints without their contents: the one on its way into the store, and `state` where it is the next one,
        // which waits for that.
        CheckpointRecord sent;
        std::optional<CheckpointRecord> waits;
        std::unique_ptr<Publisher> publisher;  // null: complete since before; ends before the state that it reads

        [[nodiscard]] std::uint64_t last() const { return chain::market::stretch_of(*order.live).last(); }
        [[nodiscard]] bool complete() const { return step == last(); }
        [[nodiscard]] bool can_step() const { return !complete() && !waits; }
        [[nodiscard]] bool is_sending() const { return publisher != nullptr && publisher->runs(); }
        [[nodiscard]] bool runs() const;
        // When what comes next must be posted: later by a window for each checkpoint that is ready and not posted yet.
        [[nodiscard]] std::uint64_t due() const;
        // Of `state`, after this step, whose slots have these roots: without its content.
        [[nodiscard]] CheckpointRecord checkpoint(std::uint64_t at, std::span<const Hash32> slots) const;
    };
    void take_orders();
    [[nodiscard]] Status begin(Training& training);
    // What the stretch begins with: where this solver has trained to, or where the task goes on.
    [[nodiscard]] Expected<InputStore::Start> start_of(const Training& training);
    [[nodiscard]] Status train(Training& training, const Slice& slice);
    [[nodiscard]] Status publish(Training& training);
    [[nodiscard]] Status finish(Training& training);
    void tell(Training& training);

    Context& context_;
    Orders& board_;
    std::map<JobId, Training> trainings_;
    Turns turns_;
};

}  // namespace quern::compute::worker
