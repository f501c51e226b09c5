// The worker: connects the shell (shell.h) with a node, a key, a data directory and notifications of blocks.
#pragma once

#include <atomic>

#include "compute/worker/options.h"
#include "crypto/signature.h"

namespace quern::compute::worker {

// Whether it is to act as anything. Error worker.no_role.
[[nodiscard]] Status check_roles(const WorkerOptions& options);
// Runs until `stop`. A node that is not there (yet, or any more) is waited for. Errors: worker.no_role, fs.*,
// arith.bad_fp_environment, executor.backend_unavailable, cuda.not_built, cuda.no_card, worker.wrong_chain.
[[nodiscard]] Status run(const WorkerOptions& options, crypto::PrivateKey key, const std::atomic<bool>& stop);

}  // namespace quern::compute::worker
