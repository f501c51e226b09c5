// What decide() makes of forced errors, on claims that are made by hand: when a verifier reveals which of its two
// results, when it shows that it had to, and what watchers seal, challenge and are paid for.
#include "market_actor.h"

namespace quern::compute::worker::test {
namespace {

using chain::types::ReportChoice;
using chain::types::ReportOpenPayload;
using chain::types::WatchCommitPayload;
using chain::types::WatchRevealPayload;

constexpr std::uint64_t kInverse = 2;  // each second report is forced
constexpr std::uint64_t kNow = 50'000;
constexpr std::uint64_t kDeadline = 100'000;
constexpr std::uint64_t kHeight = 90;  // of the newest block

Hash32 number(std::uint64_t n) { return crypto::sha256(Uint256(n).to_be32()); }

// A verifier (of report 0) and a whistleblower; nobody answers them.
class ForcedErrors : public ::testing::Test {
protected:
    ForcedErrors() {
        live.task.id = live.claim.id.task = 3;
        live.task.submitter = kSubmitter;
        live.task.state = TaskState::running;
        live.task.steps = kSteps;
        live.task.spec = tiny_spec(*truth.programs);
        live.claim.solver = kSolver;
        live.claim.state = ClaimState::revealing;
        live.claim.deadline = kDeadline;
        live.claim.draws = 1;
        live.claim.verify_beacon = number(1);
        live.claim.history_root = truth.root;
        live.claim.reveal_at = 80;
        live.claim.drawn = 2;
        live.reports.resize(2);
        for (std::uint8_t place = 0; place < 2; ++place) {
            auto& report = live.reports[place];
            report.claim = live.claim.id;
            report.place = place;
            report.verifier = kVerifiers[place];
            report.custody = 1;
            report.commitment = sealed(place).commitment;
        }
        verifier.address = kVerifiers[0];
        verifier.verifier = true;
        whistleblower.address = kWhistleblower;
        whistleblower.whistleblower = true;
        for (Me* me : {&verifier, &whistleblower}) {
            me->ticks = false;
            me->forced_error_inverse = kInverse;
        }
    }
    [[nodiscard]] core::SealedReport sealed(std::uint8_t place) const {
        const auto finding = report_of(live, live.reports[place].verifier, truth);
        return *core::seal_report(live.reports[place].verifier, true, {}, finding->probes, finding->secret);
    }
    // The beacon is one that forces report 0, or does not.
    void draw_beacon(bool forces) {
        for (std::uint64_t n = 0;; ++n) {
            live.claim.forced_beacon = number(n);
            if (core::forced(sealed(0).randomness, number(n), core::forced_probability(kInverse)) == forces) return;
        }
    }
    // Both tell; report 0 as the beacon has it, the other one the truth.
    void reveal_all(bool forced) {
        draw_beacon(forced);
        for (std::uint8_t place = 0; place < 2; ++place) {
            const auto mine = sealed(place);
            tell(place, core::choice_of(mine, forced && place == 0));
        }
        live.claim.state = ClaimState::challenge;
        live.claim.challenge_until = kDeadline;
    }
    void tell(std::uint8_t place, std::uint8_t opened) {
        const auto mine = sealed(place);
        const auto& leaves = core::opened_leaves(mine, opened);
        tell(place, std::vector<Hash32>(leaves.begin() + 1, leaves.end()));
        live.reports[place].opened = opened;
        live.reports[place].other_leaf = mine.leaves[1 - opened];
    }
    void tell(std::uint8_t place, const std::vector<Hash32>& hashes) {
        auto& report = live.reports[place];
        report.revealed_at = kHeight - 5;
        report.pass = true;
        report.result_root = result_root_of(report, hashes);
        told[report.result_root] = std::make_shared<const std::vector<Hash32>>(hashes);
    }
    // As the chain has it after the opening of report 0, which was forced.
    void show_forced() {
        live.reports[0].choice = ReportChoice::forced;
        live.reports[0].true_root = sealed(0).result_roots[sealed(0).true_index];
    }
    [[nodiscard]] View view() const {
        View view{kHeight, kNow, live, {}, {}, {}, {}, disputes, true, told};
        view.report.finding = report_of(live, verifier.address, truth);
        view.watch.finding = watch;
        if (view.watch.finding == nullptr) view.watch.finding = watch_of(live, truth, truth);
        view.tickets = tickets;
        return view;
    }
    [[nodiscard]] std::vector<Attempt> sends(const Me& me) const { return attempts_of(decide(me, view())); }
    template <class Payload>
    [[nodiscard]] static std::optional<Payload> payload_of(const std::vector<Attempt>& attempts, NativeKind kind) {
        const Attempt* const attempt = find(attempts, kind);
        if (attempt == nullptr) return std::nullopt;
        return *chain::types::decode_record<Payload>(attempt->payload);
    }
    // What the opening that the verifier sends now shows of report 0.
    [[nodiscard]] Expected<core::OpenedChoice> opened() const {
        const auto opening = payload_of<ReportOpenPayload>(sends(verifier), NativeKind::report_open);
        if (!opening) return fail("test.no_opening");
        return core::check_opening(verifier.address, live.reports[0], *opening, core::segment_count(kSteps, kInterval),
                                   live.claim.forced_beacon, core::forced_probability(kInverse));
    }
    [[nodiscard]] std::optional<std::uint8_t> revealed() const {
        const auto reveal = payload_of<chain::types::VerifyRevealPayload>(sends(verifier), NativeKind::verify_reveal);
        return reveal ? std::optional(reveal->opened) : std::nullopt;
    }
    // Of the altered probe of report 0, with its first move due to the verifier.
    void challenge_report() {
        const auto mine = sealed(0);
        const auto& program = truth.programs->plan;
        const auto probe = probes_of(live, verifier.address, program)[mine.altered_probe];
        core::GameContext context;
        context.plan = program.bytes();
        context.stride = 1;
        context.history_leaves = kSteps + 1;
        const auto game = core::open_probe_game(
            context, truth.root, probe.step, probe.node, 0,
            core::opened_leaves(mine, live.reports[0].opened)[1 + mine.altered_probe], number(77), 40'000, kNow);
        ASSERT_TRUE(game) << game.error().to_string();
        Dispute dispute;
        dispute.id = 9;
        dispute.claim = live.claim.id;
        dispute.target = 1;
        dispute.defender = verifier.address;
        dispute.rival = kSecond;
        dispute.opened_at = kHeight;
        disputes = {{std::make_shared<const Dispute>(dispute), std::make_shared<const core::Game>(*game),
                     std::make_shared<const PlannedMove>(PlannedMove{position_of(*game), core::Concede{}})}};
        live.claim.state = ClaimState::disputed;
        live.claim.deadline = 0;
    }
    [[nodiscard]] bool moves() const { return find(sends(verifier), NativeKind::dispute_concede) != nullptr; }

    History truth = compute_history(kSteps);
    TaskClaim live;
    Me verifier;
    Me whistleblower;
    std::vector<DisputeView> disputes;
    std::map<Hash32, std::shared_ptr<const std::vector<Hash32>>> told;
    std::map<std::uint8_t, WatchTicket> tickets{{0, {Bytes(64, 7), Bytes(81, 8)}}};
    std::shared_ptr<const Finding> watch;  // null: of all that is true

private:
    [[nodiscard]] static chain::types::TaskSubmitPayload tiny_spec(const core::TaskPrograms& programs) {
        chain::types::TaskSubmitPayload spec;
        spec.plan = programs.plan.bytes();
        spec.work.interval = kInterval;
        spec.work.stride = 1;
        spec.work.samples = 20;
        spec.windows.verify_s = spec.windows.challenge_s = 12;
        return spec;
    }
};

// --- Verifier --------------------------------------------------------------------------------------------------------

TEST_F(ForcedErrors, nothing_is_revealed_before_the_beacon_that_forces_errors) {
    EXPECT_TRUE(wants<Report>(decide(verifier, view())));
    EXPECT_FALSE(revealed());
    draw_beacon(false);
    EXPECT_TRUE(revealed());
    verifier.forced_error_inverse.reset();
    EXPECT_FALSE(revealed()) << "it does not know how many are forced";
    live.claim.forced_beacon = {};
    live.claim.reveal_at = 0;
    EXPECT_EQ(revealed(), sealed(0).true_index) << "none are";
}

TEST_F(ForcedErrors, the_beacon_is_drawn_by_a_tick_once_it_is_there) {
    Me ticker;
    ticker.address = address(1000);
    live.claim.reveal_at = 90;
    const auto ticks_at = [&](std::uint64_t height) {
        return !attempts_of(decide(ticker, View{height, 200'000, live, {}, {}, {}, {}, {}, true, {}})).empty();
    };
    EXPECT_FALSE(ticks_at(chain::market::draw_height(90) - 2));
    EXPECT_TRUE(ticks_at(chain::market::draw_height(90) - 1));
    live.claim.forced_beacon = number(1);
    EXPECT_TRUE(ticks_at(90)) << "the end of the reveals waits for none";
    live.claim.forced_beacon = {};
    for (const ClaimState state : {ClaimState::opening, ClaimState::jackpots}) {
        live.claim.state = state;
        EXPECT_TRUE(ticks_at(90)) << chain::types::to_string(state);
    }
}

TEST_F(ForcedErrors, a_report_tells_the_result_that_it_has_to) {
    for (const bool forced : {false, true}) {
        draw_beacon(forced);
        EXPECT_EQ(revealed(), core::choice_of(sealed(0), forced));
        verifier.fault = Fault::wrong_choice;
        EXPECT_EQ(revealed(), core::choice_of(sealed(0), !forced));
        verifier.fault = Fault::none;
    }
}

TEST_F(ForcedErrors, each_shows_its_choice_at_the_end_and_once) {
    for (const bool forced : {false, true}) {
        SCOPED_TRACE(forced);
        reveal_all(forced);
        EXPECT_TRUE(sends(verifier).empty()) << "watchers may still seal";
        live.claim.state = ClaimState::opening;
        EXPECT_TRUE(wants<Report>(decide(verifier, view())));
        const auto shown = opened();
        ASSERT_TRUE(shown) << shown.error().to_string();
        EXPECT_TRUE(shown->right);
        EXPECT_EQ(shown->forced, forced);
        verifier.fault = Fault::silent_opening;
        EXPECT_TRUE(sends(verifier).empty());
        verifier.fault = Fault::none;
        live.claim.deadline = kNow + 1;
        EXPECT_TRUE(sends(verifier).empty()) << "it would be refused";
        live.claim.deadline = kDeadline;
        live.reports[0].choice = forced ? ReportChoice::forced : ReportChoice::truth;
        EXPECT_TRUE(sends(verifier).empty());
        live.reports[0].choice = ReportChoice::sealed;
    }
}

TEST_F(ForcedErrors, who_chose_wrongly_cannot_show_that_it_was_right) {
    verifier.fault = Fault::wrong_choice;
    for (const bool forced : {false, true}) {
        reveal_all(forced);
        tell(0, core::choice_of(sealed(0), !forced));
        live.claim.state = ClaimState::opening;
        const auto shown = opened();
        ASSERT_TRUE(shown) << shown.error().to_string();
        EXPECT_FALSE(shown->right);
    }
}

TEST_F(ForcedErrors, who_is_challenged_for_what_it_was_forced_to_tell_shows_that_before_it_moves) {
    reveal_all(true);
    challenge_report();
    EXPECT_NE(find(sends(verifier), NativeKind::report_open), nullptr);
    EXPECT_FALSE(moves()) << "it would stand for the altered tile";
    View unread = view();
    unread.report = {};
    EXPECT_EQ(find(attempts_of(decide(verifier, unread)), NativeKind::dispute_concede), nullptr)
        << "it does not know yet what it told";
    EXPECT_TRUE(wants<Report>(decide(verifier, unread)));
    show_forced();
    EXPECT_EQ(find(sends(verifier), NativeKind::report_open), nullptr);
    EXPECT_TRUE(moves());
    View old = view();
    old.all_disputes = false;
    EXPECT_EQ(find(attempts_of(decide(verifier, old)), NativeKind::dispute_concede), nullptr)
        << "the game may be the one from before";
}

TEST_F(ForcedErrors, who_is_challenged_for_the_truth_plays_at_once) {
    reveal_all(false);
    challenge_report();
    EXPECT_EQ(find(sends(verifier), NativeKind::report_open), nullptr);
    EXPECT_TRUE(moves());
}

// --- Watchers --------------------------------------------------------------------------------------------------------

TEST_F(ForcedErrors, a_watcher_seals_an_altered_report_and_challenges_none) {
    reveal_all(true);
    for (const ClaimState state : {ClaimState::revealing, ClaimState::challenge, ClaimState::disputed}) {
        live.claim.state = state;
        const auto all = sends(whistleblower);
        ASSERT_EQ(all.size(), 1U);
        const auto seal = payload_of<WatchCommitPayload>(all, NativeKind::watch_commit);
        ASSERT_TRUE(seal);
        EXPECT_EQ(seal->report, 0U);
        EXPECT_EQ(seal->public_key, tickets[0].public_key);
        EXPECT_EQ(seal->proof, tickets[0].proof);
    }
    live.claim.voided = true;
    EXPECT_TRUE(sends(whistleblower).empty());
    live.claim.voided = false;
    live.reports[0].seals = chain::params::kMaxSeals;
    EXPECT_TRUE(sends(whistleblower).empty());
    live.reports[0].seals = 0;
    tickets.clear();
    EXPECT_TRUE(sends(whistleblower).empty()) << "it is no watcher";
}

TEST_F(ForcedErrors, a_watcher_seals_no_report_that_tells_the_truth) {
    reveal_all(false);
    tickets[1] = tickets[0];
    EXPECT_TRUE(wants<Watch>(decide(whistleblower, view())));
    EXPECT_TRUE(sends(whistleblower).empty());
}

TEST_F(ForcedErrors, a_watcher_asks_what_a_report_told_before_it_judges_it) {
    reveal_all(true);
    told.clear();
    EXPECT_TRUE(wants<ReadProbes>(decide(whistleblower, view())));
    EXPECT_TRUE(sends(whistleblower).empty());
}

// --- Peers -----------------------------------------------------------------------------------------------------------

TEST_F(ForcedErrors, a_verifier_challenges_what_a_peer_cannot_have_been_forced_to_tell) {
    reveal_all(false);
    verifier.address = kVerifiers[1];
    EXPECT_TRUE(sends(verifier).empty());
    auto lie = *told[live.reports[0].result_root];
    for (auto& hash : lie) hash = number(99);
    tell(0, lie);
    const auto commit = payload_of<chain::types::ChallengeCommitPayload>(sends(verifier), NativeKind::challenge_commit);
    ASSERT_TRUE(commit);
    const auto reveal = payload_of<chain::types::ChallengeRevealPayload>(sends(verifier), NativeKind::challenge_reveal);
    ASSERT_TRUE(reveal);
    EXPECT_EQ(reveal->target, 1U);
    EXPECT_EQ(commit->commitment, core::challenge_commitment(verifier.address, reveal->claim, reveal->salt));
    told.clear();
    EXPECT_TRUE(wants<ReadProbes>(decide(verifier, view())));
    EXPECT_TRUE(sends(verifier).empty());
}

TEST_F(ForcedErrors, a_verifier_leaves_a_peer_alone_that_may_have_been_forced) {
    reveal_all(true);
    verifier.address = kVerifiers[1];
    EXPECT_TRUE(wants<Report>(decide(verifier, view())));
    EXPECT_TRUE(sends(verifier).empty());
    show_forced();
    EXPECT_TRUE(sends(verifier).empty());
}

// It has shown another tile as forced, in a segment that this verifier has not replayed: what its true root holds
// nobody can tell here. The chain gives a stake back that was against what it told before.
TEST_F(ForcedErrors, a_stake_against_what_was_forced_elsewhere_is_revealed_and_no_other_made) {
    reveal_all(false);
    verifier.address = kVerifiers[1];
    tell(0, std::vector<Hash32>(told[live.reports[0].result_root]->size(), number(99)));
    live.reports[0].choice = ReportChoice::forced;
    live.reports[0].true_root = number(5);
    const auto all = sends(verifier);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].kind, NativeKind::challenge_reveal);
}

TEST_F(ForcedErrors, a_watcher_shows_what_it_has_sealed_of_forced_errors) {
    reveal_all(true);
    const auto seal = payload_of<WatchCommitPayload>(sends(whistleblower), NativeKind::watch_commit);
    ASSERT_TRUE(seal);
    live.reports[0].seals = 1;
    for (const ClaimState state : {ClaimState::opening, ClaimState::jackpots}) {
        live.claim.state = state;
        live.reports[0].choice = ReportChoice::sealed;
        EXPECT_TRUE(wants<Watch>(decide(whistleblower, view()))) << "what it found is kept";
        EXPECT_TRUE(sends(whistleblower).empty());
        show_forced();
        const auto all = sends(whistleblower);
        ASSERT_EQ(all.size(), 1U);
        const auto found = payload_of<WatchRevealPayload>(all, NativeKind::watch_reveal);
        ASSERT_TRUE(found);
        EXPECT_EQ(found->report, 0U);
        EXPECT_EQ(found->root, live.reports[0].true_root);
        EXPECT_EQ(core::watch_seal(kWhistleblower, found->root, found->salt), seal->seal);
    }
    live.reports[0].true_root = number(5);
    EXPECT_TRUE(sends(whistleblower).empty()) << "it found another truth";
    show_forced();
    live.reports[0].found = 1;
    EXPECT_TRUE(decide(whistleblower, view()).empty()) << "all who sealed it are paid";
    live.reports[0].found = 0;
    tickets.clear();
    EXPECT_EQ(sends(whistleblower).size(), 1U) << "what it has sealed is paid whatever its bond is now";
}

// --- Challenges ------------------------------------------------------------------------------------------------------

class Lies : public ForcedErrors {
protected:
    // What report 0 would tell were it forced, with other probes wrong as well.
    [[nodiscard]] std::vector<Hash32> altered_and(std::vector<std::size_t> others) const {
        const auto mine = sealed(0);
        std::vector<Hash32> hashes(mine.altered_leaves.begin() + 1, mine.altered_leaves.end());
        for (const std::size_t each : others) hashes.at((mine.altered_probe + each) % hashes.size()) = number(each);
        return hashes;
    }
    [[nodiscard]] bool challenges() const {
        return find(sends(whistleblower), NativeKind::challenge_commit) != nullptr;
    }
    [[nodiscard]] bool seals() const { return find(sends(whistleblower), NativeKind::watch_commit) != nullptr; }
    // The tile that it challenges, as the report tells it.
    [[nodiscard]] Hash32 challenged() const {
        const auto reveal =
            payload_of<chain::types::ChallengeRevealPayload>(sends(whistleblower), NativeKind::challenge_reveal);
        return reveal ? core::decode_probe_challenge(reveal->opening)->tile_hash : Hash32();
    }
};

TEST_F(Lies, two_wrong_tiles_are_challenged_at_the_one_that_cannot_be_forced) {
    reveal_all(true);
    tell(0, altered_and({1}));
    EXPECT_TRUE(challenges());
    EXPECT_FALSE(seals());
    EXPECT_EQ(challenged(), number(1));
}

TEST_F(Lies, one_wrong_tile_is_challenged_where_it_is_no_alteration) {
    reveal_all(true);
    auto hashes = altered_and({0});
    tell(0, hashes);
    EXPECT_TRUE(challenges());
    EXPECT_FALSE(seals());
    auto without = std::make_shared<Finding>(*watch_of(live, truth, truth));
    without->probe_tiles.clear();
    watch = without;
    EXPECT_FALSE(challenges()) << "it has no tiles to compare, and leaves one to the opening";
    EXPECT_TRUE(seals());
    tell(0, altered_and({1}));
    EXPECT_TRUE(challenges());
}

TEST_F(Lies, an_alteration_is_challenged_where_nothing_is_forced) {
    reveal_all(true);
    live.claim.forced_beacon = {};
    live.claim.reveal_at = 0;
    EXPECT_TRUE(challenges());
    EXPECT_FALSE(seals());
}

TEST_F(Lies, an_alteration_is_challenged_once_its_verifier_calls_it_the_truth) {
    reveal_all(true);
    EXPECT_FALSE(challenges());
    live.reports[0].choice = ReportChoice::truth;
    EXPECT_TRUE(challenges());
    EXPECT_FALSE(seals());
}

TEST_F(Lies, a_lie_beside_a_forced_error_is_challenged_after_the_opening_too) {
    reveal_all(true);
    show_forced();
    EXPECT_TRUE(sends(whistleblower).empty()) << "the truth is known, and is the expected one";
    tell(0, altered_and({1}));
    auto true_hashes = altered_and({1});
    const auto mine = sealed(0);
    true_hashes[mine.altered_probe] = mine.true_leaves[1 + mine.altered_probe];
    live.reports[0].true_root = result_root_of(live.reports[0], true_hashes);
    EXPECT_EQ(challenged(), number(1));
}

TEST_F(Lies, nothing_is_challenged_at_the_end) {
    reveal_all(true);
    tell(0, altered_and({1}));
    for (const ClaimState state : {ClaimState::opening, ClaimState::jackpots}) {
        live.claim.state = state;
        EXPECT_TRUE(sends(whistleblower).empty());
    }
}

}  // namespace
}  // namespace quern::compute::worker::test
