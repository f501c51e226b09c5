// A training on this machine that is measured on held-out data as it goes, and goes on after whatever ended it: how the
// canonical machine, arithmetic in bytes and libtorch are held to one another (doc/quality.md). Used by quern-measure.
// One thread, and a pool.
//
// A run's folder: run.json, what it is a run of; log.csv, a row for each measure; state.safetensors, of the newest
// measure or of where the run was stopped; lock. Rows follow from the run alone, not from where it was interrupted.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "compute/program/architecture.h"
#include "compute/program/evaluate.h"
#include "compute/program/stepper.h"
#include "vm/tensor/data.h"

namespace quern::compute::program {

struct MeasuredRun {
    Architecture architecture;     // one that does not accumulate
    std::vector<Bytes> data;       // its data tensors
    std::vector<Bytes> held_out;   // others of the same types, of any sizes
    std::string folder;            // is made where it is missing
    std::string arithmetic;        // what steps are done in, as run.json names it
    Stepper stepper;               // how
    std::uint64_t seed = 1;        // of the initial state and of the data's order, as of quern-train --local
    std::uint64_t steps = 0;       // all together; more than before goes on behind them
    std::uint64_t interval = 100;  // steps from one measure to the next; divides steps
};

struct Measure {
    std::uint64_t step = 0;
    double batch_loss = 0;  // of the step's batch, before its update
    Evaluation held_out;    // in the canonical arithmetic, whatever steps are done in
};

// The header of log.csv; numbers are the shortest that give the double again, whatever the locale. A model without
// classes has no accuracy: the field is empty.
inline constexpr std::string_view kMeasureHeader = "step,batch_loss,held_out_loss,held_out_accuracy";

// Does what is left of the run. `tell` is told of each measure when it is on the disk. Errors: measure.accumulates,
// measure.uneven (the interval does not divide the steps), measure.wrong_data (bytes that are not the architecture's),
// measure.other_run (the folder's run.json is about another), measure.bad_log, measure.stopped
// (`stop` is true: the state was saved, the same call goes on), what the stepper says, fs.*, state_file.*, and those
// of build_training_program() and evaluate(); memory.too_little before the first state is made.
[[nodiscard]] Status run_measured(const MeasuredRun& run, ThreadPool* pool, const std::atomic<bool>& stop,
                                  const std::function<void(const Measure&)>& tell);

}  // namespace quern::compute::program
