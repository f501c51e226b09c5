// tick: moves on whatever waits past its deadline. Anybody may send it; a tick that is not due fails.
#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/handler.h"
#include "chain/exec/handlers/lifecycle.h"
#include "chain/exec/handlers/resolution.h"
#include "chain/market/delays.h"

namespace quern::chain::exec::handlers {
namespace {

using types::NativeKind;
using types::TaskState;

Status too_early(std::uint64_t due) { return fail("tick.too_early", "due at market time " + std::to_string(due)); }

// Charges the clocks of the task's open games; those that ran out are decided.
Status tick_disputes(Context& context, types::Task& task) {
    if (task.voided && task.open_disputes == 0) return continue_voided(context, task);
    bool any = false;
    QUERN_TRY(const auto open, open_disputes(context, task));
    for (const auto& seen : open) {
        if (task.state != TaskState::disputed) break;
        if (seen.deadline > context.market_ms) continue;
        QUERN_TRY(auto dispute, load_dispute(context.state, seen.id));  // the end of one before may have closed it
        if (dispute.closed_at != 0) continue;
        QUERN_TRY(auto game, types::decode_record<core::Game>(dispute.game));
        core::charge_clocks(game, context.market_ms);
        if (game.verdict == core::Verdict::none) continue;
        update_game(dispute, game);
        QUERN_CHECK(conclude_dispute(context, task, dispute, game));
        any = true;
    }
    return any ? Status{} : too_early(task.deadline);
}

// A final task leaves the state with its disputes after the retention period; the storage deposit goes back.
Status delete_task(Context& context, types::Task& task) {
    const std::uint64_t due = task.since + market::in_ms(context.market().retention_s);
    if (context.market_ms < due) return too_early(due);
    pay_account(context, task.submitter, task.escrow);
    emit(context, types::KindGroup::tasks, events::Paid{task.id, task.submitter, task.escrow, "storage_deposit"});
    for (const std::uint64_t id : task.disputes) context.state.erase_native(types::key_of<types::Dispute>(id));
    context.state.erase_native(types::key_of<types::Task>(task.id));
    emit(context, types::KindGroup::tasks, events::TaskDeleted{task.id});
    return {};
}

Status move_on(Context& context, types::Task& task) {
    switch (task.state) {
        case TaskState::open: {
            if (task.draw_at == 0) return close_bidding(context, task);
            QUERN_TRY(const Hash32 beacon, beacon_at(context, market::draw_height(task.draw_at)));
            return assign_next(context, task, beacon, "best_bid");
        }
        case TaskState::assigned:
            return give_to_next(context, task, "no_start");
        case TaskState::training:
            return give_to_next(context, task, task.step == task.spec.steps ? "no_proof" : "no_heartbeat");
        case TaskState::proved:
            return draw_verifiers(context, task);
        case TaskState::custody:
            return conclude_custody(context, task, true);
        case TaskState::committing:
            return conclude_committing(context, task, true);
        case TaskState::revealing:
            return conclude_revealing(context, task, true);
        case TaskState::challenge:
            return settle(context, task);
        case TaskState::disputed:
            return tick_disputes(context, task);
        case TaskState::settled:
        case TaskState::cancelled:
        case TaskState::expired:
        case TaskState::failed:
            break;
    }
    return fail("task.wrong_state", types::to_string(task.state));
}

Status tick_task(Context& context, types::Task& task) {
    if (types::is_final(task.state)) return delete_task(context, task);
    if (context.market_ms < task.deadline) return too_early(task.deadline);
    if (market::awaits_draw(task) && context.height < market::draw_height(task.draw_at))
        return fail("tick.too_early", "due at height " + std::to_string(market::draw_height(task.draw_at)));
    QUERN_CHECK(move_on(context, task));
    store_task(context.state, task);
    return {};
}

Status tick_dispute(Context& context, types::Dispute& dispute) {
    if (dispute.closed_at != 0) return fail("dispute.closed");
    if (context.market_ms < dispute.deadline) return too_early(dispute.deadline);
    QUERN_TRY(auto game, types::decode_record<core::Game>(dispute.game));
    core::charge_clocks(game, context.market_ms);
    if (game.verdict == core::Verdict::none) return too_early(core::next_deadline(game));
    QUERN_TRY(auto task, load_task(context.state, dispute.task));
    update_game(dispute, game);
    QUERN_CHECK(conclude_dispute(context, task, dispute, game));
    store_task(context.state, task);
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
    return prepared.task ? tick_task(context, *prepared.task) : tick_dispute(context, *prepared.dispute);
}

QUERN_DEFINE_RUN(tick, kNothing)

}  // namespace quern::chain::exec::handlers
