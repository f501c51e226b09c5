// Steps of a training's programs from a given state on, on whatever does steps, saved as they go and taken up again
// after whatever ended them: what `quern-compile run` does. One thread, and a pool.
//
// A run is one file, OUT: the newest state (state_file.h), whose metadata say of which run it is and how far that has
// come. It is replaced as a whole, so that nothing that ends a run leaves a state with another's number.
//
//   "quern_run"      = SHA-256 in hexadecimal of programs, first state, data, beacon and arithmetic
//   "quern_run_step" = steps that are done, decimal
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "compute/core/task_plan.h"
#include "compute/program/progress.h"
#include "compute/program/stepper.h"

namespace quern::compute::program {

struct StepRun {
    const core::TaskPrograms& programs;
    std::uint64_t steps = 0;       // all together, as many as the plan has at most
    std::uint32_t accumulate = 0;  // batches of an update, where two programs accumulate
    vm::tensor::State first;       // before the first step
    std::vector<Bytes> data;       // as long as the programs say
    Hash32 beacon;                 // a task's seedBeacon, or beacon_of_seed()
    std::string arithmetic;        // what steps are done in: another one makes another run
    Stepper stepper;               // how
    std::string out;
    std::uint64_t save_pause_ms = 30'000;  // from one saving to the next
};

inline constexpr std::string_view kRunStopped = "run.stopped";

// Does what is left of the run; more steps than before go on behind them. Events: resumed (`step`), progress (as
// Progress describes it), result (`out`, `step`, `stateRoot`). Errors: run.other_run (the file at `out` is no state of
// this run), run.beyond (it has more steps than are asked for), run.stopped (`stop` is true: the state was saved, the
// same call goes on), memory.too_little, fs.*, safetensors.*, state_file.*, those of the stepper.
[[nodiscard]] Status run_steps(StepRun run, ThreadPool* pool, Progress& progress, const std::atomic<bool>& stop,
                               const std::function<void(const Event&)>& tell);

}  // namespace quern::compute::program
