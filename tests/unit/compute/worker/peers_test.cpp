// Verifiers that look at their peers: what is computed for it, and what becomes of a lie that one of them finds.
#include <filesystem>

#include "compute/program/state_file.h"
#include "compute/worker/replay_jobs.h"
#include "content_node.h"
#include "market_actor.h"

namespace quern::compute::worker::test {
namespace {

// --- Accusing --------------------------------------------------------------------------------------------------------

class Peers : public Lifecycle {
protected:
    static constexpr std::uint32_t kMask = 4;

    // Two thirds have said that they have the data: none has to wait for the others.
    void draw(const History& history) {
        id = reach(ClaimState::custody, history);
        for (const auto& report : world.reports(id))
            if (world.claim(id).state == ClaimState::custody)
                expect_ok(world.one(report.verifier, NativeKind::custody_receipt,
                                    chain::types::CustodyReceiptPayload{id, 0, true}));
    }
    // All who were drawn have told their results; of report 0 one tile is wrong.
    void tell_a_lie() {
        draw(truth);
        const TaskClaim live = world.live(id);
        for (const auto& report : live.reports)
            told.push_back(make_report(live, report.verifier, truth, true, {}, 1, report.place == 0 ? kMask : 0));
        reveal_all();
    }
    void reveal_all() {
        const TaskClaim live = world.live(id);
        for (const auto& report : live.reports)
            expect_ok(world.one(report.verifier, NativeKind::verify_commit,
                                chain::types::VerifyCommitPayload{id, 0, told[report.place].sealed.commitment}));
        for (const auto& report : live.reports) {
            const auto& sealed = told[report.place].sealed;
            auto reveal = core::make_reveal(sealed, id, sealed.true_index);
            if (!reveal.pass) reveal.initial_path = core::history_path(truth.roots, 0);
            expect_ok(world.one(report.verifier, NativeKind::verify_reveal, reveal));
        }
        liar = live.reports[0].verifier;
    }
    [[nodiscard]] Actor verifier(std::uint8_t place) const {
        Actor actor(world.reports(id).at(place).verifier, truth);
        actor.me.verifier = true;
        return actor;
    }
    [[nodiscard]] std::vector<std::uint64_t> segments_of(const Address& who) const {
        return core::draw_segments(world.claim(id).verify_beacon, who, kSteps / kInterval, spec.work.samples);
    }
    [[nodiscard]] std::vector<Attempt> sends(const Actor& actor) const { return attempts_of(actor.decide(world, id)); }
    [[nodiscard]] std::set<std::uint32_t> targets(const Actor& actor) const {
        std::set<std::uint32_t> all;
        for (const Attempt& attempt : sends(actor))
            if (attempt.kind == NativeKind::challenge_reveal)
                all.insert(chain::types::decode_record<chain::types::ChallengeRevealPayload>(attempt.payload)->target);
        return all;
    }
    // In one block.
    void perform(const std::vector<const Actor*>& actors, NativeKind kind) {
        std::vector<std::pair<Address, Bytes>> payloads;
        for (const Actor* actor : actors) {
            const auto all = sends(*actor);
            const Attempt* const attempt = find(all, kind);
            ASSERT_NE(attempt, nullptr);
            payloads.emplace_back(actor->me.address, attempt->payload);
        }
        world.begin();
        for (const auto& [who, payload] : payloads) expect_ok(world.send(who, kind, payload));
        EXPECT_TRUE(world.finish());
    }
    void concede(std::uint64_t dispute) {
        expect_ok(world.one(liar, NativeKind::dispute_concede, chain::types::DisputeConcedePayload{dispute}));
    }
    [[nodiscard]] std::vector<Play> plays(const Actor& actor) const {
        std::vector<Play> all;
        for (const Action& action : actor.decide(world, id))
            if (const auto* play = std::get_if<Play>(&action)) all.push_back(*play);
        return all;
    }
    [[nodiscard]] std::set<std::string> slashed() const {
        std::set<std::string> all;
        for (const auto& slash : world.task(id).slashes) all.insert(slash.reason);
        return all;
    }
    [[nodiscard]] std::size_t payments(const Address& to, std::string_view reason) const {
        std::size_t count = 0;
        for (const auto& payment : world.task(id).payments) count += payment.to == to && payment.reason == reason;
        return count;
    }

    std::uint64_t id = 0;
    std::vector<ReportData> told;
    Address liar;
};

TEST_F(Peers, a_lie_costs_its_verifier_the_lock_and_pays_who_found_it) {
    tell_a_lie();
    const Actor peer = verifier(1);
    Actor blind = peer;
    blind.knows_probes = false;
    EXPECT_TRUE(wants<ReadProbes>(blind.decide(world, id)));
    EXPECT_TRUE(sends(blind).empty());
    EXPECT_TRUE(sends(verifier(0)).empty()) << "nobody accuses itself";
    const Uint256 locked = world.bond(Role::verifier, peer.me.address).locked;
    perform({&peer}, NativeKind::challenge_commit);
    EXPECT_EQ(find(sends(peer), NativeKind::challenge_reveal)->each_block, true);
    perform({&peer}, NativeKind::challenge_reveal);
    ASSERT_EQ(world.claim(id).disputes.size(), 1U);
    const auto dispute = world.dispute(world.claim(id).disputes[0]);
    EXPECT_EQ(dispute.target, 1U);
    EXPECT_EQ(dispute.rival_role, Role::verifier);
    EXPECT_TRUE(targets(peer).empty()) << "once";
    const auto playing = plays(peer);
    ASSERT_EQ(playing.size(), 1U);
    EXPECT_EQ(playing[0].side, core::Side::rival);
    EXPECT_EQ(playing[0].claim, nullptr) << "the solver's history leads there";
    const auto& probe = told[0].probes[0];
    const TaskClaim live = world.live(id);
    play_out(dispute.id, party_of(live, truth, probe.step, probe.node, kMask), party_of(live, truth));
    EXPECT_EQ(world.dispute(dispute.id).winner, chain::types::DisputeWinner::rival);
    EXPECT_EQ(slashed(), std::set<std::string>{"wrong_probe"});
    EXPECT_EQ(payments(peer.me.address, "bounty"), 1U);
    EXPECT_EQ(world.bond(Role::verifier, peer.me.address).locked, locked);
    EXPECT_TRUE(sends(peer).empty());
}

TEST_F(Peers, of_several_who_find_the_same_nobody_loses) {
    spec.work.verifiers = 3;
    tell_a_lie();
    const Actor first = verifier(1);
    const Actor second = verifier(2);
    perform({&first, &second}, NativeKind::challenge_commit);
    perform({&first}, NativeKind::challenge_reveal);
    concede(world.claim(id).disputes.at(0));
    EXPECT_EQ(find(sends(second), NativeKind::challenge_commit), nullptr) << "there is nothing left to accuse";
    EXPECT_TRUE(sends(first).empty());
    perform({&second}, NativeKind::challenge_reveal);
    EXPECT_EQ(world.claim(id).commitments, 0U);
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    EXPECT_EQ(slashed(), std::set<std::string>{"wrong_probe"});
    for (const Actor* each : {&first, &second}) {
        EXPECT_TRUE(world.bond(Role::verifier, each->me.address).locked.is_zero());
        EXPECT_EQ(payments(each->me.address, "verifier_fee"), 1U);
    }
}

// So does a whistleblower, which finds it with its own replay.
TEST_F(Peers, who_was_slower_has_its_stake_back) {
    tell_a_lie();
    const Actor peer = verifier(1);
    Actor whistleblower(kWhistleblower, truth);
    whistleblower.me.whistleblower = true;
    whistleblower.published = &truth;
    perform({&peer, &whistleblower}, NativeKind::challenge_commit);
    perform({&peer}, NativeKind::challenge_reveal);
    concede(world.claim(id).disputes.at(0));
    perform({&whistleblower}, NativeKind::challenge_reveal);
    EXPECT_TRUE(world.bond(Role::whistleblower, kWhistleblower).locked.is_zero());
    EXPECT_EQ(slashed(), std::set<std::string>{"wrong_probe"});
}

TEST_F(Peers, who_has_been_slashed_stakes_nothing_more_and_reveals_what_it_has_staked) {
    tell_a_lie();
    const Actor peer = verifier(1);
    TaskClaim live = world.live(id);
    live.reports[1].slashed_at = world.market_ms();
    const auto all = attempts_of(decide(peer.me, peer.view(world, live)));
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].kind, NativeKind::challenge_reveal);
}

TEST_F(Peers, who_has_told_nothing_yet_accuses_nobody) {
    tell_a_lie();
    const Actor peer = verifier(1);
    TaskClaim live = world.live(id);
    live.claim.state = ClaimState::revealing;
    live.claim.challenge_until = 0;
    EXPECT_FALSE(attempts_of(decide(peer.me, peer.view(world, live))).empty());
    live.reports[1].revealed_at = 0;
    const auto all = attempts_of(decide(peer.me, peer.view(world, live)));
    EXPECT_EQ(find(all, NativeKind::challenge_commit), nullptr);
    EXPECT_EQ(find(all, NativeKind::challenge_reveal), nullptr);
}

TEST_F(Peers, a_whistleblower_bond_answers_for_the_same_game) {
    tell_a_lie();
    const Actor peer = verifier(1);
    Actor both = peer;
    both.me.whistleblower = true;
    world.bond_role(peer.me.address, Role::whistleblower, 100'000);
    perform({&both}, NativeKind::challenge_commit);
    perform({&both}, NativeKind::challenge_reveal);
    const auto dispute = world.dispute(world.claim(id).disputes.at(0));
    EXPECT_EQ(dispute.rival_role, Role::whistleblower);
    EXPECT_EQ(plays(both).size(), 1U);
    EXPECT_TRUE(wants<Report>(both.decide(world, id)));
    EXPECT_FALSE(wants<Watch>(both.decide(world, id))) << "it would replay all for what it knows";
}

// Of what was passed a verifier that has said FAIL accuses its peers, and by its FAIL the solver.
TEST_F(Peers, who_says_fail_accuses_those_who_passed_the_same_segment) {
    spec.work.samples = 1;
    spec.work.verifiers = 3;
    std::uint8_t fails = 0;
    for (int tries = 0;; ++tries) {
        ASSERT_LT(tries, 20) << "nobody was drawn for the wrong segment with another";
        draw(wrong);
        std::vector<std::uint8_t> drawn;
        for (const auto& report : world.reports(id))
            if (segments_of(report.verifier).front() == core::segment_of(wrong.altered_step, kInterval, 0))
                drawn.push_back(report.place);
        if (drawn.size() < 2) continue;
        fails = drawn[1];
        break;
    }
    const TaskClaim live = world.live(id);
    for (const auto& report : live.reports)
        told.push_back(report.place == fails ? make_report(live, report.verifier, truth, false, truth.root, 1)
                                             : make_report(live, report.verifier, wrong, true, {}, 1));
    reveal_all();
    Actor peer = verifier(fails);
    peer.published = &wrong;
    std::set<std::uint32_t> passed;
    for (const auto& report : live.reports)
        if (report.place != fails && segments_of(report.verifier) == segments_of(live.reports[fails].verifier))
            passed.insert(core::kPassTarget + report.place);
    EXPECT_EQ(targets(peer), passed);
    TaskClaim fallen = world.live(id);
    for (auto& report : fallen.reports)
        if (report.place != fails) report.slashed_at = world.market_ms();
    const auto left = attempts_of(decide(peer.me, peer.view(world, fallen)));
    EXPECT_EQ(find(left, NativeKind::challenge_commit), nullptr) << "somebody else was quicker";
    EXPECT_NE(find(left, NativeKind::challenge_reveal), nullptr);
    perform({&peer}, NativeKind::challenge_commit);
    perform({&peer}, NativeKind::challenge_reveal);
    const auto dispute = world.dispute(world.claim(id).disputes.back());
    EXPECT_TRUE(core::is_pass_target(dispute.target));
    EXPECT_EQ(dispute.rival_role, Role::verifier);
    const auto playing = plays(peer);
    ASSERT_EQ(playing.size(), 2U) << "its FAIL, and the PASS";
    for (const Play& play : playing) EXPECT_EQ(*play.claim, truth.roots);
}

// --- Computing -------------------------------------------------------------------------------------------------------

// Four verifiers of 12 steps, each drawn for three of six segments.
class PeersReplay : public ::testing::Test {
protected:
    static constexpr std::uint64_t kLong = 12;

    PeersReplay() {
        options.datadir = testing::TempDir() + "/quern-peers-test";
        std::filesystem::remove_all(options.datadir);
        auto& [task, claim, reports, custody] = live;
        task.id = claim.id.task = 1;
        task.state = TaskState::running;
        task.spec = spec_of(*truth.programs, kInterval);
        task.spec.work.samples = 3;
        task.spec.work.stride = 1;
        chain::market::set_plan(task, truth.programs->plan.planned(kInterval, 1));
        task.spec.contents.programs = {put(tensor::encode(truth.programs->any()))};
        task.spec.contents.init = put(*program::write_state(truth.programs->any(), tiny().init));
        contents.files[task.spec.data_roots.front()] = tiny().data.sets().front();
        claim.state = ClaimState::custody;
        claim.start_root = task.start_root = task.spec.init_root;
        claim.history_root = truth.root;
        claim.verify_beacon = crypto::sha256(as_bytes("beacon"));
        core::HistoryManifest manifest;
        manifest.interval = kInterval;
        manifest.stride = 1;
        manifest.state_roots = truth.roots;
        for (std::uint64_t step = 0; step <= kLong; step += kInterval)
            manifest.checkpoint_contents.push_back(
                put(*program::write_state(truth.programs->any(), truth.states[step])));
        claim.history_content = put(core::encode(manifest));
        for (std::uint8_t place = 0; place < 4; ++place) {
            reports.emplace_back();
            reports.back().place = place;
            reports.back().verifier = address(30U + place);
        }
    }
    ~PeersReplay() override { std::filesystem::remove_all(options.datadir); }
    Hash32 put(Bytes content) {
        const Hash32 id = crypto::sha256(content);
        contents.files[id] = std::move(content);
        return id;
    }
    struct Ran {
        int steps = 0;
        std::map<Hash32, int, BytesLess> fetched;
        std::vector<core::ProbeResult> probes;
    };
    Ran run(const std::vector<std::uint64_t>& segments, const std::vector<core::Probe>& probes) {
        Ran ran;
        contents.asked.clear();
        auto replay = Replay::begin(context, live, segments, probes, {});
        EXPECT_TRUE(replay);
        if (!replay) return ran;
        for (; !(*replay)->done(); ++ran.steps) EXPECT_TRUE((*replay)->advance(Slice(context, 0)));
        EXPECT_EQ((*replay)->first_difference(), 0U);
        for (const Hash32& content : checkpoints()) ran.fetched[content] = contents.asked[content];
        ran.probes = (*replay)->probe_results();
        return ran;
    }
    [[nodiscard]] std::vector<Hash32> checkpoints() {
        return core::decode_manifest(contents.files.at(live.claim.history_content))->checkpoint_contents;
    }
    [[nodiscard]] ReplayPlan plan(std::size_t place) const {
        return verifier_duty(live.reports[place].verifier, {})->plan(live, truth.programs->plan);
    }
    Context context_with(InputStore& store) {
        return {options,
                clock,
                store,
                stop,
                {},
                std::make_unique<ContentNode>(contents),
                std::make_shared<ThreadPool>(1),
                std::make_unique<OsRng>()};
    }
    // Replays as the verifier of report 0, or reads what it has saved.
    std::shared_ptr<const Finding> find_out() { return find_out(context); }
    std::shared_ptr<const Finding> find_out(Context& with) {
        Bell news;
        Board<TaskOrder, Replayed> board(news);
        ReplayJobs jobs(with, board, verifier_duty(live.reports[0].verifier, {}));
        const TaskOrder order{std::make_shared<TaskClaim>(live)};
        board.give({{order.id(), order}});
        while (jobs.work(1'000)) {
        }
        return board.facts(order).finding;
    }

    History truth = compute_history(kLong);
    TaskClaim live;
    Contents contents;
    WorkerOptions options;
    const SystemClock clock;
    std::atomic<bool> stop{false};
    InputStore inputs{InputLimits{}};
    Context context = context_with(inputs);
};

TEST_F(PeersReplay, peers_probes_cost_no_step_and_no_state_more) {
    const ReplayPlan mine = plan(0);
    ASSERT_EQ(mine.segments.size(), 3U);
    ASSERT_EQ(mine.own, mine.segments.size() * core::kProbesPerSegment);
    ASSERT_GT(mine.probes.size(), mine.own) << "no segment is shared";
    EXPECT_LE(mine.probes.size() - mine.own, 3 * mine.own) << "two of each of three peers' in a segment";
    EXPECT_EQ(run(mine.segments, {}).steps, 3 * static_cast<int>(kInterval));  // what all need is here from now on
    const Ran alone = run(mine.segments, {mine.probes.begin(), mine.probes.begin() + static_cast<int>(mine.own)});
    const Ran all = run(mine.segments, mine.probes);
    EXPECT_EQ(alone.steps, 3 * static_cast<int>(kInterval));
    EXPECT_EQ(all.steps, alone.steps);
    EXPECT_EQ(all.fetched, alone.fetched);
    // And they are what the peers tell, each of whom replays its own segments.
    std::size_t at = mine.own;
    for (std::size_t place = 1; place < live.reports.size(); ++place) {
        const auto shared =
            peer_probes(live, live.reports[0].verifier, live.reports[place].verifier, truth.programs->plan);
        const ReplayPlan peer = plan(place);
        const Ran theirs = run(peer.segments, peer.probes);
        for (const NumberedProbe& each : shared) {
            ASSERT_LT(at, all.probes.size());
            EXPECT_EQ(each.probe, peer.probes[each.place]);
            EXPECT_EQ(all.probes[at++].words, theirs.probes[each.place].words);
        }
    }
    EXPECT_EQ(at, all.probes.size());
}

TEST_F(PeersReplay, a_restart_keeps_what_was_computed_and_the_salts) {
    const ReplayPlan mine = plan(0);
    const auto found = find_out();
    ASSERT_NE(found, nullptr);
    EXPECT_TRUE(found->pass);
    EXPECT_EQ(found->probes.size(), mine.own);
    EXPECT_EQ(found->probe_hashes.size(), mine.probes.size() - mine.own);
    EXPECT_EQ(found->probe_tiles.size(), found->probe_hashes.size());
    EXPECT_NE(found->programs, nullptr);
    EXPECT_NE(found->peer_secret, found->secret) << "an opening shows that";
    contents.asked.clear();
    const auto again = find_out();
    ASSERT_NE(again, nullptr);
    EXPECT_EQ(again->secret, found->secret);
    EXPECT_EQ(again->peer_secret, found->peer_secret);
    EXPECT_EQ(again->probe_hashes, found->probe_hashes);
    EXPECT_EQ(again->probe_tiles, found->probe_tiles);
    EXPECT_NE(again->programs, nullptr);
    for (const Hash32& content : checkpoints()) EXPECT_EQ(contents.asked[content], 0);
}

// Its own report does not wait for what others' are compared with.
TEST_F(PeersReplay, a_report_is_there_after_a_restart_without_the_programs) {
    ASSERT_NE(find_out(), nullptr);
    contents.files.clear();
    InputStore empty{InputLimits{}};
    Context fresh = context_with(empty);
    const auto found = find_out(fresh);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->probes.size(), plan(0).own);
    EXPECT_EQ(found->programs, nullptr);
}

}  // namespace
}  // namespace quern::compute::worker::test
