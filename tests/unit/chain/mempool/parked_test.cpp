// What waits behind a gap or for money: a small quota, which expires and which nobody can use to keep others out.
#include "pool_fixture.h"

namespace quern::chain::mempool {
namespace {

class ParkedTest : public PoolFixture {
protected:
    ParkedTest() {
        for (std::uint32_t number = 0; number < 100; ++number)
            fund_number(number, Uint256(1'000'000) * params::kGrainsPerQrn);
    }
    // Without the test's own checks, which read the whole pool.
    std::string_view put(Pool& pool, std::uint32_t number, const types::Transaction& tx, const Source& from = {}) {
        return pool.add(as_of(number, tx), state_, height_, from).result.name;
    }
};

TEST_F(ParkedTest, gapped_transactions_of_79_accounts_do_not_displace_honest_transfers) {
    PoolLimits limits;
    limits.max_transactions = 20'000;
    Pool pool(params_, limits);
    // At a fee that nobody will ever take from them.
    for (std::uint32_t number = 0; number < 79; ++number)
        for (std::uint64_t nonce = 1; nonce <= 256; ++nonce) (void)put(pool, number, transfer(nonce, 900, 900));
    EXPECT_LE(pool.parked(), limits.max_parked_per_source);
    EXPECT_EQ(pool.status().executable, 0U);
    for (std::uint8_t seed = 1; seed <= 20; ++seed)
        for (std::uint64_t nonce = 0; nonce < 3; ++nonce) EXPECT_EQ(add(pool, seed, transfer(nonce, 1)), "ok");
    EXPECT_EQ(pool.status().executable, 60U);
    EXPECT_EQ(executable(pool).size(), 60U);
}

TEST_F(ParkedTest, what_can_be_executed_takes_the_place_of_what_cannot) {
    PoolLimits limits;
    limits.max_transactions = 10;
    Pool pool(params_, limits);
    for (std::uint32_t number = 0; number < 9; ++number) EXPECT_EQ(put(pool, number, transfer(1, 90)), "ok");
    EXPECT_EQ(put(pool, 50, transfer(0, 50)), "ok");
    EXPECT_EQ(put(pool, 9, transfer(1, 1, 50)), "txpool is full");  // not dearer than any of its kind
    for (std::uint8_t seed = 1; seed <= 9; ++seed) EXPECT_EQ(add(pool, seed, transfer(0, 1, 5)), "ok");
    EXPECT_EQ(pool.parked(), 0U);
    EXPECT_EQ(add(pool, 10, transfer(0, 1, 4)), "txpool is full");
    EXPECT_EQ(put(pool, 9, transfer(1, 900, 900)), "txpool is full") << "parked ones never push out ready ones";
    EXPECT_EQ(pool.status().executable, 10U);
}

TEST_F(ParkedTest, has_a_limit_for_each_sender_for_each_source_and_in_all) {
    PoolLimits limits;
    limits.max_parked = 12;
    limits.max_parked_per_sender = 4;
    limits.max_parked_per_source = 8;
    Pool pool(params_, limits);
    for (std::uint64_t nonce = 1; nonce <= 4; ++nonce)
        EXPECT_EQ(add(pool, as_of(0, transfer(nonce, 5)), source(1)), "ok");
    EXPECT_EQ(add(pool, as_of(0, transfer(5, 5)), source(2)), "account limit exceeded");
    for (std::uint32_t number = 1; number <= 4; ++number)
        EXPECT_EQ(add(pool, as_of(number, transfer(1, 5)), source(1)), "ok");
    EXPECT_EQ(add(pool, as_of(5, transfer(1, 5)), source(1)), "txpool is full");
    EXPECT_EQ(add(pool, as_of(5, transfer(1, 6)), source(1)), "ok");  // dearer than another of its source
    EXPECT_EQ(pool.parked(), 8U);
    for (std::uint32_t number = 10; number < 16; ++number)
        EXPECT_EQ(add(pool, as_of(number, transfer(1, 1)), source(2)), "ok") << number;
    EXPECT_EQ(pool.parked(), 12U) << "the source that had most gave way, however little the others offer";
    EXPECT_EQ(add(pool, as_of(16, transfer(1, 1)), source(2)), "txpool is full");
    EXPECT_EQ(add(pool, as_of(17, transfer(1, 1)), source(3)), "ok");
}

TEST_F(ParkedTest, is_bounded_by_its_bytes_too) {
    PoolLimits limits;
    auto large = transfer(1, 5);
    large.data = Bytes(3'000, 1);
    large.gas_limit = 200'000;
    limits.max_parked_bytes = footprint(as_of(1, large)) * 5 / 2;  // two, not three
    Pool pool(params_, limits);
    EXPECT_EQ(add(pool, as_of(1, large)), "ok");
    EXPECT_EQ(add(pool, as_of(2, large)), "ok");
    EXPECT_EQ(add(pool, as_of(3, large)), "txpool is full");
    large.data = Bytes(20'000, 1);
    large.gas_limit = 1'000'000;
    large.max_priority_fee_per_gas = Uint256(90) * kGwei;
    EXPECT_EQ(add(pool, as_of(4, large)), "txpool is full");
    EXPECT_EQ(pool.parked(), 2U);
}

TEST_F(ParkedTest, expires) {
    PoolLimits limits;
    limits.parked_blocks = 100;
    limits.waiting_blocks = 1'000;
    Pool pool(params_, limits);
    EXPECT_EQ(add(pool, 1, transfer(1, 1)), "ok");
    EXPECT_EQ(add(pool, 2, transfer(0, 1)), "ok");
    block(pool, {}, 100);
    EXPECT_EQ(pool.parked(), 1U);
    EXPECT_EQ(add(pool, 3, transfer(1, 1)), "ok");
    block(pool, {}, 150);
    EXPECT_EQ(pool.status().transactions, 2U) << "one is too old, the other one is younger";
    EXPECT_EQ(pool.parked(), 1U);
    block(pool, {}, 300);
    EXPECT_EQ(pool.parked(), 0U);
    EXPECT_EQ(pool.status().executable, 1U);
    block(pool, {}, 1'001);
    EXPECT_EQ(pool.status().transactions, 0U) << "what no block wanted leaves, too, in the end";
}

TEST_F(ParkedTest, money_that_goes_parks_and_money_that_comes_makes_ready) {
    Pool pool(params_);
    const Uint256 cost = Uint256(21'000) * 100 * kGwei + 1;
    fund(1, cost * 3);
    for (std::uint64_t nonce = 0; nonce < 3; ++nonce) EXPECT_EQ(add(pool, 1, transfer(nonce, 1)), "ok");
    EXPECT_EQ(pool.status().executable, 3U);
    fund(1, cost);
    block(pool, {test_address(1)}, 1);
    EXPECT_EQ(pool.status().executable, 1U);
    EXPECT_EQ(pool.parked(), 2U);
    EXPECT_EQ(executable(pool).size(), 1U);
    fund(1, cost * 2);  // somebody paid it; it sent nothing itself
    for (std::uint64_t height = 2; height < 40; ++height) block(pool, {}, height);
    EXPECT_EQ(pool.status().executable, 2U);
    EXPECT_EQ(pool.parked(), 1U);
}

TEST_F(ParkedTest, a_sender_whose_parked_ones_a_block_made_stale_is_forgotten) {
    Pool pool(params_);
    EXPECT_EQ(add(pool, 1, transfer(1, 1)), "ok");
    fund(1, Uint256(100) * params::kGrainsPerQrn, 5);
    block(pool, {test_address(1)}, 1);
    EXPECT_EQ(pool.status().senders, 0U);
}

TEST_F(ParkedTest, stays_within_its_quota_when_many_lose_their_money_at_once) {
    PoolLimits limits;
    limits.max_parked = 10;
    Pool pool(params_, limits);
    std::vector<types::Address> senders;
    for (std::uint32_t number = 0; number < 30; ++number) {
        EXPECT_EQ(add(pool, as_of(number, transfer(0, 1 + number))), "ok");
        fund_number(number, 0);
        senders.push_back(number_address(number));
    }
    block(pool, senders, 1);
    EXPECT_EQ(pool.status().executable, 0U);
    EXPECT_EQ(pool.parked(), 10U);
}

TEST_F(ParkedTest, a_replacement_behind_a_gap_takes_no_second_place) {
    PoolLimits limits;
    limits.max_parked = 2;
    Pool pool(params_, limits);
    EXPECT_EQ(add(pool, as_of(1, transfer(1, 5))), "ok");
    EXPECT_EQ(add(pool, as_of(2, transfer(1, 5))), "ok");
    EXPECT_EQ(add(pool, as_of(1, transfer(1, 6, 200))), "ok");
    EXPECT_EQ(pool.parked(), 2U);
    EXPECT_EQ(add(pool, as_of(1, transfer(0, 1))), "ok");
    EXPECT_EQ(pool.parked(), 1U);
    EXPECT_EQ(pool.status().executable, 2U);
}

}  // namespace
}  // namespace quern::chain::mempool
