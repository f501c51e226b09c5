#include "chain/exec/handlers/lifecycle.h"

#include <algorithm>

#include "chain/exec/handlers/draw.h"
#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/resolution.h"
#include "chain/market/delays.h"
#include "chain/market/shares.h"

namespace quern::chain::exec::handlers {
namespace {

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

void clear_round(types::Task& task) {
    task.solver = {};
    task.price = Uint256();
    task.solver_locked = Uint256();
    task.assigned_at = 0;
    task.seed_beacon = {};
    task.step = 0;
    task.checkpoint_root = task.checkpoint_content = {};
    task.first_loss = task.loss = 0;
    task.history_root = task.history_content = task.final_root = {};
    task.proved_since = task.draw_at = task.draws = 0;
    task.challenge_until = task.challenge_hold = 0;
    task.rivals = task.report_rivals = 0;
    task.verify_beacon = {};
    task.reports.clear();
}

Status release_reports(Context& context, types::Task& task) {
    for (auto& report : task.reports) {
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

bool stands_confirmed(const types::Task& task) {
    return std::any_of(task.reports.begin(), task.reports.end(),
                       [](const auto& report) { return is_active(report) && report.revealed && report.pass; });
}

// Nobody will stand for the proof any more. The training is public, and its solver is not to blame: it is paid unless
// it is challenged. The window is long enough for somebody who has not begun a replay yet.
Status await_unverified(Context& context, types::Task& task, std::string_view reason) {
    task.draws = kMaxDraws;
    if (task.challenge_until == 0)
        task.challenge_until = context.market_ms + market::in_ms(task.spec.verify_s + task.spec.challenge_s);
    if (task.open_disputes > 0) return await_challenges(context, task, reason);
    enter(context, task, TaskState::challenge,
          std::max({task.challenge_until, task.challenge_hold, context.market_ms + 1}), reason);
    return {};
}

// Nobody stands for the proof: other verifiers are drawn, once.
Status redraw_or_give_up(Context& context, types::Task& task, std::string_view reason) {
    if (task.draws >= kMaxDraws) return await_unverified(context, task, reason);
    QUERN_CHECK(release_reports(context, task));
    task.reports.clear();
    task.proved_since = context.market_ms + 1;  // commitments of this block may have meant the old reports
    task.challenge_until = 0;                   // the new reports get a window of their own
    await_draw(context, task, reason);
    return {};
}

Status dismiss_silent(Context& context, types::Task& task) {
    for (auto& report : task.reports)
        if (report.custody == 0) QUERN_CHECK(dismiss_verifier(context, task, report, "no_custody_receipt"));
    return {};
}

// Bonds that cover a report on the task, of those who can do the work.
Expected<std::vector<Candidate>> find_verifiers(const Context& context, const types::Task& task, std::uint64_t anchor,
                                                const Hash32& randomness, const std::vector<types::Address>& excluded) {
    // From custody to the commitments: what a replay may take.
    const Demand demand{task.work_units, market::sampled_work(market::work_of(task)), task.spec.verify_s,
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
        task.solver = bid.bidder;
        task.price = bid.price;
        task.solver_locked = needed;
        task.assigned_at = context.height;
        emit(context, types::KindGroup::tasks, events::SolverAssigned{task.id, task.solver, task.price});
        enter(context, task, TaskState::assigned, context.market_ms + market::in_ms(task.spec.start_s), reason);
        return {};
    }
    if (unchecked) return close_task(context, task, TaskState::expired, "no_verifiers");
    if (task.state == TaskState::open) return close_task(context, task, TaskState::expired, "no_bids");
    return reopen(context, task, reason);
}

Status dismiss_solver(Context& context, types::Task& task, std::string_view reason) {
    const Uint256 lost = market::percent_of(task.solver_locked, context.market().no_start_slash_percent);
    QUERN_CHECK(slash(context, task, Role::solver, task.solver, lost, reason));
    QUERN_CHECK(unlock_bond(context, Role::solver, task.solver, task.solver_locked - lost));
    task.solver_locked = Uint256();
    task.barred.push_back(task.solver);
    return {};
}

Status give_to_next(Context& context, types::Task& task, std::string_view reason) {
    QUERN_CHECK(dismiss_solver(context, task, reason));
    if (task.state != TaskState::assigned) return reopen(context, task, reason);
    QUERN_TRY(const Hash32 beacon, beacon_at(context, task.assigned_at));
    return assign_next(context, task, beacon, reason);
}

void await_draw(Context& context, types::Task& task, std::string_view reason) {
    task.draw_at = context.height;
    enter(context, task, TaskState::proved, market::draw_due(context.market_ms), reason);
}

Status draw_verifiers(Context& context, types::Task& task) {
    QUERN_TRY(const Hash32 beacon, beacon_at(context, market::draw_height(task.draw_at)));
    const Uint256 needed = market::verifier_bond(context.market(), task);
    const Hash32 randomness = draw_hash("verifiers", beacon, task.id, task.draws);
    QUERN_TRY(auto candidates, find_verifiers(context, task, task.draw_at, randomness, {task.solver, task.submitter}));
    auto drawn = draw_many(randomness, std::move(candidates), task.spec.verifiers);
    if (drawn.size() < task.spec.verifiers) {
        const bool waited = context.market_ms >= task.proved_since + market::in_ms(task.spec.verify_s);
        if (waited && drawn.empty()) return await_unverified(context, task, "no_verifiers");
        // Others may bond; who did so after the old beacon was known must not profit from knowing it.
        if (!waited) {
            await_draw(context, task, "waiting_for_verifiers");
            return {};
        }
    }
    ++task.draws;
    task.verify_beacon = beacon;
    task.reports.clear();
    for (const auto& address : drawn) {
        QUERN_CHECK(lock_bond(context, Role::verifier, address, needed));
        types::VerifierReport report;
        report.verifier = address;
        report.locked = needed;
        task.reports.push_back(report);
        emit(context, types::KindGroup::verification, events::VerifierDrawn{task.id, address});
    }
    enter(context, task, TaskState::custody, context.market_ms + market::in_ms(task.spec.verify_s), "verifiers_drawn");
    return {};
}

Status conclude_custody(Context& context, types::Task& task, bool deadline_passed) {
    std::size_t received = 0;
    std::size_t missing = 0;
    for (const auto& report : task.reports) {
        received += report.custody == 1 ? 1 : 0;
        missing += report.custody == 2 ? 1 : 0;
    }
    const std::size_t total = task.reports.size();
    const bool all = received + missing == total;
    // A majority of the whole draw, or, once the last draw's time is over, of those who answered. Nobody can prove that
    // data was withheld, so the solver goes unpaid but keeps its bond.
    const bool last_word = deadline_passed && task.draws >= kMaxDraws;
    if (2 * missing > total || (last_word && missing > received)) {
        if (deadline_passed) QUERN_CHECK(dismiss_silent(context, task));
        task.barred.push_back(task.solver);
        return reopen(context, task, "data_missing");
    }
    if (!deadline_passed && 3 * received < 2 * total && !all) return {};
    if (deadline_passed) QUERN_CHECK(dismiss_silent(context, task));
    if (received == 0) return redraw_or_give_up(context, task, "verifiers_silent");
    enter(context, task, TaskState::committing, context.market_ms + market::in_ms(task.spec.verify_s),
          "data_available");
    return {};
}

Status conclude_committing(Context& context, types::Task& task, bool deadline_passed) {
    const auto silent = [](const types::VerifierReport& report) {
        return is_active(report) && report.commitment.is_zero();
    };
    if (!deadline_passed && std::any_of(task.reports.begin(), task.reports.end(), silent)) return {};
    for (auto& report : task.reports)
        if (silent(report)) QUERN_CHECK(dismiss_verifier(context, task, report, "no_commitment"));
    if (std::none_of(task.reports.begin(), task.reports.end(), is_active))
        return redraw_or_give_up(context, task, "verifiers_silent");
    enter(context, task, TaskState::revealing, context.market_ms + market::in_ms(task.spec.verify_s),
          "reports_committed");
    return {};
}

Status conclude_revealing(Context& context, types::Task& task, bool deadline_passed) {
    const auto silent = [](const types::VerifierReport& report) { return is_active(report) && !report.revealed; };
    if (!deadline_passed && std::any_of(task.reports.begin(), task.reports.end(), silent)) return {};
    for (auto& report : task.reports)
        if (silent(report)) QUERN_CHECK(dismiss_verifier(context, task, report, "no_reveal"));
    for (const auto& report : task.reports)
        if (is_active(report) && !report.pass) QUERN_CHECK(open_report_dispute(context, task, report));
    return await_challenges(context, task, "reports_revealed");
}

Status await_challenges(Context& context, types::Task& task, std::string_view reason) {
    if (task.open_disputes > 0) {
        QUERN_TRY(const std::uint64_t deadline, earliest_dispute_deadline(context, task));
        enter(context, task, TaskState::disputed, deadline, reason);
        return {};
    }
    if (!stands_confirmed(task)) return redraw_or_give_up(context, task, "verifiers_silent");
    if (task.challenge_until == 0) task.challenge_until = context.market_ms + market::in_ms(task.spec.challenge_s);
    enter(context, task, TaskState::challenge,
          std::max({task.challenge_until, task.challenge_hold, context.market_ms + 1}), reason);
    return {};
}

Status release_round(Context& context, types::Task& task, bool sweep) {
    QUERN_CHECK(close_disputes(context, task, "moot"));
    QUERN_CHECK(unlock_bond(context, Role::solver, task.solver, task.solver_locked));
    task.solver_locked = Uint256();
    task.voided = false;
    QUERN_CHECK(release_reports(context, task));
    if (task.commitments == 0) return {};
    for (const auto& [key, value] :
         context.state.native_range(types::KeyOf<types::ChallengeCommitment>::all(task.id), {}, task.commitments)) {
        auto challenge = types::decode_record<types::ChallengeCommitment>(value);
        if (!challenge) return fault("state.corrupt_object", challenge.error().to_string());
        QUERN_CHECK(drop_commitment(context, task, *challenge, sweep && could_reveal(context, task, *challenge)));
    }
    return {};
}

bool could_reveal(const Context& context, const types::Task& task, const types::ChallengeCommitment& commitment) {
    return commitment.since >= task.proved_since &&
           market::reveal_expected(context.market(), commitment.since) <= context.market_ms;
}

Status drop_commitment(Context& context, types::Task& task, const types::ChallengeCommitment& commitment,
                       bool punished) {
    Uint256 lost;
    if (punished) lost = market::percent_of(commitment.stake, context.market().no_challenge_reveal_slash_percent);
    QUERN_CHECK(slash(context, task, Role::whistleblower, commitment.challenger, lost, "no_challenge_reveal"));
    QUERN_CHECK(unlock_bond(context, Role::whistleblower, commitment.challenger, commitment.stake - lost));
    context.state.erase_native(
        types::key_of<types::ChallengeCommitment>(task.id, commitment.challenger, commitment.commitment));
    --task.commitments;
    return {};
}

Status reopen(Context& context, types::Task& task, std::string_view reason) {
    QUERN_CHECK(release_round(context, task, false));
    if (task.round >= context.market().max_rounds) return close_task(context, task, TaskState::failed, reason);
    ++task.round;
    clear_round(task);
    open_bidding(context, task, reason);
    return {};
}

Status close_task(Context& context, types::Task& task, TaskState state, std::string_view reason) {
    QUERN_CHECK(release_round(context, task, false));
    const Uint256& deposit = context.market().storage_deposit;
    QUERN_CHECK(pay_from_escrow(context, task, task.submitter, task.escrow - deposit, "refund"));
    enter(context, task, state, 0, reason);
    return {};
}

Status settle(Context& context, types::Task& task) {
    QUERN_CHECK(release_round(context, task, true));
    const bool confirmed = stands_confirmed(task);
    QUERN_CHECK(pay_from_escrow(context, task, task.solver, market::solver_reward(task), "solver_reward"));
    const Uint256 fee = market::verifier_fee(task);
    for (const auto& report : task.reports)
        if (is_active(report) && report.revealed)
            QUERN_CHECK(pay_from_escrow(context, task, report.verifier, fee, "verifier_fee"));

    const auto rest = checked_sub(task.escrow, task.spec.tax);
    if (!rest) return fail("task.escrow_empty");
    QUERN_TRY(auto globals, load_globals(context.state));
    globals.jackpot_vault += task.spec.tax;
    store_globals(context.state, globals);
    task.escrow = *rest;
    return close_task(context, task, TaskState::settled, confirmed ? "unchallenged" : "unverified");
}

}  // namespace quern::chain::exec::handlers
