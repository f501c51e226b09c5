// A small state with funded accounts, and signed transactions from them, for the mempool's tests.
#pragma once

#include <gtest/gtest.h>

#include "chain/mempool/pool.h"
#include "chain/types/abi.h"

namespace quern::chain::mempool {

class EmptyState final : public state::StateReader {
public:
    std::optional<state::Account> account(const types::Address&) const override { return std::nullopt; }
    Bytes code(const Hash32&) const override { return {}; }
    Hash32 storage(const types::Address&, const Hash32&) const override { return {}; }
    std::optional<Bytes> native(BytesView) const override { return std::nullopt; }
    std::vector<std::pair<Bytes, Bytes>> native_range(BytesView, BytesView, std::size_t) const override { return {}; }
};

inline constexpr std::uint64_t kGwei = 1'000'000'000;

inline crypto::PrivateKey test_key(std::uint8_t seed) {
    Hash32 secret;
    secret.data[31] = seed;
    return std::move(*crypto::PrivateKey::from_bytes(secret));
}
inline types::Address test_address(std::uint8_t seed) { return crypto::address20(test_key(seed)); }

class PoolFixture : public ::testing::Test {
protected:
    PoolFixture() {
        params_.check_invariants = false;
        for (std::uint8_t seed = 1; seed <= 20; ++seed) fund(seed, Uint256(100) * params::kGrainsPerQrn);
    }
    void fund(std::uint8_t seed, const Uint256& balance, std::uint64_t nonce = 0) {
        auto account = state::empty_account();
        account.balance = balance;
        account.nonce = nonce;
        state_.set_account(test_address(seed), account);
    }
    types::Transaction transfer(std::uint64_t nonce, std::uint64_t tip_gwei, std::uint64_t cap_gwei = 100) const {
        types::Transaction tx;
        tx.type = types::TxType::dynamic_fee;
        tx.chain_id = params_.chain_id;
        tx.nonce = nonce;
        tx.max_priority_fee_per_gas = Uint256(tip_gwei) * kGwei;
        tx.max_fee_per_gas = Uint256(cap_gwei) * kGwei;
        tx.gas_limit = 21'000;
        tx.to = test_address(99);
        tx.value = 1;
        return tx;
    }
    static types::RecoveredTransaction signed_by(std::uint8_t seed, types::Transaction tx) {
        types::sign(tx, test_key(seed));
        return *types::recover(types::encode(tx));
    }
    // The name of the error, or "ok".
    std::string add(Pool& pool, std::uint8_t seed, const types::Transaction& tx) {
        const auto added = pool.add(signed_by(seed, tx), state_, height_);
        return added ? "ok" : std::string(added.error().name);
    }
    params::ChainParams params_;
    EmptyState empty_;
    state::Overlay state_{empty_};
    std::uint64_t height_ = 0;
};

}  // namespace quern::chain::mempool
