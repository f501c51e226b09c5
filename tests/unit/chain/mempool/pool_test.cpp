#include "pool_fixture.h"

namespace quern::chain::mempool {
namespace {

class PoolTest : public PoolFixture {};

TEST_F(PoolTest, queues_by_nonce_and_holds_back_what_comes_after_a_gap) {
    Pool pool(params_);
    EXPECT_EQ(add(pool, 1, transfer(0, 1)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(2, 1)), "ok");
    EXPECT_EQ(pool.next_nonce(test_address(1), 0), 1U);
    EXPECT_EQ(pool.status().executable, 1U);
    EXPECT_EQ(add(pool, 1, transfer(1, 1)), "ok");
    EXPECT_EQ(pool.next_nonce(test_address(1), 0), 3U);
    ASSERT_EQ(pool.executable().size(), 1U);
    EXPECT_EQ(pool.executable()[0].size(), 3U);
    EXPECT_EQ(pool.executable()[0][2]->transaction.tx.nonce, 2U);
    EXPECT_EQ(pool.next_nonce(test_address(2), 7), 7U);
}

TEST_F(PoolTest, refuses_with_the_messages_that_wallets_match_on) {
    Pool pool(params_);
    EXPECT_EQ(add(pool, 1, transfer(0, 1)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(0, 1)), "already known");
    fund(2, params::kGrainsPerQrn, 5);
    EXPECT_EQ(add(pool, 2, transfer(4, 1)), "nonce too low");
    EXPECT_EQ(add(pool, 2, transfer(5 + 257, 1)), "nonce too high");
    fund(3, 1000);
    EXPECT_TRUE(add(pool, 3, transfer(0, 1)).starts_with("insufficient funds"));
    auto little_gas = transfer(0, 1);
    little_gas.gas_limit = 20'999;
    EXPECT_EQ(add(pool, 4, little_gas), "intrinsic gas too low");
    auto much_gas = transfer(0, 1);
    much_gas.gas_limit = params_.block_gas_limit + 1;
    EXPECT_EQ(add(pool, 4, much_gas), "exceeds block gas limit");
    auto other_chain = transfer(0, 1);
    other_chain.chain_id = 1;
    EXPECT_EQ(add(pool, 4, other_chain), "invalid chain id for signer");
}

TEST_F(PoolTest, counts_all_waiting_transactions_against_the_balance) {
    Pool pool(params_);
    fund(1, Uint256(21'000) * 100 * kGwei * 2 + 2);
    EXPECT_EQ(add(pool, 1, transfer(0, 1)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(1, 1)), "ok");
    EXPECT_TRUE(add(pool, 1, transfer(2, 1)).starts_with("insufficient funds"));
}

TEST_F(PoolTest, replacement_needs_ten_percent_more_in_both_fees) {
    Pool pool(params_);
    EXPECT_EQ(add(pool, 1, transfer(0, 10, 100)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(0, 20, 109)), "replacement transaction underpriced");
    EXPECT_EQ(add(pool, 1, transfer(0, 10, 200)), "replacement transaction underpriced");
    EXPECT_EQ(add(pool, 1, transfer(0, 11, 110)), "ok");
    EXPECT_EQ(pool.status().transactions, 1U);
    EXPECT_EQ(pool.executable()[0][0]->transaction.tx.max_fee_per_gas, Uint256(110) * kGwei);
    // With free transactions ten percent of nothing would be nothing.
    EXPECT_EQ(add(pool, 2, transfer(0, 0, 100)), "ok");
    EXPECT_EQ(add(pool, 2, transfer(0, 0, 200)), "replacement transaction underpriced");
}

TEST_F(PoolTest, limits_a_sender) {
    PoolLimits limits;
    limits.max_per_sender = 2;
    Pool pool(params_, limits);
    EXPECT_EQ(add(pool, 1, transfer(0, 1)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(1, 1)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(2, 1)), "account limit exceeded");
    EXPECT_EQ(add(pool, 1, transfer(1, 2, 200)), "ok");
}

TEST_F(PoolTest, makes_room_by_dropping_the_cheapest_tail) {
    PoolLimits limits;
    limits.max_transactions = 3;
    Pool pool(params_, limits);
    EXPECT_EQ(add(pool, 1, transfer(0, 1, 10)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(1, 1, 50)), "ok");
    EXPECT_EQ(add(pool, 2, transfer(0, 1, 30)), "ok");
    EXPECT_EQ(add(pool, 3, transfer(0, 1, 30)), "txpool is full");
    EXPECT_EQ(add(pool, 3, transfer(0, 1, 31)), "ok");  // pushes out sender 2
    EXPECT_EQ(pool.next_nonce(test_address(2), 0), 0U);
    EXPECT_EQ(add(pool, 4, transfer(0, 1, 60)), "ok");  // pushes out sender 3; sender 1's cheap head is no tail
    EXPECT_EQ(pool.next_nonce(test_address(1), 0), 2U);
    EXPECT_EQ(add(pool, 5, transfer(0, 1, 70)), "ok");
    EXPECT_EQ(pool.next_nonce(test_address(1), 0), 1U);
    EXPECT_EQ(pool.status().transactions, 3U);
}

TEST_F(PoolTest, bounds_its_bytes) {
    PoolLimits limits;
    limits.max_bytes = 500;
    Pool pool(params_, limits);
    std::uint8_t seed = 1;
    while (add(pool, seed, transfer(0, 1)) == "ok") ++seed;
    EXPECT_GT(seed, 2U);
    EXPECT_LT(seed, 6U);
    EXPECT_LE(pool.status().bytes, 500U);
    // A replacement that grows does not break the limit, and what it would have replaced stays.
    auto big = transfer(0, 2, 200);
    big.data = Bytes(400, 1);
    big.gas_limit = 60'000;
    EXPECT_EQ(add(pool, 1, big), "txpool is full");
    EXPECT_EQ(pool.next_nonce(test_address(1), 0), 1U);
}

TEST_F(PoolTest, a_block_removes_what_it_holds_and_what_became_stale) {
    Pool pool(params_);
    const auto first = signed_by(1, transfer(0, 1));
    ASSERT_TRUE(pool.add(first, state_, 0));
    EXPECT_EQ(add(pool, 1, transfer(1, 1)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(2, 1)), "ok");
    // Another transaction with nonce 1 came into the block.
    fund(1, Uint256(100) * params::kGrainsPerQrn, 2);
    pool.on_block({first}, state_, 1);
    EXPECT_EQ(pool.status().transactions, 1U);
    EXPECT_EQ(pool.find(first.hash), nullptr);
    EXPECT_EQ(pool.next_nonce(test_address(1), 2), 3U);
    EXPECT_TRUE(pool.has_executable(1));
}

TEST_F(PoolTest, refuses_an_outdated_state_so_that_no_used_nonce_gets_in) {
    Pool pool(params_);
    pool.on_block({}, state_, 7);
    EXPECT_EQ(add(pool, 1, transfer(0, 1)), "mempool.stale_state");
    height_ = 7;
    EXPECT_EQ(add(pool, 1, transfer(0, 1)), "ok");
    height_ = 8;  // a snapshot may be published before the pool hears of its block
    EXPECT_EQ(add(pool, 1, transfer(1, 1)), "ok");
}

TEST_F(PoolTest, what_cannot_pay_the_base_fee_does_not_call_for_a_block) {
    Pool pool(params_);
    EXPECT_EQ(add(pool, 1, transfer(0, 1, 10)), "ok");
    EXPECT_TRUE(pool.has_executable(Uint256(10) * kGwei));
    EXPECT_FALSE(pool.has_executable(Uint256(11) * kGwei));
}

TEST_F(PoolTest, dropping_one_holds_back_the_later_ones) {
    Pool pool(params_);
    const auto first = signed_by(1, transfer(0, 1));
    ASSERT_TRUE(pool.add(first, state_, 0));
    EXPECT_EQ(add(pool, 1, transfer(1, 1)), "ok");
    pool.drop({first.hash, Hash32{}});
    EXPECT_FALSE(pool.has_executable(1));
    EXPECT_EQ(pool.status().transactions, 1U);
    EXPECT_EQ(pool.next_nonce(test_address(1), 0), 0U);
    EXPECT_TRUE(pool.add(first, state_, 0));
    EXPECT_EQ(pool.next_nonce(test_address(1), 0), 2U);
}

}  // namespace
}  // namespace quern::chain::mempool
