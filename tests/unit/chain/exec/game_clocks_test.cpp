// Games of one party in many claims at once: each that begins has the time for those that go on already.
#include "chain/market/bonds.h"
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

constexpr std::size_t kClaims = 20;

class GameClocks : public Lifecycle {
protected:
    GameClocks() {
        spec.money.price_cap = 1;
        spec.windows.challenge_s = 10'000;
        world.bond_role(kSolver, Role::solver, 10'000'000);
        world.bond_role(kWhistleblower, Role::whistleblower, 10'000'000);
    }
    void bond_verifiers(const Uint256& amount) {
        for (const auto& verifier : kVerifiers) world.bond_role(verifier, Role::verifier, amount);
    }
    // Solved with this history, and all say PASS.
    void pass(std::uint64_t id, const History& history) {
        expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 1}));
        tick_when_due(id);
        world.skip_to(world.task(id).seats.at(0).assigned_at + 2);
        expect_ok(world.one(kSolver, NativeKind::task_start, types::TaskIdPayload{id}));
        expect_ok(world.one(kSolver, NativeKind::task_checkpoint, checkpoint_of(world.task(id), history, kInterval)));
        expect_ok(world.one(kSolver, NativeKind::task_prove, proof_of(world.task(id), history)));
        tick_when_due(id);
        for (const auto& report : world.reports(id))
            expect_ok(
                world.one(report.verifier, NativeKind::custody_receipt, types::CustodyReceiptPayload{id, 0, true}));
        commit_to_pass(id, history);
        reveal_pass(id, history);
        ASSERT_EQ(world.claim(id).state, ClaimState::challenge);
    }
    Hash32 salt(std::uint64_t number) { return crypto::sha256(Uint256(number).to_be32()); }
    void commit(std::uint64_t id, const types::Address& who, const History& claim, std::uint64_t number = 0) {
        expect_ok(
            world.one(who, NativeKind::challenge_commit,
                      types::ChallengeCommitPayload{id, 0, core::challenge_commitment(who, claim.root, salt(number))}));
    }
    types::ChallengeRevealPayload reveal_of(std::uint64_t id, const History& claim, std::uint64_t number = 0,
                                            std::uint32_t target = 0) {
        return {id, 0, target, claim.root, salt(number), history_opening(claim)};
    }
    void concede(std::uint64_t dispute, const types::Address& who) {
        expect_ok(world.one(who, NativeKind::dispute_concede, types::DisputeConcedePayload{dispute}));
    }
    [[nodiscard]] std::vector<std::uint64_t> clocks_of(std::uint64_t dispute) const {
        return types::decode_record<core::Game>(world.dispute(dispute).game)->budget;
    }
    [[nodiscard]] std::uint64_t games(Role role, const types::Address& who) const {
        return world.bond(role, who).games;
    }
};

// Somebody accuses all that a solver has said at once, for a stake each. It computes for one game after the other.
TEST_F(GameClocks, a_solver_has_as_much_time_as_it_has_claims_in_dispute) {
    bond_verifiers(1'000'000);
    std::vector<std::uint64_t> ids;
    std::vector<types::Address> rivals;  // every other one is the same
    for (std::size_t i = 0; i < kClaims; ++i) {
        ids.push_back(submit());
        pass(ids.back(), truth);
        rivals.push_back(i % 2 == 0 ? kWhistleblower : address(700 + i));
        if (i % 2 == 0) continue;
        give(world.state(), rivals[i], Uint256(1'000'000'000'000'000));
        world.bond_role(rivals[i], Role::whistleblower, 100'000);
    }
    for (std::size_t i = 0; i < kClaims; ++i) commit(ids[i], rivals[i], wrong);
    world.begin();
    for (std::size_t i = 0; i < kClaims; ++i)
        expect_ok(world.send(rivals[i], NativeKind::challenge_reveal, reveal_of(ids[i], wrong)));
    ASSERT_TRUE(world.finish());

    const std::uint64_t clock = market::dispute_clock(world.params.market, world.task(ids[0]));
    std::vector<std::uint64_t> disputes;
    for (std::size_t i = 0; i < kClaims; ++i) {
        disputes.push_back(world.claim(ids[i]).disputes.at(0));
        const std::uint64_t rivals_games = i % 2 == 0 ? i / 2 + 1 : 1;
        EXPECT_EQ(clocks_of(disputes[i]), (std::vector<std::uint64_t>{(i + 1) * clock, rivals_games * clock}));
        EXPECT_EQ(world.deadline(ids[i]), world.market_ms() + (i + 1) * clock);
    }
    EXPECT_EQ(games(Role::solver, kSolver), kClaims);
    EXPECT_EQ(games(Role::whistleblower, kWhistleblower), kClaims / 2);
    EXPECT_EQ(games(Role::whistleblower, rivals[1]), 1U);
    EXPECT_EQ(games(Role::verifier, world.reports(ids[0])[0].verifier), 0U) << "it plays none";

    // Whoever wins, and by the clock too, it is one less.
    for (std::size_t i = 0; i < kClaims - 2; ++i) concede(disputes[i], i % 3 == 0 ? kSolver : rivals[i]);
    EXPECT_EQ(games(Role::solver, kSolver), 2U);
    world.skip_until(world.dispute(disputes[kClaims - 2]).deadline);
    expect_ok(
        world.one(kSecond, NativeKind::tick, types::TickPayload{types::TickObject::dispute, disputes[kClaims - 2]}));
    EXPECT_EQ(world.dispute(disputes[kClaims - 2]).reason, "clock");
    EXPECT_EQ(games(Role::solver, kSolver), 1U);
    commit(ids[1], kWhistleblower, wrong, 1);
    expect_ok(world.one(kWhistleblower, NativeKind::challenge_reveal, reveal_of(ids[1], wrong, 1)));
    const auto last = world.claim(ids[1]).disputes.back();
    EXPECT_EQ(clocks_of(last), (std::vector<std::uint64_t>{2 * clock, clock}));
    concede(last, kWhistleblower);
    concede(disputes[kClaims - 1], rivals[kClaims - 1]);
    EXPECT_EQ(games(Role::solver, kSolver), 0U);
    for (const auto& who : rivals) EXPECT_EQ(games(Role::whistleblower, who), 0U);
}

// A game that waits is none yet: its clocks are those of the day on which it begins.
TEST_F(GameClocks, a_game_counts_from_its_beginning) {
    bond_verifiers(1'000'000);
    const auto id = submit();
    pass(id, truth);
    const std::uint64_t clock = market::dispute_clock(world.params.market, world.task(id));
    for (std::uint64_t i = 0; i < 2; ++i) {
        commit(id, kWhistleblower, wrong, i);
        expect_ok(world.one(kWhistleblower, NativeKind::challenge_reveal, reveal_of(id, wrong, i)));
    }
    const auto disputes = world.claim(id).disputes;
    EXPECT_EQ(games(Role::solver, kSolver), 1U);
    EXPECT_EQ(games(Role::whistleblower, kWhistleblower), 1U);
    const auto other = submit();
    pass(other, truth);
    commit(other, kWhistleblower, wrong);
    expect_ok(world.one(kWhistleblower, NativeKind::challenge_reveal, reveal_of(other, wrong)));
    concede(disputes[0], kWhistleblower);
    EXPECT_EQ(clocks_of(disputes[1]), (std::vector<std::uint64_t>{2 * clock, 2 * clock})) << "with the other claim's";
    EXPECT_EQ(games(Role::solver, kSolver), 2U);
}

TEST_F(GameClocks, a_game_that_ends_moot_is_counted_no_more) {
    bond_verifiers(1'000'000);
    const auto id = submit();
    pass(id, wrong);
    for (std::uint64_t i = 0; i < 2; ++i) {
        commit(id, kWhistleblower, truth, i);
        expect_ok(world.one(kWhistleblower, NativeKind::challenge_reveal, reveal_of(id, truth, i)));
    }
    const auto disputes = world.claim(id).disputes;
    ASSERT_EQ(games(Role::solver, kSolver), 1U);
    concede(disputes[1], kSolver);  // the one that waits
    EXPECT_EQ(world.dispute(disputes[0]).reason, "moot");
    EXPECT_EQ(games(Role::solver, kSolver), 0U);
    EXPECT_EQ(games(Role::whistleblower, kWhistleblower), 0U);
}

// More games are moot than one transaction closes, and the loser has nothing left: what it plays is counted all the
// same.
TEST_F(GameClocks, an_empty_bond_stays_while_a_game_of_it_does) {
    const auto id = submit();
    bond_verifiers(market::verifier_bond(world.params.market, world.task(id)));
    pass(id, wrong);
    const auto who = world.reports(id)[0].verifier;
    const std::uint64_t count = params::kMaxSwept + 2;
    for (std::uint64_t i = 0; i < count; ++i) {
        commit(id, kWhistleblower, truth, i);
        expect_ok(world.one(kWhistleblower, NativeKind::challenge_reveal, reveal_of(id, truth, i, core::kPassTarget)));
    }
    const auto disputes = world.claim(id).disputes;
    ASSERT_EQ(disputes.size(), count);
    concede(disputes.back(), who);
    EXPECT_EQ(world.dispute(disputes[0]).closed_at, 0U);
    EXPECT_TRUE(world.bond(Role::verifier, who).bonded.is_zero());
    EXPECT_EQ(games(Role::verifier, who), 1U);
    tick_when_due(id);
    EXPECT_EQ(world.dispute(disputes[0]).reason, "moot");
    EXPECT_EQ(games(Role::whistleblower, kWhistleblower), 0U);
    EXPECT_FALSE(world.state().native(types::key_of<types::RoleBond>(Role::verifier, who)).has_value());
}

}  // namespace
}  // namespace quern::chain::exec::test
