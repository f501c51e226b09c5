// Blocks, transactions, receipts and logs in the shapes of the execution-apis, as wallets and libraries decode them.
// A native transaction (type 0x51) is shown as a type-2 call to its group's reserved address with the ABI input; its
// own fields are under the extra key "quern". Pure; thread-safe.
#pragma once

#include "base/json.h"
#include "chain/api/chain_reader.h"

namespace quern::rpc::methods {

// `block_timestamp`: seconds, of its block; not used while the transaction waits.
[[nodiscard]] json::Value transaction_json(const chain::api::TransactionView& view, std::uint64_t block_timestamp);
// The same as it is: type 0x51, kind, payload by field names. Ethereum's types as transaction_json.
[[nodiscard]] json::Value native_transaction_json(const chain::api::TransactionView& view,
                                                  std::uint64_t block_timestamp);
// Of the block that holds the transaction; 0 when there is none.
[[nodiscard]] std::uint64_t block_timestamp_of(const chain::api::ChainReader& chain,
                                               const chain::api::TransactionView& view);
// The payload of a native transaction by field names; its raw bytes when it does not decode.
[[nodiscard]] json::Value payload_json(std::uint8_t kind, BytesView payload);

// The header alone, in the shape of geth's newHeads.
[[nodiscard]] json::Value header_json(const chain::api::BlockView& view);
// `full`: whole transactions, else their hashes.
[[nodiscard]] json::Value block_json(const chain::api::BlockView& view, bool full);
// Transaction `index` of a block; a transaction that does not decode cannot be in a block, so an error is a broken
// store.
[[nodiscard]] Expected<chain::api::TransactionView> transaction_in(const chain::api::BlockView& view,
                                                                   std::uint64_t index);

struct LogPlace {
    Hash32 block_hash;
    std::uint64_t block_number = 0;
    std::uint64_t block_timestamp = 0;
    Hash32 transaction_hash;
    std::uint64_t transaction_index = 0;
    std::uint64_t log_index = 0;
};
[[nodiscard]] json::Value log_json(const chain::types::Log& log, const LogPlace& place);
[[nodiscard]] json::Value receipt_json(const chain::api::ReceiptView& view, std::uint64_t block_timestamp);

}  // namespace quern::rpc::methods
