// What a command asks to be trained: the model compiled to programs, the initial state and the specification of the
// task that would train it, all made anew, bit for bit the same, by each run of the same command. Used by quern-train.
// One thread.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/machine_memory.h"
#include "compute/client/export.h"
#include "compute/client/options.h"
#include "compute/client/tolerance.h"
#include "compute/core/task_plan.h"
#include "vm/tensor/executor.h"

namespace quern::compute::client {

inline constexpr std::string_view kStopped = "train.stopped";

// Checkpoints of a training whose options do not say how many.
inline constexpr std::uint64_t kDefaultCheckpoints = 20;

// The fewest steps, a multiple of `stride`, between checkpoints of which `steps` has kDefaultCheckpoints at most, all
// of the same length. `steps` where `stride` does not divide it: the specification's check then names what is wrong.
[[nodiscard]] std::uint64_t default_interval(std::uint64_t steps, std::uint64_t stride);

struct Training {
    core::TaskPrograms programs;
    vm::tensor::State initial;
    wallet::SpecOptions files;  // of the specification; params not given
    chain::types::TaskSubmitPayload spec;
    std::optional<Tolerant> tolerant;  // of a task in tolerance mode; the programs are then the judged ones
    std::optional<GivenOnnx> onnx;     // of which a copy is to be exported

    // Files of data tensors that were made here.
    [[nodiscard]] std::vector<std::string> made_data() const {
        return tolerant && !tolerant->limits.empty() ? std::vector{tolerant->limits} : std::vector<std::string>();
    }
};

// What a caller says while a training is prepared; either may be empty.
struct Preparation {
    // Of the specification, before a file of the job's folder is replaced: an error leaves them as they are. In
    // tolerance mode the limits may still be to profile: such a specification is of no job that there is.
    std::function<Status(const chain::types::TaskSubmitPayload& spec)> check;
    // Of the training but for the limits, where they are to be profiled, which takes long: price and question.
    std::function<Status(const Training& training)> before_profiling;
};

// Compiles `options.model` as quern-compile program and init do, writes program-<i>.bin and init.safetensors into
// `folder`, and makes the specification with the data's content ids. Errors: train.no_steps (neither the command nor
// the model says how many); train.no_data; task.wrong_data_size (data that does not fit the model; the detail says what
// would); train.unknown_class (a target that is none of the model's classes); those of read_model(), given_onnx(),
// build_training_programs() and wallet::build_spec().
// Also memory.too_little (nothing is made then), and train.stopped, where `stop`, if there is one, is true. In
// tolerance mode it profiles, where it has not yet, and tells the console of it: plan_tolerance(), make_limits(); of a
// training of this machine nothing is profiled.
[[nodiscard]] Expected<Training> prepare_training(const TrainOptions& options, const std::string& folder,
                                                  const std::atomic<bool>* stop = nullptr,
                                                  std::uint64_t memory = machine_memory(),
                                                  const Console* console = nullptr, const Preparation& asks = {});

// Exports the parameters of a final state, behind the state itself in the job's folder (state.safetensors, for
// quern-compile sample and the like). Errors: those of exports_of(), fs.*, safetensors.*.
[[nodiscard]] Status write_result(const TrainOptions& options, const Training& training, const vm::tensor::State& state,
                                  const std::string& folder);

}  // namespace quern::compute::client
