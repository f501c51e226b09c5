#include "compute/worker/tolerant_steps.h"

#include <algorithm>

#include "base/log.h"
#include "chain/market/work.h"

namespace quern::compute::worker {

using log::Category;

Expected<tolerance::judge::JudgedTask> judged_task(const core::TaskPrograms& programs, const chain::types::Task& task) {
    const auto& work = task.spec.work;
    return tolerance::judge::recognise(programs, work.stride,
                                       chain::market::tranche_steps(programs.plan.steps(), work.tranche));
}

Expected<std::unique_ptr<TolerantSteps>> TolerantSteps::make(const Parts& parts) {
    QUERN_TRY(auto task, judged_task(parts.programs, parts.task));
    const auto& programs = task.programs;
    QUERN_TRY(auto rows, ClaimedRows::open(parts.rows_file, programs.claimed_bytes(), programs.layout.row_bytes(),
                                           !parts.resumed));
    return std::unique_ptr<TolerantSteps>(new TolerantSteps(parts, std::move(task), std::move(rows)));
}

TolerantSteps::TolerantSteps(const Parts& parts, tolerance::judge::JudgedTask task, ClaimedRows rows)
    : id_(parts.task.id),
      programs_(parts.programs),
      seed_(parts.seed),
      cancellation_(parts.cancellation),
      before_(parts.before),
      check_segments_(std::max<std::uint64_t>(parts.check_segments, 1)),
      rng_(parts.rng),
      task_(std::move(task)),
      rows_(std::move(rows)),
      data_(parts.data, rows_, task_.programs.claimed_data()),
      canonical_(parts.programs, data_, parts.seed, parts.fault, parts.backend, parts.pool, parts.cancellation),
      fast_(parts.fast && !parts.fault.solver_cheats() ? parts.fast(parts.programs.programs[0]) : nullptr) {}

void TolerantSteps::set_before_writing(std::function<void(std::size_t slot)> hook) {
    hook_ = std::move(hook);
    canonical_.set_before_writing(hook_);
}

Status TolerantSteps::run(vm::tensor::State& state, std::uint64_t step) {
    const bool judges = programs_.plan.program_of(step) == 1;
    return judges ? judge(state, step) : train(state, step);
}

// Another backend, or another state, takes the place of the words that a publisher may be reading.
void TolerantSteps::about_to_write() {
    for (std::size_t slot = 0; hook_ && slot < programs_.programs[0].slots.size(); ++slot) hook_(slot);
}

Status TolerantSteps::run_canonical(vm::tensor::State& state, std::uint64_t step) {
    if (canonical_.run(state, step)) return {};
    return is_requested(cancellation_) ? busy("worker.stopped") : busy("worker.no_data");
}

Status TolerantSteps::train(vm::tensor::State& state, std::uint64_t step) {
    const bool begins = (step - 1 - before_) % (task_.k + 1) == 0;
    if (begins) {
        segment_is_fast_ = fast_ != nullptr && accepted(state);
        start_ = segment_is_fast_ ? state : vm::tensor::State();
    }
    if (!segment_is_fast_) return run_canonical(state, step);
    about_to_write();
    const Status trained = fast_->step(state, data_, seed_);
    if (trained) return {};
    log::warning(Category::solver, "trained canonically from here on task={} step={} reason={}", id_, step,
                 trained.error().to_string());
    fast_.reset();
    segment_is_fast_ = false;
    about_to_write();
    state = std::move(start_);
    for (std::uint64_t each = step - (step - 1 - before_) % (task_.k + 1); each <= step; ++each)
        QUERN_CHECK(run_canonical(state, each));
    return {};
}

// The segment's steps before the judging one.
Status TolerantSteps::replay(vm::tensor::State& state, std::uint64_t judging_step) {
    for (std::uint64_t step = judging_step - task_.k; step < judging_step; ++step)
        QUERN_CHECK(run_canonical(state, step));
    return {};
}

// Of the segment that the state is in: the row that the judging step will read, whatever it counts.
Status TolerantSteps::write_row(const vm::tensor::State& state) {
    const auto& judged = task_.programs;
    const std::uint64_t number = state[judged.segment_slot()].words[0];
    if (number >= judged.rows) return fail("tolerance.bad_first_state", "row " + std::to_string(number));
    Bytes row(rows_.row_bytes());
    QUERN_CHECK(judged.layout.write_row(state, row));
    return rows_.write(number, row);
}

Status TolerantSteps::judge(vm::tensor::State& state, std::uint64_t step) {
    QUERN_CHECK(write_row(state));
    if (!segment_is_fast_) return run_canonical(state, step);
    if (!checked_ || rng_.below(check_segments_) == 0) return check(state, step);
    // As if the replay gave what was claimed: so it ends in the claim, unless the movement is out of bounds.
    QUERN_CHECK(run_canonical(state, step));
    return accepted(state) ? Status() : check(state, step);
}

Status TolerantSteps::check(vm::tensor::State& state, std::uint64_t step) {
    const auto& classes = task_.programs.classes;
    vm::tensor::State claimed = std::move(state);
    about_to_write();
    state = std::move(start_);
    QUERN_CHECK(replay(state, step));
    checked_ = true;
    std::string why;
    for (std::size_t slot = 0; slot < classes.size() && why.empty(); ++slot)
        if (classes[slot] == tolerance::distance::Class::exact && state[slot] != claimed[slot])
            why = "is exact and differs: " + programs_.programs[0].slots[slot].name;
    claimed = state;  // what the claim is held against; nobody asks any more what it was
    QUERN_CHECK(run_canonical(state, step));
    if (!accepted(state)) {
        why = "is not within the task's limits";
        state = std::move(claimed);
        QUERN_CHECK(write_row(state));
        QUERN_CHECK(run_canonical(state, step));
    }
    if (why.empty()) return {};
    log::warning(
        Category::solver,
        "what was trained fast {}: the canonical result is taken, and the rest is trained canonically task={} step={}",
        why, id_, step);
    fast_.reset();
    return {};
}

}  // namespace quern::compute::worker
