// What a solver computes of a judged task (compute/tolerance/judge): k steps of a segment by whatever is fast, then its
// row, and the judging step in the canonical arithmetic, after which the state is what any verifier comes to. A claim
// is checked by a canonical replay before anything follows from it: each one, or with `check_segments` n the first and
// one of n by chance. Where a replay refuses a claim, or differs in an exact slot, the canonical result takes its
// place, in the row as well, and the rest is trained canonically. So each row is what the state after its segment
// holds, as verifiers ask for where they replay the segments that move most (largest_rows.h). So a solver whose machine
// is too far from the replay, or whose task has limits that nobody meets, is slow and not slashed. Who leaves segments
// unchecked trusts the submitter's program: one that magnifies rounding in a step of its choice leads to a claim that
// verifiers refuse.
//
// Instead of StepRunner, for one training; used by one thread.
#pragma once

#include <optional>

#include "base/rng.h"
#include "chain/types/native_objects.h"
#include "compute/tolerance/judge/judge_program.h"
#include "compute/worker/claimed_rows.h"
#include "compute/worker/fast_steps.h"
#include "compute/worker/step_runner.h"

namespace quern::compute::worker {

// The judged task that a task in tolerance mode is. Errors: tolerance.not_a_judged_task: its programs are others, its
// strides do not end where segments do, or its stretches have not a row for each segment.
[[nodiscard]] Expected<tolerance::judge::JudgedTask> judged_task(const core::TaskPrograms& programs,
                                                                 const chain::types::Task& task);

class TolerantSteps {
public:
    struct Parts {
        const core::TaskPrograms& programs;
        const chain::types::Task& task;      // read by make() alone
        const vm::tensor::DataSource& data;  // without the rows
        const vm::tensor::Tensor& seed;
        const FaultPlan& fault;
        vm::tensor::arith::Backend backend;
        ThreadPool* pool;
        const Cancellation* cancellation;
        const MakeFastSteps& fast;     // none, or what makes none: everything is canonical. Read by make() alone
        std::uint64_t check_segments;  // of so many one is replayed, 1 at least
        Rng& rng;                      // decides which: nobody else knows
        std::string rows_file;
        bool resumed;              // the file is there, or what it held is lost
        std::uint64_t before = 0;  // steps of the plan before the stretch
    };
    // What `parts` names outlives this. Errors: those of judged_task and ClaimedRows.
    [[nodiscard]] static Expected<std::unique_ptr<TolerantSteps>> make(const Parts& parts);

    // As StepRunner::run, from the first step of a segment on. Where FastSteps fail it goes on canonically. Errors:
    // busy worker.stopped (cancelled); data that cannot be had (worker.no_data: the source says why); fs.*.
    [[nodiscard]] Status run(vm::tensor::State& state, std::uint64_t step);
    // Before a slot's words change, or the slot goes: as the executor's.
    void set_before_writing(std::function<void(std::size_t slot)> hook);

    [[nodiscard]] const ClaimedRows& rows() const { return rows_; }
    // Whether segments are trained by FastSteps still.
    [[nodiscard]] bool is_fast() const { return fast_ != nullptr; }

private:
    TolerantSteps(const Parts& parts, tolerance::judge::JudgedTask task, ClaimedRows rows);
    [[nodiscard]] Status train(vm::tensor::State& state, std::uint64_t step);
    [[nodiscard]] Status judge(vm::tensor::State& state, std::uint64_t step);
    [[nodiscard]] Status replay(vm::tensor::State& state, std::uint64_t judging_step);
    [[nodiscard]] Status check(vm::tensor::State& state, std::uint64_t step);
    [[nodiscard]] Status write_row(const vm::tensor::State& state);
    [[nodiscard]] Status run_canonical(vm::tensor::State& state, std::uint64_t step);
    void about_to_write();
    // Whether every segment so far ended in what was claimed.
    [[nodiscard]] bool accepted(const vm::tensor::State& state) const {
        return tolerance::judge::accepted(task_.programs, state);
    }

    const std::uint64_t id_;  // the task's
    const core::TaskPrograms& programs_;
    const vm::tensor::Tensor& seed_;
    const Cancellation* cancellation_;
    const std::uint64_t before_;
    const std::uint64_t check_segments_;
    Rng& rng_;
    tolerance::judge::JudgedTask task_;
    ClaimedRows rows_;
    DataWithRows data_;
    StepRunner canonical_;
    std::unique_ptr<FastSteps> fast_;  // null: canonical from here on
    std::function<void(std::size_t slot)> hook_;
    bool checked_ = false;  // whether a segment was
    bool segment_is_fast_ = false;
    vm::tensor::State start_;  // with which a segment that is trained fast begins
};

}  // namespace quern::compute::worker
