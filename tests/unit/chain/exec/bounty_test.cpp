// Who is paid out of a slash: those who found it out, not the friend to whom the loser concedes.
#include "chain/market/bonds.h"
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

const types::Address kFriend = address(50);  // of the solver, with another history than it

class Bounties : public Lifecycle {
protected:
    Bounties() {
        spec.windows.verify_s = 40;
        spec.windows.challenge_s = 200;
        give(world.state(), kFriend, Uint256(1'000'000'000'000'000));
    }
    [[nodiscard]] Uint256 paid(std::uint64_t id, const types::Address& to, std::string_view reason) const {
        Uint256 sum;
        for (const auto& payment : world.task(id).payments)
            if (payment.to == to && payment.reason == reason) sum += payment.amount;
        return sum;
    }
    [[nodiscard]] Uint256 paid(std::uint64_t id, std::string_view reason) const {
        Uint256 sum;
        for (const auto& payment : world.task(id).payments)
            if (payment.reason == reason) sum += payment.amount;
        return sum;
    }
    // Of the only slash of the task.
    void expect_split(std::uint64_t id, const Uint256& lock, const types::Globals& before) const {
        ASSERT_EQ(world.task(id).slashes.size(), 1U);
        EXPECT_EQ(world.task(id).slashes[0].address, kSolver);
        EXPECT_EQ(world.task(id).slashes[0].amount, lock);
        const Uint256 burned = lock / Uint256(4);  // beside the base fee, so by what is paid elsewhere
        EXPECT_EQ(paid(id, kSubmitter, "slash_share"), lock / Uint256(10));
        const Uint256 rest = lock - burned - lock / Uint256(10);
        EXPECT_EQ(paid(id, "dispute_cost") + paid(id, "verifier_fee") + paid(id, "bounty") +
                      (world.globals().treasury_vault - before.treasury_vault),
                  rest)
            << "whoever are friends";
    }
    // The first `fails` of those who were drawn say FAIL, each with the truth, the others PASS.
    void report(std::uint64_t id, std::size_t fails) {
        const auto drawn = world.reports(id);
        for (const auto& each : drawn)
            if (world.claim(id).state == ClaimState::custody)
                expect_ok(
                    world.one(each.verifier, NativeKind::custody_receipt, types::CustodyReceiptPayload{id, 0, true}));
        std::vector<ReportData> reports;
        for (std::size_t i = 0; i < drawn.size(); ++i) {
            reports.push_back(make_report(world.live(id), drawn[i].verifier, i < fails ? truth : wrong, i >= fails,
                                          i < fails ? truth.root : Hash32{}, 1));
            expect_ok(world.one(drawn[i].verifier, NativeKind::verify_commit,
                                types::VerifyCommitPayload{id, 0, reports[i].sealed.commitment}));
        }
        for (std::size_t i = 0; i < drawn.size(); ++i) {
            auto reveal = core::make_reveal(reports[i].sealed, id, reports[i].sealed.true_index);
            if (i < fails) reveal.initial_path = core::history_path(truth.roots, 0);
            expect_ok(world.one(drawn[i].verifier, NativeKind::verify_reveal, reveal));
        }
    }
    Hash32 salt(std::uint64_t number) { return crypto::sha256(Uint256(number).to_be32()); }
    void commit(std::uint64_t id, const types::Address& who, const History& claim) {
        if (world.bond(Role::whistleblower, who).bonded.is_zero()) world.bond_role(who, Role::whistleblower, 100'000);
        expect_ok(
            world.one(who, NativeKind::challenge_commit,
                      types::ChallengeCommitPayload{id, 0, core::challenge_commitment(who, claim.root, salt(1))}));
    }
    std::uint64_t reveal(std::uint64_t id, const types::Address& who, const History& claim) {
        expect_ok(world.one(who, NativeKind::challenge_reveal,
                            types::ChallengeRevealPayload{id, 0, 0, claim.root, salt(1), history_opening(claim)}));
        return world.claim(id).disputes.back();
    }
    void concede(std::uint64_t dispute, const types::Address& who) {
        expect_ok(world.one(who, NativeKind::dispute_concede, types::DisputeConcedePayload{dispute}));
    }
    [[nodiscard]] Uint256 gamma() const { return world.params.market.dispute_cost; }
    [[nodiscard]] Uint256 fee(std::uint64_t id) const { return market::verifier_fee(world.task(id), 0); }

    const History friendly = compute_history(kSteps, 1, 1U << 9);
};

// A friend that commits as soon as the proof is there knows before anybody else where to look. It waits for somebody to
// find out, and the solver concedes to it at once: the game of who found it is moot.
TEST_F(Bounties, a_friend_to_whom_a_solver_concedes_takes_nothing_from_the_verifier_that_found_it) {
    const auto id = reach(ClaimState::proved, wrong);
    commit(id, kFriend, friendly);
    tick_when_due(id);
    report(id, 1);
    const auto honest = world.reports(id)[0].verifier;
    ASSERT_EQ(world.claim(id).open_disputes, 1U);
    const auto moot = world.claim(id).disputes[0];
    const auto sham = reveal(id, kFriend, friendly);
    const Uint256 lock = world.claim(id).locked;
    const auto before = world.globals();
    concede(sham, kSolver);
    EXPECT_EQ(world.dispute(sham).winner, types::DisputeWinner::rival);
    EXPECT_EQ(world.dispute(moot).reason, "moot");
    expect_split(id, lock, before);
    EXPECT_EQ(paid(id, kFriend, "dispute_cost"), gamma());
    EXPECT_TRUE(paid(id, kFriend, "bounty").is_zero());
    EXPECT_EQ(paid(id, honest, "verifier_fee"), fee(id));
    const Uint256 cost = spec.money.price_cap * market::sampled_work(market::work_of(world.task(id)));
    const Uint256 most = lock - lock / Uint256(4) - lock / Uint256(10) - gamma() - fee(id);
    EXPECT_EQ(paid(id, honest, "bounty"),
              std::min(most, std::max(cost * Uint256(3) / Uint256(2), lock * Uint256(3) / Uint256(10))));
    EXPECT_FALSE(paid(id, honest, "bounty").is_zero());
}

// The same against whistleblowers, who may be all that is left where verifiers look away.
// It sees who was drawn for the lie and falls to a friend at once: nobody has committed to a report yet.
TEST_F(Bounties, verifiers_have_their_fees_when_a_solver_concedes_before_they_can_say_fail) {
    const auto id = reach(ClaimState::committing, wrong);
    const auto drawn = world.reports(id);
    commit(id, kFriend, friendly);
    concede(reveal(id, kFriend, friendly), kSolver);
    ASSERT_EQ(drawn.size(), 2U);
    for (const auto& report : drawn) EXPECT_EQ(paid(id, report.verifier, "verifier_fee"), fee(id));
}

TEST_F(Bounties, a_verifier_without_the_data_has_no_fee_for_it) {
    const auto id = reach(ClaimState::custody, wrong);
    expect_ok(world.one(world.reports(id)[0].verifier, NativeKind::custody_receipt,
                        types::CustodyReceiptPayload{id, 0, true}));
    const auto drawn = world.reports(id);
    commit(id, kFriend, friendly);
    concede(reveal(id, kFriend, friendly), kSolver);
    EXPECT_EQ(paid(id, drawn[0].verifier, "verifier_fee"), fee(id));
    EXPECT_TRUE(paid(id, drawn[1].verifier, "verifier_fee").is_zero());
}

// Its game waits for the other's report.
TEST_F(Bounties, a_fail_that_is_revealed_is_an_accusation_before_its_game_is_open) {
    const auto id = reach(ClaimState::committing, wrong);
    const auto drawn = world.reports(id);
    std::vector<ReportData> reports;
    for (const auto& each : drawn) {
        reports.push_back(make_report(world.live(id), each.verifier, truth, false, truth.root, 1));
        expect_ok(world.one(each.verifier, NativeKind::verify_commit,
                            types::VerifyCommitPayload{id, 0, reports.back().sealed.commitment}));
    }
    auto fail = core::make_reveal(reports[0].sealed, id, reports[0].sealed.true_index);
    fail.initial_path = core::history_path(truth.roots, 0);
    expect_ok(world.one(drawn[0].verifier, NativeKind::verify_reveal, fail));
    ASSERT_EQ(world.claim(id).state, ClaimState::revealing);
    commit(id, kFriend, friendly);
    concede(reveal(id, kFriend, friendly), kSolver);
    EXPECT_FALSE(paid(id, drawn[0].verifier, "bounty").is_zero());
    EXPECT_TRUE(paid(id, kFriend, "bounty").is_zero());
    for (const auto& each : drawn) EXPECT_EQ(paid(id, each.verifier, "verifier_fee"), fee(id));
}

TEST_F(Bounties, who_accused_first_gets_the_bounty_whoever_is_conceded_to) {
    const auto id = reach(ClaimState::challenge, wrong);
    commit(id, kWhistleblower, truth);
    commit(id, kFriend, friendly);
    const auto sham = reveal(id, kFriend, friendly);  // quicker, with a higher fee
    const auto real = reveal(id, kWhistleblower, truth);
    ASSERT_LT(sham, real);
    const Uint256 lock = world.claim(id).locked;
    const auto before = world.globals();
    concede(sham, kSolver);
    expect_split(id, lock, before);
    EXPECT_EQ(paid(id, kFriend, "dispute_cost"), gamma());
    EXPECT_TRUE(paid(id, kFriend, "bounty").is_zero());
    EXPECT_EQ(paid(id, kWhistleblower, "bounty"), paid(id, "bounty"));
    EXPECT_GE(paid(id, kWhistleblower, "bounty"), lock * Uint256(3) / Uint256(10));
}

TEST_F(Bounties, a_commitment_that_is_held_back_accuses_when_it_is_revealed) {
    const auto id = reach(ClaimState::challenge, wrong);
    commit(id, kFriend, friendly);
    world.skip_until(market::reveal_expected(world.params.market, world.market_ms()));
    commit(id, kWhistleblower, truth);
    const auto real = reveal(id, kWhistleblower, truth);
    const auto sham = reveal(id, kFriend, friendly);
    EXPECT_LT(world.dispute(real).accused_at, world.market_ms());
    EXPECT_EQ(world.dispute(sham).accused_at, world.market_ms());
    concede(sham, kSolver);
    EXPECT_TRUE(paid(id, kFriend, "bounty").is_zero());
    EXPECT_FALSE(paid(id, kWhistleblower, "bounty").is_zero());
}

TEST_F(Bounties, of_accusations_of_one_block_the_first_counts) {
    const auto id = reach(ClaimState::challenge, wrong);
    world.bond_role(kFriend, Role::whistleblower, 100'000);
    world.begin();
    for (const auto& [who, claim] : {std::pair(kWhistleblower, truth.root), std::pair(kFriend, friendly.root)})
        expect_ok(world.send(who, NativeKind::challenge_commit,
                             types::ChallengeCommitPayload{id, 0, core::challenge_commitment(who, claim, salt(1))}));
    ASSERT_TRUE(world.finish());
    const auto first = reveal(id, kWhistleblower, truth);
    const auto second = reveal(id, kFriend, friendly);
    EXPECT_EQ(world.dispute(first).accused_at, world.dispute(second).accused_at);
    concede(second, kSolver);
    EXPECT_TRUE(paid(id, kFriend, "bounty").is_zero());
    EXPECT_FALSE(paid(id, kWhistleblower, "bounty").is_zero());
}

// An accuser that has lost its game, or whose game has nothing to do with the history, stands no more.
TEST_F(Bounties, a_beaten_accuser_leaves_the_bounty_to_the_next) {
    const auto id = reach(ClaimState::challenge, wrong);
    commit(id, kFriend, friendly);
    const auto sham = reveal(id, kFriend, friendly);
    commit(id, kWhistleblower, truth);
    const auto real = reveal(id, kWhistleblower, truth);
    concede(sham, kFriend);
    play_out(real, party_of(world.live(id), wrong), party_of(world.live(id), truth));
    EXPECT_EQ(world.dispute(real).reason, "leaf");
    EXPECT_EQ(paid(id, kWhistleblower, "dispute_cost"), gamma());
    EXPECT_GE(paid(id, kWhistleblower, "bounty"), world.dispute(real).defender_locked * Uint256(3) / Uint256(10));
}

// Nobody shall wish that it had passed what it knows to be wrong: not even where so many say so that nothing is left.
TEST_F(Bounties, a_fail_pays_what_a_pass_would_however_many_say_so) {
    spec.work.verifiers = params::kMaxVerifiers;
    spec.windows.verify_s = 100;
    for (std::uint64_t i = 0; i < params::kMaxVerifiers; ++i) {
        give(world.state(), address(300 + i), Uint256(1'000'000'000'000'000));
        world.bond_role(address(300 + i), Role::verifier, 10'000'000);
    }
    world.bond_role(kSolver, Role::solver, 10'000'000);
    const auto id = reach(ClaimState::custody, wrong);
    report(id, params::kMaxVerifiers);
    ASSERT_EQ(world.claim(id).open_disputes, params::kMaxVerifiers);
    const Uint256 lock = world.claim(id).locked;
    const auto drawn = world.reports(id);
    ASSERT_GT(fee(id) * Uint256(16), lock / Uint256(2)) << "they are what the lock is for";
    const auto before = world.globals();
    concede(world.claim(id).disputes[5], kSolver);
    expect_split(id, lock, before);
    for (const auto& each : drawn) EXPECT_EQ(paid(id, each.verifier, "verifier_fee"), fee(id));
    EXPECT_EQ(paid(id, drawn[5].verifier, "dispute_cost"), gamma());
}

// Solver and friend may end their game so that both lose: those who stand are paid all the same.
TEST_F(Bounties, a_game_that_both_lose_pays_those_who_found_it) {
    const auto id = reach(ClaimState::custody, wrong);
    commit(id, kFriend, friendly);
    const auto sham = reveal(id, kFriend, friendly);
    report(id, 2);
    const auto drawn = world.reports(id);
    core::DisputeStrategy players[] = {core::DisputeStrategy(clumsy_party_of(world.live(id), wrong, 1U << 10)),
                                       core::DisputeStrategy(clumsy_party_of(world.live(id), friendly, 1U << 11))};
    const auto game = [&] { return *types::decode_record<core::Game>(world.dispute(sham).game); };
    while (game().phase != core::Phase::leaf) {
        const auto side = core::owes_move(game(), core::Side::rival) ? core::Side::rival : core::Side::defender;
        const auto move = players[static_cast<int>(side)].next_move(game(), side, waiting_post(game()));
        ASSERT_TRUE(move && std::holds_alternative<core::SplitMove>(*move));
        expect_ok(world.one(side == core::Side::defender ? kSolver : kFriend, NativeKind::dispute_split,
                            types::DisputeSplitPayload{sham, types::encode_record(std::get<core::SplitMove>(*move))}));
    }
    const Uint256 lock = world.claim(id).locked;
    expect_ok(world.one(kFriend, NativeKind::dispute_prove_leaf,
                        types::DisputeProveLeafPayload{sham, types::encode_record(*players[1].leaf_witness(game()))}));
    ASSERT_EQ(world.dispute(sham).winner, types::DisputeWinner::neither);
    EXPECT_EQ(world.task(id).slashes.back().amount, lock);
    EXPECT_TRUE(paid(id, "dispute_cost").is_zero());
    for (const auto& each : drawn) EXPECT_EQ(paid(id, each.verifier, "verifier_fee"), fee(id));
    EXPECT_FALSE(paid(id, drawn[0].verifier, "bounty").is_zero());
}

// To look for lies that are told about one segment must be worth its replay and the game.
TEST_F(Bounties, a_pass_that_nobody_computed_pays_more_than_it_costs_to_catch) {
    spec.money.price_cap = 1;
    const auto id = reach(ClaimState::challenge, wrong);
    const auto report = world.reports(id)[0];
    const auto dispute = challenge(id, kWhistleblower, core::kPassTarget, truth.root, history_opening(truth));
    concede(dispute, report.verifier);
    EXPECT_EQ(paid(id, kWhistleblower, "dispute_cost"), gamma());
    const Uint256 replay = market::price_at_cap(world.task(id), world.task(id).segment_work);
    ASSERT_GT(report.locked * Uint256(3) / Uint256(10), replay * Uint256(3) / Uint256(2));
    EXPECT_EQ(paid(id, kWhistleblower, "bounty"), report.locked * Uint256(3) / Uint256(10));
    EXPECT_GT(paid(id, kWhistleblower, "bounty"), gamma() + replay * Uint256(2));
}

// A defender's game costs it as much.
TEST_F(Bounties, a_false_accusation_pays_the_game_of_its_defender) {
    const auto id = reach(ClaimState::challenge, truth);
    const auto dispute = challenge(id, kWhistleblower, 0, wrong.root, history_opening(wrong));
    concede(dispute, kWhistleblower);
    const Uint256 stake = world.dispute(dispute).rival_locked;
    EXPECT_EQ(paid(id, kSolver, "dispute_cost"), gamma());
    EXPECT_FALSE(paid(id, kSolver, "bounty").is_zero());
    EXPECT_LE(paid(id, kSolver, "dispute_cost") + paid(id, kSolver, "bounty"),
              stake - stake / Uint256(4) - stake / Uint256(10));
}

}  // namespace
}  // namespace quern::chain::exec::test
