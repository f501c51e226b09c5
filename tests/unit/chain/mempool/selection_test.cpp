#include "chain/mempool/selection.h"

#include "base/rng.h"
#include "chain/exec/fees.h"
#include "pool_fixture.h"

namespace quern::chain::mempool {
namespace {

class SelectionTest : public PoolFixture {
protected:
    // The order by looking at every queue for every place.
    static std::vector<Hash32> slowly(std::vector<std::vector<PooledPtr>> queues, const Uint256& base_fee) {
        std::vector<Hash32> order;
        std::vector<std::size_t> next(queues.size(), 0);
        for (;;) {
            std::optional<std::size_t> best;
            const auto tip = [&](std::size_t i) {
                return types::effective_gas_price(queues[i][next[i]]->transaction.tx, base_fee) - base_fee;
            };
            for (std::size_t i = 0; i < queues.size(); ++i) {
                if (next[i] >= queues[i].size()) continue;
                if (!exec::pays_base_fee(queues[i][next[i]]->transaction.tx, base_fee)) continue;
                if (!best || tip(i) > tip(*best) ||
                    (tip(i) == tip(*best) && queues[i][next[i]]->arrival < queues[*best][next[*best]]->arrival))
                    best = i;
            }
            if (!best) return order;
            order.push_back(queues[*best][next[*best]++]->transaction.hash);
        }
    }
    static std::vector<Hash32> hashes(const std::vector<PooledPtr>& pooled) {
        std::vector<Hash32> result;
        for (const auto& each : pooled) result.push_back(each->transaction.hash);
        return result;
    }
};

TEST_F(SelectionTest, gives_the_order_of_a_search_through_everything) {
    constexpr std::uint32_t kSenders = 60;
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        SeededRng rng(seed);
        Pool pool(params_);
        std::vector<std::vector<PooledPtr>> queues(kSenders);
        for (std::uint32_t number = 0; number < kSenders; ++number) {
            fund_number(number, Uint256(1'000'000) * params::kGrainsPerQrn);
            const std::uint64_t count = rng.below(6);
            for (std::uint64_t nonce = 0; nonce < count; ++nonce) {
                const auto added =
                    pool.add(as_of(number, transfer(nonce, rng.below(12), 12 + rng.below(30))), state_, 0);
                ASSERT_TRUE(added.pooled);
                queues[number].push_back(added.pooled);
            }
        }
        const Uint256 base_fee = Uint256(8 + rng.below(25)) * kGwei;
        Selection selection(pool, base_fee);
        std::vector<Hash32> pulled;
        for (;;) {
            const auto piece = selection.pull(1 + rng.below(9));
            if (piece.empty()) break;
            for (const auto& each : piece) pulled.push_back(each->transaction.hash);
        }
        EXPECT_EQ(pulled, slowly(queues, base_fee)) << "seed " << seed;
    }
}

TEST_F(SelectionTest, begins_where_blocks_that_are_not_final_end) {
    Pool pool(params_);
    for (std::uint64_t nonce = 0; nonce < 4; ++nonce) EXPECT_EQ(add(pool, 1, transfer(nonce, 5)), "ok");
    EXPECT_EQ(add(pool, 2, transfer(0, 9)), "ok");
    EXPECT_EQ(add(pool, 3, transfer(1, 7)), "ok");  // its nonce 0 is in such a block
    EXPECT_EQ(add(pool, 4, transfer(2, 8)), "ok");  // and two of this one's, but not the third
    Selection selection(pool, 1,
                        {{test_address(1), 2}, {test_address(2), 1}, {test_address(3), 1}, {test_address(4), 1}});
    const auto pulled = selection.pull(10);
    ASSERT_EQ(pulled.size(), 3U);
    EXPECT_EQ(pulled[0]->transaction.sender, test_address(3));
    EXPECT_EQ(pulled[1]->transaction.sender, test_address(1));
    EXPECT_EQ(pulled[1]->transaction.tx.nonce, 2U);
    EXPECT_EQ(pulled[2]->transaction.tx.nonce, 3U);
}

TEST_F(SelectionTest, gives_nothing_more_of_a_closed_sender_and_nothing_that_left_the_pool) {
    Pool pool(params_);
    for (std::uint64_t nonce = 0; nonce < 3; ++nonce) {
        EXPECT_EQ(add(pool, 1, transfer(nonce, 5)), "ok");
        EXPECT_EQ(add(pool, 2, transfer(nonce, 4)), "ok");
        EXPECT_EQ(add(pool, 3, transfer(nonce, 3)), "ok");
    }
    Selection selection(pool, 1);
    EXPECT_EQ(selection.pull(1)[0]->transaction.sender, test_address(1));
    selection.close(test_address(1));
    EXPECT_EQ(selection.pull(1)[0]->transaction.sender, test_address(2));
    // The next one of sender 2 was seen already; the one after that is not there any more when it is asked for.
    pool.drop({signed_by(2, transfer(2, 4)).hash});
    const auto rest = selection.pull(10);
    ASSERT_EQ(rest.size(), 4U);
    EXPECT_EQ(rest[0]->transaction.sender, test_address(2));
    EXPECT_EQ(rest[1]->transaction.sender, test_address(3));
}

TEST_F(SelectionTest, looks_only_at_moves_that_can_come_next_and_pay_and_at_so_many_at_a_time) {
    params_.min_base_fee = 7;
    Pool pool(params_);
    const auto move = [&](std::uint64_t nonce, std::uint64_t fee) {
        auto tx = transfer(nonce, 1);
        tx.to = types::group_address(types::KindGroup::disputes);
        tx.value = 0;
        tx.max_fee_per_gas = fee;
        tx.max_priority_fee_per_gas = 1;
        return tx;
    };
    for (std::uint8_t seed = 21; seed <= 92; ++seed) fund(seed, Uint256(100) * params::kGrainsPerQrn);
    // One after a transfer, one that a base fee of 100 is too much for, one of many of a sender.
    for (std::uint64_t nonce = 1; nonce <= 200; ++nonce) EXPECT_EQ(add(pool, 1, move(nonce, 500)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(0, 1)), "ok");
    for (std::uint8_t seed = 2; seed <= 90; ++seed) EXPECT_EQ(add(pool, seed, move(0, 99)), "ok");
    for (std::uint64_t nonce = 0; nonce < 100; ++nonce) EXPECT_EQ(add(pool, 91, move(nonce, 200)), "ok");
    EXPECT_EQ(add(pool, 92, move(0, 300)), "ok");
    Selection selection(pool, 100, {{test_address(93), 4}, {test_address(92), 0}});
    const auto runs = selection.next_moves(1'000);
    EXPECT_EQ(selection.moves_looked_at(), 4U);  // two that are ahead, and two heads that can pay
    ASSERT_EQ(runs.size(), 2U);
    EXPECT_EQ(runs[0][0]->transaction.sender, test_address(92));
    EXPECT_EQ(runs[1].size(), kMaxMovesInRun);
    EXPECT_FALSE(selection.has_more_moves());

    Selection cheap(pool, 1);
    for (std::size_t calls = 1; calls <= 9; ++calls) {
        EXPECT_LE(cheap.next_moves(10).size(), 10U);
        EXPECT_EQ(cheap.moves_looked_at(), 10 * calls);
    }
    EXPECT_TRUE(cheap.has_more_moves());
    EXPECT_EQ(cheap.next_moves(10).size(), 1U);
    EXPECT_EQ(cheap.moves_looked_at(), 91U);
    EXPECT_TRUE(pool.check());
}

TEST_F(SelectionTest, knows_whose_next_transaction_is_a_move_in_a_dispute) {
    Pool pool(params_);
    const auto move = [&](std::uint64_t nonce) {
        auto tx = transfer(nonce, 1);
        tx.to = types::group_address(types::KindGroup::disputes);
        tx.value = 0;
        return tx;
    };
    EXPECT_EQ(add(pool, 1, move(0)), "ok");
    EXPECT_EQ(add(pool, 1, move(1)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(2, 1)), "ok");
    EXPECT_EQ(add(pool, 1, move(3)), "ok");
    EXPECT_EQ(add(pool, 2, transfer(0, 1)), "ok");  // another one comes first
    EXPECT_EQ(add(pool, 2, move(1)), "ok");
    EXPECT_EQ(add(pool, 3, move(1)), "ok");  // behind a gap
    EXPECT_EQ(add(pool, 4, move(1)), "ok");  // whose nonce 0 is in a block
    Selection selection(pool, 1, {{test_address(4), 1}});
    const auto runs = selection.next_moves(10);
    ASSERT_EQ(runs.size(), 2U);
    EXPECT_EQ(runs[0][0]->transaction.sender, test_address(4));
    EXPECT_EQ(runs[1].size(), 2U);
    EXPECT_EQ(runs[1][0]->transaction.sender, test_address(1));
    EXPECT_FALSE(selection.has_more_moves());
    EXPECT_TRUE(selection.next_moves(10).empty());
    Selection again(pool, 1, {{test_address(4), 1}});
    EXPECT_EQ(again.next_moves(1)[0][0]->transaction.sender, test_address(4));
    EXPECT_EQ(again.next_moves(1)[0][0]->transaction.sender, test_address(1));
    EXPECT_TRUE(again.has_more_moves());
    EXPECT_TRUE(again.next_moves(1).empty());
    EXPECT_FALSE(again.has_more_moves());
    selection.took(test_address(1), 2);
    const auto pulled = selection.pull(10);
    ASSERT_EQ(pulled.size(), 5U);
    for (const auto& each : pulled)
        EXPECT_FALSE(each->transaction.sender == test_address(1) && each->transaction.tx.nonce < 2);
}

}  // namespace
}  // namespace quern::chain::mempool
