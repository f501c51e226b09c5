// What a task costs and what its parties earn, in grains. Used by execution, RPC's estimate, wallets and workers. Pure
// functions; thread-safe.
//
//   escrow = price cap * work of all steps  +  m * verifier fees(price cap) of all stretches  +  tax
//            +  c * custody fee (custody.h) * stretches  +  p * profiler fee(price cap)  +  deposit (storage.h)
//   verifier fee(price) of a stretch = floor(6/5 * price * its sampled segments * work of the largest segment)
//   profiler fee(price)              = floor(6/5 * price * 2 * its segments * work of the largest segment)
//
// The reward follows from the winning price; everything else from the price cap, so that a solver that bids low does
// not buy less checking with it.
#pragma once

#include "base/expected.h"
#include "chain/market/work.h"

namespace quern::chain::market {

// price * work. Error: task.price_overflow.
[[nodiscard]] Expected<Uint256> work_price(const Uint256& price, const Uint256& work);
// Of one verifier of a stretch of so many steps, or of T, at `price`. Error: task.price_overflow.
[[nodiscard]] Expected<Uint256> verifier_fee(const TaskWork& work, const Uint256& price, std::uint64_t steps);
[[nodiscard]] Expected<Uint256> verifier_fee(const TaskWork& work, const Uint256& price);

// Of one profiler. Error: task.price_overflow.
[[nodiscard]] Expected<Uint256> profiler_fee(const TaskWork& work, const Uint256& price);

struct Escrow {
    Uint256 reward;         // of the solver, at the cap
    Uint256 verifier_fee;   // of each verifier of a stretch of T steps, at the cap
    Uint256 verifier_fees;  // of all verifiers of all stretches
    Uint256 custody_fee;    // of each custodian of a stretch
    Uint256 custody_fees;   // of all custodians of all stretches
    Uint256 profiler_fee;   // of each profiler
    Uint256 profiler_fees;  // of all
    Uint256 tax;
    Uint256 storage_deposit;
    Uint256 total;
};
// Error: task.price_overflow.
[[nodiscard]] Expected<Escrow> escrow_of(const TaskWork& work, const Uint256& price_cap, const Uint256& tax,
                                         const Uint256& storage_deposit);
[[nodiscard]] Expected<Escrow> escrow_of(const params::MarketParams& market, const types::TaskSubmitPayload& spec,
                                         const PlannedWork& plan);

// What is held for a task whose first `settled` stretches, of so much work, are settled. Error: task.price_overflow.
[[nodiscard]] Expected<Escrow> escrow_left(const TaskWork& work, const Uint256& price_cap, const Uint256& tax,
                                           const Uint256& storage_deposit, std::uint32_t settled,
                                           const Uint256& settled_work);

// Of a task that was accepted: they cannot overflow, since the same sums were checked at submission.
[[nodiscard]] Uint256 escrow_left(const types::Task& task);
[[nodiscard]] Uint256 solver_reward(const types::Claim& claim);  // at the winning price
// What of it is held back, of a task's last stretch; rounded down.
[[nodiscard]] Uint256 held_share(const params::MarketParams& market, const Uint256& reward);
// What a final task still holds beside its deposit.
[[nodiscard]] Uint256 held_after(const types::Task& task);
[[nodiscard]] Uint256 verifier_fee(const types::Task& task, std::uint32_t stretch);
[[nodiscard]] Uint256 profiler_fee(const types::Task& task);
[[nodiscard]] Uint256 price_at_cap(const types::Task& task, const Uint256& work);

}  // namespace quern::chain::market
