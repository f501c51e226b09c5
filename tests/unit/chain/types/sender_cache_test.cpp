#include "chain/types/sender_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/rng.h"

namespace quern::chain::types {
namespace {

struct Signed {
    Bytes encoded;
    Address sender;
};

Signed signed_transfer(std::uint64_t nonce) {
    SeededRng rng(nonce + 1);
    const auto key = crypto::PrivateKey::generate(rng);
    Transaction tx;
    tx.type = TxType::dynamic_fee;
    tx.chain_id = 7878;
    tx.nonce = nonce;
    tx.max_fee_per_gas = 10;
    tx.gas_limit = 21'000;
    tx.to = Address{};
    sign(tx, key);
    return {encode(tx), crypto::address20(key)};
}

TEST(SenderCache, gives_what_recovery_gives_and_recovers_once) {
    SenderCache cache;
    const auto transfer = signed_transfer(1);
    const auto direct = recover(transfer.encoded);
    ASSERT_TRUE(direct);
    for (int i = 0; i < 3; ++i) {
        const auto cached = cache.recover(transfer.encoded);
        ASSERT_TRUE(cached);
        EXPECT_EQ(cached->tx, direct->tx);
        EXPECT_EQ(cached->encoded, direct->encoded);
        EXPECT_EQ(cached->hash, direct->hash);
        EXPECT_EQ(cached->sender, transfer.sender);
        EXPECT_EQ(cache.hits(), static_cast<std::uint64_t>(i));
    }
}

TEST(SenderCache, does_not_remember_what_is_refused) {
    SenderCache cache;
    Bytes broken = signed_transfer(2).encoded;
    broken.pop_back();
    for (int i = 0; i < 2; ++i) {
        const auto refused = cache.recover(broken);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().name, recover(broken).error().name);
    }
    EXPECT_EQ(cache.hits(), 0U);
}

TEST(SenderCache, a_full_table_forgets_and_stays_right) {
    SenderCache cache(64);
    std::vector<Signed> transfers;
    for (std::uint64_t i = 0; i < 300; ++i) transfers.push_back(signed_transfer(i));
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int round = 0; round < 3; ++round)
                for (const auto& transfer : transfers) {
                    const auto recovered = cache.recover(transfer.encoded);
                    if (!recovered || recovered->sender != transfer.sender) ++wrong;
                }
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace quern::chain::types
