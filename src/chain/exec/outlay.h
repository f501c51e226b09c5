// What a native transaction takes from its sender's balance besides gas: stakes, bonds, escrows. The mempool counts it
// as it counts a transfer's value, or one account's money would hold the places of transactions that nobody can ever
// execute. Pure; thread-safe.
#pragma once

#include "chain/params/params.h"
#include "chain/types/transaction.h"

namespace quern::chain::exec {

// Native or as a call to a reserved address; 0 for all others, and for what execution refuses for its form.
[[nodiscard]] Uint256 outlay_of(const params::ChainParams& params, const types::Transaction& tx);

}  // namespace quern::chain::exec
