// What custodians of a claim keep, and what they are paid for it. Used by execution, RPC's estimate, wallets and
// workers. Pure functions; thread-safe. Rules: doc/market.md, "Custodians".
#pragma once

#include "base/expected.h"
#include "chain/market/work.h"

namespace quern::chain::market {

// k of c: so many fragments give a content.
[[nodiscard]] constexpr unsigned custody_data(std::uint64_t custodians) {
    return static_cast<unsigned>(custodians / 3);
}
// Receipts without which a claim of so many drawn custodians does not leave custody, and the fewest that a draw may
// give of c: two thirds, rounded up.
[[nodiscard]] constexpr std::size_t custody_quorum(std::size_t custodians) { return (2 * custodians + 2) / 3; }

// How many custodians have said so.
[[nodiscard]] std::size_t receipts_of(const types::Custody& custody, std::uint8_t receipt);
// The place of `address` among the custodians; nullopt: it is none of them.
[[nodiscard]] std::optional<std::size_t> place_of(const types::Custody& custody, const types::Address& address);
// Whether so many say that they lack what they were drawn for that there can be no quorum.
[[nodiscard]] bool is_denied(const types::Custody& custody);
// Whether a quorum has what it was drawn for.
[[nodiscard]] bool is_kept(const types::Custody& custody);

// What each of c custodians keeps of a stretch of T steps, as it is counted: a k-th of three states and of the history.
// 0 without custodians.
[[nodiscard]] Uint256 fragment_bytes(std::uint64_t custodians, std::uint64_t state_bytes, const PlannedWork& plan);
// Its fee for that; the same for a shorter last stretch. Error: task.price_overflow.
[[nodiscard]] Expected<Uint256> custody_fee(const params::MarketParams& market, const PlannedWork& plan);

}  // namespace quern::chain::market
