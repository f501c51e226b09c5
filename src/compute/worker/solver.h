// The solver: bids on open tasks, trains what it wins in the canonical arithmetic, posts heartbeats with checkpoints,
// and posts the proof. Progress is saved at each checkpoint, so that a killed solver goes on from the last one. One
// thread: the worker's loop calls on_task() for each live task and work() between polls.
#pragma once

#include <map>
#include <memory>
#include <set>

#include "compute/worker/context.h"
#include "compute/worker/step_runner.h"
#include "compute/worker/workspace.h"

namespace quern::compute::worker {

struct CheckpointRecord {
    std::uint64_t step = 0;
    Hash32 state_root;
    Hash32 content;
    std::uint32_t loss = 0;
    std::vector<Hash32> loss_path;
    template <class V>
    void fields(V& v) {
        v("step", step), v("stateRoot", state_root), v("content", content), v("loss", loss), v("lossPath", loss_path);
    }
};
struct TrainingProgress {
    Bytes state_roots;                          // S_0 … of the last checkpoint, 32 bytes each
    std::vector<CheckpointRecord> checkpoints;  // S_0 first
    std::vector<std::uint32_t> losses;          // f32 bits, one per step
    template <class V>
    void fields(V& v) {
        v("stateRoots", state_roots), v("checkpoints", checkpoints), v("losses", losses);
    }
};

class Solver {
public:
    explicit Solver(Context& context) : context_(context) {}

    void on_task(const chain::types::Task& task);
    // Trains for about `milliseconds`; false when there is nothing to train.
    bool work(std::uint64_t milliseconds);
    // Drops what is kept in memory of tasks that are not in `live`.
    void forget_all_but(const std::set<std::uint64_t>& live);
    // The history as this solver claims it, for disputes; empty when it has none.
    [[nodiscard]] std::vector<Hash32> claimed_history(const chain::types::Task& task);

private:
    struct Training {
        std::uint64_t round = 0;
        Workspace workspace;
        std::shared_ptr<const TaskInputs> inputs;
        vm::tensor::Tensor seed;
        std::unique_ptr<StepRunner> runner;
        vm::tensor::State state;
        std::uint64_t steps = 0;
        std::uint64_t interval = 0;
        std::vector<Hash32> roots;  // S_0 … S_now
        TrainingProgress saved;
    };

    void bid(const chain::types::Task& task);
    void heartbeat(const chain::types::Task& task);
    void prove(const chain::types::Task& task);
    [[nodiscard]] Expected<Training*> training(const chain::types::Task& task);
    [[nodiscard]] Status checkpoint(Training& training);

    Context& context_;
    std::map<std::uint64_t, Training> trainings_;  // by task
    Turns turns_;
    bool full_ = false;                              // and it was said
    std::map<std::uint64_t, std::string> declined_;  // tasks not bid on, and why
};

}  // namespace quern::compute::worker
