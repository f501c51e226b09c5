// What must hold after every block whatever the transactions were. Each check compares what a block changed with what
// was there before, so its cost is that of the block; by induction from genesis the whole state holds. Run by
// BlockExecution::finish when params.check_invariants, and by tests. Pure; thread-safe.
#pragma once

#include "chain/params/params.h"
#include "chain/state/overlay.h"

namespace quern::chain::exec::invariants {

// The name of the error when the state breaks a rule that no transaction may break.
inline constexpr std::string_view kInvariantBroken = "exec.invariant_broken";

// Accounts + bonds and stakes (bonded and unbonding) + escrows + deposits + vaults + burned = minted. Each bond covers
// its locked part, which is what seats, bids, claims, reports, custodians, challenges and open disputes lock of it; no
// object has a prefix that is reserved or unknown. Errors invariant.supply, invariant.bond_locks, invariant.lock_sum,
// object.*.
[[nodiscard]] Status check_holdings(const state::Overlay& state);
// Delegations add up to their validators' shares, a pool without shares holds nothing, and exactly those validators
// that may be in a committee are ranked, by what they hold. Errors invariant.stake_shares, invariant.stake_rank.
[[nodiscard]] Status check_stakes(const state::Overlay& state, const params::StakingParams& staking);
// A live task's escrow covers what it may have to pay; a final one holds its storage deposit alone. Error
// invariant.escrow.
[[nodiscard]] Status check_escrow(const state::Overlay& state);
// A claim has as many reports as it says, and counts right what they say; there are none without it. Error
// invariant.report_counts. The same of its custodians, who lock nothing once custody is over, and without whose quorum
// no claim leaves it. Error invariant.custody.
[[nodiscard]] Status check_reports(const state::Overlay& state);
// The tables of draws from the next epoch on hold each bond of a drawn role at its place with what is bonded, and
// nobody else, and each node of theirs the sums of those below. Error invariant.draw_table.
[[nodiscard]] Status check_draw_tables(const state::Overlay& state);
// Each bond counts the games that its party plays in that role: those of open disputes that have begun. Error
// invariant.games.
[[nodiscard]] Status check_games(const state::Overlay& state);
// Every live task has a deadline within reach, of its own or, while it runs, of its live claim; a claim that is not
// final is its task's live one, and counts its open disputes right; every open dispute is a live claim's, and has a
// deadline unless an older one of its defender's has. Errors invariant.no_exit, invariant.open_disputes,
// invariant.dispute_order.
[[nodiscard]] Status check_dispute_liveness(const state::Overlay& state, const params::MarketParams& params,
                                            std::uint64_t market_ms);

// All of them. Error exec.invariant_broken, naming the first.
[[nodiscard]] Status check_all(const state::Overlay& state, const params::ChainParams& params);

}  // namespace quern::chain::exec::invariants
