// What a task must look like to be accepted: limits by name. Used by the task handlers, RPC's estimate, wallets and
// workers. What it costs: chain/market. Pure functions; thread-safe.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "chain/market/windows.h"
#include "chain/params/params.h"
#include "chain/types/native_objects.h"
#include "chain/types/native_tx.h"
#include "compute/core/history.h"
#include "compute/core/task_plan.h"

namespace quern::compute::core {

inline constexpr std::size_t kMaxTaskUris = 8;
inline constexpr std::size_t kMaxTaskUriBytes = 512;
using chain::params::kMaxPriceBits;
using chain::params::kMaxVerifiers;
using chain::params::kMaxWindowSeconds;

// Whether claims bring the last data tensor: in tolerance mode it holds the solver's checkpoints (doc/tolerance.md).
[[nodiscard]] inline bool claims_data(const chain::types::TaskSubmitPayload& spec) {
    return spec.work.mode == chain::types::TaskMode::tolerance;
}
// Data tensors at the end whose contents a submission does not name: what claims bring, and the limits where profilers
// find them.
[[nodiscard]] std::size_t unnamed_data(const chain::types::TaskSubmitPayload& spec);
// The content ids of all data tensors that the steps of a claim read; of one that is not proved yet the last is zero.
[[nodiscard]] std::vector<Hash32> data_roots_of(const chain::types::TaskSubmitPayload& spec,
                                                const chain::types::Claim& claim);

// What whoever verifies a task with this plan fetches.
[[nodiscard]] chain::market::TaskBytes task_bytes(const TaskPlan& plan, chain::types::TaskMode mode,
                                                  std::uint64_t custodians);

// Bytes of one state of an accepted task, as its plan's headers have them: the commitment to it hashes each tile.
[[nodiscard]] std::uint64_t task_state_bytes(const chain::types::Task& task);

// A task's waiting states by the names that its JSON has, and how many seconds each lasts.
[[nodiscard]] std::vector<std::pair<std::string_view, std::uint64_t>> named_windows(
    const chain::types::TaskSubmitPayload& spec);

// Checks the payload's form, its windows for a network with so many custodians of a claim, its plan, that each of the
// plan's headers lies under its program's root, and that what it imports lies in its first state; whether it lies in
// the earlier states the chain's records say. What this version does not run yet (encrypted tasks,
// several solvers) is refused by name. Errors: plan.*, task.bad_header_path, program.*, task.bad_steps,
// task.bad_interval, task.bad_stride, task.bad_tranche, task.bad_verifiers, task.bad_samples, task.bad_uris,
// task.bad_price, task.bad_profiling, tolerance.bad_terms, task.bad_window, task.bad_class, task.window_too_short,
// task.mode_not_supported, task.privacy_not_supported, task.solvers_not_supported, task.bad_root, task.no_work,
// task.bad_imports, task.import_mismatch.
[[nodiscard]] Expected<TaskPlan> check_task_spec(const chain::types::TaskSubmitPayload& spec, std::uint64_t custodians);

}  // namespace quern::compute::core
