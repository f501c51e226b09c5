// The worker's loop: looks at the chain whenever there is a new block, lets each role act on each live task, plays
// disputes, sends due ticks, and trains or replays in slices in between. One thread, until `stop` says so.
#pragma once

#include <atomic>

#include "compute/worker/options.h"
#include "crypto/signature.h"

namespace quern::compute::worker {

// Runs until `stop`. A node that is not there (yet, or any more) is waited for. Errors: worker.no_role, fs.*,
// arith.bad_fp_environment, worker.backend_unavailable.
[[nodiscard]] Status run(const WorkerOptions& options, crypto::PrivateKey key, const std::atomic<bool>& stop);

}  // namespace quern::compute::worker
