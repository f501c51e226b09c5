// Seconds that a machine takes for a program's steps, before it runs one: what counts.h counts times what profile.h
// says one of it takes. Used by workers, which leave alone what they cannot do in time, and told to submitters. Pure;
// thread-safe.
#pragma once

#include <vector>

#include "compute/core/task_plan.h"
#include "compute/cost/profile.h"

namespace quern::compute::cost {

// Of a step on several threads: they read what others have just written, and wait for each other, which no program of
// one op shows. Measured on twelve programs with two threads (doc/benchmarks.md, "Predicted times").
inline constexpr double kBetweenThreads = 1.12;

// In seconds.
struct StepTime {
    double step = 0;    // of a training, or of a replay
    double tapped = 0;  // of a step of which a verifier keeps a tile
    double commit = 0;  // the state's root
};
[[nodiscard]] double seconds_of(const Counts& counts, const Profile& profile);
// `program` is valid.
[[nodiscard]] StepTime predict_step(const vm::tensor::Program& program, const Profile& profile);
// By node; their sum is predict_step's `step`. Nodes that take no time of their own have 0: views, constants.
[[nodiscard]] std::vector<double> predict_nodes(const vm::tensor::Program& program, const Profile& profile);

// `steps` steps of one program, and a commitment each `stride` of them.
[[nodiscard]] double training_seconds(const StepTime& time, std::uint64_t steps, std::uint64_t stride);

// A task's programs, each looked at once.
class TaskTime {
public:
    TaskTime(const core::TaskPrograms& programs, const Profile& profile);

    // Steps `first` to `last` of the plan, 1..N, and a commitment for each `stride` of them, as a solver does them.
    // Bounded work: steps of a plan are counted, not unfolded, up to kCountedSteps, then taken for the mean of those.
    [[nodiscard]] double training(std::uint64_t first, std::uint64_t last, std::uint64_t stride) const;
    // The same as a verifier does them, who keeps a tile of each of `probed` steps, of the slowest program.
    [[nodiscard]] double replay(std::uint64_t first, std::uint64_t last, std::uint64_t stride,
                                std::uint64_t probed) const;
    // Of the plan's programs, in order.
    [[nodiscard]] const std::vector<StepTime>& programs() const { return times_; }

private:
    const core::TaskPrograms& programs_;
    std::vector<StepTime> times_;
};
inline constexpr std::uint64_t kCountedSteps = 4096;

}  // namespace quern::compute::cost
