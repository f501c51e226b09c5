// Forced errors: what verifiers must tell, who may watch for it, and what each is paid or loses.
#include "chain/exec/handlers/events.h"
#include "chain/market/bonds.h"
#include "chain/market/shares.h"
#include "chain/types/event_reader.h"
#include "crypto/vrf.h"
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

using types::ReportChoice;

constexpr std::uint64_t kTax = 9'000;

class ForcedErrors : public Lifecycle {
protected:
    ForcedErrors() {
        world.params.market.forced_error_inverse = 1;  // each report must tell the altered result
        spec.money.tax = kTax;
        for (std::uint8_t i = 0; i < 4; ++i) {  // two that watch, one with hardly a bond, one without
            Hash32 secret;
            secret.data[31] = static_cast<std::uint8_t>(i + 1);
            keys.push_back(*crypto::PrivateKey::from_bytes(secret.view()));
            watchers[i] = types::address_of(crypto::derive_public(keys[i]));
            give(world.state(), watchers[i], Uint256(1'000'000'000'000'000));
        }
        world.begin();
        EXPECT_TRUE(world.finish());
        // Nearly all that whistleblowers have bonded, half each: their chance is one.
        for (const std::size_t i : {0, 1}) world.bond_role(watchers[i], Role::whistleblower, 1'000'000'000);
        world.bond_role(watchers[2], Role::whistleblower, 100'000);
    }

    ReportData report_of(std::uint64_t id, const types::Address& verifier, std::uint32_t tile_mask = 0) {
        return make_report(world.live(id), verifier, truth, true, {}, 1, tile_mask);
    }
    // With the beacon drawn, all reports told as they must be; that of the first in whose tree a tile is wrong by the
    // mask.
    std::uint64_t reveal_all(std::uint32_t tile_mask = 0) {
        const auto id = reach(ClaimState::committing, truth);
        for (const auto& report : world.reports(id)) {
            const auto mine = report_of(id, report.verifier, report.place == 0 ? tile_mask : 0);
            expect_ok(world.one(report.verifier, NativeKind::verify_commit,
                                types::VerifyCommitPayload{id, 0, mine.sealed.commitment}));
        }
        tick_when_due(id);
        for (const auto& report : world.reports(id)) {
            const auto mine = report_of(id, report.verifier, report.place == 0 ? tile_mask : 0);
            expect_ok(world.one(report.verifier, NativeKind::verify_reveal,
                                core::make_reveal(mine.sealed, id, core::choice_of(mine.sealed, is_forced()))));
        }
        EXPECT_EQ(world.claim(id).state, ClaimState::challenge);
        return id;
    }
    [[nodiscard]] bool is_forced() const { return world.params.market.forced_error_inverse == 1; }
    types::WatchCommitPayload seal(std::uint64_t id, std::size_t who, std::uint8_t place, const Hash32& root) {
        const auto claim = world.claim(id);
        types::WatchCommitPayload payload;
        payload.task = id;
        payload.report = place;
        payload.seal = core::watch_seal(watchers[who], root, kSalt);
        append(payload.public_key, crypto::derive_public(keys[who]).bytes.view());
        append(
            payload.proof,
            crypto::vrf_prove(keys[who], core::watch_message(claim.forced_beacon, claim.id, claim.draws, place).view())
                .proof.view());
        return payload;
    }
    Hash32 true_root(std::uint64_t id, std::uint8_t place) {
        const auto mine = report_of(id, world.reports(id)[place].verifier);
        return mine.sealed.result_roots[mine.sealed.true_index];
    }
    types::ReportOpenPayload opening_of(std::uint64_t id, const types::VerifierReport& report,
                                        std::uint32_t tile_mask = 0) {
        return core::make_opening(report_of(id, report.verifier, tile_mask).sealed, id, report.opened);
    }
    void open_all(std::uint64_t id) {
        for (const auto& report : world.reports(id))
            if (types::stands_for(report) && report.choice == ReportChoice::sealed)
                expect_ok(world.one(report.verifier, NativeKind::report_open, opening_of(id, report)));
    }
    // What the last transaction paid of jackpots.
    Uint256 won(const types::Address& who) {
        Uint256 sum;
        for (const auto& log : world.last_receipt().logs)
            if (const auto paid = types::read_event<events::Paid>(log))
                if (paid->to == who && paid->reason == "jackpot") sum += paid->amount;
        return sum;
    }
    types::WatchRevealPayload found(std::uint64_t id, std::uint8_t place, const Hash32& root) {
        return {id, 0, place, root, kSalt};
    }

    inline static const Hash32 kSalt = crypto::sha256(as_bytes("salt of a seal"));
    std::vector<crypto::PrivateKey> keys;
    types::Address watchers[4];
};

TEST_F(ForcedErrors, reports_wait_for_the_beacon_that_forces_errors) {
    const auto id = reach(ClaimState::revealing, truth);
    EXPECT_TRUE(market::awaits_forced_beacon(world.claim(id)));
    const auto drawn = world.reports(id);
    const auto mine = report_of(id, drawn[0].verifier);
    const auto reveal = core::make_reveal(mine.sealed, id, mine.sealed.true_index);
    EXPECT_EQ(name(world.one(drawn[0].verifier, NativeKind::verify_reveal, reveal)), "verify.too_early");
    EXPECT_EQ(name(world.tick(id)), "tick.too_early");
    tick_when_due(id);
    EXPECT_FALSE(world.claim(id).forced_beacon.is_zero());
    EXPECT_EQ(world.claim(id).state, ClaimState::revealing);
    expect_ok(world.one(drawn[0].verifier, NativeKind::verify_reveal, reveal));
}

TEST_F(ForcedErrors, watchers_that_sealed_the_truth_share_what_a_forced_error_pays) {
    const auto id = reveal_all();
    expect_ok(world.one(watchers[0], NativeKind::watch_commit, seal(id, 0, 0, true_root(id, 0))));
    expect_ok(world.one(watchers[1], NativeKind::watch_commit, seal(id, 1, 0, true_root(id, 0))));
    expect_ok(world.one(watchers[1], NativeKind::watch_commit, seal(id, 1, 1, true_root(id, 1))));
    EXPECT_EQ(name(world.one(watchers[1], NativeKind::watch_commit, seal(id, 1, 1, true_root(id, 1)))),
              "watch.already_sealed");
    tick_when_due(id);
    ASSERT_EQ(world.claim(id).state, ClaimState::opening);
    EXPECT_EQ(name(world.one(watchers[0], NativeKind::watch_reveal, found(id, 0, true_root(id, 0)))),
              "watch.not_forced")
        << "nobody knows yet";
    EXPECT_EQ(name(world.one(watchers[0], NativeKind::watch_commit, seal(id, 0, 1, true_root(id, 1)))),
              "task.wrong_state");
    open_all(id);
    ASSERT_EQ(world.claim(id).state, ClaimState::jackpots);
    for (const auto& report : world.reports(id)) {
        EXPECT_EQ(report.choice, ReportChoice::forced);
        EXPECT_EQ(report.true_root, true_root(id, report.place));
    }
    EXPECT_EQ(world.claim(id).awaited, 3);
    EXPECT_EQ(name(world.one(watchers[0], NativeKind::watch_reveal, found(id, 1, true_root(id, 1)))),
              "watch.not_sealed");
    EXPECT_EQ(name(world.one(watchers[0], NativeKind::watch_reveal, found(id, 0, true_root(id, 1)))), "watch.bad_seal");
    expect_ok(world.one(watchers[0], NativeKind::watch_reveal, found(id, 0, true_root(id, 0))));
    EXPECT_EQ(name(world.one(watchers[0], NativeKind::watch_reveal, found(id, 0, true_root(id, 0)))),
              "watch.already_found");
    expect_ok(world.one(watchers[1], NativeKind::watch_reveal, found(id, 0, true_root(id, 0))));
    expect_ok(world.one(watchers[1], NativeKind::watch_reveal, found(id, 1, true_root(id, 1))));
    ASSERT_EQ(world.task(id).state, TaskState::settled);
    // Of a tax of 9,000 over two reports at p_f = 1 each is worth 4,500; two who found one have half of it each.
    const auto reports = world.reports(id);
    EXPECT_EQ(reports[0].jackpot, Uint256(2'250));
    EXPECT_EQ(reports[1].jackpot, Uint256(4'500));
    EXPECT_EQ(won(watchers[0]), Uint256(2'250));
    EXPECT_EQ(won(watchers[1]), Uint256(6'750));
    // Nobody is slashed for a forced error, and all verifiers have their fees.
    EXPECT_TRUE(world.task(id).slashes.empty());
}

TEST_F(ForcedErrors, a_seal_needs_a_bond_that_is_old_enough_and_a_ticket) {
    const auto id = reveal_all();
    auto payload = seal(id, 0, 0, true_root(id, 0));
    EXPECT_EQ(name(world.one(watchers[1], NativeKind::watch_commit, payload)), "watch.not_the_senders_key");
    payload = seal(id, 0, 0, true_root(id, 0));
    payload.proof = seal(id, 0, 1, true_root(id, 0)).proof;
    EXPECT_EQ(name(world.one(watchers[0], NativeKind::watch_commit, payload)), "vrf.wrong_proof");
    payload = seal(id, 0, 3, true_root(id, 0));
    EXPECT_EQ(name(world.one(watchers[0], NativeKind::watch_commit, payload)), "watch.no_such_report");
    EXPECT_EQ(name(world.one(watchers[2], NativeKind::watch_commit, seal(id, 2, 0, true_root(id, 0)))),
              "watch.not_drawn");
    EXPECT_EQ(name(world.one(watchers[3], NativeKind::watch_commit, seal(id, 3, 0, true_root(id, 0)))),
              "watch.no_bond");
    const auto verifier = world.reports(id)[0].verifier;
    EXPECT_EQ(name(world.one(verifier, NativeKind::watch_commit, seal(id, 0, 0, true_root(id, 0)))), "watch.own_claim");
    payload = seal(id, 0, 0, true_root(id, 0));
    payload.seal = {};
    EXPECT_EQ(name(world.one(watchers[0], NativeKind::watch_commit, payload)), "watch.zero_seal");
    world.bond_role(watchers[0], Role::whistleblower, 1);
    EXPECT_EQ(name(world.one(watchers[0], NativeKind::watch_commit, seal(id, 0, 0, true_root(id, 0)))),
              "watch.bond_too_young");
}

TEST_F(ForcedErrors, seals_are_few_and_of_claims_that_may_be_paid) {
    const auto id = reveal_all();
    const auto payload = seal(id, 0, 0, true_root(id, 0));
    const auto result_with = [&](auto&& change) {
        world.begin();
        auto claim = world.claim(id);
        auto report = world.reports(id)[0];
        const auto former_claim = claim;
        const auto former_report = report;
        change(claim, report);
        world.state().store(types::key_of<types::Claim>(claim.id), claim);
        world.state().store(types::key_of<types::VerifierReport>(claim.id, report.place), report);
        const auto result = name(world.send(watchers[0], NativeKind::watch_commit, payload));
        world.state().store(types::key_of<types::Claim>(claim.id), former_claim);
        world.state().store(types::key_of<types::VerifierReport>(claim.id, report.place), former_report);
        EXPECT_TRUE(world.finish());
        return result;
    };
    EXPECT_EQ(result_with([](auto&, auto& report) { report.seals = params::kMaxSeals; }), "watch.too_many");
    EXPECT_EQ(result_with([](auto& claim, auto&) { claim.voided = true; }), "watch.claim_void");
    expect_ok(world.one(watchers[0], NativeKind::watch_commit, payload));
}

TEST_F(ForcedErrors, a_seal_of_anything_but_the_truth_pays_nothing) {
    const auto id = reveal_all();
    const Hash32 guess = crypto::sha256(as_bytes("guess"));
    expect_ok(world.one(watchers[0], NativeKind::watch_commit, seal(id, 0, 0, guess)));
    tick_when_due(id);
    open_all(id);
    ASSERT_EQ(world.claim(id).state, ClaimState::jackpots);
    EXPECT_EQ(name(world.one(watchers[0], NativeKind::watch_reveal, found(id, 0, guess))), "watch.wrong_root");
    EXPECT_EQ(name(world.one(watchers[0], NativeKind::watch_reveal, found(id, 0, true_root(id, 0)))), "watch.bad_seal");
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    EXPECT_EQ(world.reports(id)[0].jackpot, Uint256());
    // Its deposit comes back with the claim's end.
    const Uint256 held = world.state().account_or_empty(watchers[0]).balance;
    world.skip_until(world.task(id).since + market::in_ms(world.params.market.retention_s));
    expect_ok(world.tick(id));
    EXPECT_FALSE(world.exists(id));
    EXPECT_EQ(world.state().account_or_empty(watchers[0]).balance, held + Uint256(3 * 256));
}

TEST_F(ForcedErrors, who_tells_what_it_must_not_is_slashed) {
    const auto id = reach(ClaimState::revealing, truth);
    tick_when_due(id);
    for (const auto& report : world.reports(id)) {
        const auto mine = report_of(id, report.verifier);
        const auto opened = core::choice_of(mine.sealed, report.place != 0);  // the first tells the truth
        expect_ok(world.one(report.verifier, NativeKind::verify_reveal, core::make_reveal(mine.sealed, id, opened)));
    }
    tick_when_due(id);
    const auto reports = world.reports(id);
    expect_ok(world.one(reports[0].verifier, NativeKind::report_open, opening_of(id, reports[0])));
    ASSERT_TRUE(world.reports(id)[0].slashed());
    EXPECT_EQ(world.task(id).slashes.back().reason, "wrong_choice");
    EXPECT_EQ(world.task(id).slashes.back().amount, reports[0].locked);
    EXPECT_EQ(name(world.one(reports[0].verifier, NativeKind::report_open, opening_of(id, reports[0]))),
              "verify.not_standing");
    open_all(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    for (const auto& payment : world.task(id).payments) EXPECT_NE(payment.to, reports[0].verifier);
}

TEST_F(ForcedErrors, who_does_not_open_loses_its_fee_and_a_part_of_its_bond) {
    const auto id = reveal_all();
    tick_when_due(id);
    const auto reports = world.reports(id);
    expect_ok(world.one(reports[1].verifier, NativeKind::report_open, opening_of(id, reports[1])));
    EXPECT_EQ(name(world.one(reports[1].verifier, NativeKind::report_open, opening_of(id, reports[1]))),
              "verify.already_opened");
    auto bad = opening_of(id, reports[0]);
    bad.element ^= 1U;
    EXPECT_EQ(name(world.one(reports[0].verifier, NativeKind::report_open, bad)), "verify.bad_opening");
    bad = opening_of(id, reports[0]);
    bad.randomness.data[0] ^= 1U;
    EXPECT_EQ(name(world.one(reports[0].verifier, NativeKind::report_open, bad)), "verify.bad_opening");
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    std::size_t silent = 0;
    for (const auto& slash : world.task(id).slashes) silent += slash.reason == "not_opened" ? 1 : 0;
    EXPECT_EQ(silent, 1U);
    std::size_t fees = 0;
    for (const auto& payment : world.task(id).payments) fees += payment.reason == "verifier_fee" ? 1 : 0;
    EXPECT_EQ(fees, 1U);
}

// A probe as a report has told it, which opened leaf `opened`.
core::ProbeChallenge challenge_of(const ReportData& data, std::uint8_t opened, std::size_t probe) {
    const auto& told = core::opened_leaves(data.sealed, opened);
    core::ProbeChallenge challenge;
    challenge.segment = data.probes[probe].segment;
    challenge.probe = data.probes[probe].probe;
    challenge.tile_hash = told[1 + probe];
    challenge.path = crypto::merkle_path(told, 1 + probe);
    challenge.node = tiny().prover->node(data.probes[probe].node);
    return challenge;
}

// The probe that a report was forced to tell wrong, as a challenge, the hash of its true tile, and that of one which is
// neither this nor what was told.
struct AlteredProbe {
    Bytes challenge;
    Hash32 true_hash;
    Hash32 false_hash;
};
constexpr std::uint32_t kFalseMask = 1U << 20;
AlteredProbe altered_probe(const ReportData& mine) {
    const std::size_t at = mine.sealed.altered_probe;
    auto tile = mine.sealed.altered_words;
    tile[0] ^= kFalseMask;
    return {core::encode(challenge_of(mine, core::choice_of(mine.sealed, true), at)), mine.sealed.true_leaves[1 + at],
            tensor::tile_hash(tile)};
}

TEST_F(ForcedErrors, nobody_loses_by_a_challenge_of_what_had_to_be_told) {
    const auto id = reveal_all();
    const auto reports = world.reports(id);
    const auto probe = altered_probe(report_of(id, reports[0].verifier));
    EXPECT_EQ(name(world.one(reports[0].verifier, NativeKind::report_open, opening_of(id, reports[0]))),
              "task.wrong_state")
        << "nobody asks";
    const auto dispute = challenge(id, kWhistleblower, 1, probe.true_hash, probe.challenge);
    EXPECT_EQ(world.claim(id).state, ClaimState::disputed);
    EXPECT_EQ(name(world.one(reports[1].verifier, NativeKind::report_open, opening_of(id, reports[1]))),
              "verify.too_early");
    expect_ok(world.one(reports[0].verifier, NativeKind::report_open, opening_of(id, reports[0])));
    EXPECT_EQ(world.dispute(dispute).reason, "forced");
    EXPECT_EQ(world.dispute(dispute).winner, types::DisputeWinner::none);
    EXPECT_EQ(world.bond(Role::whistleblower, kWhistleblower).locked, Uint256());
    EXPECT_EQ(world.claim(id).state, ClaimState::challenge);
    EXPECT_EQ(name(world.one(watchers[0], NativeKind::watch_commit, seal(id, 0, 0, true_root(id, 0)))),
              "verify.already_opened");
    // Who says the same later is as right, and has its stake back; a second game would be lost by who was forced.
    challenge(id, kWhistleblower, 1, probe.true_hash, probe.challenge);
    EXPECT_EQ(world.claim(id).open_disputes, 0U);
    EXPECT_EQ(world.bond(Role::whistleblower, kWhistleblower).locked, Uint256());
    tick_when_due(id);
    open_all(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    EXPECT_TRUE(world.task(id).slashes.empty());
}

TEST_F(ForcedErrors, a_peers_stake_comes_back_to_its_verifier_bond) {
    const auto id = reveal_all();
    const auto reports = world.reports(id);
    const auto probe = altered_probe(report_of(id, reports[0].verifier));
    const auto& peer = reports[1].verifier;
    const Uint256 before = world.bond(Role::verifier, peer).locked;
    const auto dispute = challenge(id, peer, 1, probe.true_hash, probe.challenge);
    EXPECT_GT(world.bond(Role::verifier, peer).locked, before);
    expect_ok(world.one(reports[0].verifier, NativeKind::report_open, opening_of(id, reports[0])));
    EXPECT_EQ(world.dispute(dispute).reason, "forced");
    EXPECT_EQ(world.bond(Role::verifier, peer).locked, before);
    challenge(id, peer, 1, probe.true_hash, probe.challenge);
    EXPECT_EQ(world.claim(id).open_disputes, 0U);
    EXPECT_EQ(world.bond(Role::verifier, peer).locked, before);
    EXPECT_TRUE(world.task(id).slashes.empty());
}

TEST_F(ForcedErrors, to_be_forced_saves_nobody_who_has_not_computed) {
    // The first probe of report 0 is wrong beside what is altered; whoever has replayed it says so.
    const std::uint32_t mask = 1U << 12;
    const auto id = reveal_all(mask);
    const auto reports = world.reports(id);
    const auto lazy = report_of(id, reports[0].verifier, mask);
    const auto honest = report_of(id, reports[0].verifier);
    const Bytes wrong_tile = core::encode(challenge_of(lazy, reports[0].opened, 0));
    const auto dispute = challenge(id, kWhistleblower, 1, honest.sealed.true_leaves[1], wrong_tile);
    expect_ok(world.one(reports[0].verifier, NativeKind::report_open, opening_of(id, reports[0], mask)));
    ASSERT_EQ(world.dispute(dispute).closed_at, 0U) << "what it calls the truth is not the challenger's";
    const auto live = world.live(id);
    play_out(dispute, party_of(live, truth, lazy.probes[0].step, lazy.probes[0].node, mask), party_of(live, truth));
    EXPECT_EQ(world.dispute(dispute).winner, types::DisputeWinner::rival);
    EXPECT_TRUE(world.reports(id)[0].slashed());
}

TEST_F(ForcedErrors, of_many_challenges_of_what_had_to_be_told_each_ends_as_it_should) {
    const auto id = reveal_all();
    const auto reports = world.reports(id);
    const auto mine = report_of(id, reports[0].verifier);
    const auto probe = altered_probe(mine);
    const auto& where = mine.probes[mine.sealed.altered_probe];
    // The first is right, the second wrong, the third right; the first has begun, the others wait for it.
    const auto first = challenge(id, watchers[0], 1, probe.true_hash, probe.challenge);
    const auto second = challenge(id, watchers[1], 1, probe.false_hash, probe.challenge);
    const auto third = challenge(id, kWhistleblower, 1, probe.true_hash, probe.challenge);
    EXPECT_EQ(world.claim(id).report_rivals, 3U);
    expect_ok(world.one(reports[0].verifier, NativeKind::report_open, opening_of(id, reports[0])));
    EXPECT_EQ(world.dispute(first).reason, "forced");
    EXPECT_EQ(world.dispute(third).reason, "forced");
    EXPECT_EQ(world.claim(id).report_rivals, 1U) << "what nobody is accused of takes nobody's place";
    ASSERT_EQ(world.dispute(second).closed_at, 0U);
    EXPECT_EQ(world.bond(Role::verifier, reports[0].verifier).games, 1U);
    const auto live = world.live(id);
    play_out(second, party_of(live, truth), party_of(live, truth, where.step, where.node, kFalseMask));
    EXPECT_EQ(world.dispute(second).winner, types::DisputeWinner::defender);
    EXPECT_EQ(world.bond(Role::verifier, reports[0].verifier).games, 0U);
    EXPECT_FALSE(world.reports(id)[0].slashed());
}

TEST_F(ForcedErrors, who_has_moved_stands_for_what_it_told) {
    const auto id = reveal_all();
    const auto reports = world.reports(id);
    const auto mine = report_of(id, reports[0].verifier);
    const auto probe = altered_probe(mine);
    const auto& where = mine.probes[mine.sealed.altered_probe];
    const auto dispute = challenge(id, kWhistleblower, 1, probe.true_hash, probe.challenge);
    // The only word of a tile is the one that is altered.
    core::DisputeStrategy told(party_of(world.live(id), truth, where.step, where.node, 1));
    const auto game = *types::decode_record<core::Game>(world.dispute(dispute).game);
    const auto move = told.next_move(game, core::Side::defender, waiting_post(game));
    ASSERT_TRUE(move) << move.error().to_string();
    const auto* post = std::get_if<core::SplitMove>(&*move);
    ASSERT_NE(post, nullptr);
    expect_ok(world.one(reports[0].verifier, NativeKind::dispute_split,
                        types::DisputeSplitPayload{dispute, types::encode_record(*post)}));
    const Bytes before = world.dispute(dispute).game;
    expect_ok(world.one(reports[0].verifier, NativeKind::report_open, opening_of(id, reports[0])));
    EXPECT_EQ(world.dispute(dispute).closed_at, 0U);
    EXPECT_EQ(world.dispute(dispute).game, before);
}

TEST_F(ForcedErrors, nobody_is_challenged_once_choices_are_opened) {
    const auto id = reveal_all();
    const auto probe = altered_probe(report_of(id, world.reports(id)[0].verifier));
    expect_ok(world.one(
        kWhistleblower, NativeKind::challenge_commit,
        types::ChallengeCommitPayload{id, 0, core::challenge_commitment(kWhistleblower, probe.true_hash, kSalt)}));
    tick_when_due(id);
    ASSERT_EQ(world.claim(id).state, ClaimState::opening);
    EXPECT_EQ(name(world.one(kWhistleblower, NativeKind::challenge_reveal,
                             types::ChallengeRevealPayload{id, 0, 1, probe.true_hash, kSalt, probe.challenge})),
              "challenge.window_closed");
}

TEST_F(ForcedErrors, games_about_other_probes_are_not_corrected) {
    const auto id = reveal_all();
    const auto reports = world.reports(id);
    const auto mine = report_of(id, reports[0].verifier);
    const std::size_t altered = mine.sealed.altered_probe;
    const auto same = [&](std::size_t i) {
        return mine.probes[i].step == mine.probes[altered].step && mine.probes[i].node == mine.probes[altered].node;
    };
    std::size_t other = 0;
    while (other < mine.probes.size() && same(other)) ++other;
    ASSERT_LT(other, mine.probes.size());
    const Bytes about = core::encode(challenge_of(mine, reports[0].opened, other));
    const auto dispute = challenge(id, kWhistleblower, 1, crypto::sha256(as_bytes("junk")), about);
    // As in a task that is made so: what it told of the other probe is the altered tile of the first.
    world.begin();
    auto made = world.dispute(dispute);
    auto game = *types::decode_record<core::Game>(made.game);
    game.claims[0] = mine.sealed.altered_leaves[1 + altered];
    made.game = types::encode_record(game);
    world.state().store(types::key_of<types::Dispute>(dispute), made);
    expect_ok(world.send(reports[0].verifier, NativeKind::report_open, opening_of(id, reports[0])));
    ASSERT_TRUE(world.finish());
    EXPECT_EQ(world.dispute(dispute).game, made.game);
}

TEST_F(ForcedErrors, who_accused_a_wrong_choice_has_the_bounty) {
    const auto id = reach(ClaimState::revealing, truth);
    tick_when_due(id);
    world.params.market.forced_error_inverse = 1;
    for (const auto& report : world.reports(id)) {
        const auto mine = report_of(id, report.verifier);
        // The first tells the altered result and will not have been forced to.
        expect_ok(world.one(report.verifier, NativeKind::verify_reveal,
                            core::make_reveal(mine.sealed, id, core::choice_of(mine.sealed, true))));
    }
    world.params.market.forced_error_inverse = std::uint64_t{1} << 32;
    const auto reports = world.reports(id);
    const auto probe = altered_probe(report_of(id, reports[0].verifier));
    challenge(id, kWhistleblower, 1, probe.true_hash, probe.challenge);
    types::ReportOpenPayload opening;
    opening.task = id;
    opening.randomness = report_of(id, reports[0].verifier).sealed.randomness;
    expect_ok(world.one(reports[0].verifier, NativeKind::report_open, opening));
    EXPECT_EQ(world.task(id).slashes.back().reason, "wrong_choice");
    Uint256 bounty;
    for (const auto& payment : world.task(id).payments)
        if (payment.to == kWhistleblower && payment.reason == "bounty") bounty += payment.amount;
    EXPECT_GT(bounty, Uint256());
}

TEST_F(ForcedErrors, losing_a_claim_costs_more_than_its_tax) {
    spec.money.tax = 50'000;
    const auto id = reach(TaskState::open);
    const auto lock = market::solver_bond(world.params.market, world.task(id));
    EXPECT_GT(market::percent_of(lock, world.params.market.burn_percent), Uint256(50'000));
}

// Of the games about an altered probe sixteen are closed with the opening, the rest by whatever closes moot games next:
// the first of those that go on begins then, or nobody could ever end it.
class LeftOverGames : public ForcedErrors {
protected:
    // A game that goes on, behind one that is decided and before sixteen that are; `another`, by kWhistleblower, is
    // about to be conceded. The verifier opens.
    void open_with(std::uint64_t id, std::uint32_t target, const AlteredProbe& about, std::uint64_t& another) {
        const auto reports = world.reports(id);
        const auto probe = altered_probe(report_of(id, reports[0].verifier));
        challenge(id, watchers[0], 1, probe.true_hash, probe.challenge);
        waiting = challenge(id, watchers[1], 1, probe.false_hash, probe.challenge);
        for (int i = 0; i < 16; ++i) challenge(id, watchers[0], 1, probe.true_hash, probe.challenge);
        another = challenge(id, kWhistleblower, target, about.true_hash, about.challenge);
        world.begin();
        expect_ok(world.send(reports[0].verifier, NativeKind::report_open, opening_of(id, reports[0])));
    }
    std::uint64_t waiting = 0;
};

TEST_F(LeftOverGames, leave_no_game_that_nobody_begins_when_another_report_falls) {
    spec.windows.challenge_s = spec.windows.heartbeat_s = 400;
    const auto id = reveal_all();
    const auto verifier = world.reports(id)[1].verifier;
    std::uint64_t another = 0;
    open_with(id, 2, altered_probe(report_of(id, verifier)), another);
    expect_ok(world.send(verifier, NativeKind::dispute_concede, types::DisputeConcedePayload{another}));
    const auto status = world.finish();
    EXPECT_TRUE(status) << status.error().to_string();
    EXPECT_NE(world.dispute(waiting).deadline, 0U);
}

TEST_F(LeftOverGames, leave_no_game_that_nobody_begins_when_the_claim_falls) {
    spec.windows.challenge_s = spec.windows.heartbeat_s = 400;
    const auto id = reveal_all();
    std::uint64_t another = 0;
    open_with(id, 0, {history_opening(wrong), wrong.root, {}}, another);
    expect_ok(world.send(kSolver, NativeKind::dispute_concede, types::DisputeConcedePayload{another}));
    const auto status = world.finish();
    EXPECT_TRUE(status) << status.error().to_string();
    EXPECT_NE(world.dispute(waiting).deadline, 0U);
}

TEST_F(ForcedErrors, a_false_challenge_of_a_forced_report_still_loses) {
    const auto id = reveal_all();
    const auto reports = world.reports(id);
    const auto mine = report_of(id, reports[0].verifier);
    const auto probe = altered_probe(mine);
    const auto& where = mine.probes[mine.sealed.altered_probe];
    const auto dispute = challenge(id, kWhistleblower, 1, probe.false_hash, probe.challenge);
    expect_ok(world.one(reports[0].verifier, NativeKind::report_open, opening_of(id, reports[0])));
    ASSERT_EQ(world.dispute(dispute).closed_at, 0U);
    const auto live = world.live(id);
    play_out(dispute, party_of(live, truth), party_of(live, truth, where.step, where.node, kFalseMask));
    EXPECT_EQ(world.dispute(dispute).winner, types::DisputeWinner::defender);
    EXPECT_FALSE(world.reports(id)[0].slashed());
}

TEST_F(ForcedErrors, without_forced_errors_nobody_waits_or_opens) {
    world.params.market.forced_error_inverse = 0;
    const auto id = reach(ClaimState::challenge, truth);
    EXPECT_EQ(name(world.one(watchers[0], NativeKind::watch_commit, seal(id, 0, 0, true_root(id, 0)))),
              "watch.no_forced_errors");
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    EXPECT_GE(world.globals().jackpot_vault, Uint256(kTax));
}

}  // namespace
}  // namespace quern::chain::exec::test
