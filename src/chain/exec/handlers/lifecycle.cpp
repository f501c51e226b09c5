#include "chain/exec/handlers/lifecycle.h"

#include <algorithm>

#include "chain/exec/handlers/draw.h"
#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/resolution.h"

namespace quern::chain::exec::handlers {
namespace {

using types::Role;
using types::TaskState;

constexpr std::uint64_t kMaxDraws = 2;        // of verifiers in a round
constexpr std::uint64_t kNearTiePercent = 1;  // bids within this of the lowest are as good

// The bid to take: the lowest, near ties by lot.
std::size_t best_bid(const types::Task& task, const Hash32& beacon) {
    Uint256 lowest = task.bids.front().price;
    for (const auto& bid : task.bids) lowest = std::min(lowest, bid.price);
    std::vector<Candidate> near;
    std::vector<std::size_t> index;
    for (std::size_t i = 0; i < task.bids.size(); ++i) {
        if (task.bids[i].price * Uint256(100) > lowest * Uint256(100 + kNearTiePercent)) continue;
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
    task.proved_at = task.draw_at = task.draws = 0;
    task.challenge_until = task.challenge_hold = task.rivals = 0;
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
    const Uint256 lost = percent_of(report.locked, context.market().no_reveal_slash_percent);
    QUERN_CHECK(slash(context, task, Role::verifier, report.verifier, lost, reason));
    QUERN_CHECK(unlock_bond(context, Role::verifier, report.verifier, report.locked - lost));
    report.locked = Uint256();
    report.slashed = true;
    return {};
}

// Nobody stands for the proof: other verifiers are drawn, once; after that the task ends.
Status redraw_or_expire(Context& context, types::Task& task) {
    if (task.draws < kMaxDraws) {
        QUERN_CHECK(release_reports(context, task));
        task.reports.clear();
        task.proved_at = context.height;
        task.challenge_until = 0;  // the new reports get a window of their own
        await_draw(context, task, "verifiers_silent");
        return {};
    }
    if (task.open_disputes > 0) return await_challenges(context, task, "verifiers_silent");
    return close_task(context, task, TaskState::expired, "verifiers_silent");
}

}  // namespace

void enter(Context& context, types::Task& task, TaskState state, std::uint64_t deadline, std::string_view reason) {
    emit(context, types::KindGroup::tasks, events::TaskStateChanged{task.id, task.state, state, std::string(reason)});
    task.state = state;
    task.since = context.height;
    task.deadline = deadline;
    task.reason = std::string(reason);
}

std::uint64_t bids_until(const types::Task& task) { return task.since + task.spec.bid_blocks; }

void open_bidding(Context& context, types::Task& task, std::string_view reason) {
    task.bids.clear();
    enter(context, task, TaskState::open, context.height + task.spec.bid_blocks + params::kBeaconDelay, reason);
}

Status assign_next(Context& context, types::Task& task, const Hash32& beacon, std::string_view reason) {
    while (!task.bids.empty()) {
        const std::size_t index = best_bid(task, beacon);
        const types::TaskBid bid = task.bids[index];
        task.bids.erase(task.bids.begin() + static_cast<std::ptrdiff_t>(index));
        const Uint256 needed = solver_bond(context.market(), task, bid.price);
        // A bidder that bound its bond elsewhere meanwhile is passed over.
        if (!lock_bond(context, Role::solver, bid.bidder, needed)) continue;
        task.solver = bid.bidder;
        task.price = bid.price;
        task.solver_locked = needed;
        task.assigned_at = context.height;
        emit(context, types::KindGroup::tasks, events::SolverAssigned{task.id, task.solver, task.price});
        enter(context, task, TaskState::assigned, context.height + task.spec.start_blocks, reason);
        return {};
    }
    if (task.state == TaskState::open) return close_task(context, task, TaskState::expired, "no_bids");
    return reopen(context, task, reason);
}

Status dismiss_solver(Context& context, types::Task& task, std::string_view reason) {
    const Uint256 lost = percent_of(task.solver_locked, context.market().no_start_slash_percent);
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
    enter(context, task, TaskState::proved, context.height + params::kBeaconDelay, reason);
}

Status draw_verifiers(Context& context, types::Task& task) {
    QUERN_TRY(const Hash32 beacon, beacon_at(context, task.draw_at + params::kBeaconDelay));
    const Uint256 needed = verifier_bond(context.market(), task);
    const Hash32 randomness = draw_hash("verifiers", beacon, task.id, task.draws);
    QUERN_TRY(auto candidates, find_candidates(context, Role::verifier, needed, task.draw_at, randomness,
                                               {task.solver, task.submitter}));
    auto drawn = draw_many(randomness, std::move(candidates), task.spec.verifiers);
    if (drawn.size() < task.spec.verifiers) {
        if (context.height >= task.proved_at + task.spec.verify_blocks) {
            return close_task(context, task, TaskState::expired, "no_verifiers");
        }
        // Others may bond; who did so after the old beacon was known must not profit from knowing it.
        await_draw(context, task, "waiting_for_verifiers");
        return {};
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
    enter(context, task, TaskState::custody, context.height + task.spec.verify_blocks, "verifiers_drawn");
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
    // A majority of the whole draw. Nobody can prove that data was withheld, so the solver goes unpaid but keeps its
    // bond.
    if (2 * missing > total) {
        task.barred.push_back(task.solver);
        return reopen(context, task, "data_missing");
    }
    if (!deadline_passed && 3 * received < 2 * total && !all) return {};
    if (deadline_passed)
        for (auto& report : task.reports)
            if (report.custody == 0) QUERN_CHECK(dismiss_verifier(context, task, report, "no_custody_receipt"));
    if (received == 0) return redraw_or_expire(context, task);
    enter(context, task, TaskState::committing, context.height + task.spec.verify_blocks, "data_available");
    return {};
}

Status conclude_committing(Context& context, types::Task& task, bool deadline_passed) {
    const auto silent = [](const types::VerifierReport& report) {
        return is_active(report) && report.commitment.is_zero();
    };
    if (!deadline_passed && std::any_of(task.reports.begin(), task.reports.end(), silent)) return {};
    for (auto& report : task.reports)
        if (silent(report)) QUERN_CHECK(dismiss_verifier(context, task, report, "no_commitment"));
    if (std::none_of(task.reports.begin(), task.reports.end(), is_active)) return redraw_or_expire(context, task);
    enter(context, task, TaskState::revealing, context.height + task.spec.verify_blocks, "reports_committed");
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
    const bool confirmed = std::any_of(task.reports.begin(), task.reports.end(), [](const auto& report) {
        return is_active(report) && report.revealed && report.pass;
    });
    if (!confirmed) return redraw_or_expire(context, task);  // nothing is paid on a claim alone
    if (task.challenge_until == 0) task.challenge_until = context.height + task.spec.challenge_blocks;
    enter(context, task, TaskState::challenge,
          std::max({task.challenge_until, task.challenge_hold, context.height + 1}), reason);
    return {};
}

Status release_round(Context& context, types::Task& task, bool sweep) {
    QUERN_CHECK(close_disputes(context, task, "moot"));
    QUERN_CHECK(unlock_bond(context, Role::solver, task.solver, task.solver_locked));
    task.solver_locked = Uint256();
    task.voided = false;
    QUERN_CHECK(release_reports(context, task));
    if (task.rivals == 0) return {};
    for (const auto& [key, value] : context.state.native_range(challenge_prefix(task.id), {}, task.rivals)) {
        auto challenge = types::decode_record<types::ChallengeCommitment>(value);
        if (!challenge) return fail("state.corrupt_object", challenge.error().to_string());
        // What was committed before the verifiers were drawn (again) may speak of reports that are gone.
        const bool could_reveal = challenge->height > task.proved_at &&
                                  challenge->height + context.market().min_deadline_blocks <= context.height;
        Uint256 lost;
        if (sweep && could_reveal) lost = percent_of(challenge->stake, context.market().no_reveal_slash_percent);
        QUERN_CHECK(slash(context, task, Role::whistleblower, challenge->challenger, lost, "no_challenge_reveal"));
        QUERN_CHECK(unlock_bond(context, Role::whistleblower, challenge->challenger, challenge->stake - lost));
        context.state.erase_native(key);
    }
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
    QUERN_CHECK(pay_from_escrow(context, task, task.solver, solver_reward(task, task.price), "solver_reward"));
    const Uint256 fee = verifier_fee(task);
    for (const auto& report : task.reports)
        if (is_active(report) && report.revealed)
            QUERN_CHECK(pay_from_escrow(context, task, report.verifier, fee, "verifier_fee"));

    const auto rest = checked_sub(task.escrow, task.spec.tax);
    if (!rest) return fail("task.escrow_empty");
    QUERN_TRY(auto globals, load_globals(context.state));
    globals.jackpot_vault += task.spec.tax;
    store_globals(context.state, globals);
    task.escrow = *rest;
    return close_task(context, task, TaskState::settled, "unchallenged");
}

}  // namespace quern::chain::exec::handlers
