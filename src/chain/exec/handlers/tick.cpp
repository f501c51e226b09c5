// tick: moves on whatever waits past its deadline. Anybody may send it; a tick that is not due fails.
#include <limits>

#include "chain/exec/handlers/custody.h"
#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/handler.h"
#include "chain/exec/handlers/lifecycle.h"
#include "chain/exec/handlers/profiling.h"
#include "chain/exec/handlers/resolution.h"
#include "chain/market/claim_state.h"
#include "chain/market/delays.h"
#include "chain/market/storage.h"

namespace quern::chain::exec::handlers {
namespace {

using types::ClaimState;
using types::NativeKind;
using types::TaskState;

Status too_early(std::uint64_t due) { return fail("tick.too_early", "due at market time " + std::to_string(due)); }

// Closes what is moot; else charges the clocks of the claim's open games and decides one that ran out: each end looks
// at all games, and a transaction has one at most.
Status tick_disputes(Context& context, LoadedClaim& live) {
    auto& claim = live.claim;
    if (claim.voided && claim.open_disputes == 0) return continue_voided(context, live);
    QUERN_TRY(const std::size_t closed, close_moot(context, claim));
    if (closed != 0) {
        QUERN_CHECK(begin_corrected_games(context, live));
        return continue_disputed(context, live);
    }
    QUERN_TRY(auto open, open_disputes(context, claim));
    for (auto& dispute : open) {
        if (dispute.deadline == 0 || dispute.deadline > context.market_ms) continue;
        QUERN_TRY(auto game, types::decode_record<core::Game>(dispute.game));
        core::charge_clocks(game, context.market_ms);
        if (game.verdict == core::Verdict::none) continue;
        update_game(dispute, game);
        return conclude_dispute(context, live, dispute, game);
    }
    return too_early(claim.deadline);
}

// A final task leaves the state with its claims and disputes after the retention period, by as many ticks as it takes;
// their deposits go back.
Status delete_task(Context& context, types::Task& task) {
    // The retention does not end under an open question.
    if (!task.asked.empty()) {
        if (context.market_ms < task.asked[0].until) return too_early(task.asked[0].until);
        QUERN_CHECK(forfeit_held(context, task));
        store_task(context.state, task);
        return {};
    }
    const std::uint64_t due = market::retention_end(context.market(), task);
    if (context.market_ms < due) return too_early(due);
    const bool owes = !task.held.is_zero();
    QUERN_CHECK(release_held(context, task));
    QUERN_TRY(const bool gone, delete_claims(context, task));
    if (!gone) {
        if (owes) store_task(context.state, task);
        return {};
    }
    return_deposit(context, task.id, task.submitter, task.escrow);
    context.state.erase_native(types::key_of<types::Task>(task.id));
    emit(context, types::KindGroup::tasks, events::TaskDeleted{task.id});
    return {};
}

// `anchor`: of what the tick draws, if it draws.
Status check_due(const Context& context, std::uint64_t deadline, std::optional<std::uint64_t> anchor) {
    if (context.market_ms < deadline) return too_early(deadline);
    if (anchor && context.height < market::draw_height(*anchor))
        return fail("tick.too_early", "due at height " + std::to_string(market::draw_height(*anchor)));
    return {};
}

Expected<std::optional<std::uint64_t>> anchor_of(const Context& context, const types::Claim& claim) {
    if (claim.state != ClaimState::custody) return market::draw_anchor(claim);
    QUERN_TRY(const auto custody, load_custody(context, claim.id));
    return market::draw_anchor(claim, custody);
}

Status move_on(Context& context, LoadedClaim& live) {
    switch (live.claim.state) {
        case ClaimState::working:
            return dismiss_worker(context, live,
                                  live.claim.step == market::stretch_of(live).last() ? "no_proof" : "no_heartbeat");
        case ClaimState::proved:
            return draw_verifiers(context, live);
        case ClaimState::custody:
            return conclude_custody(context, live, true);
        case ClaimState::committing:
            return conclude_committing(context, live, true);
        case ClaimState::revealing:
            if (market::awaits_forced_beacon(live.claim)) return draw_forced(context, live);
            return conclude_revealing(context, live, true);
        case ClaimState::challenge:
            return conclude_challenges(context, live);
        case ClaimState::disputed:
            return tick_disputes(context, live);
        case ClaimState::opening:
            return conclude_opening(context, live, true);
        case ClaimState::jackpots:
            return conclude_jackpots(context, live, true);
        case ClaimState::none:
        case ClaimState::settled:
        case ClaimState::voided:
            break;
    }
    return fail("task.wrong_state", types::to_string(live.claim.state));
}

// The first claim of the task that is due. One whose windows are over waits until those before it are settled.
Status tick_claims(Context& context, const types::Task& task) {
    Status outcome = fail("tick.too_early", "no claim waits for a deadline");
    std::uint64_t earliest = std::numeric_limits<std::uint64_t>::max();
    for (const types::ClaimId& id : types::unsettled_claims(task)) {
        QUERN_TRY(auto claim, load_claim(context.state, id));
        if (types::is_final(claim.state)) continue;
        if (claim.state == ClaimState::challenge && !market::is_next_to_settle(task, claim)) continue;
        QUERN_TRY(const auto anchor, anchor_of(context, claim));
        if (auto due = check_due(context, claim.deadline, anchor); !due) {
            if (claim.deadline < earliest && !outcome) outcome = std::move(due);
            earliest = std::min(earliest, claim.deadline);
            continue;
        }
        auto live = make_live(task, std::move(claim));
        QUERN_CHECK(move_on(context, live));
        store_live(context.state, live);
        return {};
    }
    return outcome;
}

Status move_on(Context& context, types::Task& task) {
    if (task.state == TaskState::profiling) return move_profiling_on(context, task);
    if (task.state == TaskState::assigned) return give_to_next(context, task, "no_start");
    if (task.draw_at == 0) return close_bidding(context, task);
    QUERN_TRY(const Hash32 beacon, beacon_at(context, market::draw_height(task.draw_at)));
    return assign_next(context, task, beacon, "best_bid");
}

// Of a task that is profiling, open, assigned or final.
Status tick_task(Context& context, types::Task& task) {
    if (types::is_final(task.state)) return delete_task(context, task);
    QUERN_CHECK(check_due(context, task.deadline, market::draw_anchor(task)));
    QUERN_CHECK(move_on(context, task));
    store_task(context.state, task);
    return {};
}

Status tick_dispute(Context& context, types::Dispute& dispute) {
    if (dispute.closed_at != 0) return fail("dispute.closed");
    if (dispute.deadline == 0) return fail("tick.too_early", "another game of the defender's goes on");
    if (context.market_ms < dispute.deadline) return too_early(dispute.deadline);
    QUERN_TRY(auto game, types::decode_record<core::Game>(dispute.game));
    core::charge_clocks(game, context.market_ms);
    if (game.verdict == core::Verdict::none) return too_early(core::next_deadline(game));
    QUERN_TRY(auto live, load_live(context.state, dispute.claim));
    update_game(dispute, game);
    QUERN_CHECK(conclude_dispute(context, live, dispute, game));
    store_live(context.state, live);
    return {};
}

}  // namespace

Status Handler<NativeKind::tick>::check_form(const params::MarketParams&, const Payload& data) {
    if (data.object > types::TickObject::dispute) return fail("tick.unknown_object");
    if (data.id == 0) return fail("tick.unknown_object", "0");
    return {};
}

struct Handler<NativeKind::tick>::Prepared {
    std::optional<types::Task> task;
    std::optional<types::Dispute> dispute;
};

auto Handler<NativeKind::tick>::check_state(const Context& context, const Payload& data) -> Expected<Prepared> {
    Prepared prepared;
    if (data.object == types::TickObject::task) {
        QUERN_TRY(prepared.task, load_task(context.state, data.id));
    } else {
        QUERN_TRY(prepared.dispute, load_dispute(context.state, data.id));
    }
    return prepared;
}

Status Handler<NativeKind::tick>::apply(Context& context, const Payload&, Prepared&& prepared) {
    if (!prepared.task) return tick_dispute(context, *prepared.dispute);
    if (prepared.task->state == TaskState::running) return tick_claims(context, *prepared.task);
    return tick_task(context, *prepared.task);
}

QUERN_DEFINE_RUN(tick, kNothing)

}  // namespace quern::chain::exec::handlers
