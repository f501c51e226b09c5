// What custodians of a claim keep, and what they are paid for it. Used by execution, RPC's estimate, wallets and
// workers. Pure functions; thread-safe. Rules: doc/market.md, "Custodians".
#pragma once

#include "base/expected.h"
#include "chain/market/windows.h"
#include "chain/params/params.h"

namespace quern::chain::market {

// k of c: so many fragments give a content.
[[nodiscard]] constexpr unsigned custody_data(std::uint64_t custodians) {
    return static_cast<unsigned>(custodians / 3);
}
// Receipts without which a claim of so many drawn custodians does not leave custody, and the fewest that a draw may give
// of c: two thirds, rounded up.
[[nodiscard]] constexpr std::size_t custody_quorum(std::size_t custodians) { return (2 * custodians + 2) / 3; }

}  // namespace quern::chain::market
