// What the execution tests share: an empty state, keys, signed transactions, and a chain of blocks on one overlay.
#pragma once

#include <gtest/gtest.h>

#include "chain/exec/block_executor.h"
#include "chain/types/abi.h"
#include "crypto/hash.h"

namespace quern::chain::exec::test {

class EmptyState final : public state::StateReader {
public:
    std::optional<state::Account> account(const types::Address&) const override { return std::nullopt; }
    Bytes code(const Hash32&) const override { return {}; }
    Hash32 storage(const types::Address&, const Hash32&) const override { return {}; }
    std::optional<Bytes> native(BytesView) const override { return std::nullopt; }
    std::vector<std::pair<Bytes, Bytes>> native_range(BytesView, BytesView, std::size_t) const override { return {}; }
};

inline types::Address address(std::uint64_t number) {
    types::Address result;
    for (std::size_t i = 0; i < 8; ++i) result.data[19 - i] = static_cast<std::uint8_t>(number >> (8 * i));
    result.data[0] = 0xaa;
    return result;
}

inline void give(state::Overlay& overlay, const types::Address& to, const Uint256& amount) {
    auto account = overlay.account_or_empty(to);
    account.balance += amount;
    overlay.set_account(to, account);
    types::Globals globals;
    const Bytes key = types::object_key(types::ObjectPrefix::globals);
    if (const auto stored = overlay.native(key)) globals = *types::decode_record<types::Globals>(*stored);
    globals.minted += amount;
    overlay.store(key, globals);
}

inline Uint256 balance(const state::StateReader& state, const types::Address& of) {
    const auto account = state.account(of);
    return account ? account->balance : Uint256();
}

// A transaction as it comes out of signature recovery; execution itself never looks at signatures.
inline types::RecoveredTransaction from(const types::Address& sender, types::Transaction tx) {
    types::RecoveredTransaction recovered;
    recovered.tx = std::move(tx);
    recovered.sender = sender;
    return recovered;
}

inline types::Transaction transfer(std::uint64_t nonce, const types::Address& to, const Uint256& value) {
    types::Transaction tx;
    tx.type = types::TxType::dynamic_fee;
    tx.chain_id = params::kDevnetChainId;
    tx.nonce = nonce;
    tx.max_priority_fee_per_gas = 2;
    tx.max_fee_per_gas = 100;
    tx.gas_limit = 21'000;
    tx.to = to;
    tx.value = value;
    return tx;
}

inline types::Transaction native(std::uint64_t nonce, types::NativeKind kind, Bytes payload) {
    types::Transaction tx;
    tx.type = types::TxType::native;
    tx.chain_id = params::kDevnetChainId;
    tx.nonce = nonce;
    tx.max_priority_fee_per_gas = 2;
    tx.max_fee_per_gas = 100;
    tx.gas_limit = 6'000'000;
    tx.native_kind = static_cast<std::uint8_t>(kind);
    tx.data = std::move(payload);
    return tx;
}

template <types::Record T>
types::Transaction native(std::uint64_t nonce, types::NativeKind kind, const T& payload) {
    return native(nonce, kind, types::encode_record(payload));
}

inline BlockContext block_context(std::uint64_t number) {
    BlockContext context;
    context.number = number;
    context.timestamp_ms = 1000 * number;
    context.beneficiary = address(0xbeef);
    context.gas_limit = 30'000'000;
    context.base_fee = 10;
    context.beacon = crypto::sha256(as_bytes("beacon " + std::to_string(number)));
    return context;
}

}  // namespace quern::chain::exec::test
