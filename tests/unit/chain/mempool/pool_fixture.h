// A small state with funded accounts, and signed transactions from them, for the mempool's tests.
#pragma once

#include <gtest/gtest.h>

#include "chain/mempool/selection.h"
#include "chain/types/abi.h"
#include "crypto/hash.h"

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
    // As if it had been signed by somebody whose address is that number; for tests that need many.
    static types::RecoveredTransaction as_of(std::uint32_t number, types::Transaction tx) {
        tx.r = 1;
        tx.s = number + 1;
        types::RecoveredTransaction made{tx, types::encode(tx), {}, number_address(number)};
        made.hash = types::transaction_hash(made.encoded);
        return made;
    }
    static types::Address number_address(std::uint32_t number) {
        return types::Address::copy_of(
            crypto::keccak256(as_bytes("account " + std::to_string(number))).view().first(20));
    }
    void fund_number(std::uint32_t number, const Uint256& balance, std::uint64_t nonce = 0) {
        auto account = state::empty_account();
        account.balance = balance;
        account.nonce = nonce;
        state_.set_account(number_address(number), account);
    }
    // The name of the refusal, or "ok".
    std::string add(Pool& pool, std::uint8_t seed, const types::Transaction& tx, const Source& source = {}) {
        return add(pool, signed_by(seed, tx), source);
    }
    std::string add(Pool& pool, types::RecoveredTransaction transaction, const Source& source = {}) {
        const auto admitted = pool.add(std::move(transaction), state_, height_, source);
        EXPECT_EQ(admitted.pooled != nullptr, admitted.result.band == exec::Band::ok);
        const auto whole = pool.check();
        EXPECT_TRUE(whole) << whole.error().to_string();
        return std::string(admitted.result.name);
    }
    // A block after which the state is as it is now; the senders of its transactions are these.
    void block(Pool& pool, const std::vector<types::Address>& senders, std::uint64_t height) {
        std::vector<AccountAfter> after;
        for (const auto& sender : senders) {
            const auto account = state_.account_or_empty(sender);
            after.push_back({sender, {account.nonce, account.balance}});
        }
        pool.on_block(after, state_, height);
        height_ = height;
        const auto whole = pool.check();
        EXPECT_TRUE(whole) << whole.error().to_string();
    }
    // What a block could take, in its order.
    static std::vector<PooledPtr> executable(const Pool& pool, const Uint256& base_fee = 1) {
        return Selection(pool, base_fee).pull(1'000'000);
    }
    static Source source(std::uint8_t number) {
        Source made;
        made.data[0] = number;
        return made;
    }
    params::ChainParams params_;
    EmptyState empty_;
    state::Overlay state_{empty_};
    std::uint64_t height_ = 0;
};

}  // namespace quern::chain::mempool
