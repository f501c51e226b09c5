// Challenges of reports by verifiers of the same claim, from their verifier bond.
#include "chain/market/bonds.h"
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

class PeerChallenge : public Lifecycle {
protected:
    static constexpr std::uint32_t kMask = 4;

    // All who were drawn have told their results; a tile of the first one's is wrong.
    std::uint64_t tell_a_lie() {
        const auto id = reach(ClaimState::custody, truth);
        for (const auto& report : world.reports(id))
            if (world.claim(id).state == ClaimState::custody)
                expect_ok(
                    world.one(report.verifier, NativeKind::custody_receipt, types::CustodyReceiptPayload{id, 0, true}));
        const auto live = world.live(id);
        for (std::size_t i = 0; i < live.reports.size(); ++i) {
            told.push_back(make_report(live, live.reports[i].verifier, truth, true, {}, i, i == 0 ? kMask : 0));
            expect_ok(world.one(live.reports[i].verifier, NativeKind::verify_commit,
                                types::VerifyCommitPayload{id, 0, told[i].sealed.commitment}));
        }
        for (std::size_t i = 0; i < live.reports.size(); ++i)
            expect_ok(world.one(live.reports[i].verifier, NativeKind::verify_reveal,
                                core::make_reveal(told[i].sealed, id, told[i].sealed.true_index)));
        EXPECT_EQ(world.claim(id).state, ClaimState::challenge);
        liar = live.reports[0].verifier;
        peer = live.reports[1].verifier;
        lock = world.bond(Role::verifier, peer).locked;
        const auto honest = make_report(live, liar, truth, true, {}, 0);
        true_hash = core::opened_leaves(honest.sealed, honest.sealed.true_index)[1];
        opening = core::encode(open_probe(told[0], *tiny().prover));
        return id;
    }
    Result commit(std::uint64_t id, const types::Address& who, const Hash32& claim) {
        return world.one(who, NativeKind::challenge_commit,
                         types::ChallengeCommitPayload{id, 0, core::challenge_commitment(who, claim, salt)});
    }
    Result reveal(std::uint64_t id, const types::Address& who, std::uint32_t target, const Hash32& claim,
                  const Bytes& with) {
        return world.one(who, NativeKind::challenge_reveal,
                         types::ChallengeRevealPayload{id, 0, target, claim, salt, with});
    }
    void play_probe(std::uint64_t id, std::uint64_t dispute) {
        const auto& probe = told[0].probes[0];
        const auto live = world.live(id);
        play_out(dispute, party_of(live, truth, probe.step, probe.node, kMask), party_of(live, truth));
    }
    Uint256 locked(const types::Address& who) { return world.bond(Role::verifier, who).locked; }
    Uint256 stake(std::uint64_t id) { return market::challenge_stake(world.params.market, world.task(id)); }
    std::size_t payments(std::uint64_t id, const types::Address& to, std::string_view reason) {
        std::size_t count = 0;
        for (const auto& payment : world.task(id).payments) count += payment.to == to && payment.reason == reason;
        return count;
    }

    const Hash32 salt = crypto::sha256(as_bytes("salt"));
    std::vector<ReportData> told;
    types::Address liar;
    types::Address peer;
    Uint256 lock;  // of the peer's report
    Hash32 true_hash;
    Bytes opening;
};

TEST_F(PeerChallenge, a_peers_lie_pays_the_bounty_and_gives_the_stake_back) {
    const auto id = tell_a_lie();
    const auto dispute = challenge(id, peer, 1, true_hash, opening);
    EXPECT_EQ(world.dispute(dispute).rival_role, Role::verifier);
    EXPECT_EQ(locked(peer), lock + stake(id));
    EXPECT_TRUE(world.bond(Role::whistleblower, peer).locked.is_zero());
    play_probe(id, dispute);
    EXPECT_EQ(world.dispute(dispute).winner, types::DisputeWinner::rival);
    EXPECT_EQ(world.task(id).slashes.at(0).address, liar);
    EXPECT_EQ(world.task(id).slashes.at(0).reason, "wrong_probe");
    EXPECT_EQ(payments(id, peer, "bounty"), 1U);
    EXPECT_EQ(locked(peer), lock);
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    EXPECT_EQ(payments(id, peer, "verifier_fee"), 1U);
    EXPECT_TRUE(locked(peer).is_zero());
}

TEST_F(PeerChallenge, a_false_one_costs_the_stake_and_not_the_report) {
    const auto id = tell_a_lie();
    const Uint256 bonded = world.bond(Role::verifier, peer).bonded;
    const auto dispute = challenge(id, peer, core::kPassTarget, wrong.root, history_opening(wrong));
    play_out(dispute, party_of(world.live(id), truth), party_of(world.live(id), wrong));
    EXPECT_EQ(world.dispute(dispute).winner, types::DisputeWinner::defender);
    const auto slash = world.task(id).slashes.at(0);
    EXPECT_EQ(slash.address, peer);
    EXPECT_EQ(slash.role, Role::verifier);
    EXPECT_EQ(slash.reason, "false_accusation");
    EXPECT_EQ(slash.amount, stake(id));
    EXPECT_EQ(locked(peer), lock);
    EXPECT_EQ(world.bond(Role::verifier, peer).bonded, bonded - stake(id));
    EXPECT_FALSE(world.reports(id)[1].slashed());
    tick_when_due(id);
    EXPECT_EQ(payments(id, peer, "verifier_fee"), 1U);
}

TEST_F(PeerChallenge, who_was_not_drawn_or_was_slashed_has_no_stake) {
    const auto id = tell_a_lie();
    for (const auto& each : kVerifiers) {
        if (each == liar || each == peer) continue;
        EXPECT_EQ(name(commit(id, each, true_hash)), "bond.insufficient");
    }
    const auto dispute = challenge(id, peer, 1, true_hash, opening);
    play_probe(id, dispute);
    ASSERT_TRUE(world.reports(id)[0].slashed());
    EXPECT_EQ(name(commit(id, liar, wrong.root)), "bond.insufficient");
}

TEST_F(PeerChallenge, a_whistleblower_bond_that_covers_it_comes_first) {
    const auto id = tell_a_lie();
    world.bond_role(peer, Role::whistleblower, 100'000);
    const auto dispute = challenge(id, peer, 1, true_hash, opening);
    EXPECT_EQ(world.dispute(dispute).rival_role, Role::whistleblower);
    EXPECT_EQ(world.bond(Role::whistleblower, peer).locked, stake(id));
    EXPECT_EQ(locked(peer), lock);
    play_probe(id, dispute);
    EXPECT_TRUE(world.bond(Role::whistleblower, peer).locked.is_zero());
    EXPECT_EQ(locked(peer), lock);
}

TEST_F(PeerChallenge, neither_its_own_report_nor_the_history_is_a_target) {
    const auto id = tell_a_lie();
    expect_ok(commit(id, peer, wrong.root));
    EXPECT_EQ(name(reveal(id, peer, 0, wrong.root, history_opening(wrong))), "challenge.not_a_report");
    EXPECT_EQ(name(reveal(id, peer, core::kPassTarget + 1, wrong.root, history_opening(wrong))), "challenge.own_claim");
    // Held back until the end it costs its part, of the same bond.
    const Uint256 bonded = world.bond(Role::verifier, peer).bonded;
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    const auto slash = world.task(id).slashes.at(0);
    EXPECT_EQ(slash.reason, "no_challenge_reveal");
    EXPECT_EQ(slash.role, Role::verifier);
    EXPECT_EQ(world.bond(Role::verifier, peer).bonded, bonded - slash.amount);
    EXPECT_TRUE(locked(peer).is_zero());
}

TEST_F(PeerChallenge, what_has_fallen_meanwhile_gives_the_stake_back) {
    const auto id = tell_a_lie();
    expect_ok(commit(id, peer, true_hash));
    const auto dispute = challenge(id, kWhistleblower, 1, true_hash, opening);
    EXPECT_EQ(locked(peer), lock + stake(id));
    expect_ok(world.one(liar, NativeKind::dispute_concede, types::DisputeConcedePayload{dispute}));
    expect_ok(reveal(id, peer, 1, true_hash, opening));
    EXPECT_EQ(locked(peer), lock);
    EXPECT_EQ(world.claim(id).disputes.size(), 1U);
}

TEST_F(PeerChallenge, two_about_one_report_are_raised_and_given_back_each_in_its_bond) {
    const auto id = tell_a_lie();
    const auto first = challenge(id, kWhistleblower, 1, true_hash, opening);
    const auto second = challenge(id, peer, 1, true_hash, opening);
    ASSERT_NE(first, second);
    EXPECT_EQ(locked(peer), lock + stake(id) * Uint256(2));
    expect_ok(world.one(liar, NativeKind::dispute_concede, types::DisputeConcedePayload{first}));
    EXPECT_EQ(world.dispute(second).reason, "moot");
    EXPECT_EQ(locked(peer), lock);
    EXPECT_TRUE(world.bond(Role::whistleblower, kWhistleblower).locked.is_zero());
}

// --- What cheats may try ---------------------------------------------------------------------------------------------

TEST_F(PeerChallenge, nobody_is_drawn_before_the_draw) {
    const auto id = reach(ClaimState::proved, truth);
    for (const auto& each : kVerifiers) EXPECT_EQ(name(commit(id, each, true_hash)), "bond.insufficient");
}

TEST_F(PeerChallenge, a_commitment_that_is_copied_is_nobodys) {
    spec.work.verifiers = 3;
    const auto id = tell_a_lie();
    expect_ok(commit(id, peer, true_hash));
    const auto thief = world.reports(id)[2].verifier;
    const Uint256 before = locked(thief);
    expect_ok(world.one(thief, NativeKind::challenge_commit,
                        types::ChallengeCommitPayload{id, 0, core::challenge_commitment(peer, true_hash, salt)}));
    EXPECT_EQ(locked(thief), before + stake(id));
    EXPECT_EQ(name(reveal(id, thief, 1, true_hash, opening)), "challenge.not_committed");
    expect_ok(reveal(id, peer, 1, true_hash, opening));
}

// A friend that accuses the liar and gives up has lost its stake for a delay.
TEST_F(PeerChallenge, giving_up_shields_no_report) {
    const auto id = tell_a_lie();
    const Uint256 bonded = world.bond(Role::verifier, peer).bonded;
    const auto shield = challenge(id, peer, 1, true_hash, opening);
    const auto earnest = challenge(id, kWhistleblower, 1, true_hash, opening);
    EXPECT_EQ(world.dispute(earnest).deadline, 0U) << "it waits";
    expect_ok(world.one(peer, NativeKind::dispute_concede, types::DisputeConcedePayload{shield}));
    EXPECT_EQ(world.dispute(shield).winner, types::DisputeWinner::defender);
    EXPECT_EQ(world.bond(Role::verifier, peer).bonded, bonded - stake(id));
    EXPECT_FALSE(world.reports(id)[0].slashed());
    play_probe(id, earnest);
    EXPECT_TRUE(world.reports(id)[0].slashed());
    EXPECT_EQ(payments(id, kWhistleblower, "bounty"), 1U);
}

TEST_F(PeerChallenge, who_loses_its_report_loses_no_stake_by_it) {
    const auto id = tell_a_lie();
    const Uint256 bonded = world.bond(Role::verifier, liar).bonded;
    expect_ok(commit(id, liar, wrong.root));
    const auto dispute = challenge(id, peer, 1, true_hash, opening);
    expect_ok(world.one(liar, NativeKind::dispute_concede, types::DisputeConcedePayload{dispute}));
    EXPECT_EQ(world.bond(Role::verifier, liar).bonded, bonded - lock);
    EXPECT_EQ(locked(liar), stake(id));
    // And what it has staked falls by itself.
    expect_ok(reveal(id, liar, core::kPassTarget + 1, wrong.root, history_opening(wrong)));
    const auto straw = world.claim(id).disputes.back();
    expect_ok(world.one(liar, NativeKind::dispute_concede, types::DisputeConcedePayload{straw}));
    EXPECT_TRUE(locked(liar).is_zero());
    EXPECT_EQ(world.bond(Role::verifier, liar).bonded, bonded - lock - stake(id) * Uint256(2)) << "the second game";
}

// Neither more of a bond than there is, nor what answers for a report.
TEST_F(PeerChallenge, a_bond_is_staked_once) {
    const auto id = tell_a_lie();
    constexpr std::uint64_t kCovered = 3;
    const auto whole = world.bond(Role::verifier, peer);
    const Uint256 kept = whole.locked + stake(id) * Uint256(kCovered) + stake(id) / Uint256(2);
    expect_ok(world.one(peer, NativeKind::unbond, types::UnbondPayload{Role::verifier, whole.bonded - kept}));
    for (std::uint64_t i = 0; i < kCovered; ++i) expect_ok(commit(id, peer, crypto::sha256(Uint256(i).to_be32())));
    EXPECT_EQ(commit(id, peer, true_hash).to_string(),
              "bond.insufficient: free " + (stake(id) / Uint256(2)).to_decimal() + ", need " + stake(id).to_decimal());
    EXPECT_LT(world.bond(Role::verifier, peer).bonded - locked(peer), stake(id));
    EXPECT_EQ(name(world.one(peer, NativeKind::unbond, types::UnbondPayload{Role::verifier, stake(id)})),
              "bond.insufficient");
    // All of them for nothing: each costs its part, and the report keeps its lock.
    tick_when_due(id);
    ASSERT_EQ(world.task(id).state, TaskState::settled);
    EXPECT_GT(payments(id, peer, "verifier_fee"), 0U);
    EXPECT_TRUE(locked(peer).is_zero());
    const Uint256 part =
        stake(id) * Uint256(world.params.market.no_challenge_reveal_slash_percent) / Uint256(100) * Uint256(kCovered);
    EXPECT_EQ(world.bond(Role::verifier, peer).bonded, kept - part);
}

// Who raises it beyond what a challenger has does not make it lose: it is revealed when its target has fallen.
TEST_F(PeerChallenge, a_raise_that_the_bond_does_not_cover_waits_for_the_target_to_fall) {
    const auto id = tell_a_lie();
    const auto bond = world.bond(Role::verifier, peer);
    expect_ok(world.one(peer, NativeKind::unbond,
                        types::UnbondPayload{Role::verifier, bond.bonded - bond.locked - stake(id)}));
    expect_ok(commit(id, peer, true_hash));
    const auto first = challenge(id, kWhistleblower, 1, true_hash, opening);
    EXPECT_EQ(name(reveal(id, peer, 1, true_hash, opening)), "bond.insufficient");
    EXPECT_EQ(locked(peer), lock + stake(id));
    play_probe(id, first);
    expect_ok(reveal(id, peer, 1, true_hash, opening));
    EXPECT_EQ(locked(peer), lock);
}

// What is unbonding answers for the report that it was drawn for, and for nothing that is staked later.
TEST_F(PeerChallenge, a_verifier_that_leaves_stakes_only_what_it_keeps) {
    const auto id = tell_a_lie();
    const auto bond = world.bond(Role::verifier, peer);
    const Uint256 kept = bond.locked + stake(id);
    expect_ok(world.one(peer, NativeKind::unbond, types::UnbondPayload{Role::verifier, bond.bonded - kept}));
    expect_ok(commit(id, peer, true_hash));
    EXPECT_EQ(name(commit(id, peer, wrong.root)), "bond.insufficient");
    expect_ok(reveal(id, peer, 1, true_hash, opening));
    play_probe(id, world.claim(id).disputes.back());
    EXPECT_EQ(payments(id, peer, "bounty"), 1U);
    EXPECT_EQ(locked(peer), lock);
}

}  // namespace
}  // namespace quern::chain::exec::test
