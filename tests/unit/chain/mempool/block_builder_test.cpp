#include "chain/mempool/block_builder.h"

#include "pool_fixture.h"

namespace quern::chain::mempool {
namespace {

class BlockBuilderTest : public PoolFixture {
protected:
    BlockBuilderTest() {
        state_.store(types::object_key(types::ObjectPrefix::globals), types::Globals{});
        context_.number = 1;
        context_.gas_limit = params_.block_gas_limit;
        context_.base_fee = Uint256(10) * kGwei;
        context_.beneficiary = test_address(200);
    }
    FilledBlock fill(
        Pool& pool, const LaneRule& lane = [](const auto&) { return std::nullopt; }) {
        state::Overlay overlay(static_cast<const state::StateReader&>(state_));
        exec::BlockExecution execution(params_, overlay, context_);
        execution.begin();
        Selection selection(pool, context_.base_fee);
        limits_.gas_limit = context_.gas_limit;
        auto filled = fill_block(execution, selection, limits_, lane);
        EXPECT_EQ(execution.receipts().size(), filled.included.size());
        return filled;
    }
    static std::vector<std::pair<types::Address, std::uint64_t>> order(const FilledBlock& block) {
        std::vector<std::pair<types::Address, std::uint64_t>> result;
        for (const auto& pooled : block.included)
            result.emplace_back(pooled->transaction.sender, pooled->transaction.tx.nonce);
        return result;
    }
    exec::BlockContext context_;
    FillLimits limits_;
};

TEST_F(BlockBuilderTest, takes_the_best_tip_first_and_respects_nonces) {
    Pool pool(params_);
    EXPECT_EQ(add(pool, 1, transfer(0, 1)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(1, 50)), "ok");
    EXPECT_EQ(add(pool, 2, transfer(0, 5)), "ok");
    EXPECT_EQ(add(pool, 3, transfer(0, 5)), "ok");  // same price, came later
    const auto block = fill(pool);
    const std::vector<std::pair<types::Address, std::uint64_t>> expected{
        {test_address(2), 0}, {test_address(3), 0}, {test_address(1), 0}, {test_address(1), 1}};
    EXPECT_EQ(order(block), expected);
    EXPECT_TRUE(block.refused.empty());
}

TEST_F(BlockBuilderTest, tip_is_what_is_left_above_the_base_fee) {
    Pool pool(params_);
    EXPECT_EQ(add(pool, 1, transfer(0, 50, 50)), "ok");  // tip 40 at base fee 10
    EXPECT_EQ(add(pool, 2, transfer(0, 45, 100)), "ok");
    EXPECT_EQ(add(pool, 3, transfer(0, 1, 9)), "ok");  // below the base fee: waits, is not refused
    const auto block = fill(pool);
    ASSERT_EQ(block.included.size(), 2U);
    EXPECT_EQ(block.included[0]->transaction.sender, test_address(2));
    EXPECT_TRUE(block.refused.empty());
}

TEST_F(BlockBuilderTest, stops_at_the_gas_limit_and_keeps_the_rest) {
    Pool pool(params_);
    context_.gas_limit = 50'000;
    for (std::uint8_t seed = 1; seed <= 4; ++seed) EXPECT_EQ(add(pool, seed, transfer(0, seed)), "ok");
    const auto block = fill(pool);
    EXPECT_EQ(block.included.size(), 2U);
    EXPECT_EQ(block.included[0]->transaction.sender, test_address(4));
    EXPECT_TRUE(block.refused.empty());
}

TEST_F(BlockBuilderTest, stops_at_the_byte_limit) {
    Pool pool(params_);
    for (std::uint8_t seed = 1; seed <= 4; ++seed) EXPECT_EQ(add(pool, seed, transfer(0, seed)), "ok");
    limits_.max_bytes = 300;
    EXPECT_EQ(fill(pool).included.size(), 2U);
}

TEST_F(BlockBuilderTest, refused_transactions_are_handed_back_to_be_dropped) {
    Pool pool(params_);
    EXPECT_EQ(add(pool, 1, transfer(0, 1)), "ok");
    EXPECT_EQ(add(pool, 1, transfer(1, 1)), "ok");
    EXPECT_EQ(add(pool, 2, transfer(0, 1)), "ok");
    fund(1, 5);  // spent in the meantime
    const auto block = fill(pool);
    ASSERT_EQ(block.refused.size(), 1U);
    EXPECT_EQ(block.refused[0].transaction->transaction.tx.nonce, 0U);
    EXPECT_EQ(block.refused[0].result.name, exec::kInsufficientFunds.text);
    EXPECT_EQ(block.included.size(), 1U);
}

TEST_F(BlockBuilderTest, due_moves_come_first_one_per_side_of_a_game_within_the_lane) {
    Pool pool(params_);
    // A call to the disputes' address; what it says stands for its game.
    const auto move = [&](std::uint64_t nonce, std::uint64_t game) {
        auto tx = transfer(nonce, 0, 20);
        tx.to = types::group_address(types::KindGroup::disputes);
        tx.value = 0;
        tx.data = Bytes(1, static_cast<std::uint8_t>(game));
        tx.gas_limit = 22'000;
        return tx;
    };
    const LaneRule lane = [](const types::RecoveredTransaction& tx) -> std::optional<std::uint64_t> {
        if (tx.tx.data.empty()) return std::nullopt;
        return tx.tx.data[0];
    };
    for (std::uint8_t seed = 10; seed < 15; ++seed)
        EXPECT_EQ(add(pool, seed,
                      [&] {
                          auto tx = transfer(0, 50);
                          tx.value = 0;
                          return tx;
                      }()),
                  "ok");
    EXPECT_EQ(add(pool, 1, move(0, 7)), "ok");
    EXPECT_EQ(add(pool, 1, move(1, 8)), "ok");
    EXPECT_EQ(add(pool, 1, move(2, 7)), "ok");  // the same side's second move competes by price
    EXPECT_EQ(add(pool, 3, move(0, 9)), "ok");
    context_.gas_limit = 660'000;  // lane: 66,000 = three moves
    auto block = fill(pool, lane);
    EXPECT_EQ(block.from_lane, 3U);
    EXPECT_EQ(order(block)[0], (std::pair<types::Address, std::uint64_t>(test_address(1), 0)));
    EXPECT_EQ(block.included.size(), 9U);
    EXPECT_EQ(order(block).back(), (std::pair<types::Address, std::uint64_t>(test_address(1), 2)));

    context_.gas_limit = 440'000;  // lane: two
    block = fill(pool, lane);
    EXPECT_EQ(block.from_lane, 2U);
    EXPECT_EQ(block.included.size(), 9U);
}

// A side may always concede: one that fails to, block by block, must not make the other lose by its clock.
TEST_F(BlockBuilderTest, a_side_that_fails_to_concede_leaves_the_other_its_place_in_the_lane) {
    Pool pool(params_);
    const auto call = [&](std::uint64_t cap, std::uint64_t nonce = 0) {
        auto tx = transfer(nonce, 0, cap);
        tx.to = types::group_address(types::KindGroup::disputes);
        tx.value = 0;
        tx.data = Bytes(1, 7);
        tx.gas_limit = 22'000;
        return tx;
    };
    EXPECT_EQ(add(pool, 1, call(40)), "ok");  // pays more, comes first, and fails
    EXPECT_EQ(add(pool, 1, call(40, 1)), "ok");
    EXPECT_EQ(add(pool, 2, call(20)), "ok");
    for (std::uint8_t seed = 10; seed < 15; ++seed) {
        auto spam = transfer(0, 50);
        spam.value = 0;
        EXPECT_EQ(add(pool, seed, spam), "ok");
    }
    context_.gas_limit = 660'000;
    const auto block = fill(pool, [](const types::RecoveredTransaction& tx) -> std::optional<std::uint64_t> {
        return tx.tx.data.empty() ? std::nullopt : std::optional<std::uint64_t>(tx.tx.data[0]);
    });
    ASSERT_EQ(block.from_lane, 2U);
    EXPECT_EQ(block.included[0]->transaction.sender, test_address(1));
    EXPECT_EQ(block.included[1]->transaction.sender, test_address(2));
}

TEST_F(BlockBuilderTest, what_only_looks_like_a_move_does_not_keep_moves_out_of_the_lane) {
    Pool pool(params_);
    const auto move = [&](Bytes data) {
        auto tx = transfer(0, 0, 20);
        tx.to = types::group_address(types::KindGroup::disputes);
        tx.value = 0;
        tx.data = std::move(data);
        tx.gas_limit = 22'000;
        return tx;
    };
    for (std::uint32_t number = 0; number < kMaxLaneSenders + 10; ++number) {
        fund_number(number, Uint256(100) * params::kGrainsPerQrn);
        ASSERT_TRUE(pool.add(as_of(number, move({})), state_, 0).pooled);
    }
    EXPECT_EQ(add(pool, 1, move({7})), "ok");
    const auto block = fill(pool, [](const types::RecoveredTransaction& tx) -> std::optional<std::uint64_t> {
        return tx.tx.data.empty() ? std::nullopt : std::optional<std::uint64_t>(tx.tx.data[0]);
    });
    EXPECT_EQ(block.from_lane, 1U);
    EXPECT_EQ(block.included[0]->transaction.sender, test_address(1));
    // Nor is it looked for beyond the time that the block has.
    std::size_t looked_at = 0;
    limits_.enough = [&](std::uint64_t, std::size_t) { return looked_at != 0; };
    const auto late = fill(pool, [&](const types::RecoveredTransaction&) -> std::optional<std::uint64_t> {
        ++looked_at;
        return std::nullopt;
    });
    EXPECT_EQ(looked_at, kMaxLaneSenders);
    EXPECT_EQ(late.from_lane, 0U);
}

TEST_F(BlockBuilderTest, ends_when_it_was_told_that_it_is_enough) {
    Pool pool(params_);
    for (std::uint8_t seed = 1; seed <= 20; ++seed) EXPECT_EQ(add(pool, seed, transfer(0, seed)), "ok");
    std::vector<std::size_t> asked;
    limits_.enough = [&](std::uint64_t gas, std::size_t bytes) {
        asked.push_back(gas / 21'000);
        EXPECT_GT(bytes, 0U);
        return gas >= 16 * 21'000;
    };
    const auto block = fill(pool);
    EXPECT_TRUE(block.cut_short);
    EXPECT_EQ(block.included.size(), 16U);
    EXPECT_EQ(asked, (std::vector<std::size_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}))
        << "each may have taken long";
    EXPECT_EQ(block.included[0]->transaction.sender, test_address(20));
    limits_.enough = {};
    EXPECT_EQ(fill(pool).included.size(), 20U);
}

TEST_F(BlockBuilderTest, leaves_out_what_it_must_not_take_and_what_comes_after_it) {
    Pool pool(params_);
    const auto bad = signed_by(1, transfer(1, 9));
    EXPECT_EQ(add(pool, 1, transfer(0, 9)), "ok");
    EXPECT_EQ(add(pool, bad), "ok");
    EXPECT_EQ(add(pool, 1, transfer(2, 9)), "ok");
    EXPECT_EQ(add(pool, 2, transfer(0, 1)), "ok");
    limits_.leave_out = [&](const Hash32& hash) { return hash == bad.hash; };
    const auto block = fill(pool);
    const std::vector<std::pair<types::Address, std::uint64_t>> expected{{test_address(1), 0}, {test_address(2), 0}};
    EXPECT_EQ(order(block), expected);
}

TEST_F(BlockBuilderTest, a_full_block_does_not_read_the_rest_of_the_pool) {
    Pool pool(params_);
    for (std::uint32_t number = 0; number < 1'000; ++number) {
        fund_number(number, Uint256(100) * params::kGrainsPerQrn);
        auto tx = transfer(0, 1'000U - number, 2'000);
        tx.gas_limit = 42'000;
        ASSERT_TRUE(pool.add(as_of(number, tx), state_, 0).pooled);
    }
    // When twenty are in there is room for none of these, but for one of half the gas.
    context_.gas_limit = 461'000;
    std::size_t looked_at = 0;
    limits_.leave_out = [&](const Hash32&) {
        ++looked_at;
        return false;
    };
    EXPECT_EQ(fill(pool).included.size(), 20U);
    EXPECT_LE(looked_at, 20 + kMaxMisfits);
}

TEST_F(BlockBuilderTest, those_who_ask_for_a_whole_blocks_gas_do_not_keep_others_out) {
    Pool pool(params_);
    for (std::uint32_t number = 0; number < 2 * kMaxMisfits; ++number) {
        fund_number(number, Uint256(100) * params::kGrainsPerQrn);
        auto tx = transfer(0, 90);
        tx.gas_limit = params_.block_gas_limit;
        ASSERT_TRUE(pool.add(as_of(number, tx), state_, 0).pooled);
    }
    for (std::uint8_t seed = 1; seed <= 20; ++seed) EXPECT_EQ(add(pool, seed, transfer(0, seed)), "ok");
    EXPECT_EQ(fill(pool).included.size(), 21U);  // the best of the greedy, and all others

    // What is passed over takes time, too.
    std::size_t asked = 0;
    limits_.enough = [&](std::uint64_t, std::size_t) { return ++asked == 3; };
    const auto block = fill(pool);
    EXPECT_TRUE(block.cut_short);
    EXPECT_EQ(block.included.size(), 1U);
}

TEST_F(BlockBuilderTest, stops_at_the_number_that_a_block_may_have) {
    Pool pool(params_);
    for (std::uint8_t seed = 1; seed <= 4; ++seed) EXPECT_EQ(add(pool, seed, transfer(0, seed)), "ok");
    EXPECT_EQ(limits_.max_transactions, types::kMaxBlockTransactions);
    limits_.max_transactions = 3;
    EXPECT_EQ(fill(pool).included.size(), 3U);
    // The lane keeps to it, too.
    limits_.max_transactions = 1;
    EXPECT_EQ(fill(pool, [](const auto& transaction) { return std::optional(transaction.tx.nonce); }).included.size(),
              1U);
}

}  // namespace
}  // namespace quern::chain::mempool
