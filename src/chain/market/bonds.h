// What the parties of a task answer with. It depends on the price cap and not on the winning bid, so that a low bid
// buys neither less checking nor cheaper cheating. Used by execution, RPC's estimate and workers. Pure; thread-safe.
#pragma once

#include <optional>

#include "chain/market/escrow.h"
#include "chain/params/params.h"

namespace quern::chain::market {

// A solver's lock and a verifier's: for a reward of a stretch, for m fees of a stretch, at the cap. What a solver's
// leaves beside the burn and the submitter's part pays the game that it loses and all its verifiers' fees, so that none
// of them has less for a FAIL than for a PASS. nullopt: above 2^256.
[[nodiscard]] std::optional<Uint256> solver_bond(const params::MarketParams& market, const Uint256& reward,
                                                 std::uint32_t verifiers, const Uint256& fee);
[[nodiscard]] std::optional<Uint256> verifier_bond(const params::MarketParams& market, const Uint256& fee);
// Of a task that was accepted; a solver's of one claim, and of all that it may have at once in a new round.
[[nodiscard]] Uint256 solver_bond(const params::MarketParams& market, const types::Task& task);
[[nodiscard]] Uint256 seat_bond(const params::MarketParams& market, const types::Task& task);
[[nodiscard]] Uint256 verifier_bond(const params::MarketParams& market, const types::Task& task);
// What a profiler locks of its bond as a verifier.
[[nodiscard]] Uint256 profiler_bond(const params::MarketParams& market, const types::Task& task);
// What a bid locks of seat_bond.
[[nodiscard]] Uint256 bid_deposit(const params::MarketParams& market, const types::Task& task);

[[nodiscard]] Uint256 min_bond(const params::MarketParams& market);  // of a role, or nothing
// Of a commitment to a challenge of the task's claims, whatever its target: a share of the larger one of the locks that
// it may be against. A reveal that opens the n-th dispute of a round raises it to n times as much.
[[nodiscard]] Uint256 challenge_stake(const params::MarketParams& market, const types::Task& task);
// Whether tables of draws are kept of the role's bonds.
[[nodiscard]] constexpr bool is_drawn(types::Role role) {
    return role == types::Role::verifier || role == types::Role::custodian;
}
// What the owner may use or take back.
[[nodiscard]] inline Uint256 free_part(const types::RoleBond& bond) {
    return checked_sub(bond.bonded, bond.locked).value_or(Uint256());
}
// Of all bonds that a node of a table of draws stands for.
[[nodiscard]] Uint256 weight_of(const types::DrawVersion& version);
// All that can answer for something, what is leaving included.
[[nodiscard]] Uint256 whole_bond(const types::RoleBond& bond);

}  // namespace quern::chain::market
