// What one profiler measures of one task: the training's first segments by whatever is fast, each against its canonical
// replay, which the next one begins with. So the movements are those of any honest profiler, bit by bit. Used by one
// thread.
#pragma once

#include <optional>

#include "compute/tolerance/judge/judge_program.h"
#include "compute/tolerance/profile/profile.h"
#include "compute/worker/context.h"

namespace quern::compute::worker {

// What a run takes at most beside what its task's inputs count.
[[nodiscard]] std::uint64_t profile_room(const TaskInputs& inputs, const vm::tensor::Program& training,
                                         const tolerance::distance::SegmentPrograms& segment);

class ProfileRun {
public:
    // Of a task that is being profiled, whose profilers are drawn. Nothing was promised: it takes no memory that who
    // has bound itself elsewhere may need (Duty::voluntary). `cancellation` and the context outlive the run. Errors:
    // those of InputStore::load and checkpoint; tolerance.not_a_judged_task, tolerance.bad_first_state;
    // worker.too_slow; inputs.busy (busy): other tasks hold the memory; worker.no_fast_steps: there is nothing to
    // measure without.
    [[nodiscard]] static Expected<std::unique_ptr<ProfileRun>> begin(Context& context, const chain::types::Task& task,
                                                                     const Cancellation& cancellation);
    ProfileRun(const ProfileRun&) = delete;
    ProfileRun& operator=(const ProfileRun&) = delete;

    // The next segment. After an error the same one is next. Errors: why data cannot be read (DataReader);
    // worker.stopped (busy): cancelled; those of FastSteps.
    [[nodiscard]] Status advance();
    [[nodiscard]] bool done() const { return measured_.size() == segments_; }
    [[nodiscard]] const tolerance::Profile& measured() const { return measured_; }
    [[nodiscard]] std::uint64_t segments() const { return segments_; }

private:
    struct Parts {
        std::shared_ptr<const TaskInputs> inputs;
        vm::tensor::Program training;
        tolerance::distance::SegmentPrograms segment;
        InputStore::Hold room;  // beside what the inputs count
        vm::tensor::State state;
        std::uint64_t k = 0;
    };
    ProfileRun(Context& context, const chain::types::Task& task, const Cancellation& cancellation, Parts parts);
    [[nodiscard]] Status step(vm::tensor::State& state);

    const Cancellation& cancellation_;
    Parts parts_;
    const std::uint64_t segments_;
    const vm::tensor::Tensor seed_;
    DataReader data_;
    std::unique_ptr<FastSteps> fast_;
    tolerance::profile::Meter meter_;
    tolerance::Profile measured_;
};

}  // namespace quern::compute::worker
