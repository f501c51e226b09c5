// Plays the disputes in which this worker is a party, as defender or rival, with compute/core's strategy. Nothing is
// saved: the game is on the chain, the worker's claim in its workspace, states are replayed from checkpoints. One
// thread.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "compute/core/dispute_strategy.h"
#include "compute/worker/context.h"
#include "compute/worker/step_runner.h"

namespace quern::compute::worker {

class DisputePlayer {
public:
    // The histories that this worker claims for a task as solver, verifier and whistleblower; empty: none.
    struct Claims {
        std::function<std::vector<Hash32>(const chain::types::Task&)> solver;
        std::function<std::vector<Hash32>(const chain::types::Task&)> verifier;
        std::function<std::vector<Hash32>(const chain::types::Task&)> whistleblower;
    };
    DisputePlayer(Context& context, Claims claims) : context_(context), claims_(std::move(claims)) {}

    // Looks at the open disputes of a live task and sends the due moves.
    void on_task(const chain::types::Task& task);
    void forget_all_but(const std::set<std::uint64_t>& live_tasks);

private:
    struct Play {
        std::uint64_t task = 0;
        std::shared_ptr<const TaskInputs> inputs;
        std::shared_ptr<const core::HistoryManifest> manifest;
        FaultPlan fault;
        std::uint64_t steps = 0;
        vm::tensor::Tensor seed;
        std::unique_ptr<StepRunner> runner;
        vm::tensor::State altered_from;  // state before the step that `alter` speaks of
        std::unique_ptr<core::DisputeStrategy> strategy;
    };
    void on_dispute(const chain::types::Task& task, std::uint64_t id);
    [[nodiscard]] Expected<Play*> play(const chain::types::Task& task, const chain::types::Dispute& dispute);
    [[nodiscard]] Expected<vm::tensor::State> state_before(Play& play, std::uint64_t step);

    Context& context_;
    Claims claims_;
    std::map<std::uint64_t, std::unique_ptr<Play>> plays_;  // by dispute
    std::set<std::uint64_t> closed_;                        // disputes known to be decided
};

}  // namespace quern::compute::worker
