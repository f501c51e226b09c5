// What a bid costs who does not mean it, and who comes next when a winner fails.
#include "chain/exec/handlers/draw.h"
#include "chain/market/bonds.h"
#include "chain/market/shares.h"
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

class Bids : public Lifecycle {
protected:
    Bids() {
        spec.money.price_cap = 10'000;  // so that prices can differ by less than a hundredth
        spec.windows.bid_s = 100;
        for (const auto& verifier : kVerifiers) world.bond_role(verifier, Role::verifier, 100'000'000'000);
    }
    // What a winner must lock, and what a bid locks of it.
    [[nodiscard]] Uint256 seat() const { return solver_lock(); }
    [[nodiscard]] Uint256 deposit() const { return market::percent_of(seat(), 10); }
    types::Address bidder(std::uint64_t number, const Uint256& bond) {
        const auto who = address(number);
        give(world.state(), who, Uint256(1'000'000'000'000'000));
        world.bond_role(who, Role::solver, bond);
        return who;
    }
    types::Address bidder(std::uint64_t number) { return bidder(number, seat()); }
    Result bid(std::uint64_t id, const types::Address& who, std::uint64_t price) {
        return world.one(who, NativeKind::task_bid, types::TaskBidPayload{id, 0, price});
    }
    Result unbond(const types::Address& who) {
        const auto bond = world.bond(Role::solver, who);
        return world.one(who, NativeKind::unbond, types::UnbondPayload{Role::solver, bond.bonded - bond.locked});
    }
    Uint256 locked(const types::Address& who) const { return world.bond(Role::solver, who).locked; }
    Uint256 bonded(const types::Address& who) const { return world.bond(Role::solver, who).bonded; }
};

TEST_F(Bids, lock_a_deposit_for_as_long_as_they_are_in_the_list) {
    world.params.market.max_bids = 2;
    const auto first = bidder(500, seat() * Uint256(2));
    const auto second = bidder(501);
    const auto third = bidder(502);
    const auto id = submit();
    expect_ok(bid(id, first, 9'000));
    EXPECT_EQ(world.task(id).bids.at(0).deposit, deposit());
    EXPECT_EQ(locked(first), deposit());
    EXPECT_EQ(name(world.one(first, NativeKind::unbond, types::UnbondPayload{Role::solver, bonded(first)})),
              "bond.insufficient");
    expect_ok(bid(id, second, 8'000));
    expect_ok(bid(id, third, 7'000));
    EXPECT_TRUE(locked(first).is_zero()) << "it has given way";
    EXPECT_EQ(locked(second), deposit());
    tick_when_due(id);
    ASSERT_EQ(world.task(id).seats.at(0).solver, third);
    EXPECT_EQ(world.task(id).seats.at(0).locked, seat());
    EXPECT_EQ(locked(third), seat()) << "the deposit is a part of it";
    EXPECT_EQ(locked(second), deposit()) << "it may still be its turn";
    expect_ok(world.one(third, NativeKind::task_start, types::TaskIdPayload{id}));
    EXPECT_TRUE(locked(second).is_zero());
    EXPECT_TRUE(world.task(id).bids.empty());
    EXPECT_TRUE(world.task(id).slashes.empty());
}

TEST_F(Bids, that_are_lowered_keep_their_deposit) {
    const auto solver = bidder(500);
    const auto id = submit();
    expect_ok(bid(id, solver, 9'000));
    expect_ok(bid(id, solver, 8'000));
    EXPECT_EQ(locked(solver), deposit());
    ASSERT_EQ(world.task(id).bids.size(), 1U);
    EXPECT_EQ(world.task(id).bids[0].deposit, deposit());
    EXPECT_EQ(world.task(id).bids[0].price, Uint256(8'000));
    tick_when_due(id);
    EXPECT_EQ(world.task(id).seats.at(0).solver, solver);
}

TEST_F(Bids, of_one_bond_cannot_be_had_for_all_tasks_at_once) {
    const auto solver = bidder(500, seat() + deposit());
    const auto first = submit();
    const auto second = submit();
    const auto third = submit();
    expect_ok(bid(first, solver, 1));
    expect_ok(bid(second, solver, 1));
    EXPECT_EQ(name(bid(third, solver, 1)), "bond.insufficient");
}

// Bonds that fill all places with the lowest price, and leave: honest bids were driven out, and the task expired.
TEST_F(Bids, of_squatters_cost_their_deposits_and_the_task_is_open_again) {
    world.params.market.max_bids = 3;
    const auto id = submit();
    const auto honest = bidder(600);
    expect_ok(bid(id, honest, 5'000));
    std::vector<types::Address> squatters;
    for (std::uint64_t i = 0; i < 3; ++i) {
        squatters.push_back(bidder(500 + i));
        expect_ok(bid(id, squatters[i], 1));
        expect_ok(unbond(squatters[i]));
    }
    EXPECT_EQ(name(bid(id, honest, 5'000)), "bid.too_many");
    tick_when_due(id);
    const auto task = world.task(id);
    EXPECT_EQ(task.state, TaskState::open) << task.reason;
    EXPECT_EQ(task.reason, "bid_not_covered");
    EXPECT_EQ(task.round, 1U);
    EXPECT_EQ(task.failures, 1U) << "a round: it must not go on for ever";
    ASSERT_EQ(task.slashes.size(), 3U);
    Uint256 share;
    for (const auto& payment : task.payments) share += payment.reason == "slash_share" ? payment.amount : Uint256();
    EXPECT_EQ(share, Uint256(3) * market::percent_of(deposit(), 10));
    for (const auto& squatter : squatters) {
        EXPECT_TRUE(bonded(squatter).is_zero()) << "nothing but the deposit was left";
        EXPECT_TRUE(locked(squatter).is_zero());
        world.bond_role(squatter, Role::solver, seat());
        EXPECT_EQ(name(bid(id, squatter, 1)), "bid.barred");
    }
    for (const auto& slashed : task.slashes) {
        EXPECT_EQ(slashed.amount, deposit());
        EXPECT_EQ(slashed.reason, "bid_not_covered");
    }
    expect_ok(bid(id, honest, 5'000));
    tick_when_due(id);
    EXPECT_EQ(world.task(id).seats.at(0).solver, honest);
}

TEST_F(Bids, that_are_never_covered_end_a_task) {
    world.params.market.max_rounds = 1;
    const auto id = submit();
    for (std::uint64_t round = 0; round < 2; ++round) {
        const auto squatter = bidder(500 + round);
        expect_ok(bid(id, squatter, 1));
        expect_ok(unbond(squatter));
        tick_when_due(id);
    }
    EXPECT_EQ(world.task(id).state, TaskState::failed);
    EXPECT_EQ(world.reason(id), "bid_not_covered");
}

TEST_F(Bids, that_win_uncovered_give_way_to_the_next) {
    const auto squatter = bidder(500);
    const auto next = bidder(501);
    const auto id = submit();
    expect_ok(bid(id, squatter, 1));
    expect_ok(bid(id, next, 5'000));
    expect_ok(unbond(squatter));
    tick_when_due(id);
    EXPECT_EQ(world.task(id).seats.at(0).solver, next);
    EXPECT_TRUE(bonded(squatter).is_zero());
    EXPECT_EQ(world.task(id).barred, std::vector{squatter});
    EXPECT_EQ(world.task(id).round, 0U);
}

// Else one covered bid would let all others of its owner go, for the price of a start that does not come.
TEST_F(Bids, answer_for_their_turn_until_the_task_is_begun) {
    const auto first = bidder(500);
    const auto second = bidder(501);
    const auto third = bidder(502);
    const auto id = submit();
    expect_ok(bid(id, first, 1));
    expect_ok(bid(id, second, 100));
    expect_ok(bid(id, third, 1'000));
    tick_when_due(id);
    ASSERT_EQ(world.task(id).seats.at(0).solver, first);
    expect_ok(unbond(second));
    tick_when_due(id);  // no start
    EXPECT_EQ(world.task(id).seats.at(0).solver, third);
    EXPECT_TRUE(bonded(second).is_zero());
    ASSERT_EQ(world.task(id).slashes.size(), 2U);
    EXPECT_EQ(world.task(id).slashes[0].reason, "no_start");
    EXPECT_EQ(world.task(id).slashes[1].reason, "bid_not_covered");
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(world.reason(id), "no_start");
    for (const auto& who : {first, second, third}) EXPECT_TRUE(locked(who).is_zero());
}

TEST_F(Bids, on_what_nobody_can_verify_lose_nothing) {
    const auto solver = bidder(500);
    const auto id = submit();
    expect_ok(bid(id, solver, 5'000));
    for (const auto& verifier : kVerifiers)
        expect_ok(world.one(verifier, NativeKind::unbond, types::UnbondPayload{Role::verifier, 100'000'000'000}));
    tick_when_due(id);
    EXPECT_EQ(world.reason(id), "no_verifiers");
    EXPECT_TRUE(locked(solver).is_zero());
    EXPECT_EQ(bonded(solver), seat());
}

TEST_F(Bids, are_taken_in_the_order_of_the_draw) {
    const auto id = submit();
    std::vector<std::pair<types::Address, std::uint64_t>> placed;
    const std::uint64_t prices[] = {5'000, 3'010, 3'000, 3'030, 3'031, 4'000};
    for (std::uint64_t i = 0; i < std::size(prices); ++i) {
        placed.emplace_back(bidder(500 + i, seat() * Uint256(1 + i)), prices[i]);
        expect_ok(bid(id, placed[i].first, prices[i]));
    }
    tick_when_due(id);
    const auto task = world.task(id);
    const Hash32 beacon = block_context(market::draw_height(task.draw_at)).beacon;
    std::vector<types::Address> order;
    while (!placed.empty()) {
        std::uint64_t lowest = placed.front().second;
        for (const auto& [who, price] : placed) lowest = std::min(lowest, price);
        std::vector<handlers::Candidate> near;
        for (const auto& [who, price] : placed)
            if (100 * price <= 101 * lowest) near.push_back({who, bonded(who)});
        const auto drawn = handlers::draw_one(handlers::draw_hash("solver", beacon, id, placed.size()), near);
        order.push_back(near[drawn].address);
        std::erase_if(placed, [&](const auto& each) { return each.first == order.back(); });
    }
    std::vector<types::Address> told{task.seats.at(0).solver};
    for (const auto& bid : task.bids) told.push_back(bid.bidder);
    EXPECT_EQ(told, order);
}

// Of bidders as good as each other the first is covered and does not start, or is not covered: which of the two it
// chooses, when the beacon is known, must not matter to who comes next.
TEST(BidOrder, does_not_depend_on_how_others_fail) {
    class Run : public Bids {
    public:
        void TestBody() override {}
        std::vector<types::Address> winners(const types::Address& leaves) {
            const auto id = submit();
            for (std::uint64_t i = 0; i < 8; ++i) {
                const auto who = bidder(500 + i, seat() * Uint256(2));
                expect_ok(bid(id, who, 5'000 + i));
                if (who == leaves)
                    expect_ok(unbond(who));
                else
                    world.skip(1);
            }
            std::vector<types::Address> won;
            for (tick_when_due(id); world.task(id).state == TaskState::assigned; tick_when_due(id))
                won.push_back(world.task(id).seats.at(0).solver);
            return won;
        }
    };
    const auto all = Run().winners({});
    ASSERT_EQ(all.size(), 8U);
    for (const auto& leaves : all) {
        auto others = all;
        std::erase(others, leaves);
        EXPECT_EQ(Run().winners(leaves), others);
    }
}

}  // namespace
}  // namespace quern::chain::exec::test
