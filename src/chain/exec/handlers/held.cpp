// task_accept, data_challenge, data_answer: the part of a solver's reward that is held until its result was accepted or
// its retention is over, and the question for a piece of the last state that it can be lost by. Rules: doc/market.md,
// "The held share".
#include <utility>

#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/handler.h"
#include "chain/exec/handlers/lifecycle.h"
#include "chain/market/delays.h"
#include "compute/core/state_piece.h"
#include "compute/core/task_plan.h"
#include "vm/tensor/tensor.h"

namespace quern::chain::exec::handlers {

namespace core = compute::core;

namespace {

using types::NativeKind;
using types::TaskState;

// The sender's task, when a share of it is held and no question is open.
Expected<types::Task> load_held(const Context& context, std::uint64_t id) {
    QUERN_TRY(auto task, load_task(context.state, id));
    if (task.submitter != context.sender) return fail("task.not_its_submitter");
    if (task.state != TaskState::settled) return fail("task.wrong_state", types::to_string(task.state));
    if (task.held.is_zero()) return fail("data.nothing_held");
    if (!task.asked.empty())
        return fail("data.question_open", "until market time " + std::to_string(task.asked[0].until));
    return task;
}

}  // namespace

Status release_held(Context& context, types::Task& task) {
    if (task.held.is_zero()) return {};
    return pay_from_escrow(context, task, task.seats[0].solver, std::exchange(task.held, Uint256()), "held_reward");
}

Status forfeit_held(Context& context, types::Task& task) {
    const types::DataChallenge asked = task.asked[0];
    task.asked.clear();
    QUERN_CHECK(pay_from_escrow(context, task, task.submitter, std::exchange(task.held, Uint256()), "held_forfeited"));
    return pay_from_escrow(context, task, task.submitter, asked.prepaid, "data_prepaid");
}

// --- accept ----------------------------------------------------------------------------------------------------------

Status Handler<NativeKind::task_accept>::check_form(const params::MarketParams&, const Payload& data) {
    return check_task_id(data.task);
}

struct Handler<NativeKind::task_accept>::Prepared {
    types::Task task;
};

auto Handler<NativeKind::task_accept>::check_state(const Context& context, const Payload& data) -> Expected<Prepared> {
    QUERN_TRY(auto task, load_held(context, data.task));
    return Prepared{std::move(task)};
}

Status Handler<NativeKind::task_accept>::apply(Context& context, const Payload&, Prepared&& prepared) {
    QUERN_CHECK(release_held(context, prepared.task));
    store_task(context.state, prepared.task);
    return {};
}

// --- data_challenge --------------------------------------------------------------------------------------------------

Status Handler<NativeKind::data_challenge>::check_form(const params::MarketParams&, const Payload& data) {
    return check_task_id(data.task);
}

struct Handler<NativeKind::data_challenge>::Prepared {
    types::Task task;
};

auto Handler<NativeKind::data_challenge>::check_state(const Context& context, const Payload& data)
    -> Expected<Prepared> {
    QUERN_TRY(auto task, load_held(context, data.task));
    // Else questions could hold the share for ever.
    if (const std::uint64_t end = market::retention_end(context.market(), task); context.market_ms >= end)
        return fail("task.deadline_passed", "the retention ended at market time " + std::to_string(end));
    // Who answers pays first, also where somebody else is quicker.
    if (task.questions >= params::kMaxQuestions) return fail("data.too_many_questions", std::to_string(task.questions));
    QUERN_TRY(const auto plan, core::TaskPlan::decode(task.spec.plan));
    if (data.slot >= plan.header().slot_count)
        return fail("data.no_such_slot", "the state has " + std::to_string(plan.header().slot_count));
    QUERN_CHECK(check_balance(context, context.market().dispute_cost));  // prepays an answer
    return Prepared{std::move(task)};
}

Status Handler<NativeKind::data_challenge>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& task = prepared.task;
    const types::DataChallenge asked{data.slot, data.tile, context.market().dispute_cost,
                                     context.market_ms + market::in_ms(task.spec.windows.verify_s)};
    QUERN_CHECK(take_from_account(context, context.sender, asked.prepaid));
    task.escrow += asked.prepaid;
    task.asked = {asked};
    ++task.questions;
    store_task(context.state, task);
    emit(context, types::KindGroup::disputes,
         events::DataChallenged{task.id, context.sender, asked.slot, asked.tile, asked.prepaid, asked.until});
    return {};
}

// --- data_answer -----------------------------------------------------------------------------------------------------

Status Handler<NativeKind::data_answer>::check_form(const params::MarketParams&, const Payload& data) {
    if (data.tile.size() != vm::tensor::kTileBytes)
        return fail("data.bad_answer", "a tile has " + std::to_string(vm::tensor::kTileBytes) + " bytes");
    return check_task_id(data.task);
}

struct Handler<NativeKind::data_answer>::Prepared {
    types::Task task;
};

auto Handler<NativeKind::data_answer>::check_state(const Context& context, const Payload& data) -> Expected<Prepared> {
    QUERN_TRY(auto task, load_task(context.state, data.task));
    if (task.asked.empty()) return fail("data.no_question");
    const types::DataChallenge& asked = task.asked[0];
    if (context.market_ms >= asked.until)
        return fail("task.deadline_passed", "market time " + std::to_string(asked.until));
    QUERN_TRY(const auto plan, core::TaskPlan::decode(task.spec.plan));
    // A settled task's next stretch would begin with its last state.
    QUERN_CHECK(core::check_piece(task.start_root, plan.header().slot_count, asked.slot, asked.tile, data));
    return Prepared{std::move(task)};
}

Status Handler<NativeKind::data_answer>::apply(Context& context, const Payload&, Prepared&& prepared) {
    auto& task = prepared.task;
    const types::DataChallenge asked = task.asked[0];
    task.asked.clear();
    QUERN_CHECK(pay_from_escrow(context, task, context.sender, asked.prepaid, "data_answer"));
    store_task(context.state, task);
    emit(context, types::KindGroup::disputes, events::DataAnswered{task.id, context.sender, asked.slot, asked.tile});
    return {};
}

QUERN_DEFINE_RUN(task_accept, kNothing)
QUERN_DEFINE_RUN(data_challenge, market.dispute_cost)
QUERN_DEFINE_RUN(data_answer, kNothing)

}  // namespace quern::chain::exec::handlers
