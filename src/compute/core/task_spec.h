// What a task must look like to be accepted, and what it costs: limits by name, and the escrow equation in grains per
// work unit. Used by the task handlers, RPC's estimate, wallets and workers. Pure functions; thread-safe.
//
//   escrow = price cap * N * W  +  m * verifier fee(price cap)  +  tax  +  storage deposit
//   verifier fee(price) = floor(6/5 * price * sampled segments * k * W)
// with N steps, interval k, W work units a step (program header), sampled segments = min(samples, N / k).
#pragma once

#include "chain/types/native_tx.h"
#include "compute/core/history.h"
#include "vm/tensor/graph.h"

namespace quern::compute::core {

inline constexpr std::size_t kMaxTaskUris = 8;
inline constexpr std::size_t kMaxTaskUriBytes = 512;
inline constexpr std::uint32_t kMaxVerifiers = 16;
inline constexpr std::uint64_t kMaxWindowBlocks = 1U << 20;
inline constexpr unsigned kMaxPriceBits = 96;  // of price cap, bids and tax: keeps every sum below 2^256

// Checks the payload's form and opens its program header. What this version does not run yet (tolerance mode,
// encrypted tasks, several solvers) is refused by name. Errors: task.bad_header_path, program.*, task.bad_steps,
// task.bad_interval, task.bad_verifiers, task.bad_samples, task.bad_uris, task.bad_price, task.bad_window,
// task.mode_not_supported, task.privacy_not_supported, task.solvers_not_supported, task.bad_root, task.no_work.
[[nodiscard]] Expected<vm::tensor::ProgramHeader> check_task_spec(const chain::types::TaskSubmitPayload& spec);

// The numbers of a task that money depends on.
struct TaskWork {
    std::uint64_t steps = 0;          // N
    std::uint64_t interval = 0;       // k
    std::uint64_t work_per_step = 0;  // W
    std::uint32_t verifiers = 0;      // m
    std::uint32_t samples = 0;        // s, as asked for
};
[[nodiscard]] TaskWork task_work(const chain::types::TaskSubmitPayload& spec, std::uint64_t work_per_step);
[[nodiscard]] std::uint64_t sampled_segments(const TaskWork& work);  // min(samples, N / k)
[[nodiscard]] Uint256 total_work(const TaskWork& work);              // N * W; < 2^84
[[nodiscard]] Uint256 work_of_steps(const TaskWork& work, std::uint64_t steps);
[[nodiscard]] Uint256 sampled_work(const TaskWork& work);  // of one verifier: segments * k * W

// price * work. Error: task.price_overflow.
[[nodiscard]] Expected<Uint256> work_price(const Uint256& price, const Uint256& work);
// Of one verifier at `price`. Error: task.price_overflow.
[[nodiscard]] Expected<Uint256> verifier_fee(const TaskWork& work, const Uint256& price);

struct Escrow {
    Uint256 reward;         // of the solver, at the cap
    Uint256 verifier_fee;   // of each verifier, at the cap
    Uint256 verifier_fees;  // of all
    Uint256 tax;
    Uint256 storage_deposit;
    Uint256 total;
};
// Error: task.price_overflow.
[[nodiscard]] Expected<Escrow> escrow_of(const TaskWork& work, const Uint256& price_cap, const Uint256& tax,
                                         const Uint256& storage_deposit);

}  // namespace quern::compute::core
