// Puts states of a proved stretch into the store that its solver has not kept: those with which drawn segments begin.
// It replays from the nearest state before each that is there, in slices, and sends them while it goes on. Used by
// training_jobs.h. One thread, and one for a state on its way.
#pragma once

#include <deque>

#include "compute/worker/context.h"
#include "compute/worker/kept_states.h"
#include "compute/worker/step_runner.h"
#include "compute/worker/task_data.h"

namespace quern::compute::worker {

class Regeneration {
public:
    struct Wanted {
        std::set<std::uint64_t> steps;  // the states after them, of the claim's stretch
        std::vector<Hash32> history;    // as it was claimed
        std::uint64_t first = 0;        // the step after which the stretch's first state is,
        Hash32 start;                   // and the content that has it
        std::vector<KeptState> kept;    // what else is there
        bool beside_training = false;   // of another stretch: that holds the task's memory
    };
    // `stored` is called on another thread when a state is in the store. nullptr: all are there. Errors: InputStore's.
    [[nodiscard]] static Expected<std::unique_ptr<Regeneration>> begin(Context& context,
                                                                       const chain::types::TaskClaim& live,
                                                                       Wanted wanted, const FaultPlan& fault,
                                                                       std::function<void()> stored);

    // Runs until the slice is over, or something is waited for; a step at least, where there is one. Errors: a state
    // from which it begins cannot be had (content.*, state.*, inputs.*), or data that a step reads (content.*);
    // worker.other_state: what it came to is not what was claimed.
    [[nodiscard]] Status advance(const Slice& slice);
    [[nodiscard]] bool runs() const;  // or it waits until a state is stored
    [[nodiscard]] bool done() const { return wanted_.empty() && !publisher_->runs(); }
    // What has been stored since it was asked last.
    [[nodiscard]] std::vector<KeptState> take() { return std::exchange(made_, {}); }
    // Roots of the state that was sent last, which may be on its way.
    [[nodiscard]] const std::vector<Hash32>& sent_slots() const { return sent_slots_; }

private:
    Regeneration() = default;
    [[nodiscard]] Hash32 root_after(std::uint64_t step) const { return history_[(step - before_) / stride_]; }
    // Whether `state_` is the nearest to what is wanted next, or a later one.
    [[nodiscard]] bool is_on_the_way() const;
    [[nodiscard]] Status load();  // sees that it is
    void take_stored();

    Context* context_ = nullptr;
    std::uint64_t before_ = 0;
    std::uint64_t stride_ = 1;
    std::shared_ptr<const TaskInputs> inputs_;
    InputStore::Hold room_;  // beside a training's; none, where memory is short
    vm::tensor::Tensor seed_;
    std::vector<Hash32> history_;
    std::map<std::uint64_t, Hash32> there_;  // by step
    std::deque<std::uint64_t> wanted_;
    vm::tensor::State state_;
    std::uint64_t step_ = 0;  // that it is after; it is empty before any
    std::uint64_t sent_ = 0;
    std::vector<Hash32> sent_slots_;
    std::vector<KeptState> made_;
    std::unique_ptr<DataReader> data_;
    std::unique_ptr<StepRunner> runner_;
    std::unique_ptr<Publisher> publisher_;  // ends before the state that it reads
};

}  // namespace quern::compute::worker
