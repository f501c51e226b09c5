// Challenges of a PASS: the verifier answers for the segments that it was drawn for, in a game of its own, and for
// nothing that the solver does.
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

constexpr std::uint64_t kSegments = kSteps / kInterval;

class PassChallenge : public Lifecycle {
protected:
    PassChallenge() { spec.windows.challenge_s = 100; }  // room for several challenges one after the other

    Hash32 salt(std::uint8_t number) {
        Hash32 result;
        result.data[0] = number;
        return result;
    }
    Result commit(std::uint64_t id, const types::Address& who, const History& claim, std::uint8_t number) {
        return world.one(
            who, NativeKind::challenge_commit,
            types::ChallengeCommitPayload{id, 0, core::challenge_commitment(who, claim.root, salt(number))});
    }
    types::ChallengeRevealPayload reveal_of(std::uint64_t id, std::uint32_t target, const History& claim,
                                            std::uint8_t number) {
        return {id, 0, target, claim.root, salt(number), history_opening(claim)};
    }
    Result reveal(std::uint64_t id, const types::Address& who, std::uint32_t target, const History& claim,
                  std::uint8_t number) {
        return world.one(who, NativeKind::challenge_reveal, reveal_of(id, target, claim, number));
    }
    std::uint64_t challenge_history(std::uint64_t id, std::uint32_t target, const History& claim) {
        return challenge(id, kWhistleblower, target, claim.root, history_opening(claim));
    }
    void concede(std::uint64_t dispute, const types::Address& who) {
        expect_ok(world.one(who, NativeKind::dispute_concede, types::DisputeConcedePayload{dispute}));
    }
    // Both post until the first differing step is known.
    void play_to_the_step(std::uint64_t dispute, const History& defender, const History& rival) {
        const auto live = world.live(world.dispute(dispute).claim.task);
        core::DisputeStrategy strategies[] = {core::DisputeStrategy(party_of(live, defender)),
                                              core::DisputeStrategy(party_of(live, rival))};
        for (const auto side : {core::Side::defender, core::Side::rival}) {
            const auto current = world.dispute(dispute);
            const auto game = *types::decode_record<core::Game>(current.game);
            const auto move = strategies[static_cast<int>(side)].next_move(game, side, waiting_post(game));
            ASSERT_TRUE(move) << move.error().to_string();
            expect_ok(
                world.one(side == core::Side::defender ? current.defender : current.rival, NativeKind::dispute_split,
                          types::DisputeSplitPayload{dispute, types::encode_record(std::get<core::SplitMove>(*move))}));
        }
        ASSERT_EQ(types::decode_record<core::Game>(world.dispute(dispute).game)->phase, core::Phase::state);
    }
    types::Address verifier(std::uint64_t id, std::size_t index) { return world.reports(id)[index].verifier; }
    std::size_t payments(std::uint64_t id, const types::Address& to, std::string_view reason) {
        std::size_t count = 0;
        for (const auto& payment : world.task(id).payments) count += payment.to == to && payment.reason == reason;
        return count;
    }
    void expect_untouched(const types::Address& who) {
        const auto bond = world.bond(Role::verifier, who);
        EXPECT_EQ(bond.bonded, Uint256(1'000'000));
        EXPECT_EQ(bond.faults, 0U);
    }
};

TEST_F(PassChallenge, pass_of_a_wrong_segment_costs_the_verifier_and_only_it) {
    const auto id = reach(ClaimState::challenge, wrong);
    const auto beaten = verifier(id, 0);
    const Uint256 locked = world.reports(id)[0].locked;
    const auto dispute = challenge_history(id, core::kPassTarget, truth);
    EXPECT_EQ(world.dispute(dispute).defender, beaten);
    EXPECT_EQ(world.dispute(dispute).defender_locked, locked);
    play_out(dispute, party_of(world.live(id), wrong), party_of(world.live(id), truth));
    EXPECT_EQ(world.dispute(dispute).winner, types::DisputeWinner::rival);
    EXPECT_EQ(world.dispute(dispute).reason, "leaf");
    const auto live = world.live(id);
    const auto& [task, claim, reports, custody] = live;
    ASSERT_EQ(task.slashes.size(), 1U);
    EXPECT_EQ(task.slashes[0].address, beaten);
    EXPECT_EQ(task.slashes[0].amount, locked);
    EXPECT_EQ(task.slashes[0].reason, "passed_wrong_result");
    EXPECT_EQ(payments(id, kWhistleblower, "bounty"), 1U);
    EXPECT_TRUE(world.bond(Role::whistleblower, kWhistleblower).locked.is_zero());
    // A win voids the loser's claim only: neither the solver's nor the other verifier's.
    EXPECT_EQ(claim.state, ClaimState::challenge);
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    EXPECT_EQ(payments(id, beaten, "verifier_fee"), 0U);
    EXPECT_EQ(payments(id, world.reports(id)[1].verifier, "verifier_fee"), 1U);
}

TEST_F(PassChallenge, right_pass_is_defended_and_the_challenger_pays) {
    const auto id = reach(ClaimState::challenge, truth);
    const auto dispute = challenge_history(id, core::kPassTarget + 1, wrong);
    play_out(dispute, party_of(world.live(id), truth), party_of(world.live(id), wrong));
    EXPECT_EQ(world.dispute(dispute).winner, types::DisputeWinner::defender);
    ASSERT_EQ(world.task(id).slashes.size(), 1U);
    EXPECT_EQ(world.task(id).slashes[0].address, kWhistleblower);
    EXPECT_EQ(world.task(id).slashes[0].reason, "false_accusation");
    EXPECT_EQ(payments(id, verifier(id, 1), "bounty"), 1U);
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
}

TEST_F(PassChallenge, segments_that_were_not_drawn_are_nobodys_claim) {
    spec.work.samples = 1;
    const auto id = reach(ClaimState::challenge, truth);
    const auto who = verifier(id, 0);
    const auto drawn = core::draw_segments(world.claim(id).verify_beacon, who, kSegments, 1).front();
    const auto elsewhere = compute_history(kSteps, (1 - drawn) * kInterval + 1, 1U << 20);
    const auto dispute = challenge_history(id, core::kPassTarget, elsewhere);
    play_to_the_step(dispute, truth, elsewhere);
    concede(dispute, who);
    EXPECT_EQ(world.dispute(dispute).winner, types::DisputeWinner::defender);
    EXPECT_EQ(world.dispute(dispute).reason, "not_sampled");
    ASSERT_EQ(world.task(id).slashes.size(), 1U);
    EXPECT_EQ(world.task(id).slashes[0].address, kWhistleblower);
    EXPECT_EQ(payments(id, who, "bounty"), 0U) << "a friend of the verifier would have it back";
    EXPECT_TRUE(world.bond(Role::whistleblower, kWhistleblower).locked.is_zero());
    expect_untouched(who);
    // The report still stands, and still answers for the segment that it was drawn for.
    const auto here = compute_history(kSteps, drawn * kInterval + 1, 1U << 20);
    const auto second = challenge_history(id, core::kPassTarget, here);
    play_to_the_step(second, truth, here);
    concede(second, who);
    EXPECT_EQ(world.dispute(second).winner, types::DisputeWinner::rival);
    EXPECT_EQ(world.task(id).slashes.at(1).reason, "passed_wrong_result");
}

// Else whoever holds places of commitments would go round them: reveal, have the stake back, commit anew.
TEST_F(PassChallenge, a_report_that_was_slashed_for_its_silence_gives_no_stake_back) {
    world.params.check_invariants = false;  // the counts of a report that was not silent
    const auto id = reach(ClaimState::challenge, truth);
    auto silent = world.reports(id)[0];
    silent.slashed_at = world.market_ms();
    silent.revealed_at = 0;
    world.state().store(types::key_of<types::VerifierReport>(world.claim(id).id, silent.place), silent);
    expect_ok(commit(id, kWhistleblower, wrong, 1));
    EXPECT_EQ(name(reveal(id, kWhistleblower, core::kPassTarget + silent.place, wrong, 1)),
              "challenge.report_not_standing");
    EXPECT_FALSE(world.bond(Role::whistleblower, kWhistleblower).locked.is_zero());
}

// The same way round a report that somebody has brought down: its lock pays for that once.
TEST_F(PassChallenge, a_report_that_fell_gives_back_only_stakes_of_before) {
    spec.windows.challenge_s = 4 * static_cast<std::uint64_t>(world.params.market.min_window_s);
    const auto id = reach(ClaimState::challenge, wrong);
    expect_ok(commit(id, kWhistleblower, truth, 1));
    concede(challenge_history(id, core::kPassTarget, truth), verifier(id, 0));
    const std::uint64_t fell_at = world.reports(id)[0].slashed_at;
    EXPECT_EQ(fell_at, world.market_ms());
    expect_ok(commit(id, kWhistleblower, truth, 2));  // sent before its sender had heard of it
    expect_ok(reveal(id, kWhistleblower, core::kPassTarget, truth, 1));
    expect_ok(reveal(id, kWhistleblower, core::kPassTarget, truth, 2));
    EXPECT_TRUE(world.bond(Role::whistleblower, kWhistleblower).locked.is_zero());
    world.skip_until(market::reveal_expected(world.params.market, fell_at));
    expect_ok(commit(id, kWhistleblower, truth, 3));
    EXPECT_EQ(name(reveal(id, kWhistleblower, core::kPassTarget, truth, 3)), "challenge.report_not_standing");
    EXPECT_FALSE(world.bond(Role::whistleblower, kWhistleblower).locked.is_zero());
}

// A friend of a verifier that takes the places of those who would accuse it pays for each of them.
TEST_F(PassChallenge, places_are_not_taken_for_nothing) {
    world.params.market.max_disputes = 2;
    spec.work.samples = 1;
    const auto id = reach(ClaimState::challenge, truth);
    const auto who = verifier(id, 0);
    const auto drawn = core::draw_segments(world.claim(id).verify_beacon, who, kSegments, 1).front();
    const Uint256 before = world.bond(Role::whistleblower, kWhistleblower).bonded;
    Uint256 staked;
    for (const std::uint32_t bit : {20U, 19U}) {
        const auto elsewhere = compute_history(kSteps, (1 - drawn) * kInterval + 1, 1U << bit);
        const auto dispute = challenge_history(id, core::kPassTarget, elsewhere);
        staked += world.dispute(dispute).rival_locked;
        play_to_the_step(dispute, truth, elsewhere);
        concede(dispute, who);
    }
    EXPECT_FALSE(staked.is_zero());
    EXPECT_EQ(world.bond(Role::whistleblower, kWhistleblower).bonded, before - staked);
}

// Who is accused while the verifiers fetch its data lets them have none.
TEST_F(PassChallenge, a_solver_that_is_accused_does_not_get_away_by_withholding_its_data) {
    spec.windows.verify_s = 20;
    const auto id = reach(ClaimState::custody, wrong);
    const auto dispute = challenge_history(id, 0, truth);
    for (const auto& report : world.reports(id))
        if (world.claim(id).state == ClaimState::custody)
            expect_ok(
                world.one(report.verifier, NativeKind::custody_receipt, types::CustodyReceiptPayload{id, 0, false}));
    EXPECT_EQ(world.dispute(dispute).closed_at, 0U) << world.dispute(dispute).reason;
    EXPECT_FALSE(world.bond(Role::solver, kSolver).locked.is_zero());
}

TEST_F(PassChallenge, silence_before_the_step_is_known_costs_the_verifier) {
    spec.work.samples = 1;
    const auto id = reach(ClaimState::challenge, truth);
    const auto who = verifier(id, 0);
    const auto drawn = core::draw_segments(world.claim(id).verify_beacon, who, kSegments, 1).front();
    const auto elsewhere = compute_history(kSteps, (1 - drawn) * kInterval + 1, 1U << 20);
    const auto dispute = challenge_history(id, core::kPassTarget, elsewhere);
    tick_when_due(id);
    EXPECT_EQ(world.dispute(dispute).reason, "clock");
    EXPECT_EQ(world.task(id).slashes.at(0).address, who);
    EXPECT_EQ(world.task(id).slashes.at(0).reason, "passed_wrong_result");
}

TEST_F(PassChallenge, both_lose_when_the_leaf_is_neithers) {
    const auto id = reach(ClaimState::challenge, truth);
    const auto dispute = challenge_history(id, core::kPassTarget, wrong);
    core::DisputeStrategy defender(clumsy_party_of(world.live(id), truth, 1U << 10));
    core::DisputeStrategy rival(clumsy_party_of(world.live(id), wrong, 1U << 11));
    for (int i = 0; i < 40; ++i) {
        const auto game = *types::decode_record<core::Game>(world.dispute(dispute).game);
        if (game.phase == core::Phase::leaf) break;
        for (const auto side : {core::Side::defender, core::Side::rival}) {
            const auto now = *types::decode_record<core::Game>(world.dispute(dispute).game);
            if (!core::owes_move(now, side)) continue;
            const auto move = (side == core::Side::defender ? defender : rival).next_move(now, side, waiting_post(now));
            ASSERT_TRUE(move && std::holds_alternative<core::SplitMove>(*move));
            expect_ok(
                world.one(side == core::Side::defender ? verifier(id, 0) : kWhistleblower, NativeKind::dispute_split,
                          types::DisputeSplitPayload{dispute, types::encode_record(std::get<core::SplitMove>(*move))}));
        }
    }
    const auto witness = rival.leaf_witness(*types::decode_record<core::Game>(world.dispute(dispute).game));
    ASSERT_TRUE(witness);
    expect_ok(world.one(kWhistleblower, NativeKind::dispute_prove_leaf,
                        types::DisputeProveLeafPayload{dispute, types::encode_record(*witness)}));
    EXPECT_EQ(world.dispute(dispute).winner, types::DisputeWinner::neither);
    const auto& slashes = world.task(id).slashes;
    ASSERT_EQ(slashes.size(), 2U);
    EXPECT_EQ(slashes[0].reason, "false_accusation");
    EXPECT_EQ(slashes[1].address, verifier(id, 0));
    EXPECT_EQ(slashes[1].reason, "passed_wrong_result");
    EXPECT_EQ(payments(id, kWhistleblower, "bounty"), 0U);
}

TEST_F(PassChallenge, solver_that_plays_badly_costs_no_verifier_anything) {
    const auto id = reach(ClaimState::challenge, truth);
    const types::Address verifiers[] = {verifier(id, 0), verifier(id, 1)};
    const auto dispute = challenge_history(id, 0, wrong);
    play_out(dispute, clumsy_party_of(world.live(id), truth, 1U << 10), party_of(world.live(id), wrong));
    EXPECT_EQ(world.dispute(dispute).winner, types::DisputeWinner::rival);
    EXPECT_EQ(world.dispute(dispute).reason, "leaf");
    const auto live = world.live(id);
    const auto& [task, claim, reports, custody] = live;
    ASSERT_EQ(task.slashes.size(), 1U);
    EXPECT_EQ(task.slashes[0].address, kSolver);
    EXPECT_EQ(task.state, TaskState::open);  // nothing is open about the reports
    EXPECT_EQ(task.round, 1U);
    for (const auto& who : verifiers) {
        expect_untouched(who);
        EXPECT_TRUE(world.bond(Role::verifier, who).locked.is_zero());
    }
}

TEST_F(PassChallenge, void_history_waits_for_the_games_of_those_who_passed_it) {
    spec.money.price_cap = 3;
    const auto id = reach(ClaimState::challenge, wrong);
    const auto passed = verifier(id, 0);
    const auto about_solver = challenge_history(id, 0, truth);
    const auto about_pass = challenge_history(id, core::kPassTarget, truth);
    concede(about_solver, kSolver);
    auto live = world.live(id);
    const auto& [task, claim, reports, custody] = live;
    EXPECT_EQ(claim.state, ClaimState::disputed);
    EXPECT_EQ(claim.reason, "solver_slashed");
    EXPECT_TRUE(claim.voided);
    EXPECT_EQ(task.round, 0U);
    EXPECT_EQ(claim.open_disputes, 1U);
    EXPECT_EQ(claim.deadline, world.dispute(about_pass).deadline);
    EXPECT_EQ(world.bond(Role::solver, kSolver).bonded, Uint256(100'000) - solver_lock());
    EXPECT_EQ(name(commit(id, kWhistleblower, wrong, 9)), "challenge.claim_void");
    EXPECT_EQ(name(world.tick(id)), "tick.too_early");
    play_out(about_pass, party_of(live, wrong), party_of(live, truth));
    live = world.live(id);
    EXPECT_EQ(task.state, TaskState::open);
    EXPECT_EQ(task.round, 1U);
    EXPECT_FALSE(claim.voided);
    ASSERT_EQ(task.slashes.size(), 2U);
    EXPECT_EQ(task.slashes[1].address, passed);
    EXPECT_EQ(task.slashes[1].reason, "passed_wrong_result");
    for (const auto& who : kVerifiers) EXPECT_TRUE(world.bond(Role::verifier, who).locked.is_zero());
}

TEST_F(PassChallenge, void_history_ends_through_ticks_alone) {
    const auto id = reach(ClaimState::challenge, wrong);
    const auto about_solver = challenge_history(id, 0, truth);
    challenge_history(id, core::kPassTarget, truth);
    concede(about_solver, kSolver);
    ASSERT_TRUE(world.claim(id).voided);
    tick_when_due(id);  // both keep still, and the defender owes the first post
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(world.task(id).slashes.back().reason, "passed_wrong_result");
}

TEST_F(PassChallenge, what_was_committed_in_time_can_be_revealed_after_the_solver_lost) {
    const auto id = reach(ClaimState::challenge, wrong);
    const auto about_solver = challenge_history(id, 0, truth);
    expect_ok(commit(id, kWhistleblower, truth, 1));
    expect_ok(commit(id, kWhistleblower, truth, 2));
    concede(about_solver, kSolver);
    const auto lost_at = world.market_ms();
    auto live = world.live(id);
    const auto& [task, claim, reports, custody] = live;
    ASSERT_TRUE(claim.voided);
    EXPECT_EQ(claim.state, ClaimState::disputed);
    EXPECT_EQ(claim.open_disputes, 0U);
    EXPECT_EQ(claim.deadline, market::reveal_expected(world.params.market, lost_at));
    // Nothing is left to be said about the solver.
    expect_ok(reveal(id, kWhistleblower, 0, truth, 1));
    EXPECT_EQ(world.claim(id).disputes.size(), 1U);
    EXPECT_EQ(world.claim(id).state, ClaimState::disputed);
    expect_ok(reveal(id, kWhistleblower, core::kPassTarget + 1, truth, 2));
    live = world.live(id);
    ASSERT_EQ(claim.disputes.size(), 2U);
    EXPECT_EQ(claim.deadline, world.dispute(claim.disputes[1]).deadline);
    concede(claim.disputes[1], reports[1].verifier);
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(world.task(id).slashes.at(1).address, reports[1].verifier);
}

TEST_F(PassChallenge, void_history_waits_for_reveals_only_so_long) {
    const auto id = reach(ClaimState::challenge, wrong);
    const auto about_solver = challenge_history(id, 0, truth);
    expect_ok(commit(id, kWhistleblower, truth, 1));
    concede(about_solver, kSolver);
    world.skip_until(world.deadline(id));
    world.begin();
    EXPECT_EQ(
        name(world.send(kWhistleblower, NativeKind::challenge_reveal, reveal_of(id, core::kPassTarget, truth, 1))),
        "challenge.window_closed");
    expect_ok(world.send(kSecond, NativeKind::tick, types::TickPayload{types::TickObject::task, id}));
    ASSERT_TRUE(world.finish());
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(world.task(id).slashes.size(), 1U);
    EXPECT_TRUE(world.bond(Role::whistleblower, kWhistleblower).locked.is_zero());
}

TEST_F(PassChallenge, void_history_is_open_again_with_the_last_reveal) {
    const auto id = reach(ClaimState::challenge, wrong);
    const auto about_solver = challenge_history(id, 0, truth);
    expect_ok(commit(id, kWhistleblower, truth, 1));
    concede(about_solver, kSolver);
    expect_ok(reveal(id, kWhistleblower, 0, truth, 1));
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(world.task(id).round, 1U);
}

TEST_F(PassChallenge, beaten_report_ends_the_other_games_about_it) {
    const auto id = reach(ClaimState::challenge, wrong);
    world.bond_role(kSecond, Role::whistleblower, 100'000);
    const auto first = challenge_history(id, core::kPassTarget, truth);
    const auto second = challenge(id, kSecond, core::kPassTarget, truth.root, history_opening(truth));
    const auto other = challenge(id, kSecond, core::kPassTarget + 1, truth.root, history_opening(truth));
    concede(first, verifier(id, 0));
    EXPECT_EQ(world.dispute(second).reason, "moot");
    EXPECT_EQ(world.dispute(other).closed_at, 0U);
    EXPECT_EQ(world.claim(id).open_disputes, 1U);
    // A challenge of it that comes too late gets its stake back.
    expect_ok(commit(id, kWhistleblower, truth, 5));
    expect_ok(reveal(id, kWhistleblower, core::kPassTarget, truth, 5));
    EXPECT_EQ(world.claim(id).disputes.size(), 3U);
    EXPECT_TRUE(world.bond(Role::whistleblower, kWhistleblower).locked.is_zero());
}

TEST_F(PassChallenge, names_what_is_wrong) {
    const auto id = reach(ClaimState::challenge, wrong);
    expect_ok(commit(id, kWhistleblower, truth, 1));
    EXPECT_EQ(name(reveal(id, kWhistleblower, core::kPassTarget + 2, truth, 1)), "challenge.no_such_report");
    EXPECT_EQ(name(reveal(id, kWhistleblower, core::kPassTarget + 99, truth, 1)), "challenge.no_such_report");
    EXPECT_EQ(name(reveal(id, kWhistleblower, 0xffffffff, truth, 1)), "challenge.no_such_report");
    auto bad = reveal_of(id, core::kPassTarget, truth, 1);
    bad.opening = core::encode(core::HistoryChallenge{core::history_path(truth.roots, 1)});
    EXPECT_EQ(name(world.one(kWhistleblower, NativeKind::challenge_reveal, bad)), "challenge.bad_initial_path");
    expect_ok(commit(id, kWhistleblower, wrong, 2));
    EXPECT_EQ(name(reveal(id, kWhistleblower, core::kPassTarget, wrong, 2)), "challenge.equal_claim");
    const auto own = verifier(id, 0);
    world.bond_role(own, Role::whistleblower, 100'000);
    expect_ok(commit(id, own, truth, 3));
    EXPECT_EQ(name(reveal(id, own, core::kPassTarget, truth, 3)), "challenge.own_claim");
}

TEST_F(PassChallenge, needs_a_revealed_pass) {
    const auto id = reach(ClaimState::revealing, wrong);
    expect_ok(commit(id, kWhistleblower, truth, 1));
    EXPECT_EQ(name(reveal(id, kWhistleblower, core::kPassTarget, truth, 1)), "challenge.report_not_standing");
}

}  // namespace
}  // namespace quern::chain::exec::test
