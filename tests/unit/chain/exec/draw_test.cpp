#include "chain/exec/handlers/draw.h"

#include <set>

#include "chain/market/windows.h"
#include "support.h"

namespace quern::chain::exec::handlers {
namespace {

using test::address;

Hash32 random_word(std::uint64_t number) { return crypto::sha256(Uint256(number).to_be32()); }

class Draws : public ::testing::Test {
protected:
    void bond(const types::Address& who, std::uint64_t bonded, std::uint64_t locked, std::uint64_t since) {
        types::RoleBond bond;
        bond.address = who;
        bond.role = types::Role::verifier;
        bond.bonded = bonded;
        bond.locked = locked;
        bond.since = since;
        store_bond(overlay, bond);
    }
    std::vector<Candidate> find(std::uint64_t needed, std::uint64_t anchor, const Hash32& randomness,
                                const std::vector<types::Address>& excluded = {}, const Demand& demand = {}) {
        return *find_candidates(context, types::Role::verifier, needed, demand, anchor, randomness, excluded);
    }

    test::EmptyState empty;
    state::Overlay overlay{empty};
    params::ChainParams params;
    Context context{params, overlay, 600, {}, 0, 0, nullptr};
};

TEST_F(Draws, follow_the_weights) {
    const std::vector<Candidate> candidates{{address(1), 1}, {address(2), 0}, {address(3), 3}};
    std::array<int, 3> hits{};
    for (std::uint64_t i = 0; i < 4000; ++i) ++hits[draw_one(random_word(i), candidates)];
    EXPECT_EQ(hits[1], 0);
    EXPECT_NEAR(hits[2], 3000, 150);
    EXPECT_EQ(draw_one({}, {}), 0U);
    EXPECT_EQ(draw_one({}, {{address(1), 0}}), 1U);
}

TEST_F(Draws, take_each_candidate_once) {
    const auto drawn = draw_many(random_word(1), {{address(1), 5}, {address(2), 5}, {address(3), 5}}, 7);
    EXPECT_EQ(std::set<types::Address>(drawn.begin(), drawn.end()).size(), 3U);
}

TEST_F(Draws, candidates_have_free_old_bonds_and_are_not_excluded) {
    bond(address(1), 100, 0, 5);
    bond(address(2), 100, 50, 5);
    bond(address(3), 100, 0, 6);
    bond(address(4), 40, 0, 5);
    bond(address(5), 100, 0, 5);
    const auto found = find(60, 5, {}, {address(5)});
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].address, address(1));
    EXPECT_EQ(find(60, 6, {}, {}).size(), 3U);
}

TEST_F(Draws, search_starts_at_the_randomness_and_wraps) {
    bond(address(1), 1, 0, 0);
    bond(address(2), 1, 0, 0);
    Hash32 start;
    const types::Address second = address(2);
    std::copy(second.data.begin(), second.data.end(), start.data.begin());
    const auto found = find(1, 0, start);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].address, address(2));
    EXPECT_EQ(found[1].address, address(1));
}

TEST_F(Draws, beacons_left_too_long_are_replaced_by_one_that_waiting_cannot_choose) {
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
    types::RoleBond bond;
    bond.address = test::address(1);
    bond.role = types::Role::verifier;
    bond.bonded = 100;
    bond.capacity = {50, market::class_of_rate(16), 20, 64};
    bond.capacity_since = 20;
    store_bond(overlay, bond);
    const auto found = [&](const Demand& demand, std::uint64_t anchor) {
        return find(1, anchor, {}, {}, demand).size();
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
    EXPECT_EQ(found({51, 481, 30, 80, 10, {9, 21, 65}}, 19),
              1U);  // what was declared after the anchor does not count yet
    bond.capacity = {};
    store_bond(overlay, bond);
    EXPECT_EQ(found({51, 481, 30, 80, 10, {9, 21, 65}}, 20), 1U);  // nothing declared is no limit
}

}  // namespace
}  // namespace quern::chain::exec::handlers
