// Rules that keep the market's incentives right when somebody plays with them: low bids, missing verifiers, filled
// places, dust, clocks.
#include <functional>

#include "chain/market/bonds.h"
#include "chain/market/shares.h"
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

Uint256 paid(const types::Task& task, const types::Address& to, std::string_view reason) {
    Uint256 sum;
    for (const auto& payment : task.payments)
        if (payment.to == to && payment.reason == reason) sum += payment.amount;
    return sum;
}

class Incentives : public Lifecycle {
protected:
    // Submitted, won by kSolver at `price`, and trained up to the proof.
    std::uint64_t prove(
        std::uint64_t price = 3, const std::function<void()>& in_training = [] {}) {
        const auto id = submit();
        expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, price}));
        tick_when_due(id);
        world.skip_to(world.task(id).seats.at(0).assigned_at + 2);
        expect_ok(world.one(kSolver, NativeKind::task_start, types::TaskIdPayload{id}));
        expect_ok(world.one(kSolver, NativeKind::task_checkpoint, checkpoint_of(world.task(id), truth, kInterval)));
        in_training();
        expect_ok(world.one(kSolver, NativeKind::task_prove, proof_of(world.task(id), truth)));
        return id;
    }
    void unbond_verifiers(const types::Address& except = {}) {
        for (const auto& who : kVerifiers)
            if (who != except) {
                const auto free = world.bond(Role::verifier, who).bonded - world.bond(Role::verifier, who).locked;
                expect_ok(world.one(who, NativeKind::unbond, types::UnbondPayload{Role::verifier, free}));
            }
    }
    // So that they are in no table of draws any more.
    void leave_in_time(const types::Address& except = {}) {
        unbond_verifiers(except);
        world.skip(world.params.epoch_length);
    }
    types::Address newcomer(std::uint64_t number, Role role, const Uint256& bond) {
        const auto who = address(number);
        give(world.state(), who, Uint256(1'000'000'000'000'000));
        world.bond_role(who, role, bond);
        return who;
    }
    Uint256 cap_reward() const {
        const auto live = world.live(1);
        const auto& [task, claim, reports, custody] = live;
        return spec.money.price_cap * task.total_work;
    }
};

TEST_F(Incentives, a_bid_of_one_grain_buys_as_much_checking_as_any) {
    spec.money.price_cap = 5;  // so that work counts for more than γ
    bond_everybody();
    const auto id = prove(1);
    const Uint256 fee = cap_reward() * Uint256(6) / Uint256(5);
    EXPECT_EQ(world.claim(id).locked, solver_lock());
    tick_when_due(id);
    for (const auto& report : world.reports(id)) EXPECT_EQ(report.locked, fee * Uint256(10));
    for (const auto& report : world.reports(id))
        expect_ok(world.one(report.verifier, NativeKind::custody_receipt, types::CustodyReceiptPayload{id, 0, true}));
    for (const auto& report : world.reports(id)) {
        const auto mine = make_report(world.live(id), report.verifier, truth, true, {}, 1);
        expect_ok(world.one(report.verifier, NativeKind::verify_commit,
                            types::VerifyCommitPayload{id, 0, mine.sealed.commitment}));
    }
    for (const auto& report : world.reports(id)) {
        const auto mine = make_report(world.live(id), report.verifier, truth, true, {}, 1);
        expect_ok(world.one(report.verifier, NativeKind::verify_reveal,
                            core::make_reveal(mine.sealed, id, mine.sealed.true_index)));
    }
    tick_when_due(id);
    const auto live = world.live(id);
    const auto& [task, claim, reports, custody] = live;
    EXPECT_EQ(task.reason, "unchallenged");
    EXPECT_EQ(paid(task, kSolver, "solver_reward"), cap_reward() / Uint256(5));
    for (const auto& report : reports) EXPECT_EQ(paid(task, report.verifier, "verifier_fee"), fee);
}

TEST_F(Incentives, a_verifiers_bond_is_worth_a_dispute_at_least) {
    world.params.market.dispute_cost = 100;
    spec.money.price_cap = 1;
    spec.work.samples = 1;
    const auto id = reach(ClaimState::custody, truth);
    for (const auto& report : world.reports(id)) EXPECT_EQ(report.locked, Uint256(10'000));  // 100 γ
}

TEST_F(Incentives, a_task_without_enough_verifiers_does_not_start) {
    world.bond_role(kSolver, Role::solver, 100'000);
    world.bond_role(kSubmitter, Role::verifier, 1'000'000);  // never draws itself
    world.bond_role(kSolver, Role::verifier, 1'000'000);     // nor the solver
    world.bond_role(kVerifiers[0], Role::verifier, 1'000'000);
    const auto id = submit();
    const auto escrow = world.task(id).escrow;
    expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 3}));
    tick_when_due(id);
    const auto live = world.live(id);
    const auto& [task, claim, reports, custody] = live;
    EXPECT_EQ(task.state, TaskState::expired);
    EXPECT_EQ(task.reason, "no_verifiers");
    EXPECT_EQ(paid(task, kSubmitter, "refund"), escrow - task.deposit);
    EXPECT_TRUE(world.bond(Role::solver, kSolver).locked.is_zero());
}

TEST_F(Incentives, a_bidder_that_is_needed_as_verifier_is_passed_over) {
    world.bond_role(kSolver, Role::solver, 100'000);
    world.bond_role(kSecond, Role::solver, 100'000);
    world.bond_role(kSolver, Role::verifier, 1'000'000);
    world.bond_role(kVerifiers[0], Role::verifier, 1'000'000);
    const auto id = submit();
    expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 3}));
    expect_ok(world.one(kSecond, NativeKind::task_bid, types::TaskBidPayload{id, 0, 9}));
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::assigned);
    EXPECT_EQ(world.task(id).seats.at(0).solver, kSecond);
}

TEST_F(Incentives, verifiers_that_leave_during_training_do_not_make_it_free) {
    bond_everybody();
    const auto id = prove(3, [&] { leave_in_time(); });
    tick_when_due(id);
    EXPECT_EQ(world.reason(id), "waiting_for_verifiers");
    EXPECT_EQ(world.claim(id).draw_at, 0U) << "no anchor: nobody knows a beacon while it pauses";
    world.skip_until_due(id);
    expect_ok(world.tick(id));
    EXPECT_EQ(world.claim(id).draw_at, world.height);
    EXPECT_EQ(name(world.tick(id)), "tick.too_early");
    const auto proved = world.claim(id).proved_since;
    while (world.claim(id).state == ClaimState::proved) tick_when_due(id);
    const auto waiting = world.claim(id);
    EXPECT_EQ(waiting.state, ClaimState::challenge);
    EXPECT_EQ(waiting.reason, "no_verifiers");
    EXPECT_GE(world.market_ms(), proved + market::in_ms(spec.windows.verify_s));
    EXPECT_EQ(waiting.challenge_until,
              world.market_ms() + market::in_ms(spec.windows.verify_s + spec.windows.challenge_s));
    tick_when_due(id);
    const auto live = world.live(id);
    const auto& [task, claim, reports, custody] = live;
    EXPECT_EQ(task.state, TaskState::settled);
    EXPECT_EQ(task.reason, "unverified");
    EXPECT_EQ(paid(task, kSolver, "solver_reward"), Uint256(3) * task.total_work);
    EXPECT_TRUE(paid(task, kVerifiers[0], "verifier_fee").is_zero());
    EXPECT_TRUE(world.bond(Role::solver, kSolver).locked.is_zero());
}

// Who sees the proof, or what the beacon will draw, and leaves is drawn as if it stayed, and pays for its silence.
TEST_F(Incentives, verifiers_that_leave_once_the_proof_is_there_are_drawn_and_answer) {
    bond_everybody();
    const auto id = prove();
    unbond_verifiers();
    tick_when_due(id);
    ASSERT_EQ(world.claim(id).state, ClaimState::custody);
    ASSERT_EQ(world.reports(id).size(), 2U);
    const auto report = world.reports(id)[0];
    EXPECT_TRUE(world.bond(Role::verifier, report.verifier).bonded.is_zero());
    tick_when_due(id);
    const Uint256 lost = market::percent_of(report.locked, world.params.market.no_reveal_slash_percent);
    const auto bond = world.bond(Role::verifier, report.verifier);
    EXPECT_EQ(market::whole_bond(bond), Uint256(1'000'000) - lost);
    world.skip_to(bond.unbonding.at(0).matures_at);
    expect_ok(world.one(report.verifier, NativeKind::withdraw, types::WithdrawPayload{Role::verifier}));
}

TEST_F(Incentives, who_is_left_is_drawn_after_waiting_in_vain) {
    bond_everybody();
    const auto id = prove(3, [&] { leave_in_time(kVerifiers[1]); });
    while (world.claim(id).state == ClaimState::proved) tick_when_due(id);
    EXPECT_EQ(world.claim(id).state, ClaimState::custody);
    ASSERT_EQ(world.reports(id).size(), 1U);
    EXPECT_EQ(world.reports(id)[0].verifier, kVerifiers[1]);
}

TEST_F(Incentives, silent_verifiers_pay_and_the_solver_is_paid) {
    const auto id = reach(ClaimState::custody, truth);
    tick_when_due(id);  // nobody answered
    tick_when_due(id);  // drawn again
    ASSERT_EQ(world.claim(id).state, ClaimState::custody);
    tick_when_due(id);
    ASSERT_EQ(world.claim(id).state, ClaimState::challenge);
    EXPECT_EQ(world.task(id).slashes.size(), 4U);
    tick_when_due(id);
    const auto live = world.live(id);
    const auto& [task, claim, reports, custody] = live;
    EXPECT_EQ(task.reason, "unverified");
    EXPECT_EQ(paid(task, kSolver, "solver_reward"), Uint256(3) * task.total_work);
    EXPECT_EQ(world.bond(Role::solver, kSolver).bonded, Uint256(100'000));
}

TEST_F(Incentives, a_wrong_solver_with_silent_verifiers_still_loses_to_a_challenge) {
    const auto id = reach(ClaimState::custody, wrong);
    for (int i = 0; i < 3; ++i) tick_when_due(id);
    ASSERT_EQ(world.claim(id).state, ClaimState::challenge);
    const auto dispute = challenge(id, kWhistleblower, 0, truth.root, history_opening(truth));
    play_out(dispute, party_of(world.live(id), wrong), party_of(world.live(id), truth));
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(world.task(id).slashes.back().reason, "wrong_result");
    EXPECT_TRUE(paid(world.task(id), kSolver, "solver_reward").is_zero());
}

TEST_F(Incentives, a_refuted_challenge_does_not_settle_an_unverified_task_early) {
    const auto id = reach(ClaimState::custody, truth);
    for (int i = 0; i < 3; ++i) tick_when_due(id);
    const auto until = world.claim(id).challenge_until;
    const auto dispute = challenge(id, kWhistleblower, 0, wrong.root, history_opening(wrong));
    expect_ok(world.one(kWhistleblower, NativeKind::dispute_concede, types::DisputeConcedePayload{dispute}));
    EXPECT_EQ(world.claim(id).state, ClaimState::challenge);
    EXPECT_EQ(world.deadline(id), until);
    tick_when_due(id);
    EXPECT_EQ(world.reason(id), "unverified");
}

TEST_F(Incentives, the_last_draws_silence_does_not_outvote_missing_data) {
    const auto id = reach(ClaimState::custody, truth);
    tick_when_due(id);
    tick_when_due(id);
    ASSERT_EQ(world.claim(id).draws, 2U);
    expect_ok(world.one(world.reports(id)[0].verifier, NativeKind::custody_receipt,
                        types::CustodyReceiptPayload{id, 0, false}));
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(world.reason(id), "data_missing");
    ASSERT_EQ(world.task(id).slashes.size(), 4U);  // the silent ones of both draws, the solver
    EXPECT_EQ(world.task(id).slashes.back().reason, "data_missing");
}

// "Post invented roots, serve nothing" beat not to start, and saved whoever was accused.
class MissingData : public Incentives {
protected:
    MissingData() { spec.money.price_cap = 1; }
    void say_missing(std::uint64_t id) {
        for (const auto& report : world.reports(id))
            if (world.claim(id).state == ClaimState::custody)
                expect_ok(world.one(report.verifier, NativeKind::custody_receipt,
                                    types::CustodyReceiptPayload{id, 0, false}));
        ASSERT_EQ(world.reason(id), "data_missing");
    }
    void commit(std::uint64_t id, const History& history) {
        expect_ok(world.one(
            kWhistleblower, NativeKind::challenge_commit,
            types::ChallengeCommitPayload{id, 0, core::challenge_commitment(kWhistleblower, history.root, salt_)}));
    }
    Result reveal(std::uint64_t id, const History& history) {
        return world.one(kWhistleblower, NativeKind::challenge_reveal,
                         types::ChallengeRevealPayload{id, 0, 0, history.root, salt_, history_opening(history)});
    }
    types::RoleBond solver() const { return world.bond(Role::solver, kSolver); }
    Uint256 share() const { return market::percent_of(solver_lock(), 8); }

    const Hash32 salt_ = crypto::sha256(as_bytes("salt"));
};

TEST_F(MissingData, costs_a_part_of_the_lock_that_is_burned) {
    const auto id = reach(ClaimState::custody, wrong);
    const auto [burned, treasury] = std::pair(world.globals().burned, world.globals().treasury_vault);
    say_missing(id);
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(solver().bonded, Uint256(100'000) - share());
    EXPECT_TRUE(solver().locked.is_zero());
    EXPECT_EQ(world.globals().treasury_vault, treasury) << "nor is it the treasury's";
    EXPECT_GE(world.globals().burned - burned, share());
    EXPECT_EQ(paid(world.task(id), kSubmitter, "slash_share"), Uint256());
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 1})), "bid.barred");
}

TEST_F(MissingData, does_not_rescue_a_solver_that_is_accused) {
    const auto id = reach(ClaimState::custody, wrong);
    const auto dispute = challenge(id, kWhistleblower, 0, truth.root, history_opening(truth));
    const auto live = world.live(id);
    say_missing(id);
    EXPECT_EQ(world.claim(id).state, ClaimState::disputed);
    EXPECT_EQ(solver().locked, solver_lock() - share());
    play_out(dispute, party_of(live, wrong), party_of(live, truth));
    EXPECT_EQ(world.dispute(dispute).winner, types::DisputeWinner::rival);
    EXPECT_EQ(solver().bonded, Uint256(100'000) - solver_lock());
    EXPECT_TRUE(solver().locked.is_zero());
    const Uint256 cost = spec.money.price_cap * live.task.total_work;
    const Uint256 part = market::percent_of(solver_lock() - share(), world.params.market.bounty_slash_percent);
    EXPECT_EQ(paid(world.task(id), kWhistleblower, "bounty"), std::max(cost * Uint256(3) / Uint256(2), part));
    EXPECT_EQ(world.task(id).state, TaskState::open);
}

TEST_F(MissingData, leaves_time_to_reveal_what_was_committed_before) {
    const auto id = reach(ClaimState::custody, wrong);
    commit(id, truth);
    say_missing(id);
    EXPECT_EQ(world.claim(id).state, ClaimState::disputed);
    EXPECT_EQ(world.deadline(id), world.market_ms() + market::in_ms(world.params.market.min_window_s));
    const Hash32 late = crypto::sha256(as_bytes("late"));
    EXPECT_EQ(name(world.one(kWhistleblower, NativeKind::challenge_commit, types::ChallengeCommitPayload{id, 0, late})),
              "challenge.claim_void");
    expect_ok(reveal(id, truth));
    ASSERT_EQ(world.claim(id).open_disputes, 1U) << "it is no way to have the stake back";
    expect_ok(
        world.one(kSolver, NativeKind::dispute_concede, types::DisputeConcedePayload{world.claim(id).disputes.back()}));
    EXPECT_EQ(solver().bonded, Uint256(100'000) - solver_lock());
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_TRUE(world.bond(Role::whistleblower, kWhistleblower).locked.is_zero());
}

TEST_F(MissingData, does_not_free_places_that_were_held_for_nothing) {
    const auto id = reach(ClaimState::custody, wrong);
    commit(id, truth);
    say_missing(id);
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(world.bond(Role::whistleblower, kWhistleblower).bonded, Uint256(100'000 - 500));
    ASSERT_EQ(world.task(id).slashes.size(), 2U);
    EXPECT_EQ(world.task(id).slashes[1].reason, "no_challenge_reveal");
    EXPECT_EQ(solver().bonded, Uint256(100'000) - share());
    EXPECT_TRUE(solver().locked.is_zero());
}

TEST_F(MissingData, costs_an_honest_solver_whose_verifiers_lied_no_more_and_it_can_defend_the_rest) {
    const auto id = reach(ClaimState::custody, truth);
    const auto dispute = challenge(id, kWhistleblower, 0, wrong.root, history_opening(wrong));
    const auto live = world.live(id);
    say_missing(id);
    play_out(dispute, party_of(live, truth), party_of(live, wrong));
    EXPECT_EQ(world.dispute(dispute).winner, types::DisputeWinner::defender);
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(world.reason(id), "data_missing");
    EXPECT_EQ(solver().bonded, Uint256(100'000) - share());
    EXPECT_TRUE(solver().locked.is_zero());
    EXPECT_EQ(world.bond(Role::whistleblower, kWhistleblower).bonded, Uint256(99'000)) << "the accuser has lied";
    EXPECT_EQ(world.task(id).barred, std::vector{kSolver});
}

TEST_F(Incentives, clocks_cover_the_replay_of_a_segment) {
    spec.windows.heartbeat_s = 500;
    const auto id = reach(ClaimState::challenge, truth);
    const auto dispute = challenge(id, kWhistleblower, 0, wrong.root, history_opening(wrong));
    const auto game = *types::decode_record<core::Game>(world.dispute(dispute).game);
    const auto segments = market::dispute_segments(market::work_of(world.task(id)).plan);
    EXPECT_EQ(segments, 3U) << "one, and what a trace hashes";
    const std::uint64_t clock = market::in_ms(world.params.market.dispute_clock_s + 500 * segments);
    EXPECT_EQ(game.budget, (std::vector<std::uint64_t>{clock, clock}));
    EXPECT_EQ(world.dispute(dispute).deadline, world.market_ms() + clock);
}

TEST_F(Incentives, filled_places_for_bids_give_way_to_a_lower_one) {
    world.params.market.max_bids = 3;
    spec.windows.bid_s = 30;
    bond_everybody();
    const auto id = submit();
    for (std::uint64_t i = 0; i < 3; ++i) {
        const auto squatter = newcomer(500 + i, Role::solver, 100'000);
        expect_ok(world.one(squatter, NativeKind::task_bid, types::TaskBidPayload{id, 0, i == 0 ? 8U : 9U}));
    }
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 9})), "bid.too_many");
    expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 5}));
    const auto bids = world.task(id).bids;
    ASSERT_EQ(bids.size(), 3U);
    EXPECT_EQ(bids[0].bidder, address(500));
    EXPECT_EQ(bids[1].bidder, address(501));  // of equal ones the newest gives way
    EXPECT_EQ(bids[2].bidder, kSolver);
    expect_ok(
        world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 4}));  // its own: nobody is driven out
    EXPECT_EQ(world.task(id).bids.size(), 3U);
}

TEST_F(Incentives, dust_is_no_bond) {
    const auto bond = [&](std::uint64_t amount) {
        return name(world.one(kVerifiers[0], NativeKind::bond, types::BondPayload{Role::verifier, amount}));
    };
    const auto unbond = [&](std::uint64_t amount) {
        return name(world.one(kVerifiers[0], NativeKind::unbond, types::UnbondPayload{Role::verifier, amount}));
    };
    EXPECT_EQ(bond(999), "bond.below_minimum");
    EXPECT_EQ(bond(1'000), "ok");
    EXPECT_EQ(bond(1), "ok");
    EXPECT_EQ(unbond(2), "bond.below_minimum");
    EXPECT_EQ(unbond(1), "ok");
    EXPECT_EQ(unbond(1'000), "ok");  // all of it
}

TEST_F(Incentives, cheap_commitments_do_not_raise_an_honest_challengers_stake) {
    const auto id = reach(ClaimState::challenge, wrong);
    const auto squatter = newcomer(600, Role::whistleblower, 1'000'000);
    for (std::uint64_t i = 0; i < 5; ++i)
        expect_ok(world.one(squatter, NativeKind::challenge_commit,
                            types::ChallengeCommitPayload{id, 0, crypto::sha256(Uint256(i).to_be32())}));
    const auto dispute = challenge(id, kWhistleblower, 0, truth.root, history_opening(truth));
    EXPECT_EQ(world.dispute(dispute).rival_locked, Uint256(1'000));
    EXPECT_EQ(world.claim(id).commitments, 5U);
    EXPECT_EQ(world.claim(id).rivals, 1U);
}

TEST_F(Incentives, each_revealed_challenge_stakes_more_than_the_one_before) {
    spec.windows.challenge_s = 30;
    const auto id = reach(ClaimState::challenge, wrong);
    const auto first = challenge(id, kWhistleblower, 0, truth.root, history_opening(truth));
    const auto other = compute_history(kSteps, 2, 1U << 15);
    const auto second = challenge(id, kWhistleblower, 0, other.root, history_opening(other));
    // On a ladder of its own, so that games about reports cannot fill the places of those about the history.
    const auto pass = challenge(id, kWhistleblower, core::kPassTarget, other.root, history_opening(other));
    EXPECT_EQ(world.dispute(first).rival_locked, Uint256(1'000));
    EXPECT_EQ(world.dispute(second).rival_locked, Uint256(2'000));
    EXPECT_EQ(world.dispute(pass).rival_locked, Uint256(1'000));
    EXPECT_EQ(world.bond(Role::whistleblower, kWhistleblower).locked, Uint256(4'000));

    const auto poor = newcomer(601, Role::whistleblower, 2'999);
    const Hash32 salt = crypto::sha256(as_bytes("poor"));
    expect_ok(world.one(poor, NativeKind::challenge_commit,
                        types::ChallengeCommitPayload{id, 0, core::challenge_commitment(poor, truth.root, salt)}));
    const types::ChallengeRevealPayload reveal{id, 0, 0, truth.root, salt, history_opening(truth)};
    EXPECT_EQ(name(world.one(poor, NativeKind::challenge_reveal, reveal)), "bond.insufficient");
    EXPECT_EQ(world.bond(Role::whistleblower, poor).locked, Uint256(1'000));
    world.bond_role(poor, Role::whistleblower, 1);
    expect_ok(world.one(poor, NativeKind::challenge_reveal, reveal));
    EXPECT_EQ(world.bond(Role::whistleblower, poor).locked, Uint256(3'000));
}

TEST_F(Incentives, a_challenge_that_finds_no_place_gets_its_stake_back) {
    world.params.market.max_disputes = 1;
    const auto id = reach(ClaimState::challenge, wrong);
    challenge(id, kWhistleblower, 0, wrong.root == truth.root ? wrong.root : truth.root, history_opening(truth));
    const auto late = newcomer(602, Role::whistleblower, 10'000);
    challenge(id, late, 0, truth.root, history_opening(truth));
    EXPECT_EQ(world.claim(id).disputes.size(), 1U);
    EXPECT_TRUE(world.bond(Role::whistleblower, late).locked.is_zero());
    EXPECT_EQ(world.bond(Role::whistleblower, late).bonded, Uint256(10'000));
}

TEST_F(Incentives, commitments_that_nobody_reveals_give_way_and_pay) {
    world.params.market.max_commitments = 2;
    spec.windows.challenge_s = 30;
    const auto id = reach(ClaimState::challenge, wrong);
    const auto squatter = newcomer(603, Role::whistleblower, 100'000);
    const auto commit = [&](const types::Address& who, const Hash32& commitment) {
        return name(world.one(who, NativeKind::challenge_commit, types::ChallengeCommitPayload{id, 0, commitment}));
    };
    EXPECT_EQ(commit(squatter, crypto::sha256(as_bytes("junk 1"))), "ok");
    EXPECT_EQ(commit(squatter, crypto::sha256(as_bytes("junk 2"))), "ok");
    const Hash32 salt = crypto::sha256(as_bytes("salt"));
    const auto mine = core::challenge_commitment(kWhistleblower, truth.root, salt);
    EXPECT_EQ(commit(kWhistleblower, mine), "challenge.too_many");
    world.skip(world.params.market.min_window_s - 2);
    EXPECT_EQ(commit(kWhistleblower, mine), "ok");
    EXPECT_EQ(world.claim(id).commitments, 2U);
    EXPECT_EQ(world.bond(Role::whistleblower, squatter).bonded, Uint256(99'500));
    EXPECT_EQ(world.bond(Role::whistleblower, squatter).locked, Uint256(1'000));
    // The newest is safe until it could have been revealed: here it is, in the next block.
    expect_ok(world.one(kWhistleblower, NativeKind::challenge_reveal,
                        types::ChallengeRevealPayload{id, 0, 0, truth.root, salt, history_opening(truth)}));
    EXPECT_EQ(world.claim(id).disputes.size(), 1U);
}

TEST_F(Incentives, a_verifier_is_not_drawn_for_more_than_it_can_do) {
    bond_everybody();
    const auto declare = [&](const types::Address& who, const types::Capacity& capacity) {
        return name(
            world.one(who, NativeKind::declare_capacity, types::DeclareCapacityPayload{Role::verifier, capacity}));
    };
    EXPECT_EQ(declare(kSecond, {1, 0, 0, 0}), "bond.none");
    EXPECT_EQ(declare(kVerifiers[0], {}), "bond.same_capacity");
    const auto work = vm::tensor::step_work(tiny().program.header);
    const auto speed = market::class_of_rate(work);
    EXPECT_EQ(declare(kVerifiers[0], {0, market::kMaxClass + 1, 0, 0}), "bond.bad_class");
    EXPECT_EQ(declare(kVerifiers[0], {0, 0, market::kMaxClass + 1, 0}), "bond.bad_class");
    spec.classes.memory_mib = 100;
    EXPECT_EQ(declare(kVerifiers[0], {work, speed, 0, 100}), "ok");
    EXPECT_EQ(world.bond(Role::verifier, kVerifiers[0]).capacity.memory_mib, 100U);
    EXPECT_EQ(declare(kVerifiers[0], {1, 0, 0, 0}), "bond.capacity_too_soon");
    EXPECT_EQ(declare(kVerifiers[1], {0, 0, 0, 99}), "ok");
    const auto id = prove();  // two of three are left, one of them just able to
    tick_when_due(id);
    ASSERT_EQ(world.reports(id).size(), 2U);
    for (const auto& report : world.reports(id)) EXPECT_NE(report.verifier, kVerifiers[1]);

    world.skip(params::kCapacityBlocks);
    spec.plan = tiny().programs(400).plan.bytes();  // 200 segments, of which 20 are drawn
    spec.money.price_cap = 3;
    world.bond_role(kSolver, Role::solver, 1'000'000);
    EXPECT_EQ(declare(kVerifiers[0], {0, speed, 0, 0}), "ok");
    const auto larger = submit();
    expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{larger, 0, 3}));
    tick_when_due(larger);
    EXPECT_EQ(world.reason(larger), "no_verifiers");  // only one can do as much in 8 seconds
}

// Else a verifier is drawn for what it then refuses, and pays for the silence.
TEST_F(Incentives, a_task_that_claims_no_memory_is_drawn_as_one_that_claims_the_usual) {
    bond_everybody();
    const auto declare = [&](const types::Address& who, std::uint64_t memory_mib) {
        expect_ok(world.one(who, NativeKind::declare_capacity,
                            types::DeclareCapacityPayload{Role::verifier, {0, 0, 0, memory_mib}}));
    };
    ASSERT_EQ(spec.classes.memory_mib, 0U);
    declare(kVerifiers[0], params::kDefaultMemoryMib);
    declare(kVerifiers[1], params::kDefaultMemoryMib - 1);
    const auto fits = prove();  // two of three are left
    tick_when_due(fits);
    ASSERT_EQ(world.reports(fits).size(), 2U);
    for (const auto& report : world.reports(fits)) EXPECT_NE(report.verifier, kVerifiers[1]);
    declare(kVerifiers[2], 1);
    world.bond_role(kSolver, Role::solver, 100'000);
    const auto too_large = submit();
    expect_ok(world.one(kSolver, NativeKind::task_bid, types::TaskBidPayload{too_large, 0, 3}));
    tick_when_due(too_large);
    EXPECT_EQ(world.task(too_large).reason, "no_verifiers");
}

}  // namespace
}  // namespace quern::chain::exec::test
