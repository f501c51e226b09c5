// A training as a task in tolerance mode: its judged programs, and the limits that this machine's own backends say
// (doc/tolerance.md), profiled once and kept in the job's folder. Used by quern-train. One thread, and a pool.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "compute/client/options.h"
#include "compute/tolerance/judge/judge_program.h"

namespace quern::compute::client {

struct Tolerant {
    vm::tensor::Program training;  // that is judged
    tolerance::judge::JudgedPrograms programs;
    std::uint64_t k = 0;         // steps of a segment, without the judging one
    std::uint64_t segments = 0;  // of the whole training
    tolerance::Terms terms;
    std::string limits;        // file of the last but one data tensor; none where profilers of the chain find them, and
                               // of a training of this machine
    bool is_profiled = false;  // it holds limits, or there is none to make
};

// `steps` of the training, in segments of the interval that the options give, else of the default one; a tranche is
// counted in steps of the training, too. Nothing is profiled. Event: oneSegment (the steps have no divisor for more).
// Errors: train.uneven (the interval does not divide the steps, or the tranche is no multiple of it), those of
// build_judged_programs() and check_terms(), fs.*.
[[nodiscard]] Expected<Tolerant> plan_tolerance(const TrainOptions& options, const vm::tensor::Program& training,
                                                std::uint64_t steps, const std::string& folder, const Console* console);

// Profiles from the training's first state on, and writes the limits. `before` is asked when all is there for it: its
// error ends it. Events: profiling (passing), limits. Errors: train.stopped, those of backends_of(), profile_segments()
// and derive_limits(), fs.*.
[[nodiscard]] Status make_limits(const TrainOptions& options, Tolerant& task, const vm::tensor::State& initial,
                                 const Console* console, const std::atomic<bool>* stop,
                                 const std::function<Status()>& before);

// The fast backends of this machine, the fastest first. Errors: train.no_backends, those of what makes them
// (torch.no_module and the like).
[[nodiscard]] Expected<std::vector<tolerance::profile::Profiler>> backends_of(const TrainOptions& options,
                                                                              const vm::tensor::Program& program,
                                                                              const vm::tensor::DataSource& data,
                                                                              const vm::tensor::Tensor& seed);

// The data tensors of a training of this machine, whole. Errors: fs.*.
[[nodiscard]] Expected<vm::tensor::MemoryData> read_data(const TrainOptions& options,
                                                         const vm::tensor::Program& program);

}  // namespace quern::compute::client
