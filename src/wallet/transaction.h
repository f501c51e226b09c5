// Transactions as a wallet makes them: payments, native kinds (as type 0x51 or as a call to the reserved address), and
// whatever a JSON object describes; checked as the chain will check them, then signed. Asks nothing of a node: nonce
// and fees are given. Used by quern-wallet. Pure functions; thread-safe.
#pragma once

#include <string>

#include "base/json.h"
#include "chain/types/native_kinds.h"
#include "chain/types/transaction.h"
#include "crypto/signature.h"

namespace quern::wallet {

inline constexpr std::uint64_t kTransferGas = 21'000;
inline constexpr std::uint64_t kNativeGas = 3'000'000;  // what is not used is given back

struct TxFields {
    std::uint64_t chain_id = 0;
    std::uint64_t nonce = 0;
    std::uint64_t gas = 0;           // 0: kTransferGas or kNativeGas
    std::string max_fee = "10gwei";  // most that is paid per gas
    std::string tip = "1gwei";
};

// A payment of type 0, 1 or 2. Errors: wallet.bad_type, address.*, amount.*, uint256.*; each names the option.
[[nodiscard]] Expected<chain::types::Transaction> make_transfer(const TxFields& fields, int type, const std::string& to,
                                                                const std::string& amount);
// `payload`: RLP of the kind's record. via_abi: a type-2 call that any Ethereum wallet could have made. Errors:
// amount.*, uint256.*, abi.*.
[[nodiscard]] Expected<chain::types::Transaction> make_native(const TxFields& fields, chain::types::NativeKind kind,
                                                              Bytes payload, bool via_abi);

// Errors: wallet.unknown_kind.
[[nodiscard]] Expected<chain::types::NativeKind> kind_named(std::string_view name);
// RLP of a kind's record from its fields as JSON; unknown fields are refused. Errors: json.*, hex.*, bytes.*,
// uint256.*.
[[nodiscard]] Expected<Bytes> payload_from_json(chain::types::NativeKind kind, const json::Value& json);
// The object that JSON-RPC shows and libraries build; a native one has type "0x51", kind and payload. `chain_id` when
// it has none. Errors: as above, json.unknown_field, wallet.bad_type.
[[nodiscard]] Expected<chain::types::Transaction> transaction_from_json(const json::Value& object,
                                                                        std::uint64_t chain_id);

// Checked and signed. Errors: tx.* of check_form() and check_gas_limit().
[[nodiscard]] Expected<chain::types::RecoveredTransaction> sign(chain::types::Transaction tx,
                                                                const crypto::PrivateKey& key);
// {"raw", "hash", "from", "nonce", "gas", "maxFee"}.
[[nodiscard]] json::Value describe(const chain::types::RecoveredTransaction& signed_transaction);

}  // namespace quern::wallet
