// Transactions: Ethereum's types 0 (legacy, EIP-155 and unprotected), 1 (EIP-2930), 2 (EIP-1559), 4 (EIP-7702) and
// Quern's native type 0x51, in EIP-2718 envelopes. Used by mempool, execution, RPC and wallets. Plain values.
//
//   native = 0x51 || rlp([chain_id, nonce, max_priority_fee_per_gas, max_fee_per_gas, gas_limit, kind, payload,
//                         y_parity, r, s])        payload = RLP string holding rlp of the kind's fields
//   signing hash of a native transaction = keccak256(0x51 || rlp([chain_id, ..., kind, payload]))
#pragma once

#include <optional>
#include <vector>

#include "base/uint256.h"
#include "chain/types/address.h"

namespace quern::chain::types {

enum class TxType : std::uint8_t { legacy = 0, access_list = 1, dynamic_fee = 2, set_code = 4, native = 0x51 };

inline constexpr std::size_t kMaxTransactionBytes = 256U << 10;

struct AccessListEntry {
    Address address;
    std::vector<Hash32> storage_keys;
    bool operator==(const AccessListEntry&) const = default;
};

struct Authorization {  // EIP-7702
    Uint256 chain_id;
    Address address;
    std::uint64_t nonce = 0;
    std::uint8_t y_parity = 0;
    Uint256 r, s;
    bool operator==(const Authorization&) const = default;
};

struct Transaction {
    TxType type = TxType::legacy;
    std::optional<std::uint64_t> chain_id;  // absent only in unprotected legacy transactions
    std::uint64_t nonce = 0;
    Uint256 max_priority_fee_per_gas;  // wei-like grains; types 0 and 1: both fee fields hold gasPrice
    Uint256 max_fee_per_gas;
    std::uint64_t gas_limit = 0;
    std::optional<Address> to;  // absent: contract creation (types 0, 1, 2)
    Uint256 value;
    Bytes data;  // native: the kind's payload (RLP)
    std::vector<AccessListEntry> access_list;
    std::vector<Authorization> authorization_list;
    std::uint8_t native_kind = 0;  // type native only
    std::uint8_t y_parity = 0;
    Uint256 r, s;

    bool operator==(const Transaction&) const = default;
};

// What signs: keccak256 of the unsigned form.
[[nodiscard]] Hash32 signing_hash(const Transaction& tx);
// The signed EIP-2718 envelope (legacy: plain RLP).
[[nodiscard]] Bytes encode(const Transaction& tx);
// Strict. Errors: tx.empty, tx.unknown_type, tx.blob_unsupported, tx.too_large, tx.bad_signature_values, tx.bad_v,
// tx.nonce_overflow, rlp.*, ...
[[nodiscard]] Expected<Transaction> decode_transaction(BytesView bytes);
[[nodiscard]] Hash32 transaction_hash(BytesView encoded);  // keccak256
// Low-S only (EIP-2). Error tx.invalid_signature.
[[nodiscard]] Expected<Address> recover_sender(const Transaction& tx);
// Sets y_parity, r, s.
void sign(Transaction& tx, const crypto::PrivateKey& key);

// A decoded transaction with what is derived from it once.
struct RecoveredTransaction {
    Transaction tx;
    Bytes encoded;
    Hash32 hash;
    Address sender;
};
[[nodiscard]] Expected<RecoveredTransaction> recover(BytesView encoded);

// Gas before execution: base, data (EIP-2028), access list (2930), creation (3860 word cost), authorizations (7702).
[[nodiscard]] std::uint64_t intrinsic_gas(const Transaction& tx);
// EIP-7623 floor: 21,000 + 10 per token of calldata.
[[nodiscard]] std::uint64_t floor_gas(const Transaction& tx);
// min(max_fee, base_fee + max_priority_fee); the caller checked max_fee >= base_fee.
[[nodiscard]] Uint256 effective_gas_price(const Transaction& tx, const Uint256& base_fee);

}  // namespace quern::chain::types
