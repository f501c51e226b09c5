// Draws by lot: the tables of bonds that are frozen by epochs, the order in which a beacon takes their members, and who
// of these can serve. Nobody who knows a beacon changes what it draws.
#include "chain/exec/handlers/draw.h"

#include <algorithm>
#include <random>
#include <set>

#include "chain/exec/handlers/draw_table.h"
#include "chain/exec/handlers/handler.h"
#include "chain/exec/invariants/invariants.h"
#include "chain/market/windows.h"
#include "support.h"

namespace quern::chain::exec::handlers {
namespace {

using test::address;
using types::NativeKind;
using types::Role;

constexpr std::uint64_t kEpoch = 10;
constexpr std::uint64_t kPatience = params::kMaxPassedOver;

Hash32 random_word(std::uint64_t number) { return crypto::sha256(Uint256(number).to_be32()); }

constexpr std::uint64_t kTask = 7;

class Draws : public ::testing::Test {
protected:
    Draws() {
        params.epoch_length = kEpoch;
        params.market.dispute_cost = 1;
        params.market.min_bond_gammas = 1;
        params.market.unbonding_blocks = 60;
    }
    // At the present height, without money.
    void bond(const types::Address& who, std::uint64_t bonded, std::uint64_t locked = 0) {
        auto bond = *load_bond(overlay, Role::verifier, who);
        const Uint256 before = bond.bonded;
        bond.bonded = bonded;
        bond.locked = locked;
        ASSERT_TRUE(bond_changed(context, bond, before));
        store_bond(overlay, bond);
    }
    void declare(const types::Address& who, const types::Capacity& capacity) {
        auto bond = *load_bond(overlay, Role::verifier, who);
        bond.former_capacity = bond.capacity;
        bond.capacity = capacity;
        bond.capacity_since = context.height;
        store_bond(overlay, bond);
    }
    template <NativeKind kind>
    Status run(const types::Address& who, const typename Handler<kind>::Payload& payload) {
        context.sender = who;
        const std::size_t before = overlay.snapshot();
        auto status = Handler<kind>::run(context, payload);
        if (!status) overlay.revert_to(before);
        return status;
    }
    std::vector<types::Address> draw(const Hash32& randomness, std::size_t count, const DrawTerms& terms,
                                     std::size_t patience = kPatience) {
        return draw_bonds(context, Role::verifier, terms, randomness, count, patience).value();
    }
    // All of the table that was frozen before the epoch, in the order of the draw.
    std::vector<Candidate> sequence(std::uint64_t epoch, const Hash32& randomness) {
        DrawSequence members(overlay, Role::verifier, epoch, randomness);
        std::vector<Candidate> all;
        while (auto member = members.next().value()) all.push_back(*member);
        return all;
    }
    std::map<types::Address, Uint256> table(std::uint64_t epoch) {
        std::map<types::Address, Uint256> members;
        for (const auto& member : sequence(epoch, {}))
            EXPECT_TRUE(members.emplace(member.address, member.weight).second) << "drawn twice";
        return members;
    }
    DrawTerms terms(std::uint64_t lock, std::uint64_t anchor) { return {anchor, lock, {}, {}}; }

    test::EmptyState empty;
    state::Overlay overlay{empty};
    params::ChainParams params;
    Context context{params, overlay, kEpoch, {}, 0, 0, nullptr};
};

TEST_F(Draws, one_of_a_list_follows_the_weights) {
    const std::vector<Candidate> candidates{{address(1), 1}, {address(2), 0}, {address(3), 3}};
    std::array<int, 3> hits{};
    for (std::uint64_t i = 0; i < 4000; ++i) ++hits[draw_one(random_word(i), candidates)];
    EXPECT_EQ(hits[1], 0);
    EXPECT_NEAR(hits[2], 3000, 150);
    EXPECT_EQ(draw_one({}, {}), 0U);
    EXPECT_EQ(draw_one({}, {{address(1), 0}}), 1U);
}

TEST_F(Draws, members_of_a_table_come_once_each_by_their_weights) {
    for (std::uint64_t i = 1; i <= 40; ++i) bond(address(i), i == 7 ? 400 : 10);  // 7 has 400 of 790
    std::map<types::Address, int> first;
    int seventh_among_two = 0;
    for (std::uint64_t seed = 0; seed < 4'000; ++seed) {
        const auto drawn = draw(random_word(seed), 2, terms(1, 2 * kEpoch));
        ASSERT_EQ(drawn.size(), 2U);
        ++first[drawn[0]];
        seventh_among_two += drawn[0] == address(7) || drawn[1] == address(7);
    }
    EXPECT_NEAR(first[address(7)], 4'000 * 400 / 790, 130);
    EXPECT_NEAR(first[address(23)], 4'000 * 10 / 790, 35);
    // Without replacement: p + (1 - p) * 400 / 780.
    EXPECT_NEAR(seventh_among_two, 4'000 * (400.0 / 790 + 390.0 / 790 * 400 / 780), 120);
    const auto all = sequence(2, random_word(1));
    EXPECT_EQ(all.size(), 40U);
    EXPECT_EQ(table(2).size(), 40U);
    EXPECT_EQ(draw(random_word(1), 50, terms(1, 2 * kEpoch)).size(), 40U);
    EXPECT_TRUE(table(1).empty()) << "what is bonded in an epoch counts from the next one on";
}

// Bonds come, change and go for 60 epochs; the tables of all epochs that a draw may ask for are what a list kept beside
// them says, and nodes keep no more versions than these.
TEST_F(Draws, tables_are_what_was_bonded_when_their_epoch_began) {
    std::mt19937_64 random(3);
    std::map<std::uint64_t, std::map<types::Address, Uint256>> expected;
    std::map<types::Address, Uint256> now;
    for (context.height = 1; context.height < 60 * kEpoch; ++context.height) {
        if (context.height % kEpoch == 0) expected[context.height / kEpoch] = now;
        for (int i = 0; i < 4; ++i) {
            const auto who = address(1 + random() % 300);
            const std::uint64_t amount = random() % 3 == 0 ? 0 : random() % 1'000;
            bond(who, amount);
            if (amount == 0)
                now.erase(who);
            else
                now[who] = amount;
        }
        ASSERT_TRUE(invariants::check_draw_tables(overlay));
    }
    const std::uint64_t oldest = (context.height - params::kDrawReach + kEpoch - 1) / kEpoch + 1;
    ASSERT_LT(oldest, 10U);
    for (std::uint64_t epoch = oldest; epoch < 60; ++epoch) EXPECT_EQ(table(epoch), expected[epoch]) << epoch;
    std::size_t most = 0;
    for (const auto& [key, value] : overlay.changed_native())
        if (value && key[0] == static_cast<std::uint8_t>(types::ObjectPrefix::draw_node))
            most = std::max(most, types::decode_record<types::DrawNode>(*value)->versions.size());
    EXPECT_LE(most, params::kDrawReach / kEpoch + 3);
    EXPECT_GT(most, 50U);
    for (std::uint64_t i = 1; i <= 300; ++i) bond(address(i), 0);
    EXPECT_TRUE(table(61).empty());
    EXPECT_FALSE(overlay.native(types::key_of<types::DrawTable>(Role::verifier)));
}

TEST_F(Draws, invariants_notice_a_table_that_is_not_its_bonds) {
    for (std::uint64_t i = 1; i <= 20; ++i) bond(address(i), 10);
    ASSERT_TRUE(invariants::check_draw_tables(overlay));
    const auto broken = [&] {
        const auto status = invariants::check_draw_tables(overlay);
        return status ? std::string("none") : std::string(status.error().name);
    };
    auto one = *load_bond(overlay, Role::verifier, address(3));
    auto other = one;
    other.bonded = other.weight = 11;
    store_bond(overlay, other);
    EXPECT_EQ(broken(), "invariant.draw_table");
    other = one;
    other.place = 9;
    store_bond(overlay, other);
    EXPECT_EQ(broken(), "invariant.draw_table");
    store_bond(overlay, one);
    ASSERT_EQ(broken(), "none");
    auto node = **overlay.load<types::DrawNode>(Role::verifier, std::uint8_t{1}, 0U);
    node.versions.back().weights[1] += Uint256(1);
    overlay.store(types::key_of<types::DrawNode>(Role::verifier, std::uint8_t{1}, 0U), node);
    EXPECT_EQ(broken(), "invariant.draw_table");
}

TEST_F(Draws, bonds_that_are_drawn_have_the_weight_and_are_not_excluded) {
    bond(address(1), 100);
    bond(address(2), 100, 50);
    bond(address(3), 59);
    bond(address(4), 100);
    context.height = 2 * kEpoch;
    bond(address(5), 100);
    auto wanted = terms(60, 2 * kEpoch);
    wanted.excluded = {address(4)};
    EXPECT_EQ(draw({}, 9, wanted), std::vector<types::Address>{address(1)});
    wanted.anchor = 3 * kEpoch;
    EXPECT_EQ(draw({}, 9, wanted).size(), 2U);
}

TEST_F(Draws, who_leaves_answers_for_the_draws_of_its_tables) {
    test::give(overlay, address(1), 100);
    ASSERT_TRUE(run<NativeKind::bond>(address(1), {Role::verifier, 100}));
    context.height = 2 * kEpoch;
    ASSERT_TRUE(run<NativeKind::unbond>(address(1), {Role::verifier, 100}));
    EXPECT_EQ(draw({}, 1, terms(80, 2 * kEpoch)).size(), 1U);
    EXPECT_TRUE(draw({}, 1, terms(80, 3 * kEpoch)).empty());
    // What answers is held back, and can be taken.
    ASSERT_TRUE(lock_whole_bond(context, kTask, Role::verifier, address(1), 80));
    EXPECT_FALSE(lock_whole_bond(context, kTask, Role::verifier, address(1), 21));
    EXPECT_FALSE(lock_bond(context, kTask, Role::verifier, address(1), 1));
    context.height += params.market.unbonding_blocks;
    ASSERT_TRUE(run<NativeKind::withdraw>(address(1), {Role::verifier}));
    EXPECT_EQ(test::balance(overlay, address(1)), Uint256(20));
    EXPECT_EQ(run<NativeKind::withdraw>(address(1), {Role::verifier}).error().name, "bond.nothing_to_withdraw");
    ASSERT_TRUE(seize_bond(context, Role::verifier, address(1), 30));
    ASSERT_TRUE(unlock_bond(context, kTask, Role::verifier, address(1), 50));
    ASSERT_TRUE(run<NativeKind::withdraw>(address(1), {Role::verifier}));
    EXPECT_EQ(test::balance(overlay, address(1)), Uint256(70));
    EXPECT_FALSE(overlay.native(types::key_of<types::RoleBond>(Role::verifier, address(1))));
}

TEST_F(Draws, who_is_busy_is_passed_over_and_too_many_of_them_end_the_draw) {
    for (std::uint64_t i = 1; i <= 20; ++i) bond(address(i), 100, i <= 15 ? 50 : 0);
    const auto all = sequence(2, {});
    std::vector<types::Address> able;
    std::size_t busy = 0;
    for (const auto& member : all) {
        if (load_bond(overlay, Role::verifier, member.address)->locked.is_zero())
            able.push_back(member.address);
        else if (++busy == 3)
            break;
    }
    EXPECT_EQ(draw({}, 9, terms(60, 2 * kEpoch), 3), able);
    EXPECT_EQ(draw({}, 9, terms(60, 2 * kEpoch)).size(), 5U) << "the others, in their order";
    // Who raises a bond that is busy makes no room in the tables of before.
    test::give(overlay, address(1), 1'000);
    context.height = 2 * kEpoch;
    ASSERT_TRUE(run<NativeKind::bond>(address(1), {Role::verifier, 1'000}));
    EXPECT_EQ(draw({}, 9, terms(60, 2 * kEpoch)).size(), 5U);
    EXPECT_EQ(draw({}, 9, terms(60, 3 * kEpoch)).size(), 6U);
}

// Else dust would end every draw that it is too small for.
TEST_F(Draws, members_that_are_too_small_are_not_busy) {
    for (std::uint64_t i = 1; i <= 60; ++i) bond(address(i), 50);
    bond(address(61), 60);
    for (std::uint64_t seed = 0; seed < 10; ++seed)
        EXPECT_EQ(draw(random_word(seed), 1, terms(60, 2 * kEpoch)), std::vector<types::Address>{address(61)});
}

TEST_F(Draws, beacons_left_too_long_are_replaced_by_one_that_waiting_cannot_choose) {
    context.height = 600;
    const auto put = [&](std::uint64_t height) {
        overlay.store(types::object_key(types::ObjectPrefix::beacon, height), types::BeaconObject{random_word(height)});
    };
    put(600);
    put(80 + params::kBeaconWindow);
    EXPECT_EQ(*beacon_at(context, 600), random_word(600));
    EXPECT_EQ(beacon_at(context, 601).error().name, "beacon.not_known");
    EXPECT_EQ(*beacon_at(context, 80), random_word(80 + params::kBeaconWindow));
    EXPECT_EQ(beacon_at(context, 100).error().name, "beacon.not_known");  // within the window, yet not recorded
}

TEST_F(Draws, leave_out_who_cannot_do_the_work) {
    bond(address(1), 100);
    context.height = 20;
    declare(address(1), {50, market::class_of_rate(16), 20, 64});
    const auto found = [&](const Demand& demand, std::uint64_t anchor) {
        return draw({}, 1, {anchor, 1, demand, {}}).size();
    };
    EXPECT_EQ(found({50, 480, 30, 80, 10, {8, 20, 64}}, 20), 1U);
    EXPECT_EQ(found({51, 480, 30, 80, 10, {8, 20, 64}}, 20), 0U);  // a step
    EXPECT_EQ(found({50, 481, 30, 80, 10, {8, 20, 64}}, 20), 0U);  // all of it in the time it may take
    EXPECT_EQ(found({50, 480, 30, 81, 10, {8, 20, 64}}, 20), 0U);  // a segment of it, in half the time of one
    EXPECT_EQ(found({50, 480, 30, 80, 9, {8, 20, 64}}, 20), 0U);
    EXPECT_EQ(found({50, 480, 30, 80, 10, {9, 20, 64}}, 20), 0U);  // the task's classes
    EXPECT_EQ(found({50, 480, 30, 80, 10, {8, 21, 64}}, 20), 0U);
    EXPECT_EQ(found({50, 480, 30, 80, 10, {8, 20, 65}}, 20), 0U);  // memory
    EXPECT_EQ(found({50, Uint256(1) << 90, 30, 80, 10, {}}, 20), 0U);
    context.height = 29;
    declare(address(1), {1, 1, 1, 1});
    EXPECT_EQ(found({50, 480, 30, 80, 10, {8, 20, 64}}, 28), 1U) << "what is declared after the anchor does not count";
    EXPECT_EQ(found({50, 480, 30, 80, 10, {8, 20, 64}}, 29), 0U);
    declare(address(1), {});
    EXPECT_EQ(found({51, 481, 30, 80, 10, {9, 21, 65}}, 29), 1U) << "nothing declared is no limit";
}

// What anybody can do once a beacon is known, at random, in 10^5 sequences: the seats of the draw that it decides are
// taken by the very same bonds.
TEST_F(Draws, nobody_who_knows_the_beacon_moves_anybody) {
    constexpr std::uint64_t kBonds = 40, kLock = 50, kActing = 32;
    std::mt19937_64 random(11);
    for (std::uint64_t i = 1; i <= kBonds; ++i) {
        test::give(overlay, address(i), 10'000);
        context.height = kEpoch - 1;
        ASSERT_TRUE(run<NativeKind::bond>(address(i), {Role::verifier, 20 + random() % 300}));
        if (i % 5 == 0) {
            ASSERT_TRUE(run<NativeKind::declare_capacity>(address(i), {Role::verifier, {10 + i, 0, 0, 0}}));
        }
    }
    for (std::uint64_t i = 1; i <= 10; ++i) test::give(overlay, address(1'000 + i), 10'000);  // with no bond yet
    const std::size_t before = overlay.snapshot();
    for (int round = 0; round < 100'000; ++round) {
        // Any height of the epoch; others have been drawn from the same table meanwhile.
        const std::uint64_t anchor = kEpoch + random() % kEpoch;
        context.height = anchor;
        for (int i = 0; i < 3; ++i)
            (void)lock_whole_bond(context, kTask, Role::verifier, address(1 + random() % kBonds), kLock);
        DrawTerms wanted = terms(kLock, anchor);
        wanted.demand.step_work = 30;
        wanted.excluded = {address(2)};
        const Hash32 beacon = random_word(static_cast<std::uint64_t>(round));
        const auto seats = draw(beacon, 3, wanted);
        ASSERT_EQ(seats.size(), 3U);
        const std::uint64_t actions = 1 + random() % 6;
        for (std::uint64_t i = 0; i < actions; ++i) {
            const std::uint64_t since = params::kBeaconDelay;
            context.height = std::max(context.height, anchor + since + random() % (kActing - since));
            const auto who = random() % 6 == 0 ? address(1'001 + random() % 10) : address(1 + random() % kBonds);
            switch (random() % 4) {
                case 0:
                    (void)run<NativeKind::bond>(who, {Role::verifier, 1 + random() % 400});
                    break;
                case 1:
                    (void)run<NativeKind::unbond>(who, {Role::verifier, 1 + random() % 200});
                    break;
                case 2: {
                    const auto free = market::free_part(*load_bond(overlay, Role::verifier, who));
                    (void)run<NativeKind::unbond>(who, {Role::verifier, free});
                    break;
                }
                default:
                    (void)run<NativeKind::withdraw>(who, {Role::verifier});
                    (void)run<NativeKind::declare_capacity>(who, {Role::verifier, {random() % 40, 0, 0, 0}});
            }
        }
        ASSERT_EQ(draw(beacon, 3, wanted), seats) << "sequence " << round;
        overlay.revert_to(before);
        (void)overlay.take_logs();
    }
}

}  // namespace
}  // namespace quern::chain::exec::handlers
