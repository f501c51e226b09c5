// What decide() asks for, against the chain's own handlers: in each state, for each role, up to the last block that the
// chain accepts and not beyond.
#include <set>

#include "chain/market/escrow.h"
#include "compute/worker/profile_cover.h"
#include "market_actor.h"

namespace quern::compute::worker::test {
namespace {

class Decide : public Lifecycle {
protected:
    Decide() {
        for (auto* solver : {&solver_, &second_}) solver->me.solver = true;
        whistleblower_.me.whistleblower = true;
        whistleblower_.published = &truth;
        ticker_.me.ticks = true;
    }
    [[nodiscard]] std::vector<Attempt> sends(const Actor& actor, std::uint64_t id) const {
        return attempts_of(actor.decide(world, id));
    }
    [[nodiscard]] bool sends_kind(const Actor& actor, std::uint64_t id, NativeKind kind) const {
        return find(sends(actor, id), kind) != nullptr;
    }
    [[nodiscard]] Actor verifier(const Address& address, const History& claim) const {
        Actor actor(address, claim);
        actor.me.verifier = true;
        return actor;
    }
    [[nodiscard]] Actor first_verifier(std::uint64_t id, const History& claim) const {
        return verifier(world.reports(id).front().verifier, claim);
    }
    // The chain refuses from market time `end` on, and decide() offers it for the last block before.
    void expect_ends_at(const Actor& actor, std::uint64_t id, NativeKind kind, std::uint64_t end,
                        std::string_view refusal) {
        const auto pace = world.block_ms;
        world.skip_until(end - 1);
        world.block_ms = end - 2 - world.market_ms();
        world.skip(1);
        world.block_ms = 1;  // what a worker must reckon with: nobody knows how much the next block will be
        const auto in_time = sends(actor, id);
        const Attempt* const last = find(in_time, kind);
        ASSERT_NE(last, nullptr) << "not offered for the last block before " << end;
        world.skip(1);
        EXPECT_FALSE(sends_kind(actor, id, kind)) << "offered for market time " << end;
        world.begin();
        EXPECT_EQ(name(world.send(actor.me.address, kind, last->payload)), refusal);
        EXPECT_TRUE(world.finish());
        EXPECT_EQ(world.market_ms(), end);
        world.block_ms = pace;
    }
    void perform(const Actor& actor, std::uint64_t id, NativeKind kind) {
        const auto all = sends(actor, id);
        const Attempt* const attempt = find(all, kind);
        ASSERT_NE(attempt, nullptr);
        world.begin();
        expect_ok(world.send(actor.me.address, kind, attempt->payload));
        EXPECT_TRUE(world.finish());
    }

    Actor solver_{kSolver, truth};
    Actor second_{kSecond, truth};
    Actor whistleblower_{kWhistleblower, truth};
    Actor ticker_{address(0x71c), truth};
};

// --- Solver ----------------------------------------------------------------------------------------------------------

TEST_F(Decide, bids_until_the_last_block_of_bidding) {
    const auto id = reach(TaskState::open);
    EXPECT_TRUE(wants<Examine>(solver_.decide(world, id)));
    expect_ends_at(solver_, id, NativeKind::task_bid, chain::market::bids_until(world.task(id)),
                   "task.deadline_passed");
}

TEST_F(Decide, bids_once_and_only_on_what_it_may_win) {
    const auto id = reach(TaskState::open);
    TaskClaim live = world.live(id);
    const auto bids = [&] {
        return find(attempts_of(decide(solver_.me, solver_.view(world, live))), NativeKind::task_bid) != nullptr;
    };
    EXPECT_TRUE(bids());
    live.task.barred = {kSolver};
    EXPECT_FALSE(bids());
    live.task.barred = {kSecond};
    live.task.bids = {{kSecond, 0, 1, 0, 0, 1, 1, 1}};
    EXPECT_TRUE(bids());
    live.task.bids.push_back({kSolver, 0, 2, 0, 0, 1, 1, 1});
    EXPECT_FALSE(bids());
    live.task.bids.clear();
    live.task.submitter = kSolver;
    EXPECT_FALSE(bids());
}

TEST_F(Decide, bids_only_what_its_bond_covers_beside_other_bids) {
    const auto id = reach(TaskState::open);
    const TaskClaim live = world.live(id);
    View view = solver_.view(world, live);
    EXPECT_NE(find(attempts_of(decide(solver_.me, view)), NativeKind::task_bid), nullptr);
    view.covered = false;
    EXPECT_TRUE(attempts_of(decide(solver_.me, view)).empty());
    EXPECT_TRUE(wants<Decline>(decide(solver_.me, view)));
    EXPECT_TRUE(wants<Examine>(decide(solver_.me, view))) << "it may be covered with the next block";
}

TEST_F(Decide, bids_only_when_it_has_judged_the_contents) {
    const auto id = reach(TaskState::open);
    const TaskClaim live = world.live(id);
    View view = solver_.view(world, live);
    view.examined = {};
    EXPECT_TRUE(attempts_of(decide(solver_.me, view)).empty());
    EXPECT_TRUE(wants<Examine>(decide(solver_.me, view)));
    view.examined.unfit = "inputs.wrong_program_root";
    EXPECT_TRUE(attempts_of(decide(solver_.me, view)).empty());
    EXPECT_TRUE(wants<Decline>(decide(solver_.me, view)));
    EXPECT_TRUE(wants<Examine>(decide(solver_.me, view))) << "or it would be judged again with each block";
}

TEST_F(Decide, declines_what_it_was_told_not_to_take) {
    const auto id = reach(TaskState::open);
    Actor dear = solver_;
    dear.me.bid_price = world.task(id).spec.money.price_cap + Uint256(1);
    EXPECT_TRUE(wants<Decline>(dear.decide(world, id)));
    EXPECT_TRUE(sends(dear, id).empty());
    dear.me.bid_price = world.task(id).spec.money.price_cap;
    EXPECT_TRUE(sends_kind(dear, id, NativeKind::task_bid));
    TaskClaim live = world.live(id);
    live.task.spec.classes.memory_mib = solver_.me.max_memory_mib + 1;
    EXPECT_TRUE(wants<Decline>(decide(solver_.me, solver_.view(world, live))));
    live.task.spec.classes.memory_mib = solver_.me.max_memory_mib;
    EXPECT_FALSE(wants<Decline>(decide(solver_.me, solver_.view(world, live))));
    live.task.spec.classes.memory_mib = 0;  // as much as is usual
    Actor small = solver_;
    small.me.max_memory_mib = chain::params::kDefaultMemoryMib - 1;
    EXPECT_TRUE(wants<Decline>(decide(small.me, small.view(world, live))));
    ++small.me.max_memory_mib;
    EXPECT_FALSE(wants<Decline>(decide(small.me, small.view(world, live))));
    live.task.steps = (kMaxSegments + 1) * live.task.spec.work.interval;
    View view = solver_.view(world, world.live(id));
    const View longer{view.height, view.market_ms, live, view.examined, {}, {}, {}, {}, true, {}};
    EXPECT_TRUE(wants<Decline>(decide(solver_.me, longer)));
}

TEST_F(Decide, bids_promise_the_own_classes_or_those_that_are_asked_for) {
    spec.classes.speed = 60;
    spec.classes.bandwidth = 50;
    const auto id = reach(TaskState::open);
    const auto promised = [&](std::uint32_t speed,
                              std::uint32_t bandwidth) -> std::optional<chain::types::TaskBidPayload> {
        Actor actor = solver_;
        actor.me.speed_class = speed;
        actor.me.bandwidth_class = bandwidth;
        const auto attempts = attempts_of(actor.decide(world, id));
        const Attempt* bid = find(attempts, NativeKind::task_bid);
        EXPECT_EQ(bid == nullptr, wants<Decline>(actor.decide(world, id)));
        if (bid == nullptr) return std::nullopt;
        return *chain::types::decode_record<chain::types::TaskBidPayload>(bid->payload);
    };
    EXPECT_FALSE(promised(59, 0));
    EXPECT_FALSE(promised(0, 49));
    EXPECT_EQ(promised(0, 0).value().speed_class, 60U);
    EXPECT_EQ(promised(0, 0).value().bandwidth_class, 50U);
    const chain::types::TaskBidPayload more = promised(61, 126).value();
    EXPECT_EQ(std::pair(more.speed_class, more.bandwidth_class), std::pair(61U, 126U));
    expect_ok(world.one(kSolver, NativeKind::task_bid, more));
}

TEST_F(Decide, starts_at_once_and_until_the_deadline) {
    const auto id = reach(TaskState::assigned);
    EXPECT_FALSE(sends_kind(second_, id, NativeKind::task_start));
    EXPECT_TRUE(sends_kind(solver_, id, NativeKind::task_start));
    expect_ends_at(solver_, id, NativeKind::task_start, world.deadline(id), "task.deadline_passed");
}

TEST_F(Decide, posts_the_checkpoint_that_is_due_until_the_deadline) {
    const auto id = reach(ClaimState::working, truth);
    EXPECT_TRUE(wants<Train>(solver_.decide(world, id)));
    EXPECT_FALSE(wants<Train>(second_.decide(world, id)));
    const auto all = sends(solver_, id);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].purpose, "checkpoint/" + std::to_string(id) + ".0@" + std::to_string(kInterval));
    expect_ends_at(solver_, id, NativeKind::task_checkpoint, world.deadline(id), "task.deadline_passed");
}

TEST_F(Decide, proves_when_all_is_posted_until_the_deadline) {
    const auto id = reach(ClaimState::working, truth);
    for (std::uint64_t step = kInterval; step <= kSteps; step += kInterval) {
        EXPECT_FALSE(sends_kind(solver_, id, NativeKind::task_prove));
        perform(solver_, id, NativeKind::task_checkpoint);
    }
    EXPECT_FALSE(sends_kind(solver_, id, NativeKind::task_checkpoint));
    const TaskClaim live = world.live(id);
    View unready = solver_.view(world, live);
    unready.trained.proof = nullptr;
    EXPECT_TRUE(attempts_of(decide(solver_.me, unready)).empty());
    EXPECT_TRUE(wants<Train>(decide(solver_.me, unready)));
    expect_ends_at(solver_, id, NativeKind::task_prove, world.deadline(id), "task.deadline_passed");
}

TEST_F(Decide, serves_what_verifiers_were_drawn_for_until_they_have_replayed_it) {
    for (const auto state : {ClaimState::custody, ClaimState::committing}) {
        const auto id = reach(state, truth);
        EXPECT_TRUE(wants<Train>(solver_.decide(world, id)));
        EXPECT_FALSE(wants<Train>(second_.decide(world, id)));
    }
    EXPECT_FALSE(wants<Train>(solver_.decide(world, reach(ClaimState::proved, truth)))) << "nobody is drawn";
    EXPECT_FALSE(wants<Train>(solver_.decide(world, reach(ClaimState::challenge, truth))));
}

// --- Verifier --------------------------------------------------------------------------------------------------------

TEST_F(Decide, receipts_until_the_deadline_what_it_has_checked) {
    const auto id = reach(ClaimState::custody, truth);
    const Actor actor = first_verifier(id, truth);
    EXPECT_TRUE(wants<Report>(actor.decide(world, id)));
    const TaskClaim live = world.live(id);
    View view = actor.view(world, live);
    view.report = {};
    EXPECT_TRUE(attempts_of(decide(actor.me, view)).empty()) << "it knows nothing yet";
    view.report.data_missing = true;
    const auto missing = attempts_of(decide(actor.me, view));
    ASSERT_EQ(missing.size(), 1U);
    EXPECT_FALSE(chain::types::decode_record<chain::types::CustodyReceiptPayload>(missing[0].payload)->data_ok);
    view.report = {false, false, true, nullptr};
    EXPECT_EQ(attempts_of(decide(actor.me, view)).size(), 1U);
    expect_ends_at(actor, id, NativeKind::custody_receipt, world.deadline(id), "task.deadline_passed");
}

// The chain takes what its verifiers send as a verifier's word, whatever else they were drawn for.
TEST_F(Decide, with_fragments_alone_a_verifier_does_not_say_that_it_has_the_data) {
    for (const bool has_fragments : {true, false}) {
        const auto id = reach(ClaimState::custody, truth);
        Actor actor = first_verifier(id, truth);
        TaskClaim live = world.live(id);
        live.custody = chain::types::Custody{};
        live.custody->claim = live.claim.id;
        live.custody->custodians = {{actor.me.address, 0}, {solver_.me.address, 0}};
        actor.me.custodian = true;
        View view = actor.view(world, live);
        view.report = {};
        view.kept = {.data_missing = !has_fragments, .data_checked = has_fragments};
        EXPECT_TRUE(attempts_of(decide(actor.me, view)).empty());
        live.reports.erase(live.reports.begin());
        EXPECT_EQ(attempts_of(decide(actor.me, view)).size(), 1U) << "a custodian alone does";
    }
}

TEST_F(Decide, waits_for_data_until_the_last_quarter_of_the_window) {
    const auto id = reach(ClaimState::custody, truth);
    const Actor actor = first_verifier(id, truth);
    const TaskClaim live = world.live(id);
    View view = actor.view(world, live);
    view.report = {false, true, false, nullptr};
    const std::uint64_t last_quarter = world.deadline(id) - live.task.spec.windows.verify_s * 1000 / 4;
    view.market_ms = last_quarter - 2;
    EXPECT_TRUE(attempts_of(decide(actor.me, view)).empty()) << "it may come yet";
    ++view.market_ms;
    const auto missing = attempts_of(decide(actor.me, view));
    ASSERT_EQ(missing.size(), 1U) << "who is silent pays";
    EXPECT_FALSE(chain::types::decode_record<chain::types::CustodyReceiptPayload>(missing[0].payload)->data_ok);
    view.report = {false, false, true, nullptr};
    const auto here = attempts_of(decide(actor.me, view));
    ASSERT_EQ(here.size(), 1U);
    EXPECT_TRUE(chain::types::decode_record<chain::types::CustodyReceiptPayload>(here[0].payload)->data_ok);
}

TEST_F(Decide, takes_back_that_it_has_the_data_while_it_has_committed_nothing) {
    const auto id = reach(ClaimState::committing, truth);
    const Actor actor = first_verifier(id, truth);
    const TaskClaim live = world.live(id);
    View view = actor.view(world, live);
    view.report = {false, true, true, nullptr};  // its replay waits for a part of the data
    const std::uint64_t last_quarter = world.deadline(id) - live.task.spec.windows.verify_s * 1000 / 4;
    view.market_ms = last_quarter - 2;
    EXPECT_TRUE(attempts_of(decide(actor.me, view)).empty());
    ++view.market_ms;
    const auto lacks = attempts_of(decide(actor.me, view));
    ASSERT_EQ(lacks.size(), 1U);
    EXPECT_EQ(lacks[0].kind, NativeKind::custody_receipt);
    EXPECT_FALSE(chain::types::decode_record<chain::types::CustodyReceiptPayload>(lacks[0].payload)->data_ok);
    TaskClaim committed = live;
    committed.reports.front().commitment = Hash32{{1}};
    View after = actor.view(world, committed);
    after.report = view.report;
    after.market_ms = view.market_ms;
    EXPECT_TRUE(attempts_of(decide(actor.me, after)).empty());
}

TEST_F(Decide, bids_on_no_task_that_asks_for_segments_in_less_time_than_its_speed_takes) {
    const auto id = reach(TaskState::open);
    const TaskClaim live = world.live(id);
    Actor actor = solver_;
    // Half the window's work is what the class does in it, or just not.
    const Uint256 needed = Uint256(2) * live.task.segment_work / Uint256(live.task.spec.windows.heartbeat_s);
    actor.me.speed_class = chain::market::class_of_rate(needed.low_u64()) + 2;
    EXPECT_FALSE(attempts_of(actor.decide(world, id)).empty());
    actor.me.speed_class = chain::market::class_of_rate(needed.low_u64()) - 1;
    EXPECT_TRUE(attempts_of(actor.decide(world, id)).empty());
}

TEST_F(Decide, bids_on_no_task_whose_proof_is_due_before_its_fragments_are_made) {
    const auto id = reach(TaskState::open);
    TaskClaim live = world.live(id);
    const auto bids = [&] { return !attempts_of(decide(solver_.me, solver_.view(world, live))).empty(); };
    live.task.custodians = 12;
    EXPECT_TRUE(bids());
    live.task.spec.windows.prove_s = 120;
    live.task.commit_work = (std::uint64_t{1} << 30) / vm::tensor::kTileBytes * vm::tensor::kTileHashWork;  // 1 GiB
    EXPECT_FALSE(bids());
    live.task.spec.windows.prove_s = 340;
    EXPECT_TRUE(bids());
    live.task.spec.windows.prove_s = 120;
    live.task.custodians = 0;
    EXPECT_TRUE(bids());
}

TEST_F(Decide, commits_until_the_deadline_and_once) {
    const auto id = reach(ClaimState::committing, truth);
    const Actor actor = first_verifier(id, truth);
    perform(actor, id, NativeKind::verify_commit);
    EXPECT_TRUE(sends(actor, id).empty());
    const Actor other = verifier(world.reports(id)[1].verifier, truth);
    expect_ends_at(other, id, NativeKind::verify_commit, world.deadline(id), "task.deadline_passed");
}

TEST_F(Decide, reveals_until_the_deadline_what_it_has_committed_to) {
    const auto id = reach(ClaimState::committing, truth);
    for (const auto& report : world.reports(id))
        perform(verifier(report.verifier, truth), id, NativeKind::verify_commit);
    ASSERT_EQ(world.claim(id).state, ClaimState::revealing);
    const Actor actor = first_verifier(id, truth);
    perform(actor, id, NativeKind::verify_reveal);
    EXPECT_TRUE(sends(actor, id).empty());
    const Actor other = verifier(world.reports(id)[1].verifier, truth);
    expect_ends_at(other, id, NativeKind::verify_reveal, world.deadline(id), "task.deadline_passed");
}

TEST_F(Decide, keeps_still_about_a_commitment_that_is_not_its_own) {
    const auto id = reach(ClaimState::revealing, truth);  // committed with another secret
    EXPECT_TRUE(sends(first_verifier(id, truth), id).empty());
}

TEST_F(Decide, a_verifier_that_is_out_does_nothing) {
    const auto id = reach(ClaimState::custody, truth);
    TaskClaim live = world.live(id);
    const Actor actor = first_verifier(id, truth);
    live.reports.front().slashed_at = 1;
    EXPECT_TRUE(decide(actor.me, actor.view(world, live)).empty());
    live.reports.front().slashed_at = 0;
    live.reports.front().custody = 2;
    live.claim.state = ClaimState::committing;
    EXPECT_TRUE(decide(actor.me, actor.view(world, live)).empty());
}

TEST_F(Decide, tells_its_capacity_when_the_chain_has_another) {
    chain::types::RoleBond bond;
    const chain::types::Capacity mine{7, 8, 9};
    const auto attempt = declare(bond, mine);
    ASSERT_TRUE(attempt);
    EXPECT_EQ(attempt->kind, NativeKind::declare_capacity);
    bond.capacity = mine;
    EXPECT_FALSE(declare(bond, mine));
}

// --- Whistleblower ---------------------------------------------------------------------------------------------------

TEST_F(Decide, challenges_a_wrong_history_until_the_window_closes) {
    const auto id = reach(ClaimState::challenge, wrong);
    ASSERT_EQ(world.claim(id).state, ClaimState::challenge);
    whistleblower_.published = &wrong;
    expect_ends_at(whistleblower_, id, NativeKind::challenge_commit, world.claim(id).challenge_until,
                   "challenge.window_closed");
}

TEST_F(Decide, commits_then_reveals_and_challenges_nothing_twice) {
    const auto id = reach(ClaimState::custody, wrong);
    whistleblower_.published = &wrong;
    const auto actions = whistleblower_.decide(world, id);
    ASSERT_TRUE(wants<Watch>(actions));
    const auto all = attempts_of(actions);
    ASSERT_EQ(all.size(), 2U) << "the reveal, and else the commitment";
    EXPECT_EQ(all[0].kind, NativeKind::challenge_reveal);
    EXPECT_TRUE(all[0].each_block);
    world.begin();
    EXPECT_EQ(name(world.send(kWhistleblower, all[0].kind, all[0].payload)), "challenge.not_committed");
    expect_ok(world.send(kWhistleblower, all[1].kind, all[1].payload));
    EXPECT_TRUE(world.finish());
    perform(whistleblower_, id, NativeKind::challenge_reveal);
    ASSERT_EQ(world.claim(id).disputes.size(), 1U);
    EXPECT_FALSE(sends_kind(whistleblower_, id, NativeKind::challenge_commit));
    EXPECT_FALSE(sends_kind(whistleblower_, id, NativeKind::challenge_reveal));
}

TEST_F(Decide, a_node_that_hides_disputes_gets_no_second_challenge) {
    const auto id = reach(ClaimState::custody, wrong);
    whistleblower_.published = &wrong;
    const TaskClaim live = world.live(id);
    View view = whistleblower_.view(world, live);
    view.all_disputes = false;
    EXPECT_TRUE(attempts_of(decide(whistleblower_.me, view)).empty());
}

TEST_F(Decide, challenges_who_passed_what_is_wrong) {
    const auto id = reach(ClaimState::challenge, wrong);
    whistleblower_.published = &wrong;
    std::set<std::uint32_t> targets;
    for (const Attempt& attempt : sends(whistleblower_, id))
        if (attempt.kind == NativeKind::challenge_reveal)
            targets.insert(chain::types::decode_record<chain::types::ChallengeRevealPayload>(attempt.payload)->target);
    EXPECT_EQ(targets, (std::set<std::uint32_t>{0, core::kPassTarget, core::kPassTarget + 1}));
}

TEST_F(Decide, has_nothing_to_say_against_right_work_or_in_its_own_cause) {
    const auto id = reach(ClaimState::challenge, truth);
    EXPECT_TRUE(wants<Watch>(whistleblower_.decide(world, id)));
    // The reports of the straight way were sealed over the same probes.
    EXPECT_TRUE(sends(whistleblower_, id).empty());
    for (const Address& party : {kSolver, kSubmitter, world.reports(id).front().verifier}) {
        Actor actor(party, truth);
        actor.me.whistleblower = true;
        actor.published = &wrong;
        EXPECT_TRUE(actor.decide(world, id).empty());
    }
}

TEST_F(Decide, watches_where_its_lot_or_a_report_says_so_and_goes_on_with_what_it_has_found) {
    const auto id = reach(ClaimState::challenge, truth);
    const TaskClaim live = world.live(id);
    View view = whistleblower_.view(world, live);
    const auto finding = std::exchange(view.watch.finding, nullptr);
    EXPECT_TRUE(wants<Watch>(decide(whistleblower_.me, view)));
    view.watches = false;
    EXPECT_FALSE(wants<Watch>(decide(whistleblower_.me, view)));
    view.tickets[0] = {};
    EXPECT_TRUE(wants<Watch>(decide(whistleblower_.me, view)));
    view.tickets.clear();
    view.watch.finding = finding;
    EXPECT_TRUE(wants<Watch>(decide(whistleblower_.me, view)));
}

// The chain keeps the root of what a report has revealed: the rest is asked for where it is not the expected one.
TEST_F(Decide, asks_for_the_probes_of_a_report_that_has_others_and_accuses_it) {
    const auto id = reach(ClaimState::committing, truth);
    const TaskClaim drawn = world.live(id);
    for (const auto& report : drawn.reports) {
        const auto mine = make_report(drawn, report.verifier, truth, true, {}, 1, report.place == 1 ? 4 : 0);
        expect_ok(world.one(report.verifier, NativeKind::verify_commit,
                            chain::types::VerifyCommitPayload{id, 0, mine.sealed.commitment}));
    }
    for (const auto& report : drawn.reports) {
        const auto mine = make_report(drawn, report.verifier, truth, true, {}, 1, report.place == 1 ? 4 : 0);
        expect_ok(world.one(report.verifier, NativeKind::verify_reveal,
                            core::make_reveal(mine.sealed, id, mine.sealed.true_index)));
    }
    whistleblower_.published = &truth;
    whistleblower_.knows_probes = false;
    std::vector<chain::types::VerifierReport> asked;
    for (const Action& action : whistleblower_.decide(world, id))
        if (const auto* read = std::get_if<ReadProbes>(&action)) asked.push_back(read->report);
    ASSERT_EQ(asked.size(), 1U) << "the other's root is the expected one";
    EXPECT_EQ(asked[0].place, 1U);
    EXPECT_TRUE(sends(whistleblower_, id).empty());
    whistleblower_.knows_probes = true;
    for (const Action& action : whistleblower_.decide(world, id))
        EXPECT_FALSE(std::holds_alternative<ReadProbes>(action));
    perform(whistleblower_, id, NativeKind::challenge_commit);
    perform(whistleblower_, id, NativeKind::challenge_reveal);
    ASSERT_EQ(world.claim(id).disputes.size(), 1U);
    const auto dispute = world.dispute(world.claim(id).disputes[0]);
    EXPECT_EQ(dispute.target, 2U);
    EXPECT_EQ(dispute.defender, asked[0].verifier);
}

TEST_F(Decide, nothing_is_committed_where_there_is_no_place_for_a_game) {
    const auto id = reach(ClaimState::challenge, wrong);
    whistleblower_.published = &wrong;
    whistleblower_.me.max_disputes = 2;
    TaskClaim live = world.live(id);
    const auto commits = [&] {
        const auto all = attempts_of(decide(whistleblower_.me, whistleblower_.view(world, live)));
        EXPECT_NE(find(all, NativeKind::challenge_reveal), nullptr) << "what it has staked it wants back";
        return find(all, NativeKind::challenge_commit) != nullptr;
    };
    live.claim.report_rivals = 2;
    EXPECT_TRUE(commits()) << "these are games about reports";
    live.claim.rivals = 1;
    EXPECT_TRUE(commits());
    live.claim.rivals = 2;
    EXPECT_FALSE(commits());
}

TEST_F(Decide, a_void_round_takes_reveals_only_and_those_only_for_a_while) {
    const auto id = reach(ClaimState::challenge, wrong);
    whistleblower_.published = &wrong;
    TaskClaim live = world.live(id);
    live.claim.voided = true;
    live.claim.challenge_hold = world.market_ms() + 2;
    View view = whistleblower_.view(world, live);
    EXPECT_EQ(find(attempts_of(decide(whistleblower_.me, view)), NativeKind::challenge_commit), nullptr);
    EXPECT_NE(find(attempts_of(decide(whistleblower_.me, view)), NativeKind::challenge_reveal), nullptr);
    ++view.market_ms;
    EXPECT_TRUE(attempts_of(decide(whistleblower_.me, view)).empty());
}

// --- Disputes --------------------------------------------------------------------------------------------------------

class DecideDispute : public Decide {
protected:
    std::uint64_t open_dispute() {
        id_ = reach(ClaimState::custody, wrong);
        whistleblower_.published = &wrong;
        const auto all = sends(whistleblower_, id_);
        world.begin();
        expect_ok(
            world.send(kWhistleblower, NativeKind::challenge_commit, find(all, NativeKind::challenge_commit)->payload));
        EXPECT_TRUE(world.finish());
        perform(whistleblower_, id_, NativeKind::challenge_reveal);
        return world.claim(id_).disputes.back();
    }
    [[nodiscard]] const Play* play_of(const std::vector<Action>& actions) const {
        for (const Action& action : actions)
            if (const auto* play = std::get_if<Play>(&action)) return play;
        return nullptr;
    }
    std::uint64_t id_ = 0;
    Actor cheat_{kSolver, wrong};
};

TEST_F(DecideDispute, moves_until_the_block_in_which_a_clock_runs_out) {
    const auto dispute = open_dispute();
    cheat_.me.solver = true;
    for (const Actor* party : {&whistleblower_, &cheat_}) {
        const bool is_next = party == &cheat_;  // the defender posts first
        const auto actions = party->decide(world, id_);
        ASSERT_NE(play_of(actions), nullptr);
        EXPECT_EQ(play_of(actions)->due, is_next);
        EXPECT_EQ(find(attempts_of(actions), NativeKind::dispute_split) != nullptr, is_next);
    }
    expect_ends_at(cheat_, id_, NativeKind::dispute_split, world.dispute(dispute).deadline, "dispute.clock_ran_out");
}

TEST_F(DecideDispute, a_move_is_sent_for_its_own_position_and_once) {
    open_dispute();
    cheat_.me.solver = true;
    const TaskClaim live = world.live(id_);
    View view = cheat_.view(world, live);
    view.disputes[0].planned =
        std::make_shared<const PlannedMove>(PlannedMove{"state.0.0", view.disputes[0].planned->move});
    EXPECT_FALSE(find(attempts_of(decide(cheat_.me, view)), NativeKind::dispute_split));
    perform(cheat_, id_, NativeKind::dispute_split);
    const auto actions = cheat_.decide(world, id_);
    EXPECT_FALSE(find(attempts_of(actions), NativeKind::dispute_split));
    ASSERT_NE(play_of(actions), nullptr) << "what was worked out is kept for the next position";
    EXPECT_FALSE(play_of(actions)->due);
}

TEST_F(DecideDispute, a_solver_without_its_history_trains_again_before_it_plays) {
    open_dispute();
    cheat_.me.solver = true;
    const TaskClaim live = world.live(id_);
    View view = cheat_.view(world, live);
    view.trained = {};
    const auto actions = decide(cheat_.me, view);
    EXPECT_TRUE(wants<Train>(actions));
    EXPECT_EQ(play_of(actions), nullptr);
}

TEST_F(DecideDispute, a_game_that_waits_for_another_is_asked_no_move_and_no_tick) {
    spec.windows.challenge_s = 100;
    const auto first = open_dispute();
    const auto liar = chain::exec::test::address(800);
    give(world.state(), liar, Uint256(1'000'000'000'000'000));
    world.bond_role(liar, Role::whistleblower, 100'000);
    const History lie = compute_history(kSteps, 2, 1U << 15);
    const auto second = challenge(id_, liar, 0, lie.root, history_opening(lie));
    cheat_.me.solver = cheat_.me.ticks = true;
    const TaskClaim live = world.live(id_);
    for (const std::uint64_t later : {0U, 20'000'000U}) {  // of whatever would have been its clock
        View view = cheat_.view(world, live);
        view.market_ms += later;
        const auto actions = decide(cheat_.me, view);
        for (const Action& action : actions) {
            const auto* play = std::get_if<Play>(&action);
            if (play == nullptr) continue;
            EXPECT_EQ(play->due, play->dispute == first && later == 0);
        }
        for (const Attempt& attempt : attempts_of(actions))
            EXPECT_EQ(attempt.purpose.find("dispute/" + std::to_string(second)), std::string::npos) << attempt.purpose;
    }
}

TEST_F(DecideDispute, who_is_no_party_does_not_play) {
    open_dispute();
    EXPECT_EQ(play_of(second_.decide(world, id_)), nullptr);
    EXPECT_TRUE(sends(second_, id_).empty());
}

// --- Ticks -----------------------------------------------------------------------------------------------------------

// A task that a tick moves on at market time 100,000, or whose claim it does.
TaskClaim waiting(TaskState state, ClaimState claim = ClaimState::none) {
    TaskClaim live;
    live.task.id = live.claim.id.task = 3;
    live.task.state = state;
    live.claim.state = claim;
    if (claim == ClaimState::none) {
        live.task.deadline = 100'000;
        live.task.since = 90'000;
        live.task.seats.resize(state == TaskState::assigned ? 1 : 0);
    } else {
        live.claim.deadline = 100'000;
        live.claim.since = 90'000;
    }
    return live;
}

TEST_F(Decide, ticks_what_is_due_not_earlier_and_spread_over_a_while) {
    std::vector<TaskClaim> all{waiting(TaskState::open), waiting(TaskState::assigned)};
    for (const ClaimState state : {ClaimState::working, ClaimState::proved, ClaimState::custody, ClaimState::committing,
                                   ClaimState::revealing, ClaimState::challenge})
        all.push_back(waiting(TaskState::running, state));
    for (const TaskClaim& live : all) {
        SCOPED_TRACE(std::string(chain::types::to_string(live.task.state)) + " " +
                     chain::types::to_string(live.claim.state));
        std::set<std::uint64_t> first;
        for (std::uint64_t number = 0; number < 40; ++number) {
            Actor actor(address(1000 + number), truth);
            actor.me.ticks = true;
            std::uint64_t now = 99'900;
            while (attempts_of(decide(actor.me, View{90, now, live, {}, {}, {}, {}, {}, true, {}})).empty()) ++now;
            first.insert(now + 1);
        }
        EXPECT_GT(first.size(), 30U);
        EXPECT_GE(*first.begin(), 100'000U);
        EXPECT_LT(*first.rbegin(), 100'000U + kTickSpreadMs);
    }
}

TEST_F(Decide, ticks_no_draw_whose_beacon_is_not_there) {
    Actor actor(address(1000), truth);
    actor.me.ticks = true;
    for (TaskClaim live : {waiting(TaskState::open), waiting(TaskState::running, ClaimState::proved),
                           waiting(TaskState::running, ClaimState::custody)}) {
        live.task.draw_at = live.claim.draw_at = 90;
        const auto ticks_at = [&](std::uint64_t height) {
            return !attempts_of(decide(actor.me, View{height, 200'000, live, {}, {}, {}, {}, {}, true, {}})).empty();
        };
        EXPECT_EQ(ticks_at(96), live.claim.state == ClaimState::custody)
            << "the next block is 97, the beacon that of 98";
        EXPECT_TRUE(ticks_at(97));
    }
}

TEST_F(Decide, the_chain_takes_a_tick_that_is_due) {
    const auto id = reach(TaskState::open);
    while (!sends_kind(ticker_, id, NativeKind::tick)) world.skip(1);
    EXPECT_GE(world.market_ms() + 1, world.deadline(id));
    perform(ticker_, id, NativeKind::tick);
    EXPECT_EQ(world.task(id).state, TaskState::expired);
    EXPECT_TRUE(ticker_.decide(world, id).empty()) << "final";
}

// --- Profilers -------------------------------------------------------------------------------------------------------

class DecideProfiler : public Decide {
protected:
    static constexpr std::uint32_t kAsked = 3;
    static Address measurer(std::uint64_t i) { return address(60 + i); }
    // Submitted, and nobody drawn yet.
    std::uint64_t waiting_for_profilers() {
        for (std::uint64_t i = 0; i < 4; ++i) {
            give(world.state(), measurer(i), Uint256(1'000'000'000'000'000));
            world.bond_role(measurer(i), Role::verifier, 100'000'000);
        }
        world.skip(world.params.epoch_length);
        return submit(profiled_spec(32, kInterval, kAsked));
    }
    std::uint64_t drawn() {
        const auto id = waiting_for_profilers();
        world.skip_until_due(id);
        expect_ok(world.tick(id));
        return id;
    }
    [[nodiscard]] Address profiler(std::uint64_t id, std::size_t i) const {
        return world.task(id).profiling.profilers.at(i).address;
    }
    // Who has measured something.
    [[nodiscard]] Actor profiler_at(std::uint64_t id, std::size_t i) const {
        Actor actor = verifier(profiler(id, i), truth);
        const auto profile = some_profile(1e-6F * static_cast<float>(i + 1));
        actor.profiled.found = std::make_shared<const SealedProfile>(
            SealedProfile{core::encode_profile(profile), crypto::sha256(actor.me.address)});
        return actor;
    }
};

TEST_F(DecideProfiler, ticks_the_draw_and_does_nothing_before) {
    const auto id = waiting_for_profilers();
    for (std::uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(verifier(measurer(i), truth).decide(world, id).empty());
    Actor ticks = verifier(measurer(0), truth);
    ticks.me.ticks = true;
    while (!sends_kind(ticks, id, NativeKind::tick)) world.skip(1);
    perform(ticks, id, NativeKind::tick);
    EXPECT_EQ(world.task(id).profiling.profilers.size(), kAsked);
}

TEST_F(DecideProfiler, measures_what_it_was_drawn_for_and_nothing_else) {
    const auto id = drawn();
    std::size_t measuring = 0;
    for (std::uint64_t i = 0; i < 4; ++i) {
        Actor actor = verifier(measurer(i), truth);
        const bool measures = wants<Profile>(actor.decide(world, id));
        measuring += measures ? 1 : 0;
        EXPECT_EQ(measures, own_profiler(world.task(id), measurer(i)) != nullptr);
        EXPECT_TRUE(sends(actor, id).empty()) << "nothing was found";
        actor.me.verifier = false;
        EXPECT_TRUE(actor.decide(world, id).empty());
    }
    EXPECT_EQ(measuring, kAsked);
    EXPECT_TRUE(solver_.decide(world, id).empty()) << "nobody can bid yet";
}

TEST_F(DecideProfiler, leaves_alone_what_its_operator_does_not_want_until_it_has_committed) {
    const auto id = drawn();
    Actor first = profiler_at(id, 0);
    first.me.profiles = false;
    EXPECT_TRUE(first.decide(world, id).empty());
    perform(profiler_at(id, 0), id, NativeKind::profile_commit);
    EXPECT_TRUE(wants<Profile>(first.decide(world, id))) << "its bond is locked";
    for (std::size_t i = 1; i < kAsked; ++i) perform(profiler_at(id, i), id, NativeKind::profile_commit);
    perform(first, id, NativeKind::profile_reveal);
}

TEST_F(DecideProfiler, commits_once_until_the_last_block_of_the_window) {
    const auto id = drawn();
    const Actor first = profiler_at(id, 0);
    EXPECT_FALSE(sends_kind(first, id, NativeKind::profile_reveal));
    perform(first, id, NativeKind::profile_commit);
    EXPECT_TRUE(sends(first, id).empty());
    EXPECT_TRUE(wants<Profile>(first.decide(world, id))) << "what it shows later is kept";
    expect_ends_at(profiler_at(id, 1), id, NativeKind::profile_commit, world.task(id).deadline, "task.deadline_passed");
    EXPECT_FALSE(wants<Profile>(profiler_at(id, 1).decide(world, id))) << "too late to measure anything";
    EXPECT_TRUE(wants<Profile>(first.decide(world, id))) << "it must show it once the deadline was ticked";
}

TEST_F(DecideProfiler, leaves_alone_what_is_not_worth_its_while) {
    const auto id = drawn();
    Actor actor = verifier(profiler(id, 0), truth);
    const auto declines = [&](bool covers, const Uint256& gas_price) -> std::string {
        actor.covers_profile = covers;
        actor.gas_price = gas_price;
        const auto actions = actor.decide(world, id);
        EXPECT_EQ(wants<Profile>(actions), covers);
        for (const auto& action : actions)
            if (const auto* const declined = std::get_if<Decline>(&action)) return declined->reason;
        return {};
    };
    const Task task = world.task(id);
    const Uint256 fee = chain::market::profiler_fee(task);
    EXPECT_EQ(declines(true, 0), "");
    EXPECT_EQ(declines(false, 0), "the bond does not cover a profile beside others");
    EXPECT_EQ(declines(false, fee), "pays a profiler less than its transactions cost");
    EXPECT_EQ(declines(true, fee), "") << "it was begun when gas was cheaper";
    EXPECT_TRUE(reason_not_to_profile(actor.me, task, fee / kProfileGas).empty());
    EXPECT_FALSE(reason_not_to_profile(actor.me, task, fee / kProfileGas + Uint256(1)).empty());
    actor.me.bid_price = task.spec.money.price_cap;
    EXPECT_TRUE(reason_not_to_profile(actor.me, task, 0).empty());
    actor.me.bid_price = task.spec.money.price_cap + Uint256(1);
    EXPECT_EQ(declines(false, 0), "pays a profiler less than this worker's price");
    actor.me.max_memory_mib = 1;
    EXPECT_EQ(declines(false, 0), "needs more memory than allowed");
    // What it has found or committed to it goes on with.
    Actor found = profiler_at(id, 0);
    found.covers_profile = false;
    found.gas_price = fee;
    perform(found, id, NativeKind::profile_commit);
    EXPECT_TRUE(wants<Profile>(found.decide(world, id)));
}

TEST_F(DecideProfiler, shows_what_it_has_committed_to_when_all_have) {
    const auto id = drawn();
    std::vector<Actor> all;
    for (std::size_t i = 0; i < kAsked; ++i) all.push_back(profiler_at(id, i));
    perform(all[0], id, NativeKind::profile_commit);
    perform(all[1], id, NativeKind::profile_commit);
    EXPECT_FALSE(sends_kind(all[0], id, NativeKind::profile_reveal)) << "not all have";
    perform(all[2], id, NativeKind::profile_commit);
    ASSERT_TRUE(world.task(id).profiling.revealing);
    perform(all[0], id, NativeKind::profile_reveal);
    EXPECT_TRUE(all[0].decide(world, id).empty());
    perform(all[1], id, NativeKind::profile_reveal);
    // Something else than it has committed to, as of another draw.
    Actor other = all[2];
    other.profiled = all[1].profiled;
    EXPECT_TRUE(sends(other, id).empty());
    expect_ends_at(all[2], id, NativeKind::profile_reveal, world.task(id).deadline, "task.deadline_passed");
}

TEST_F(DecideProfiler, ticks_when_windows_are_over) {
    const auto id = drawn();
    perform(profiler_at(id, 0), id, NativeKind::profile_commit);
    EXPECT_FALSE(sends_kind(ticker_, id, NativeKind::tick));
    while (!sends_kind(ticker_, id, NativeKind::tick)) world.skip(1);
    EXPECT_GE(world.market_ms() + 1, world.deadline(id));
    perform(ticker_, id, NativeKind::tick);
    EXPECT_EQ(world.task(id).reason, "profilers_silent") << "nobody could check one alone";
}

TEST_F(DecideProfiler, ticks_when_profiles_are_not_shown) {
    const auto id = drawn();
    for (std::size_t i = 0; i < kAsked; ++i) perform(profiler_at(id, i), id, NativeKind::profile_commit);
    EXPECT_FALSE(sends_kind(ticker_, id, NativeKind::tick));
    while (!sends_kind(ticker_, id, NativeKind::tick)) world.skip(1);
    perform(ticker_, id, NativeKind::tick);
    EXPECT_EQ(world.task(id).reason, "profilers_silent");
    EXPECT_EQ(world.task(id).slashes.size(), kAsked);
}

// --- Everybody -------------------------------------------------------------------------------------------------------

TEST_F(Decide, who_has_no_part_in_a_task_does_nothing_in_any_state) {
    const auto id = reach(ClaimState::challenge, truth);
    TaskClaim live = world.live(id);
    Actor stranger(address(99), truth);
    stranger.me.solver = stranger.me.verifier = true;
    for (int state = static_cast<int>(ClaimState::working); state <= static_cast<int>(ClaimState::voided); ++state) {
        live.claim.state = static_cast<ClaimState>(state);
        EXPECT_TRUE(decide(stranger.me, stranger.view(world, live)).empty()) << state;
    }
    for (int state = static_cast<int>(TaskState::assigned); state <= static_cast<int>(TaskState::cancelled); ++state) {
        live.task.state = static_cast<TaskState>(state);
        EXPECT_TRUE(decide(stranger.me, stranger.view(world, live)).empty()) << state;
    }
}

TEST_F(Decide, a_role_that_was_not_asked_for_does_nothing) {
    const auto id = reach(ClaimState::custody, wrong);
    Actor idle = first_verifier(id, truth);
    idle.me.verifier = false;
    EXPECT_TRUE(idle.decide(world, id).empty());
    Actor silent = whistleblower_;
    silent.published = &wrong;
    silent.me.whistleblower = false;
    EXPECT_TRUE(silent.decide(world, id).empty());
}

}  // namespace
}  // namespace quern::compute::worker::test
