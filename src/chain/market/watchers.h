// Forced errors and who watches for them: how likely a whistleblower is drawn as the watcher of a report, and what
// those who find a forced error are paid. Rules: doc/market.md, "Forced errors". Used by execution, workers and RPC.
// Pure functions; thread-safe.
#pragma once

#include "chain/params/params.h"
#include "chain/types/native_objects.h"

namespace quern::chain::market {

// Whether reports are forced to tell altered results at all.
[[nodiscard]] inline bool forces_errors(const params::MarketParams& market) { return market.forced_error_inverse != 0; }

// The part of `total` that is bonded by the watcher, times kWatchersPerReport, is the chance that `output`, of its VRF,
// makes it one. `weight` is at most `total`.
[[nodiscard]] bool is_watcher(const Hash32& output, const Uint256& weight, const Uint256& total);

// Of the task's tax, what is due once stretches with so much work are settled; all of it with the last one.
[[nodiscard]] Uint256 tax_due(const Uint256& tax, const Uint256& settled_work, const Uint256& total_work);
// What a solver's lock is for (market::solver_bond): the reward of the largest stretch, `largest` of `total` work, or
// more, so that the lock burns more than the tax of all stretches that fall with a claim. Who sees that there are no
// jackpots for them must not save the tax by losing the claim to a friend.
[[nodiscard]] Uint256 locked_reward(const params::MarketParams& market, const Uint256& reward, const Uint256& tax,
                                    const Uint256& largest, const Uint256& total);
// What a forced error in one of m reports pays those who found it, all together: so that in the mean over many reports
// as much is paid as the stretch's tax.
[[nodiscard]] Uint256 jackpot(const params::MarketParams& market, const Uint256& stretch_tax, std::uint32_t verifiers);
// Of each of n who found it: half as much for each more, so that to be many pays nobody.
[[nodiscard]] Uint256 jackpot_share(const Uint256& jackpot, std::uint32_t found);

}  // namespace quern::chain::market
