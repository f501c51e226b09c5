// task_submit, cancel, bid, start, checkpoint, prove, abandon: what submitters and solvers send.
#include <algorithm>

#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/handler.h"
#include "chain/exec/handlers/lifecycle.h"
#include "chain/exec/handlers/profiling.h"
#include "chain/market/delays.h"
#include "chain/market/storage.h"
#include "chain/market/windows.h"
#include "compute/core/history.h"
#include "compute/core/profiling.h"
#include "compute/core/task_imports.h"
#include "compute/core/task_spec.h"
#include "compute/core/verification_report.h"
#include "crypto/merkle.h"
#include "vm/tensor/tensor.h"

namespace quern::chain::exec::handlers {

namespace core = compute::core;

namespace {

using types::ClaimState;
using types::NativeKind;
using types::TaskState;

// Whether the sender solves it and its deadline, of the task or of its claim, is ahead.
Status check_solver(const Context& context, const types::Address& solver, std::uint64_t deadline) {
    if (solver != context.sender) return fail("task.not_its_solver");
    if (context.market_ms >= deadline) return fail("task.deadline_passed", "market time " + std::to_string(deadline));
    return {};
}

// The sender's claim, when it is being worked on and its deadline is ahead.
Expected<LiveClaim> load_own_work(const Context& context, std::uint64_t task) {
    QUERN_TRY(auto running, load_task(context.state, task));
    QUERN_TRY(auto live, load_newest(context.state, std::move(running)));
    if (live.claim.state != ClaimState::working) return fail("task.wrong_state", types::to_string(live.claim.state));
    QUERN_CHECK(check_solver(context, live.claim.solver, live.claim.deadline));
    return live;
}

std::vector<types::TaskBid>::const_iterator bid_of(const types::Task& task, const types::Address& bidder) {
    return std::find_if(task.bids.begin(), task.bids.end(),
                        [&](const types::TaskBid& bid) { return bid.bidder == bidder; });
}

// The bid that a lower one would drive out, of equal ones the newest. The task has bids.
std::vector<types::TaskBid>::const_iterator highest_bid(const types::Task& task) {
    auto highest = task.bids.begin();
    for (auto it = task.bids.begin(); it != task.bids.end(); ++it)
        if (it->price >= highest->price) highest = it;
    return highest;
}

// The loss is the state's loss slot: an f32 scalar under the state root.
Status check_loss(const types::Task& task, const Hash32& state_root, std::uint32_t loss, std::span<const Hash32> path) {
    QUERN_TRY(const auto plan, core::TaskPlan::decode(task.spec.plan));
    vm::tensor::Tensor scalar;
    scalar.words = {loss};
    const auto proof = crypto::check_list_path(crypto::MerkleTag::state, state_root, vm::tensor::tensor_root(scalar),
                                               plan.header().loss_slot, plan.header().slot_count, path);
    if (!proof) return fail("task.bad_loss_proof", proof.error().to_string());
    return {};
}

// The earlier states that the first one takes slots from are what proof records name.
Status check_imports(const Context& context, const types::TaskSubmitPayload& spec, std::uint64_t slot_count) {
    QUERN_TRY(const auto states, core::open_imports(spec, slot_count));
    for (std::size_t i = 0; i < states.size(); ++i) {
        const types::TaskImport& import = spec.imports.list[i];
        QUERN_TRY(const auto proof, context.state.load<types::ProofRecord>(import.task, import.seat));
        if (!proof)
            return fail("task.unknown_proof", "task " + std::to_string(import.task) + " seat " +
                                                  std::to_string(import.seat) + " has settled nothing");
        if (proof->final_root != states[i])
            return fail("task.import_mismatch",
                        "the slots are not those of the final state of task " + std::to_string(import.task));
    }
    return {};
}

// 0 for what check_form or check_state refuses.
Uint256 escrow_total(const params::MarketParams& market, const types::TaskSubmitPayload& spec) {
    const auto plan = core::TaskPlan::decode(spec.plan);
    if (!plan) return {};
    const auto escrow =
        market::escrow_of(market, spec, plan->planned(spec.work.interval, spec.work.stride, spec.work.tranche));
    return escrow ? escrow->total : Uint256();
}

}  // namespace

// --- submit ----------------------------------------------------------------------------------------------------------

Status Handler<NativeKind::task_submit>::check_form(const params::MarketParams& market, const Payload& data) {
    QUERN_TRY(const auto plan, core::check_task_spec(data, market.custodians));
    if (data.work.verifiers < market.min_verifiers || data.work.verifiers > market.max_verifiers)
        return fail("task.bad_verifiers",
                    std::to_string(market.min_verifiers) + " to " + std::to_string(market.max_verifiers));
    for (const auto& [name, seconds] : core::named_windows(data))
        if (seconds < market.min_window_s || seconds > market.max_window_s)
            return fail("task.bad_window", std::string(name) + " is " + std::to_string(seconds) + "; " +
                                               std::to_string(market.min_window_s) + " to " +
                                               std::to_string(market.max_window_s) + " seconds");
    // No clock of a dispute lasts longer than a window may.
    if (market::dispute_replay_s(data, plan.planned(data.work.interval, data.work.stride, data.work.tranche)) >
        market.max_window_s)
        return fail("task.bad_stride", "a dispute could not compute the stride's states within the longest window");
    return {};
}

struct Handler<NativeKind::task_submit>::Prepared {
    market::PlannedWork plan;
    market::Escrow escrow;
};

auto Handler<NativeKind::task_submit>::check_state(const Context& context, const Payload& data) -> Expected<Prepared> {
    QUERN_TRY(const auto plan, core::TaskPlan::decode(data.plan));
    QUERN_CHECK(check_imports(context, data, plan.header().slot_count));
    auto planned = plan.planned(data.work.interval, data.work.stride, data.work.tranche);
    QUERN_TRY(auto escrow, market::escrow_of(context.market(), data, planned));
    QUERN_CHECK(check_balance(context, escrow.total));
    return Prepared{std::move(planned), std::move(escrow)};
}

Status Handler<NativeKind::task_submit>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    const auto& [plan, escrow] = prepared;
    QUERN_CHECK(take_from_account(context, context.sender, escrow.total));
    QUERN_TRY(auto globals, load_globals(context.state));
    types::Task task;
    task.id = globals.next_task++;
    store_globals(context.state, globals);
    task.submitter = context.sender;
    task.spec = market::kept_submission(data);
    market::set_plan(task, plan);
    task.escrow = escrow.total;
    task.deposit = escrow.storage_deposit;
    task.custodians = static_cast<std::uint8_t>(context.market().custodians);
    task.custody_fee = escrow.custody_fee;
    task.start_root = data.init_root;
    emit(context, types::KindGroup::tasks, events::TaskSubmitted{task.id, task.submitter, task.escrow, task.deposit});
    if (core::is_profiled(data)) {
        begin_profiling(context, task);
    } else {
        open_bidding(context, task, "submitted");
    }
    store_task(context.state, task);
    return {};
}

// --- cancel ----------------------------------------------------------------------------------------------------------

Status Handler<NativeKind::task_cancel>::check_form(const params::MarketParams&, const Payload& data) {
    return check_task_id(data.task);
}

struct Handler<NativeKind::task_cancel>::Prepared {
    types::Task task;
};

auto Handler<NativeKind::task_cancel>::check_state(const Context& context, const Payload& data) -> Expected<Prepared> {
    QUERN_TRY(auto task, load_task(context.state, data.task));
    if (task.submitter != context.sender) return fail("task.not_its_submitter");
    if (task.state != TaskState::open) return fail("task.wrong_state", types::to_string(task.state));
    if (!task.bids.empty()) return fail("task.has_bids");
    return Prepared{std::move(task)};
}

Status Handler<NativeKind::task_cancel>::apply(Context& context, const Payload&, Prepared&& prepared) {
    auto& task = prepared.task;
    QUERN_CHECK(close_task(context, task, TaskState::cancelled, "by_submitter"));
    store_task(context.state, task);
    return {};
}

// --- bid -------------------------------------------------------------------------------------------------------------

Status Handler<NativeKind::task_bid>::check_form(const params::MarketParams&, const Payload& data) {
    if (data.price.is_zero()) return fail("bid.zero_price");
    if (std::max(data.speed_class, data.bandwidth_class) > market::kMaxClass)
        return fail("bid.bad_class", "at most " + std::to_string(market::kMaxClass));
    return check_task_id(data.task);
}

struct Handler<NativeKind::task_bid>::Prepared {
    types::Task task;
    types::RoleBond bond;
};

auto Handler<NativeKind::task_bid>::check_state(const Context& context, const Payload& data) -> Expected<Prepared> {
    QUERN_TRY(auto task, load_task(context.state, data.task));
    if (task.state != TaskState::open) return fail("task.wrong_state", types::to_string(task.state));
    if (context.market_ms >= market::bids_until(task)) return fail("task.deadline_passed", "bidding is over");
    if (data.seat >= task.spec.work.solvers)
        return fail("bid.no_such_seat", "the task has " + std::to_string(task.spec.work.solvers));
    if (const auto& least = task.spec.classes; data.speed_class < least.speed || data.bandwidth_class < least.bandwidth)
        return fail("bid.below_class", "the task asks for speed " + std::to_string(least.speed) + ", bandwidth " +
                                           std::to_string(least.bandwidth));
    if (data.price > task.spec.money.price_cap)
        return fail("bid.above_cap", "cap " + task.spec.money.price_cap.to_decimal());
    if (context.sender == task.submitter) return fail("bid.by_submitter");
    if (std::find(task.barred.begin(), task.barred.end(), context.sender) != task.barred.end())
        return fail("bid.barred", "lost this task before");
    QUERN_TRY(auto bond, load_bond(context.state, types::Role::solver, context.sender));
    const auto own = bid_of(task, context.sender);
    const Uint256 needed = market::seat_bond(context.market(), task);
    // What its bid before has locked becomes a part of the seat's lock.
    const Uint256 cover = free_part(bond) + (own == task.bids.end() ? Uint256() : own->deposit);
    if (cover < needed)
        return fail("bond.insufficient", "free " + cover.to_decimal() + ", need " + needed.to_decimal());
    if (own != task.bids.end()) {
        if (data.price >= own->price) return fail("bid.not_lower");
    } else if (task.bids.size() >= context.market().max_bids && data.price >= highest_bid(task)->price) {
        return fail("bid.too_many", "must be below " + highest_bid(task)->price.to_decimal());
    }
    return Prepared{std::move(task), std::move(bond)};
}

Status Handler<NativeKind::task_bid>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& task = prepared.task;
    types::TaskBid placed{context.sender,       data.seat,      data.price,           data.speed_class,
                          data.bandwidth_class, context.height, prepared.bond.bonded, {}};
    if (const auto own = bid_of(task, context.sender); own != task.bids.end()) {
        placed.deposit = own->deposit;
        task.bids.erase(own);
    } else {
        placed.deposit = market::bid_deposit(context.market(), task);
        QUERN_CHECK(lock_bond(context, task.id, types::Role::solver, context.sender, placed.deposit));
    }
    // Whoever offers less takes the place of the highest: places cannot be filled with bids that are not meant.
    if (task.bids.size() >= context.market().max_bids) {
        const auto highest = highest_bid(task);
        QUERN_CHECK(unlock_bond(context, task.id, types::Role::solver, highest->bidder, highest->deposit));
        emit(context, types::KindGroup::tasks, events::BidDisplaced{task.id, highest->bidder, context.sender});
        task.bids.erase(highest);
    }
    task.bids.push_back(std::move(placed));
    store_task(context.state, task);
    emit(context, types::KindGroup::tasks, events::BidPlaced{task.id, context.sender, data.seat, data.price});
    return {};
}

// --- start -----------------------------------------------------------------------------------------------------------

Status Handler<NativeKind::task_start>::check_form(const params::MarketParams&, const Payload& data) {
    return check_task_id(data.task);
}

struct Handler<NativeKind::task_start>::Prepared {
    types::Task task;
};

auto Handler<NativeKind::task_start>::check_state(const Context& context, const Payload& data) -> Expected<Prepared> {
    QUERN_TRY(auto task, load_task(context.state, data.task));
    if (task.state != TaskState::assigned) return fail("task.wrong_state", types::to_string(task.state));
    QUERN_CHECK(check_solver(context, task.seats[0].solver, task.deadline));
    return Prepared{std::move(task)};
}

Status Handler<NativeKind::task_start>::apply(Context& context, const Payload&, Prepared&& prepared) {
    auto& task = prepared.task;
    QUERN_CHECK(release_bids(context, task));
    QUERN_CHECK(begin_claim(context, task, task.start_root));
    store_task(context.state, task);
    return {};
}

// --- checkpoint ------------------------------------------------------------------------------------------------------

Status Handler<NativeKind::task_checkpoint>::check_form(const params::MarketParams&, const Payload& data) {
    return check_task_id(data.task);
}

struct Handler<NativeKind::task_checkpoint>::Prepared {
    LiveClaim live;
};

auto Handler<NativeKind::task_checkpoint>::check_state(const Context& context, const Payload& data)
    -> Expected<Prepared> {
    QUERN_TRY(auto live, load_own_work(context, data.task));
    const auto& claim = live.claim;
    const auto& spec = live.task.spec;
    const std::uint64_t last = market::stretch_of(live).last();
    const std::uint64_t expected = claim.step + spec.work.interval;
    if (expected > last || data.step != expected)
        return fail("task.wrong_step", "expected " + std::to_string(expected) + " of " + std::to_string(last) +
                                           ", got " + std::to_string(data.step));
    QUERN_CHECK(check_loss(live.task, data.state_root, data.loss, data.loss_path));
    return Prepared{std::move(live)};
}

Status Handler<NativeKind::task_checkpoint>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& claim = prepared.live.claim;
    const auto& spec = prepared.live.task.spec;
    const market::Stretch stretch = market::stretch_of(prepared.live);
    claim.step = data.step;
    claim.checkpoint_root = data.state_root;
    claim.checkpoint_content = data.content;
    claim.loss = data.loss;
    if (data.step == stretch.before + spec.work.interval) claim.first_loss = data.loss;
    const bool last = data.step == stretch.last();
    claim.deadline = context.market_ms + market::in_ms(last ? spec.windows.prove_s : spec.windows.heartbeat_s);
    store_live(context.state, prepared.live);
    emit(context, types::KindGroup::tasks, events::CheckpointPosted{data.task, data.step, data.state_root, data.loss});
    return {};
}

// --- prove -----------------------------------------------------------------------------------------------------------

Status Handler<NativeKind::task_prove>::check_form(const params::MarketParams& market, const Payload& data) {
    if (data.custody_content.is_zero() != (market.custodians == 0))
        return fail("prove.custody_content", market.custodians == 0 ? "there are no custodians to name a manifest for"
                                                                    : "custodians keep what a manifest names");
    return check_task_id(data.task);
}

struct Handler<NativeKind::task_prove>::Prepared {
    LiveClaim live;
};

auto Handler<NativeKind::task_prove>::check_state(const Context& context, const Payload& data) -> Expected<Prepared> {
    QUERN_TRY(auto live, load_own_work(context, data.task));
    const auto& claim = live.claim;
    const auto& spec = live.task.spec;
    const market::Stretch stretch = market::stretch_of(live);
    if (core::claims_data(spec) == data.claimed_content.is_zero())
        return fail("prove.claimed_content", core::claims_data(spec) ? "in tolerance mode a proof names the checkpoints"
                                                                     : "the task names all its data");
    QUERN_CHECK(
        core::check_largest(data.largest, spec.work.largest, market::segment_count(stretch.steps, spec.work.interval)));
    // The proof may take the place of the last heartbeat.
    if (claim.step + spec.work.interval < stretch.last())
        return fail("task.wrong_step", "at " + std::to_string(claim.step) + " of " + std::to_string(stretch.last()));
    if (claim.step == stretch.last() && data.final_root != claim.checkpoint_root)
        return fail("task.final_root_differs");
    const std::uint64_t strides = market::stride_count(stretch.steps, spec.work.stride);
    if (const auto first = core::check_history_leaf(data.history_root, claim.start_root, 0, strides, data.initial_path);
        !first)
        return fail("task.bad_initial_proof", first.error().to_string());
    if (const auto last =
            core::check_history_leaf(data.history_root, data.final_root, strides, strides, data.final_path);
        !last)
        return fail("task.bad_final_proof", last.error().to_string());
    QUERN_CHECK(check_loss(live.task, data.final_root, data.loss, data.loss_path));
    return Prepared{std::move(live)};
}

Status Handler<NativeKind::task_prove>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& claim = prepared.live.claim;
    auto& task = prepared.live.task;
    const market::Stretch stretch = market::stretch_of(prepared.live);
    claim.step = stretch.last();
    claim.loss = data.loss;
    if (task.spec.work.interval == stretch.steps && claim.first_loss == 0) claim.first_loss = data.loss;
    claim.history_root = data.history_root;
    claim.history_content = data.history_content;
    claim.custody_content = data.custody_content;
    claim.claimed_content = data.claimed_content;
    claim.largest = data.largest;
    claim.final_root = data.final_root;
    claim.proved_since = context.market_ms;
    await_draw(context, claim, "proved");
    QUERN_CHECK(begin_next(context, task, claim));
    store_live(context.state, prepared.live);
    return {};
}

// --- abandon ---------------------------------------------------------------------------------------------------------

Status Handler<NativeKind::task_abandon>::check_form(const params::MarketParams&, const Payload& data) {
    return check_task_id(data.task);
}

struct Handler<NativeKind::task_abandon>::Prepared {
    types::Task task;               // when it is assigned
    std::optional<LiveClaim> live;  // when it is worked on
};

auto Handler<NativeKind::task_abandon>::check_state(const Context& context, const Payload& data) -> Expected<Prepared> {
    QUERN_TRY(auto task, load_task(context.state, data.task));
    if (task.state == TaskState::assigned) {
        if (task.seats[0].solver != context.sender) return fail("task.not_its_solver");
        return Prepared{std::move(task), std::nullopt};
    }
    QUERN_TRY(auto live, load_newest(context.state, std::move(task)));
    if (live.claim.state != ClaimState::working) return fail("task.wrong_state", types::to_string(live.claim.state));
    if (live.claim.solver != context.sender) return fail("task.not_its_solver");
    return Prepared{{}, std::move(live)};
}

Status Handler<NativeKind::task_abandon>::apply(Context& context, const Payload&, Prepared&& prepared) {
    if (prepared.live) {
        QUERN_CHECK(dismiss_worker(context, *prepared.live, "abandoned"));
        store_live(context.state, *prepared.live);
        return {};
    }
    QUERN_CHECK(give_to_next(context, prepared.task, "abandoned"));
    store_task(context.state, prepared.task);
    return {};
}

QUERN_DEFINE_RUN(task_submit, escrow_total(market, data))
QUERN_DEFINE_RUN(task_cancel, kNothing)
QUERN_DEFINE_RUN(task_bid, kNothing)
QUERN_DEFINE_RUN(task_start, kNothing)
QUERN_DEFINE_RUN(task_checkpoint, kNothing)
QUERN_DEFINE_RUN(task_prove, kNothing)
QUERN_DEFINE_RUN(task_abandon, kNothing)

}  // namespace quern::chain::exec::handlers
