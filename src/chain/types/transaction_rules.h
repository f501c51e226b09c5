// Rules that a transaction meets or breaks by itself, without any state: the first step of admission and of execution.
// Used by mempool, exec and RPC. Pure; thread-safe.
#pragma once

#include "chain/types/transaction.h"

namespace quern::chain::types {

inline constexpr std::size_t kMaxInitCodeBytes = 49'152;  // EIP-3860

// Gas schedule before execution (EIP-2028, 2930, 3860, 7702, 7623).
inline constexpr std::uint64_t kTxBaseGas = 21'000;
inline constexpr std::uint64_t kTxCreateGas = 32'000;
inline constexpr std::uint64_t kInitCodeWordGas = 2;
inline constexpr std::uint64_t kZeroByteGas = 4;
inline constexpr std::uint64_t kNonZeroByteGas = 16;
inline constexpr std::uint64_t kAccessListAddressGas = 2'400;
inline constexpr std::uint64_t kAccessListKeyGas = 1'900;
inline constexpr std::uint64_t kAuthorizationGas = 25'000;
inline constexpr std::uint64_t kFloorTokenGas = 10;

// Everything but gas: chain id (an unprotected legacy transaction is of every chain), fee fields, sizes, shape.
// Errors: tx.wrong_chain_id, tx.priority_fee_above_max_fee, tx.fee_overflow (gas limit times fee leaves 256
// bits; whether value and fee together do is for the check against the balance), tx.init_code_too_large,
// tx.missing_recipient, tx.empty_authorization_list.
[[nodiscard]] Status check_form(const Transaction& tx, std::uint64_t chain_id);
// Error tx.intrinsic_gas_too_low: the limit is below intrinsic_gas or floor_gas.
[[nodiscard]] Status check_gas_limit(const Transaction& tx);

}  // namespace quern::chain::types
