// Replays segments of a proven training from the solver's checkpoints and compares the state after each stride, in
// slices so that the worker stays responsive; captures probe tiles on the way. Used by replay_jobs.h. One thread.
//
// A history that the drawn verifiers say they have and that nobody else is served may be a lie of friends. Its first
// state is known, so a whistleblower trains it itself, all of it, which is what it would have done in any case, and
// compares the root of its own history with the claim's. What it needs for a dispute are its own roots and states.
#pragma once

#include <memory>
#include <set>

#include "compute/core/verification_report.h"
#include "compute/worker/context.h"
#include "compute/worker/local_states.h"
#include "compute/worker/step_runner.h"

namespace quern::compute::worker {

class Replay {
public:
    // `probes` may be empty. A voluntary replay of all segments needs no manifest once verifiers commit. Errors as
    // InputStore's.
    [[nodiscard]] static Expected<std::unique_ptr<Replay>> begin(Context& context, const chain::types::TaskClaim& live,
                                                                 std::vector<std::uint64_t> segments,
                                                                 std::vector<core::Probe> probes,
                                                                 const FaultPlan& fault, Duty duty = Duty::bound);

    // From now on the state with which the present segment begins stays in these files, if it was replayed to: who
    // begins a dispute about that segment need not have it from anybody. Of a history that nobody serves all of them
    // do, or every second, fourth, ... where the disk has no room for more.
    void keep_starts(LocalStates files);
    [[nodiscard]] bool served() const { return served_; }

    // Fetches each segment's checkpoint once and checks it, and besides the states that the history and its last
    // segment begin with and the last one, until the slice is over or the end: what a verifier must know before it says
    // that the data is there. Who paid wants the last state, and with the one before anybody sees that it is right; who
    // goes on, or begins anew, needs the last and the first. Errors: content.*, state_file.*, inputs.wrong_state_root.
    [[nodiscard]] Status check_checkpoints(const Slice& slice);
    [[nodiscard]] bool checkpoints_checked() const { return to_check_.empty() && claimed_left_ == 0; }

    // Runs until the slice is over or the end; one step at least. Errors: a checkpoint cannot be had (content.*,
    // inputs.wrong_state_root), or data that a step reads (those of DataReader), after which the segment begins anew;
    // worker.stopped, after which it is of no more use. A checkpoint that the segment before has just led to is not
    // asked for.
    [[nodiscard]] Status advance(const Slice& slice);
    [[nodiscard]] bool done() const { return segment_ == segments_.size(); }
    [[nodiscard]] std::size_t segments() const { return segments_.size(); }
    [[nodiscard]] std::size_t segments_done() const { return segment_; }
    // Between two segments (or at the end).
    [[nodiscard]] bool at_segment_start() const { return step_ == 0; }
    // Last step of the first stride after which the state is not the solver's; 0: none so far; kWrongSomewhere, at the
    // end, of a history that nobody serves.
    [[nodiscard]] std::uint64_t first_difference() const { return first_difference_; }
    // The solver's history with this replay's roots from the first difference to the end of its segment.
    [[nodiscard]] const std::vector<Hash32>& history() const { return history_; }
    // In the order of the probes given.
    [[nodiscard]] const std::vector<core::ProbeResult>& probe_results() const { return results_; }

private:
    Replay() = default;
    [[nodiscard]] bool run_step(std::uint64_t step);  // false: the worker stops, or data are missing
    [[nodiscard]] Expected<vm::tensor::State> checkpoint_before(std::uint64_t segment);
    [[nodiscard]] Status check_claimed();
    void keep_start(std::uint64_t segment);
    void drop_start(std::uint64_t segment);
    [[nodiscard]] std::size_t most_starts() const;
    void go_back();
    [[nodiscard]] Hash32 root_before(std::uint64_t segment) const;
    [[nodiscard]] std::uint64_t first_step_of(std::uint64_t segment) const;
    void compare_roots();

    Context* context_ = nullptr;
    std::uint64_t interval_ = 0;
    std::uint64_t stride_ = 1;
    std::uint64_t before_ = 0;  // steps before the history's
    std::shared_ptr<const TaskInputs> inputs_;
    std::shared_ptr<const core::HistoryManifest> manifest_;
    vm::tensor::Tensor seed_;
    std::unique_ptr<DataReader> data_;
    std::unique_ptr<StepRunner> runner_;
    std::vector<std::uint64_t> segments_;
    std::vector<std::uint64_t>
        to_check_;                    // states by the number of the segment that begins with each; the next one last
    std::uint64_t claimed_left_ = 0;  // bytes of what the solver claims that are still to be checked
    std::vector<core::Probe> probes_;
    std::vector<core::ProbeResult> results_;
    std::vector<Hash32> history_;
    std::optional<LocalStates> files_;
    std::set<std::uint64_t> kept_;  // segments of which the first states are there
    std::uint64_t kept_each_ = 1;   // of a history that nobody serves: of each so many segments
    bool served_ = true;
    chain::types::TaskClaim live_;  // without its reports
    vm::tensor::State state_;
    std::size_t segment_ = 0;     // index into segments_
    std::uint64_t step_ = 0;      // last step run in it; 0: its checkpoint is not loaded yet
    bool state_matches_ = false;  // the state after the last stride run is the solver's
    std::uint64_t first_difference_ = 0;
};

}  // namespace quern::compute::worker
