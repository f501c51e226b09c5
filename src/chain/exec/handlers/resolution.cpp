#include "chain/exec/handlers/resolution.h"

#include <algorithm>
#include <limits>

#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/lifecycle.h"
#include "chain/market/delays.h"
#include "compute/core/claims.h"

namespace quern::chain::exec::handlers {
namespace {

using types::DisputeWinner;
using types::Role;

void close(Context& context, types::Task& task, types::Dispute& dispute, DisputeWinner winner,
           std::string_view reason) {
    dispute.closed_at = context.height;
    dispute.deadline = 0;
    dispute.winner = winner;
    dispute.reason = std::string(reason);
    --task.open_disputes;
    store_dispute(context.state, dispute);
    emit(context, types::KindGroup::disputes, events::DisputeClosed{dispute.id, task.id, winner, dispute.reason});
}

types::VerifierReport* report_of(types::Task& task, const types::Address& verifier) {
    for (auto& report : task.reports)
        if (report.verifier == verifier) return &report;
    return nullptr;
}

// Static work of what the winner had to compute, at the price cap: what catching a cheat is worth must not follow from
// the price that the cheat bid.
Uint256 proven_cost(const types::Task& task, const types::Dispute& dispute) {
    const auto work = market::work_of(task);
    Uint256 units = market::total_work(work);
    if (dispute.target != 0)  // a rival needs no more than the segment in question
        units = market::work_of_steps(work, work.interval);
    else if (dispute.rival_role == Role::verifier)
        units = market::sampled_work(work);
    return market::price_at_cap(task, units);
}

Status slash_report(Context& context, types::Task& task, types::VerifierReport& report, std::string_view reason,
                    const SlashShares& shares = {}) {
    QUERN_CHECK(slash(context, task, Role::verifier, report.verifier, report.locked, reason, shares));
    report.locked = Uint256();
    report.slashed = true;
    return {};
}

// The rival's stake: of a whistleblower its own lock, of a verifier that failed the solver its report's.
Status slash_rival(Context& context, types::Task& task, const types::Dispute& dispute, const SlashShares& shares) {
    if (dispute.rival_role == Role::whistleblower)
        return slash(context, task, Role::whistleblower, dispute.rival, dispute.rival_locked, "false_accusation",
                     shares);
    auto* report = report_of(task, dispute.rival);
    if (report == nullptr) return fail("dispute.no_report");
    return slash_report(context, task, *report, "false_fail", shares);
}

Status release_rival(Context& context, const types::Dispute& dispute) {
    if (dispute.rival_role != Role::whistleblower) return {};  // the report's lock stands until the round ends
    return unlock_bond(context, Role::whistleblower, dispute.rival, dispute.rival_locked);
}

// Whether a defender that lost answers for it. A PASS claims the segments that its verifier was drawn for, and no
// others; until the game has come to a step, losing means that the verifier did not even show whose history it passed.
bool answers_for(const types::Task& task, const types::Dispute& dispute, const core::Game& game) {
    if (!core::is_pass_target(dispute.target) || game.step == 0) return true;
    const auto drawn =
        core::draw_segments(task.verify_beacon, dispute.defender,
                            market::segment_count(task.spec.steps, task.spec.interval), task.spec.samples);
    return std::binary_search(drawn.begin(), drawn.end(), (game.step - 1) / task.spec.interval);
}

// Whether a challenge that was committed before the solver lost can still be revealed against a PASS.
bool awaits_reveals(const Context& context, const types::Task& task) {
    if (task.commitments == 0 || context.market_ms >= task.challenge_hold) return false;
    const bool stands = std::any_of(task.reports.begin(), task.reports.end(), [](const auto& report) {
        return is_active(report) && report.revealed && report.pass;
    });
    return stands && !context.state.native_range(types::KeyOf<types::ChallengeCommitment>::all(task.id), {}, 1).empty();
}

// The solver's claim is void: it is slashed, and the other games about it are moot. Those who passed it answer for
// their own claims in games of their own: a loser's loss proves nothing about others (a solver may play badly on
// purpose). While such games are open or may come the task waits, then it is open again.
Status void_history(Context& context, types::Task& task, const types::Dispute& dispute, bool rival_wins) {
    SlashShares shares;
    if (rival_wins) {
        shares.winner = dispute.rival;
        shares.proven_cost = proven_cost(task, dispute);
        shares.fee = market::verifier_fee(task);
        for (const auto& report : task.reports)
            if (is_active(report) && report.revealed && !report.pass && report.verifier != dispute.rival)
                shares.fees.push_back(report.verifier);
    }
    QUERN_CHECK(slash(context, task, Role::solver, task.solver, task.solver_locked, "wrong_result", shares));
    task.solver_locked = Uint256();
    task.barred.push_back(task.solver);
    QUERN_CHECK(close_disputes(context, task, "moot", {0}));
    task.voided = true;
    task.challenge_hold = market::reveal_expected(context.market(), context.market_ms);
    if (task.open_disputes > 0 || awaits_reveals(context, task))
        enter(context, task, types::TaskState::disputed, 0, "solver_slashed");
    return continue_voided(context, task);
}

Status void_report(Context& context, types::Task& task, const types::Dispute& dispute, bool rival_wins) {
    const std::size_t index = core::target_report(dispute.target);
    if (index >= task.reports.size()) return fail("dispute.no_report");
    SlashShares shares;
    if (rival_wins) shares = {dispute.rival, proven_cost(task, dispute), {}, {}};
    const bool passed = core::is_pass_target(dispute.target);
    QUERN_CHECK(
        slash_report(context, task, task.reports[index], passed ? "passed_wrong_result" : "wrong_probe", shares));
    const auto number = static_cast<std::uint32_t>(index);
    return close_disputes(context, task, "moot", {1 + number, core::kPassTarget + number});
}

}  // namespace

core::GameContext game_context(const types::Task& task) {
    return {task.spec.program_root, task.spec.program_header, task.spec.data_root, task.seed_beacon,
            task.spec.steps + 1};
}

Status open_dispute(Context& context, types::Task& task, NewDispute opened) {
    QUERN_TRY(auto globals, load_globals(context.state));
    types::Dispute dispute;
    dispute.id = globals.next_dispute++;
    store_globals(context.state, globals);
    dispute.task = task.id;
    dispute.target = opened.target;
    dispute.defender = opened.defender;
    dispute.rival = opened.rival;
    dispute.rival_role = opened.rival_role;
    dispute.defender_locked = opened.defender_locked;
    dispute.rival_locked = opened.rival_locked;
    dispute.opened_at = context.height;
    update_game(dispute, opened.game);
    store_dispute(context.state, dispute);
    task.disputes.push_back(dispute.id);
    ++task.open_disputes;
    emit(context, types::KindGroup::disputes,
         events::DisputeOpened{dispute.id, task.id, dispute.target, dispute.defender, dispute.rival});
    return {};
}

Status open_report_dispute(Context& context, types::Task& task, const types::VerifierReport& report) {
    NewDispute opened;
    opened.defender = task.solver;
    opened.defender_locked = task.solver_locked;
    opened.rival = report.verifier;
    opened.rival_role = Role::verifier;
    opened.rival_locked = report.locked;
    QUERN_TRY(opened.game, core::open_history_game(game_context(task), task.history_root, report.rival_root,
                                                   market::dispute_clock(context.market(), task), context.market_ms));
    return open_dispute(context, task, std::move(opened));
}

void update_game(types::Dispute& dispute, const core::Game& game) {
    dispute.game = types::encode_record(game);
    dispute.deadline = core::next_deadline(game);
}

Status conclude_dispute(Context& context, types::Task& task, types::Dispute& dispute, const core::Game& game) {
    const bool about_history = dispute.target == 0;
    const bool answers = answers_for(task, dispute, game);
    switch (game.verdict) {
        case core::Verdict::none:
            return fail("dispute.not_decided");
        case core::Verdict::defender_wins: {
            close(context, task, dispute, DisputeWinner::defender, game.reason);
            QUERN_CHECK(slash_rival(context, task, dispute, {dispute.defender, proven_cost(task, dispute), {}, {}}));
            break;
        }
        case core::Verdict::rival_wins:
            close(context, task, dispute, answers ? DisputeWinner::rival : DisputeWinner::none,
                  answers ? std::string_view(game.reason) : "not_sampled");
            QUERN_CHECK(release_rival(context, dispute));
            if (about_history) return void_history(context, task, dispute, true);
            if (answers) QUERN_CHECK(void_report(context, task, dispute, true));
            break;
        case core::Verdict::both_lose:
            close(context, task, dispute, DisputeWinner::neither, game.reason);
            QUERN_CHECK(slash_rival(context, task, dispute, {}));
            if (about_history) return void_history(context, task, dispute, false);
            if (answers) QUERN_CHECK(void_report(context, task, dispute, false));
            break;
    }
    if (task.voided) return continue_voided(context, task);
    if (task.state != types::TaskState::disputed) return {};
    if (task.open_disputes == 0) return await_challenges(context, task, "disputes_closed");
    QUERN_CHECK(refresh_deadline(context, task));
    return {};
}

Expected<std::vector<types::Dispute>> open_disputes(const Context& context, const types::Task& task) {
    std::vector<types::Dispute> open;
    for (auto id = task.disputes.rbegin(); id != task.disputes.rend() && open.size() < task.open_disputes; ++id) {
        QUERN_TRY(auto dispute, load_dispute(context.state, *id));
        if (dispute.closed_at == 0) open.push_back(std::move(dispute));
    }
    std::reverse(open.begin(), open.end());
    return open;
}

Status close_disputes(Context& context, types::Task& task, std::string_view reason,
                      std::initializer_list<std::uint32_t> targets) {
    QUERN_TRY(auto open, open_disputes(context, task));
    for (auto& dispute : open) {
        if (targets.size() != 0 && std::find(targets.begin(), targets.end(), dispute.target) == targets.end()) continue;
        QUERN_CHECK(release_rival(context, dispute));
        close(context, task, dispute, DisputeWinner::none, reason);
    }
    return {};
}

Status continue_voided(Context& context, types::Task& task) {
    if (task.open_disputes == 0 && !awaits_reveals(context, task)) return reopen(context, task, "solver_slashed");
    QUERN_CHECK(refresh_deadline(context, task));
    return {};
}

Expected<std::uint64_t> earliest_dispute_deadline(const Context& context, const types::Task& task) {
    std::uint64_t earliest = std::numeric_limits<std::uint64_t>::max();
    QUERN_TRY(const auto open, open_disputes(context, task));
    for (const auto& dispute : open) earliest = std::min(earliest, dispute.deadline);
    return earliest;
}

Expected<bool> refresh_deadline(const Context& context, types::Task& task) {
    if (task.state != types::TaskState::disputed) return false;
    std::uint64_t deadline = task.challenge_hold;
    if (task.open_disputes > 0) {
        QUERN_TRY(deadline, earliest_dispute_deadline(context, task));
    }
    const bool changed = deadline != task.deadline;
    task.deadline = deadline;
    return changed;
}

}  // namespace quern::chain::exec::handlers
