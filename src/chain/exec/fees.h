// Which transactions pay the base fee of EIP-1559. Used by the executor and the validator. Pure.
#pragma once

#include <cstdint>

#include "base/uint256.h"
#include "chain/params/params.h"
#include "chain/types/transaction.h"

namespace quern::chain::exec {

// Evidence may offer no fee at all: a validator without free money must be able to report what it saw, and there are
// at most as many convictions as validators. Such a transaction is in a block only when it convicts.
[[nodiscard]] inline bool travels_free(const types::Transaction& tx) {
    return tx.type == types::TxType::native &&
           tx.native_kind == static_cast<std::uint8_t>(types::NativeKind::evidence) && tx.max_fee_per_gas.is_zero();
}
[[nodiscard]] inline bool pays_base_fee(const types::Transaction& tx, const Uint256& base_fee) {
    return tx.max_fee_per_gas >= base_fee || travels_free(tx);
}

}  // namespace quern::chain::exec
