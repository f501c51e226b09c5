// The same training on this machine and without a chain: the canonical executor, from the same initial state, by the
// same plan; with a task's seedBeacon it ends in that task's final state. Used by quern-train. One thread, and a pool.
#pragma once

#include <atomic>

#include "compute/client/job_file.h"
#include "compute/client/training.h"

namespace quern::compute::client {

// Bytes that fix the data's order: `options.beacon`, else made of the seed. Errors: hex.*, bytes.*.
[[nodiscard]] Expected<Hash32> local_beacon(const TrainOptions& options);

// Whether the job file, if there is one, is about this training with its order of data. Errors: train.other_job, those
// of local_beacon().
[[nodiscard]] Status check_local_job(const TrainOptions& options, const chain::types::TaskSubmitPayload& spec,
                                     const JobFile& file);

// Saves the state where the plan's checkpoints are, a second apart at least, and when `stop` is set: then the error is
// train.stopped, and the next call goes on from there. Events: resumed, progress, result. Errors: train.other_job,
// train.bad_job (the saved state is not what was saved); fs.*.
[[nodiscard]] Status train_here(const TrainOptions& options, const Training& training, JobFile& file,
                                const Console& console, const std::atomic<bool>& stop);

}  // namespace quern::compute::client
