#include "chain/exec/handlers/lifecycle.h"

#include <algorithm>
#include <utility>

#include "chain/exec/handlers/draw.h"
#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/resolution.h"
#include "chain/market/delays.h"
#include "chain/market/shares.h"
#include "compute/core/task_plan.h"
#include "crypto/merkle.h"

namespace quern::chain::exec::handlers {
namespace {

using types::Claim;
using types::ClaimState;
using types::Role;
using types::TaskState;

using params::kMaxDraws;

// The bid to take: the lowest, near ties by lot.
std::size_t best_bid(const types::Task& task, const Hash32& beacon) {
    Uint256 lowest = task.bids.front().price;
    for (const auto& bid : task.bids) lowest = std::min(lowest, bid.price);
    std::vector<Candidate> near;
    std::vector<std::size_t> index;
    for (std::size_t i = 0; i < task.bids.size(); ++i) {
        if (task.bids[i].price * Uint256(100) > lowest * Uint256(100 + params::kNearTiePercent)) continue;
        near.push_back({task.bids[i].bidder, task.bids[i].weight});
        index.push_back(i);
    }
    const std::size_t drawn = draw_one(draw_hash("solver", beacon, task.id, task.bids.size()), near);
    return index[drawn < index.size() ? drawn : 0];
}

Status release_reports(Context& context, Claim& claim) {
    for (auto& report : claim.reports) {
        QUERN_CHECK(unlock_bond(context, Role::verifier, report.verifier, report.locked));
        report.locked = Uint256();
    }
    return {};
}

// A verifier that kept silent in a step: its report counts as absent, it loses its fee and a part of its bond.
Status dismiss_verifier(Context& context, types::Task& task, types::VerifierReport& report, std::string_view reason) {
    const Uint256 lost = market::percent_of(report.locked, context.market().no_reveal_slash_percent);
    QUERN_CHECK(slash(context, task, Role::verifier, report.verifier, lost, reason));
    QUERN_CHECK(unlock_bond(context, Role::verifier, report.verifier, report.locked - lost));
    report.locked = Uint256();
    report.slashed = true;
    return {};
}

bool stands_for(const types::VerifierReport& report) { return is_active(report) && report.revealed && report.pass; }

bool stands_confirmed(const Claim& claim) {
    return std::any_of(claim.reports.begin(), claim.reports.end(), stands_for);
}

// Nobody will stand for the proof any more. The training is public, and its solver is not to blame: it is paid unless
// it is challenged. The window is long enough for somebody who has not begun a replay yet.
Status await_unverified(Context& context, TaskClaim& live, std::string_view reason) {
    auto& claim = live.claim;
    const auto& spec = live.task.spec;
    claim.draws = kMaxDraws;
    if (claim.challenge_until == 0)
        claim.challenge_until = context.market_ms + market::in_ms(spec.verify_s + spec.challenge_s);
    if (claim.open_disputes > 0) return await_challenges(context, live, reason);
    enter(context, claim, ClaimState::challenge,
          std::max({claim.challenge_until, claim.challenge_hold, context.market_ms + 1}), reason);
    return {};
}

// Nobody stands for the proof: other verifiers are drawn, once.
Status redraw_or_give_up(Context& context, TaskClaim& live, std::string_view reason) {
    auto& claim = live.claim;
    if (claim.draws >= kMaxDraws) return await_unverified(context, live, reason);
    QUERN_CHECK(release_reports(context, claim));
    claim.reports.clear();
    claim.proved_since = context.market_ms + 1;  // commitments of this block may have meant the old reports
    claim.challenge_until = 0;                   // the new reports get a window of their own
    await_draw(context, claim, reason);
    return {};
}

Status dismiss_silent(Context& context, TaskClaim& live) {
    for (auto& report : live.claim.reports)
        if (report.custody == 0) QUERN_CHECK(dismiss_verifier(context, live.task, report, "no_custody_receipt"));
    return {};
}

// Frees what is locked for a claim: open disputes are closed as moot, bonds unlocked, commitments of challenges
// dropped; with `sweep`, those that could have been revealed and were not lose a part of their stake.
Status release_claim(Context& context, TaskClaim& live, bool sweep) {
    auto& claim = live.claim;
    QUERN_CHECK(close_disputes(context, claim, "moot"));
    QUERN_CHECK(unlock_bond(context, Role::solver, claim.solver, claim.locked));
    claim.locked = Uint256();
    claim.voided = false;
    QUERN_CHECK(release_reports(context, claim));
    if (claim.commitments == 0) return {};
    for (const auto& [key, value] :
         context.state.native_range(types::KeyOf<types::ChallengeCommitment>::all(claim.id), {}, claim.commitments)) {
        auto challenge = types::decode_record<types::ChallengeCommitment>(value);
        if (!challenge) return fault("state.corrupt_object", challenge.error().to_string());
        QUERN_CHECK(drop_commitment(context, live, *challenge, sweep && could_reveal(context, claim, *challenge)));
    }
    return {};
}

// The solver did not do what was due: a part of its lock is lost, the rest is free again, it may not bid on this task
// again.
Status dismiss_solver(Context& context, types::Task& task, const types::Address& solver, Uint256& locked,
                      std::string_view reason) {
    const Uint256 lost = market::percent_of(locked, context.market().no_start_slash_percent);
    QUERN_CHECK(slash(context, task, Role::solver, solver, lost, reason));
    QUERN_CHECK(unlock_bond(context, Role::solver, solver, locked - lost));
    locked = Uint256();
    task.barred.push_back(solver);
    return {};
}

// Bonds that cover a report on the task, of those who can do the work.
Expected<std::vector<Candidate>> find_verifiers(const Context& context, const types::Task& task, std::uint64_t anchor,
                                                const Hash32& randomness, const std::vector<types::Address>& excluded) {
    // From custody to the commitments: what a replay may take.
    const auto work = market::work_of(task);
    const Demand demand{market::largest_step(work.plan), market::sampled_work(work), task.spec.verify_s,
                        market::memory_mib(task.spec)};
    return find_candidates(context, Role::verifier, market::verifier_bond(context.market(), task), demand, anchor,
                           randomness, excluded);
}

// Verifiers that could be drawn now if `solver` solves the task.
std::size_t eligible_for(const std::vector<Candidate>& verifiers, const types::Address& solver) {
    return static_cast<std::size_t>(
        std::count_if(verifiers.begin(), verifiers.end(), [&](const auto& one) { return one.address != solver; }));
}

}  // namespace

void enter(Context& context, types::Task& task, TaskState state, std::uint64_t deadline, std::string_view reason) {
    emit(context, types::KindGroup::tasks, events::TaskStateChanged{task.id, task.state, state, std::string(reason)});
    task.state = state;
    task.since = context.market_ms;
    task.deadline = deadline;
    task.reason = std::string(reason);
}

void enter(Context& context, Claim& claim, ClaimState state, std::uint64_t deadline, std::string_view reason) {
    emit(context, types::KindGroup::tasks,
         events::ClaimStateChanged{claim.id.task, claim.id.seat, claim.id.stretch, claim.id.round, claim.state, state,
                                   std::string(reason)});
    claim.state = state;
    claim.since = context.market_ms;
    claim.deadline = deadline;
    claim.reason = std::string(reason);
}

void open_bidding(Context& context, types::Task& task, std::string_view reason) {
    task.bids.clear();
    enter(context, task, TaskState::open, context.market_ms + market::in_ms(task.spec.bid_s), reason);
}

Status close_bidding(Context& context, types::Task& task) {
    if (task.bids.empty()) return close_task(context, task, TaskState::expired, "no_bids");
    task.draw_at = context.height;
    task.deadline = market::draw_due(context.market_ms);
    return {};
}

Status assign_next(Context& context, types::Task& task, const Hash32& beacon, std::string_view reason) {
    const Uint256 needed = market::solver_bond(context.market(), task);
    std::vector<Candidate> verifiers;
    if (!task.bids.empty()) {
        QUERN_TRY(verifiers,
                  find_verifiers(context, task, context.height,
                                 draw_hash("eligible", beacon, task.id, task.bids.size()), {task.submitter}));
    }
    bool unchecked = false;
    while (!task.bids.empty()) {
        const std::size_t index = best_bid(task, beacon);
        const types::TaskBid bid = task.bids[index];
        task.bids.erase(task.bids.begin() + static_cast<std::ptrdiff_t>(index));
        if (eligible_for(verifiers, bid.bidder) < task.spec.verifiers) {
            unchecked = true;
            continue;
        }
        // A bidder that bound its bond elsewhere meanwhile is passed over.
        if (!lock_bond(context, Role::solver, bid.bidder, needed)) continue;
        task.seats = {{bid.bidder, bid.price, needed, context.height, 0, 0}};
        emit(context, types::KindGroup::tasks, events::SolverAssigned{task.id, bid.bidder, bid.price});
        enter(context, task, TaskState::assigned, context.market_ms + market::in_ms(task.spec.start_s), reason);
        return {};
    }
    if (unchecked) return close_task(context, task, TaskState::expired, "no_verifiers");
    if (task.state == TaskState::open) return close_task(context, task, TaskState::expired, "no_bids");
    return reopen(context, task, reason);
}

Status give_to_next(Context& context, types::Task& task, std::string_view reason) {
    auto& seat = task.seats[0];
    QUERN_CHECK(dismiss_solver(context, task, seat.solver, seat.locked, reason));
    QUERN_TRY(const Hash32 beacon, beacon_at(context, seat.assigned_at));
    return assign_next(context, task, beacon, reason);
}

Status reopen(Context& context, types::Task& task, std::string_view reason) {
    if (task.round >= context.market().max_rounds) return close_task(context, task, TaskState::failed, reason);
    ++task.round;  // max_rounds is far below what a byte holds
    task.seats.clear();
    task.draw_at = 0;
    open_bidding(context, task, reason);
    return {};
}

Status close_task(Context& context, types::Task& task, TaskState state, std::string_view reason) {
    const Uint256& deposit = context.market().storage_deposit;
    QUERN_CHECK(pay_from_escrow(context, task, task.submitter, task.escrow - deposit, "refund"));
    enter(context, task, state, 0, reason);
    return {};
}

Claim begin_claim(Context& context, types::Task& task, const Hash32& seed_beacon) {
    auto& seat = task.seats[0];
    Claim claim;
    claim.id = {task.id, 0, seat.stretches++, task.round};
    claim.solver = seat.solver;
    claim.price = seat.price;
    claim.locked = std::exchange(seat.locked, Uint256());
    claim.seed_beacon = seed_beacon;
    if (task.state != TaskState::running) enter(context, task, TaskState::running, 0, "started");
    enter(context, claim, ClaimState::working, context.market_ms + market::in_ms(task.spec.heartbeat_s), "started");
    return claim;
}

Status dismiss_worker(Context& context, TaskClaim& live, std::string_view reason) {
    QUERN_CHECK(dismiss_solver(context, live.task, live.claim.solver, live.claim.locked, reason));
    return void_claim(context, live, reason);
}

void await_draw(Context& context, Claim& claim, std::string_view reason) {
    claim.draw_at = context.height;
    enter(context, claim, ClaimState::proved, market::draw_due(context.market_ms), reason);
}

Status draw_verifiers(Context& context, TaskClaim& live) {
    auto& [task, claim] = live;
    QUERN_TRY(const Hash32 beacon, beacon_at(context, market::draw_height(claim.draw_at)));
    const Uint256 needed = market::verifier_bond(context.market(), task);
    const Hash32 randomness = draw_hash("verifiers", beacon, task.id, claim.draws);
    QUERN_TRY(auto candidates,
              find_verifiers(context, task, claim.draw_at, randomness, {claim.solver, task.submitter}));
    auto drawn = draw_many(randomness, std::move(candidates), task.spec.verifiers);
    if (drawn.size() < task.spec.verifiers) {
        const bool waited = context.market_ms >= claim.proved_since + market::in_ms(task.spec.verify_s);
        if (waited && drawn.empty()) return await_unverified(context, live, "no_verifiers");
        // Others may bond; who did so after the old beacon was known must not profit from knowing it.
        if (!waited) {
            await_draw(context, claim, "waiting_for_verifiers");
            return {};
        }
    }
    ++claim.draws;
    claim.verify_beacon = beacon;
    claim.reports.clear();
    for (const auto& address : drawn) {
        QUERN_CHECK(lock_bond(context, Role::verifier, address, needed));
        types::VerifierReport report;
        report.verifier = address;
        report.locked = needed;
        claim.reports.push_back(report);
        emit(context, types::KindGroup::verification, events::VerifierDrawn{task.id, address});
    }
    enter(context, claim, ClaimState::custody, context.market_ms + market::in_ms(task.spec.verify_s),
          "verifiers_drawn");
    return {};
}

Status conclude_custody(Context& context, TaskClaim& live, bool deadline_passed) {
    auto& [task, claim] = live;
    std::size_t received = 0;
    std::size_t missing = 0;
    for (const auto& report : claim.reports) {
        received += report.custody == 1 ? 1 : 0;
        missing += report.custody == 2 ? 1 : 0;
    }
    const std::size_t total = claim.reports.size();
    const bool all = received + missing == total;
    // A majority of the whole draw, or, once the last draw's time is over, of those who answered. Nobody can prove that
    // data was withheld, so the solver goes unpaid but keeps its bond.
    const bool last_word = deadline_passed && claim.draws >= kMaxDraws;
    if (2 * missing > total || (last_word && missing > received)) {
        if (deadline_passed) QUERN_CHECK(dismiss_silent(context, live));
        task.barred.push_back(claim.solver);
        return void_claim(context, live, "data_missing");
    }
    if (!deadline_passed && 3 * received < 2 * total && !all) return {};
    if (deadline_passed) QUERN_CHECK(dismiss_silent(context, live));
    if (received == 0) return redraw_or_give_up(context, live, "verifiers_silent");
    enter(context, claim, ClaimState::committing, context.market_ms + market::in_ms(task.spec.verify_s),
          "data_available");
    return {};
}

Status conclude_committing(Context& context, TaskClaim& live, bool deadline_passed) {
    auto& [task, claim] = live;
    const auto silent = [](const types::VerifierReport& report) {
        return is_active(report) && report.commitment.is_zero();
    };
    if (!deadline_passed && std::any_of(claim.reports.begin(), claim.reports.end(), silent)) return {};
    for (auto& report : claim.reports)
        if (silent(report)) QUERN_CHECK(dismiss_verifier(context, task, report, "no_commitment"));
    if (std::none_of(claim.reports.begin(), claim.reports.end(), is_active))
        return redraw_or_give_up(context, live, "verifiers_silent");
    enter(context, claim, ClaimState::revealing, context.market_ms + market::in_ms(task.spec.verify_s),
          "reports_committed");
    return {};
}

Status conclude_revealing(Context& context, TaskClaim& live, bool deadline_passed) {
    auto& [task, claim] = live;
    const auto silent = [](const types::VerifierReport& report) { return is_active(report) && !report.revealed; };
    if (!deadline_passed && std::any_of(claim.reports.begin(), claim.reports.end(), silent)) return {};
    for (auto& report : claim.reports)
        if (silent(report)) QUERN_CHECK(dismiss_verifier(context, task, report, "no_reveal"));
    for (const auto& report : claim.reports)
        if (is_active(report) && !report.pass) QUERN_CHECK(open_report_dispute(context, live, report));
    return await_challenges(context, live, "reports_revealed");
}

Status await_challenges(Context& context, TaskClaim& live, std::string_view reason) {
    auto& [task, claim] = live;
    if (claim.open_disputes > 0) {
        QUERN_TRY(const std::uint64_t deadline, earliest_dispute_deadline(context, claim));
        enter(context, claim, ClaimState::disputed, deadline, reason);
        return {};
    }
    if (!stands_confirmed(claim)) return redraw_or_give_up(context, live, "verifiers_silent");
    if (claim.challenge_until == 0) claim.challenge_until = context.market_ms + market::in_ms(task.spec.challenge_s);
    enter(context, claim, ClaimState::challenge,
          std::max({claim.challenge_until, claim.challenge_hold, context.market_ms + 1}), reason);
    return {};
}

bool could_reveal(const Context& context, const Claim& claim, const types::ChallengeCommitment& commitment) {
    return commitment.since >= claim.proved_since &&
           market::reveal_expected(context.market(), commitment.since) <= context.market_ms;
}

Status drop_commitment(Context& context, TaskClaim& live, const types::ChallengeCommitment& commitment, bool punished) {
    auto& [task, claim] = live;
    Uint256 lost;
    if (punished) lost = market::percent_of(commitment.stake, context.market().no_challenge_reveal_slash_percent);
    QUERN_CHECK(slash(context, task, Role::whistleblower, commitment.challenger, lost, "no_challenge_reveal"));
    QUERN_CHECK(unlock_bond(context, Role::whistleblower, commitment.challenger, commitment.stake - lost));
    context.state.erase_native(
        types::key_of<types::ChallengeCommitment>(claim.id, commitment.challenger, commitment.commitment));
    --claim.commitments;
    return {};
}

Status void_claim(Context& context, TaskClaim& live, std::string_view reason) {
    QUERN_CHECK(release_claim(context, live, false));
    enter(context, live.claim, ClaimState::voided, 0, reason);
    return reopen(context, live.task, reason);
}

namespace {

// The deposit does not pay for it, since it stays; the gas of submitting, bidding, proving and reporting does, each of
// which costs more than its bytes.
Status record_proof(Context& context, const types::Task& task, const Claim& claim, std::string_view reason) {
    QUERN_TRY(const auto plan, compute::core::TaskPlan::decode(task.spec.plan));
    types::ProofRecord proof;
    proof.task = task.id;
    proof.seat = claim.id.seat;
    proof.submitter = task.submitter;
    proof.solver = claim.solver;
    proof.submission = crypto::merkle_leaf(types::encode_record(task.spec));
    proof.plan = crypto::merkle_leaf(task.spec.plan);
    proof.slot_root = plan.header().slot_root;
    proof.init_root = task.spec.init_root;
    proof.data_root = task.spec.data_root;
    proof.seed_beacon = claim.seed_beacon;
    proof.final_root = claim.final_root;
    proof.steps = task.steps;
    proof.loss = claim.loss;
    proof.passes = static_cast<std::uint32_t>(std::count_if(claim.reports.begin(), claim.reports.end(), stands_for));
    proof.settled_at = context.height;
    proof.reason = reason;
    context.state.set_native(types::key_of<types::ProofRecord>(proof.task, proof.seat), types::encode_record(proof));
    return {};
}

}  // namespace

Status settle(Context& context, TaskClaim& live) {
    auto& [task, claim] = live;
    QUERN_CHECK(release_claim(context, live, true));
    const bool confirmed = stands_confirmed(claim);
    QUERN_CHECK(
        pay_from_escrow(context, task, claim.solver, market::solver_reward(task, claim.price), "solver_reward"));
    const Uint256 fee = market::verifier_fee(task);
    for (const auto& report : claim.reports)
        if (is_active(report) && report.revealed)
            QUERN_CHECK(pay_from_escrow(context, task, report.verifier, fee, "verifier_fee"));

    const auto rest = checked_sub(task.escrow, task.spec.tax);
    if (!rest) return fail("task.escrow_empty");
    QUERN_TRY(auto globals, load_globals(context.state));
    globals.jackpot_vault += task.spec.tax;
    store_globals(context.state, globals);
    task.escrow = *rest;
    const std::string_view reason = confirmed ? "unchallenged" : "unverified";
    QUERN_CHECK(record_proof(context, task, claim, reason));
    ++task.seats[claim.id.seat].settled;
    enter(context, claim, ClaimState::settled, 0, reason);
    return close_task(context, task, TaskState::settled, reason);
}

}  // namespace quern::chain::exec::handlers
