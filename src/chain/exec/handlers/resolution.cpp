#include "chain/exec/handlers/resolution.h"

#include <algorithm>
#include <limits>

#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/lifecycle.h"
#include "compute/core/verification_report.h"

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

// Static work of what the winner had to compute, at the task's price.
Uint256 proven_cost(const types::Task& task, const types::Dispute& dispute) {
    const auto work = work_of(task);
    Uint256 units = core::total_work(work);
    if (dispute.target != 0)
        units = core::work_of_steps(work, work.interval);
    else if (dispute.rival_role == Role::verifier)
        units = core::sampled_work(work);
    return core::work_price(task.price, units).value_or(Uint256());
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

// Whoever passed a segment in which the chain itself found the wrong element. A solver's silence or concession proves
// nothing against the verifiers, who cannot make it move.
Status slash_false_passes(Context& context, types::Task& task, const core::Game& game) {
    if (game.reason != "leaf" && game.reason != "input") return {};
    const std::uint64_t segment = (game.step - 1) / task.spec.interval;
    const std::uint64_t segments = core::segment_count(task.spec.steps, task.spec.interval);
    for (auto& report : task.reports) {
        if (!is_active(report) || !report.revealed || !report.pass) continue;
        const auto drawn = core::draw_segments(task.verify_beacon, report.verifier, segments, task.spec.samples);
        if (!std::binary_search(drawn.begin(), drawn.end(), segment)) continue;
        QUERN_CHECK(slash_report(context, task, report, "passed_wrong_result"));
    }
    return {};
}

// The solver's claim is void: it is slashed, the other games about it are moot, the task is open again.
Status void_history(Context& context, types::Task& task, const types::Dispute& dispute, const core::Game& game,
                    bool rival_wins) {
    SlashShares shares;
    if (rival_wins) {
        shares.winner = dispute.rival;
        shares.proven_cost = proven_cost(task, dispute);
        shares.fee = verifier_fee(task);
        for (const auto& report : task.reports)
            if (is_active(report) && report.revealed && !report.pass && report.verifier != dispute.rival)
                shares.fees.push_back(report.verifier);
    }
    QUERN_CHECK(slash(context, task, Role::solver, task.solver, task.solver_locked, "wrong_result", shares));
    task.solver_locked = Uint256();
    task.barred.push_back(task.solver);
    QUERN_CHECK(slash_false_passes(context, task, game));
    return reopen(context, task, "solver_slashed");
}

Status void_report(Context& context, types::Task& task, const types::Dispute& dispute, bool rival_wins) {
    const std::size_t index = dispute.target - 1;
    if (index >= task.reports.size()) return fail("dispute.no_report");
    SlashShares shares;
    if (rival_wins) shares = {dispute.rival, proven_cost(task, dispute), {}, {}};
    QUERN_CHECK(slash_report(context, task, task.reports[index], "wrong_probe", shares));
    return close_disputes(context, task, "moot", dispute.target);
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
                                                   context.market().dispute_clock_blocks, context.height));
    return open_dispute(context, task, std::move(opened));
}

void update_game(types::Dispute& dispute, const core::Game& game) {
    dispute.game = types::encode_record(game);
    dispute.deadline = core::next_deadline(game);
}

Status conclude_dispute(Context& context, types::Task& task, types::Dispute& dispute, const core::Game& game) {
    const bool about_history = dispute.target == 0;
    switch (game.verdict) {
        case core::Verdict::none:
            return fail("dispute.not_decided");
        case core::Verdict::defender_wins: {
            close(context, task, dispute, DisputeWinner::defender, game.reason);
            QUERN_CHECK(slash_rival(context, task, dispute, {dispute.defender, proven_cost(task, dispute), {}, {}}));
            break;
        }
        case core::Verdict::rival_wins:
            close(context, task, dispute, DisputeWinner::rival, game.reason);
            QUERN_CHECK(release_rival(context, dispute));
            if (about_history) return void_history(context, task, dispute, game, true);
            QUERN_CHECK(void_report(context, task, dispute, true));
            break;
        case core::Verdict::both_lose:
            close(context, task, dispute, DisputeWinner::neither, game.reason);
            QUERN_CHECK(slash_rival(context, task, dispute, {}));
            if (about_history) return void_history(context, task, dispute, game, false);
            QUERN_CHECK(void_report(context, task, dispute, false));
            break;
    }
    if (task.state != types::TaskState::disputed) return {};
    if (task.open_disputes == 0) return await_challenges(context, task, "disputes_closed");
    QUERN_CHECK(refresh_deadline(context, task));
    return {};
}

Status close_disputes(Context& context, types::Task& task, std::string_view reason,
                      std::optional<std::uint32_t> target) {
    if (task.open_disputes == 0) return {};
    for (const std::uint64_t id : task.disputes) {
        QUERN_TRY(auto dispute, load_dispute(context.state, id));
        if (dispute.closed_at != 0 || (target && dispute.target != *target)) continue;
        QUERN_CHECK(release_rival(context, dispute));
        close(context, task, dispute, DisputeWinner::none, reason);
    }
    return {};
}

Expected<std::uint64_t> earliest_dispute_deadline(const Context& context, const types::Task& task) {
    std::uint64_t earliest = std::numeric_limits<std::uint64_t>::max();
    for (const std::uint64_t id : task.disputes) {
        QUERN_TRY(const auto dispute, load_dispute(context.state, id));
        if (dispute.closed_at == 0) earliest = std::min(earliest, dispute.deadline);
    }
    return earliest;
}

Expected<bool> refresh_deadline(const Context& context, types::Task& task) {
    if (task.state != types::TaskState::disputed) return false;
    QUERN_TRY(const std::uint64_t deadline, earliest_dispute_deadline(context, task));
    const bool changed = deadline != task.deadline;
    task.deadline = deadline;
    return changed;
}

}  // namespace quern::chain::exec::handlers
