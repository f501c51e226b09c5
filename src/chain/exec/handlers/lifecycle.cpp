#include "chain/exec/handlers/lifecycle.h"

#include <algorithm>
#include <utility>

#include "chain/exec/handlers/custody.h"
#include "chain/exec/handlers/draw.h"
#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/resolution.h"
#include "chain/market/claim_state.h"
#include "chain/market/custody.h"
#include "chain/market/delays.h"
#include "chain/market/shares.h"
#include "chain/market/watchers.h"
#include "compute/core/task_plan.h"

namespace quern::chain::exec::handlers {
namespace {

using types::Claim;
using types::ClaimState;
using types::Role;
using types::TaskState;

using params::kMaxDraws;

// The bid to take of those that are left: the lowest, near ties by lot.
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

// Puts all bids into the order in which they are taken. It follows from the bids and the beacon alone, so that nobody
// who fails on purpose, when the beacon is known, moves anybody else.
void order_bids(types::Task& task, const Hash32& beacon) {
    std::vector<types::TaskBid> ordered;
    while (!task.bids.empty()) {
        const auto next = task.bids.begin() + static_cast<std::ptrdiff_t>(best_bid(task, beacon));
        ordered.push_back(*next);
        task.bids.erase(next);
    }
    task.bids = std::move(ordered);
}

Status release_bid(Context& context, const types::Task& task, const types::TaskBid& bid) {
    return unlock_bond(context, task.id, Role::solver, bid.bidder, bid.deposit);
}

// The bidder bound its bond elsewhere meanwhile, or took it away: a place was taken for nothing.
Status forfeit_bid(Context& context, types::Task& task, const types::TaskBid& bid) {
    QUERN_CHECK(slash(context, task, Role::solver, bid.bidder, bid.deposit, "bid_not_covered"));
    bar(task, bid.bidder);
    return {};
}

// Verifiers that kept silent in a step lose their fee and a part of their lock: all for whom that is true; no report is
// looked at where the claim's counts say that there are none.
template <class Silent>
Status dismiss_silent(Context& context, LoadedClaim& live, Silent&& silent, std::string_view reason) {
    QUERN_TRY(auto reports, load_reports(context.state, live.claim));
    for (auto& report : reports)
        if (is_active(report) && silent(report))
            QUERN_CHECK(end_report(context, live, report, context.market().no_reveal_slash_percent, reason));
    return {};
}

// The window of a claim's challenges: its first length counts.
void set_window(const Context& context, Claim& claim, std::uint64_t seconds) {
    if (claim.challenge_until == 0) claim.challenge_until = context.market_ms + market::in_ms(seconds);
}

void enter_window(Context& context, Claim& claim, std::string_view reason) {
    enter(context, claim, ClaimState::challenge,
          std::max({claim.challenge_until, claim.challenge_hold, context.market_ms + 1}), reason);
}

// Nobody will stand for the proof any more. The training is public, and its solver is not to blame: it is paid unless
// it is challenged. The window is long enough for somebody who has not begun a replay yet.
Status await_unverified(Context& context, LoadedClaim& live, std::string_view reason) {
    auto& claim = live.claim;
    const auto& spec = live.task.spec;
    claim.draws = kMaxDraws;
    set_window(context, claim, spec.windows.verify_s + spec.windows.challenge_s);
    if (claim.open_disputes > 0) return await_challenges(context, live, reason);
    enter_window(context, claim, reason);
    return {};
}

// Nobody is drawn.
void erase_reports(Context& context, Claim& claim) {
    for (std::uint8_t place = 0; place < claim.drawn; ++place)
        context.state.erase_native(types::key_of<types::VerifierReport>(claim.id, place));
    claim.drawn = claim.received = claim.missing = claim.active = 0;
    claim.committed = claim.revealed = claim.passes = 0;
    claim.opened = claim.awaited = 0;
    claim.reveal_at = 0;
    claim.forced_beacon = Hash32();
    claim.watch_bonds = Uint256();
}

// Nobody stands for the proof: other verifiers are drawn, once.
Status redraw_or_give_up(Context& context, LoadedClaim& live, std::string_view reason) {
    auto& claim = live.claim;
    if (claim.draws >= kMaxDraws) return await_unverified(context, live, reason);
    QUERN_CHECK(release_reports(context, claim));
    erase_reports(context, claim);
    claim.proved_since = context.market_ms + 1;  // commitments of this block may have meant the old reports
    claim.challenge_until = 0;                   // the new reports get a window of their own
    await_draw(context, claim, reason);
    return {};
}

// The solver did not do what was due: a part of its lock is lost, the rest is free again, it may not bid on this task
// again.
Status dismiss_solver(Context& context, types::Task& task, const types::Address& solver, Uint256& locked,
                      std::string_view reason) {
    const Uint256 part = std::exchange(locked, Uint256());
    QUERN_CHECK(slash_part(context, task, Role::solver, solver, part, context.market().no_start_slash_percent, reason));
    bar(task, solver);
    return {};
}

// What a verifier of the task must have, seen from a draw's anchor.
DrawTerms verifier_terms(const Context& context, const types::Task& task, std::uint64_t anchor,
                         std::vector<types::Address> excluded) {
    // From custody to the commitments: what a replay may take.
    const Uint256 work = market::sampled_work(market::work_of(task));
    return {anchor, market::verifier_bond(context.market(), task),
            replay_demand(task, work, task.spec.windows.verify_s), std::move(excluded)};
}

// Verifiers that could be drawn now if `solver` solves the task.
std::size_t eligible_for(const std::vector<types::Address>& verifiers, const types::Address& solver) {
    return verifiers.size() - static_cast<std::size_t>(std::count(verifiers.begin(), verifiers.end(), solver));
}

}  // namespace

Status check_task_id(std::uint64_t id) {
    if (id == 0) return fail("task.unknown", "0");
    return {};
}

void bar(types::Task& task, const types::Address& solver) {
    if (std::find(task.barred.begin(), task.barred.end(), solver) != task.barred.end()) return;
    if (task.barred.size() == types::kMaxBarred) task.barred.erase(task.barred.begin());
    task.barred.push_back(solver);
}

void enter(Context& context, types::Task& task, TaskState state, std::uint64_t deadline, std::string_view reason) {
    emit(context, types::KindGroup::tasks,
         events::TaskStateChanged{task.id, task.state, state, std::string(reason), deadline});
    task.state = state;
    task.since = context.market_ms;
    task.deadline = deadline;
    task.reason = std::string(reason);
}

void enter(Context& context, Claim& claim, ClaimState state, std::uint64_t deadline, std::string_view reason) {
    emit(context, types::KindGroup::tasks,
         events::ClaimStateChanged{claim.id.task, claim.id.seat, claim.id.stretch, claim.id.round, claim.state, state,
                                   std::string(reason), deadline});
    claim.state = state;
    claim.since = context.market_ms;
    claim.deadline = deadline;
    claim.reason = std::string(reason);
}

void open_bidding(Context& context, types::Task& task, std::string_view reason) {
    enter(context, task, TaskState::open, context.market_ms + market::in_ms(task.spec.windows.bid_s), reason);
}

Status close_bidding(Context& context, types::Task& task) {
    if (task.bids.empty()) return close_task(context, task, TaskState::expired, "no_bids");
    task.draw_at = context.height;
    task.deadline = market::draw_due(context.market_ms);
    return {};
}

Status assign_next(Context& context, types::Task& task, const Hash32& beacon, std::string_view reason) {
    const bool draws = task.state == TaskState::open;
    if (draws) order_bids(task, beacon);
    // The same for whoever is assigned in this round, whenever it starts: no solver can have another one by letting
    // time pass or the next bid come.
    if (draws && task.settled == 0) task.seed_beacon = draw_hash("seed", beacon, task.id, task.round);
    const Uint256 needed = market::seat_bond(context.market(), task);
    std::vector<types::Address> verifiers;  // one more than are needed: the solver may be among them
    if (!task.bids.empty()) {
        QUERN_TRY(verifiers,
                  draw_bonds(context, Role::verifier, verifier_terms(context, task, context.height, {task.submitter}),
                             draw_hash("eligible", beacon, task.id, task.bids.size()), task.spec.work.verifiers + 1,
                             params::kMaxDrawTries));
    }
    bool unchecked = false;
    while (!task.bids.empty()) {
        const types::TaskBid bid = task.bids.front();
        task.bids.erase(task.bids.begin());
        if (eligible_for(verifiers, bid.bidder) < task.spec.work.verifiers) {
            unchecked = true;
            QUERN_CHECK(release_bid(context, task, bid));
            continue;
        }
        if (!lock_bond(context, task.id, Role::solver, bid.bidder, needed - bid.deposit)) {
            QUERN_CHECK(forfeit_bid(context, task, bid));
            continue;
        }
        task.seats = {{bid.bidder, bid.price, needed, context.height, task.settled}};
        emit(context, types::KindGroup::tasks, events::SolverAssigned{task.id, bid.bidder, bid.price});
        enter(context, task, TaskState::assigned, context.market_ms + market::in_ms(task.spec.windows.start_s), reason);
        return {};
    }
    if (unchecked) return close_task(context, task, TaskState::expired, "no_verifiers");
    return reopen(context, task, draws ? "bid_not_covered" : reason);
}

Status give_to_next(Context& context, types::Task& task, std::string_view reason) {
    auto& seat = task.seats[0];
    QUERN_CHECK(dismiss_solver(context, task, seat.solver, seat.locked, reason));
    QUERN_TRY(const Hash32 beacon, beacon_at(context, seat.assigned_at));
    return assign_next(context, task, beacon, reason);
}

Status reopen(Context& context, types::Task& task, std::string_view reason) {
    if (task.failures >= context.market().max_rounds) return close_task(context, task, TaskState::failed, reason);
    ++task.failures;
    ++task.round;  // at most max_rounds times a stretch
    task.seats.clear();
    task.draw_at = 0;
    open_bidding(context, task, reason);
    return {};
}

Status close_task(Context& context, types::Task& task, TaskState state, std::string_view reason) {
    QUERN_CHECK(pay_from_escrow(context, task, task.submitter, task.escrow - task.deposit - task.held, "refund"));
    enter(context, task, state, 0, reason);
    return {};
}

Status release_bids(Context& context, types::Task& task) {
    for (const types::TaskBid& bid : std::exchange(task.bids, {})) QUERN_CHECK(release_bid(context, task, bid));
    return {};
}

Status begin_claim(Context& context, types::Task& task, const Hash32& start_root) {
    auto& seat = task.seats[0];
    QUERN_TRY(const auto plan, compute::core::TaskPlan::decode(task.spec.plan));
    Claim claim;
    claim.id = {task.id, 0, seat.stretches++, task.round};
    const market::Stretch stretch = market::stretch_of(task, claim.id.stretch);
    claim.solver = seat.solver;
    claim.price = seat.price;
    claim.work = plan.work_of(stretch, task.spec.work.stride);
    claim.locked = market::solver_bond(context.market(), task);
    if (seat.locked < claim.locked) return fault("state.corrupt_object", "a seat's lock does not cover its claims");
    seat.locked -= claim.locked;
    claim.start_root = start_root;
    claim.step = stretch.before;
    claim.seed_beacon = task.seed_beacon;
    if (task.state != TaskState::running) enter(context, task, TaskState::running, 0, "started");
    enter(context, claim, ClaimState::working, context.market_ms + market::in_ms(task.spec.windows.heartbeat_s),
          "started");
    context.state.store(types::key_of<Claim>(claim.id), claim);
    return {};
}

Status begin_next(Context& context, types::Task& task, const Claim& newest) {
    const std::uint32_t made = task.seats[0].stretches;
    const bool waits =
        newest.state < ClaimState::proved || newest.voided || made - task.settled >= types::kMaxUnsettled;
    if (waits || made == market::stretch_count(task)) return {};
    return begin_claim(context, task, newest.final_root);
}

Status dismiss_worker(Context& context, LoadedClaim& live, std::string_view reason) {
    QUERN_CHECK(dismiss_solver(context, live.task, live.claim.solver, live.claim.locked, reason));
    return void_claim(context, live, reason);
}

Status check_state_is(const Claim& claim, std::initializer_list<ClaimState> states) {
    if (std::find(states.begin(), states.end(), claim.state) != states.end()) return {};
    return fail("task.wrong_state", types::to_string(claim.state));
}

Expected<types::VerifierReport> load_own_report(const Context& context, const Claim& claim) {
    for (std::size_t place = 0; place < claim.drawn; ++place) {
        QUERN_TRY(auto report, load_report(context.state, claim, place));
        if (report.verifier == context.sender) return report;
    }
    return fail(kNotDrawn);
}

void leave(Claim& claim, const types::VerifierReport& report) {
    --claim.active;
    if (!report.commitment.is_zero()) --claim.committed;
    if (!report.revealed()) return;
    --claim.revealed;
    if (report.pass) --claim.passes;
    if (report.choice == types::ReportChoice::sealed) return;
    --claim.opened;
    if (report.choice == types::ReportChoice::forced)
        claim.awaited = static_cast<std::uint8_t>(claim.awaited - (report.seals - report.found));
}

Status end_report(Context& context, LoadedClaim& live, types::VerifierReport& report, std::uint64_t percent,
                  std::string_view reason, const SlashShares& shares) {
    QUERN_CHECK(
        slash_part(context, live.task, Role::verifier, report.verifier, report.locked, percent, reason, shares));
    if (is_active(report)) leave(live.claim, report);
    report.locked = Uint256();
    report.slashed_at = context.market_ms;
    store_report(context.state, report);
    return {};
}

Status release_reports(Context& context, Claim& claim) {
    QUERN_TRY(auto reports, load_reports(context.state, claim));
    for (auto& report : reports) {
        if (report.locked.is_zero()) continue;
        QUERN_CHECK(unlock_bond(context, claim.id.task, Role::verifier, report.verifier, report.locked));
        report.locked = Uint256();
        store_report(context.state, report);
    }
    return {};
}

void await_draw(Context& context, Claim& claim, std::string_view reason, std::uint64_t pause_s) {
    claim.draw_at = pause_s == 0 ? context.height : 0;
    const std::uint64_t due =
        pause_s == 0 ? market::draw_due(context.market_ms) : context.market_ms + market::in_ms(pause_s);
    enter(context, claim, ClaimState::proved, due, reason);
}

Status draw_verifiers(Context& context, LoadedClaim& live) {
    auto& [task, claim] = live;
    if (claim.draw_at == 0) {  // the pause is over
        await_draw(context, claim, claim.reason);
        return {};
    }
    QUERN_TRY(const Hash32 beacon, beacon_at(context, market::draw_height(claim.draw_at)));
    const DrawTerms terms =
        verifier_terms(context, task, market::anchor_of(claim.draw_at, context.height), {claim.solver, task.submitter});
    // Those whom the stretch before it binds are free when that is settled, and this one cannot be before.
    const bool waited = market::is_next_to_settle(task, claim) &&
                        context.market_ms >= claim.proved_since + market::in_ms(task.spec.windows.verify_s);
    QUERN_TRY(const auto drawn,
              draw_bonds(context, Role::verifier, terms, draw_hash("verifiers", beacon, claim.id, claim.draws),
                         task.spec.work.verifiers, waited ? params::kMaxDrawTries : params::kMaxPassedOver));
    if (drawn.size() < task.spec.work.verifiers) {
        if (waited && drawn.empty()) return await_unverified(context, live, "no_verifiers");
        // Others may bond; who did so after the old beacon was known must not profit from knowing it. Each try is a
        // tick that somebody pays for.
        if (!waited) {
            await_draw(context, claim, "waiting_for_verifiers", context.market().min_window_s);
            return {};
        }
    }
    QUERN_TRY(const auto custody, load_custody(context, claim.id));
    std::vector<types::Address> custodians;  // those of a draw before have what they were drawn for
    if (task.custodians != 0 && !custody) {
        QUERN_TRY(custodians, find_custodians(context, live, {beacon, terms.anchor, 0, drawn}));
        if (custodians.empty() && !waited) {
            await_draw(context, claim, "waiting_for_custodians", context.market().min_window_s);
            return {};
        }
    }
    if (!custodians.empty()) QUERN_CHECK(take_custodians(context, live, custodians, 0));
    claim.verify_beacon = draw_hash("segments", beacon, claim.id, claim.draws);
    ++claim.draws;
    erase_reports(context, claim);
    for (const auto& address : drawn) {
        QUERN_CHECK(lock_whole_bond(context, live.task.id, Role::verifier, address, terms.lock));
        types::VerifierReport report;
        report.claim = claim.id;
        report.place = claim.drawn++;
        report.verifier = address;
        report.locked = terms.lock;
        store_report(context.state, report);
        emit(context, types::KindGroup::verification, events::VerifierDrawn{task.id, address, claim.id.stretch});
    }
    claim.active = claim.drawn;
    enter(context, claim, ClaimState::custody, context.market_ms + market::in_ms(task.spec.windows.verify_s),
          "verifiers_drawn");
    return {};
}

namespace {

// A majority of the whole draw says so, or, once the last draw's time is over, of those who answered.
bool is_data_missing(const Claim& claim, bool deadline_passed) {
    const std::size_t missing = claim.missing;
    return 2 * missing > claim.drawn || (deadline_passed && claim.draws >= kMaxDraws && missing > claim.received);
}

// Nobody can prove that data was withheld, so the solver loses a part of its lock, and no more: without it invented
// roots would cost less than none. The rest answers for the history as before. Nobody is paid for saying so.
Status void_without_data(Context& context, LoadedClaim& live) {
    auto& [task, claim] = live;
    const Uint256 lost = market::percent_of(claim.locked, context.market().data_missing_slash_percent);
    SlashShares nobody;
    nobody.unproven = true;
    QUERN_CHECK(slash(context, task, Role::solver, claim.solver, lost, "data_missing", nobody));
    claim.locked -= lost;
    bar(task, claim.solver);
    return begin_void(context, live, "data_missing");
}

}  // namespace

Status conclude_custody(Context& context, LoadedClaim& live, bool deadline_passed) {
    auto& [task, claim] = live;
    QUERN_TRY(auto custody, load_custody(context, claim.id));
    if (deadline_passed && market::awaits_custodians(claim, custody)) {
        const bool denied = market::is_denied(*custody);
        QUERN_TRY(const bool drawn, redraw_custodians(context, live, std::move(*custody)));
        if (drawn) return {};
        if (denied) return void_without_data(context, live);
        // Silence says nothing about the data, and nobody else can: it goes on without custodians.
        forget_custodians(context, claim.id);
    }
    if (deadline_passed && claim.received < claim.active) {
        const auto silent = [](const types::VerifierReport& report) { return report.custody == 0; };
        QUERN_CHECK(dismiss_silent(context, live, silent, "no_custody_receipt"));
    }
    if (is_data_missing(claim, deadline_passed)) return void_without_data(context, live);
    // First to its end, so that nobody draws verifiers for what is not kept.
    QUERN_TRY(const Keeping keeping, judge_custodians(context, live, deadline_passed));
    if (keeping == Keeping::failed) return void_without_data(context, live);
    const bool all = claim.received == claim.active;  // who kept silent in a window before is active no more
    if (keeping == Keeping::waits || (!deadline_passed && 3 * claim.received < 2 * claim.drawn && !all)) return {};
    QUERN_CHECK(release_custodians(context, claim.id));
    if (claim.received == 0) return redraw_or_give_up(context, live, "verifiers_silent");
    enter(context, claim, ClaimState::committing, context.market_ms + market::in_ms(task.spec.windows.verify_s),
          "data_available");
    return {};
}

Status conclude_committing(Context& context, LoadedClaim& live, bool deadline_passed) {
    auto& [task, claim] = live;
    if (deadline_passed && claim.committed < claim.active) {
        const auto silent = [](const types::VerifierReport& report) { return report.commitment.is_zero(); };
        QUERN_CHECK(dismiss_silent(context, live, silent, "no_commitment"));
    }
    if (is_data_missing(claim, deadline_passed)) return void_without_data(context, live);
    if (claim.committed < claim.active) return {};
    if (claim.active == 0) return redraw_or_give_up(context, live, "verifiers_silent");
    return begin_revealing(context, live);
}

Status begin_revealing(Context& context, LoadedClaim& live) {
    auto& [task, claim] = live;
    std::uint64_t deadline = context.market_ms + market::in_ms(task.spec.windows.verify_s);
    if (market::forces_errors(context.market())) {
        QUERN_TRY(const auto globals, load_globals(context.state));
        claim.reveal_at = context.height;
        claim.watch_bonds = globals.watch_bonds;
        deadline = market::draw_due(context.market_ms);
    }
    enter(context, claim, ClaimState::revealing, deadline, "reports_committed");
    return {};
}

Status draw_forced(Context& context, LoadedClaim& live) {
    auto& [task, claim] = live;
    QUERN_TRY(claim.forced_beacon, beacon_at(context, market::draw_height(claim.reveal_at)));
    enter(context, claim, ClaimState::revealing, context.market_ms + market::in_ms(task.spec.windows.verify_s),
          "errors_drawn");
    return {};
}

Status conclude_revealing(Context& context, LoadedClaim& live, bool deadline_passed) {
    const auto& claim = live.claim;
    if (claim.revealed < claim.active) {
        if (!deadline_passed) return {};
        const auto silent = [](const types::VerifierReport& report) { return !report.revealed(); };
        QUERN_CHECK(dismiss_silent(context, live, silent, "no_reveal"));
    }
    QUERN_CHECK(open_report_disputes(context, live));
    return await_challenges(context, live, "reports_revealed");
}

namespace {

// Whether verifiers have to show which result they told.
bool awaits_openings(const Claim& claim) { return !claim.forced_beacon.is_zero() && claim.opened < claim.passes; }

}  // namespace

Status conclude_challenges(Context& context, LoadedClaim& live) {
    auto& [task, claim] = live;
    if (!awaits_openings(claim)) return conclude_opening(context, live, false);
    enter(context, claim, ClaimState::opening, context.market_ms + market::in_ms(task.spec.windows.challenge_s),
          "windows_over");
    return {};
}

Status conclude_opening(Context& context, LoadedClaim& live, bool deadline_passed) {
    auto& [task, claim] = live;
    if (awaits_openings(claim)) {
        if (!deadline_passed) return {};
        const auto silent = [](const types::VerifierReport& report) {
            return types::stands_for(report) && report.choice == types::ReportChoice::sealed;
        };
        QUERN_CHECK(dismiss_silent(context, live, silent, "not_opened"));
    }
    if (claim.awaited == 0) return settle(context, live);
    enter(context, claim, ClaimState::jackpots, context.market_ms + market::in_ms(task.spec.windows.challenge_s),
          "reports_opened");
    return {};
}

Status conclude_jackpots(Context& context, LoadedClaim& live, bool deadline_passed) {
    if (!deadline_passed && live.claim.awaited != 0) return {};
    return settle(context, live);
}

Status await_challenges(Context& context, LoadedClaim& live, std::string_view reason) {
    auto& [task, claim] = live;
    if (claim.open_disputes > 0) {
        QUERN_TRY(const std::uint64_t deadline, earliest_dispute_deadline(context, claim));
        enter(context, claim, ClaimState::disputed, deadline, reason);
        return {};
    }
    if (claim.passes == 0) return redraw_or_give_up(context, live, "verifiers_silent");
    set_window(context, claim, task.spec.windows.challenge_s);
    enter_window(context, claim, reason);
    return {};
}

}  // namespace quern::chain::exec::handlers
