#include "chain/exec/handlers/profiling.h"

#include <algorithm>
#include <functional>

#include "chain/exec/handlers/draw.h"
#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/handler.h"
#include "chain/exec/handlers/lifecycle.h"
#include "chain/market/delays.h"
#include "chain/market/escrow.h"
#include "compute/core/profiling.h"
#include "crypto/content_id.h"

namespace quern::chain::exec::handlers {

namespace core = compute::core;

namespace {

using types::NativeKind;
using types::Role;
using types::TaskProfiler;
using types::TaskState;

// One replay alone nobody has checked.
constexpr std::size_t kMinPaid = 2;

std::size_t needed(const types::Task& task) { return core::agreeing_profilers(task.spec.profiling.profilers); }

// The profiled segments, trained and replayed.
DrawTerms profiler_terms(const Context& context, const types::Task& task) {
    const Uint256 work = market::profiled_work(market::work_of(task));
    return {market::anchor_of(task.draw_at, context.height),
            market::profiler_bond(context.market(), task),
            replay_demand(task, work, task.spec.profiling.window_s),
            {task.submitter}};
}

Status release_all(Context& context, types::Task& task) {
    for (TaskProfiler& profiler : task.profiling.profilers) {
        if (profiler.locked.is_zero()) continue;
        const Uint256 locked = std::exchange(profiler.locked, Uint256());
        QUERN_CHECK(unlock_bond(context, task.id, Role::verifier, profiler.address, locked));
    }
    return {};
}

// Nobody finds its limits: the submitter has back what is not paid.
Status give_up(Context& context, types::Task& task, std::string_view reason) {
    QUERN_CHECK(release_all(context, task));
    task.profiling = {};
    return close_task(context, task, TaskState::expired, reason);
}

Status draw_profilers(Context& context, types::Task& task) {
    QUERN_TRY(const Hash32 beacon, beacon_at(context, market::draw_height(task.draw_at)));
    QUERN_TRY(const auto drawn, draw_bonds(context, Role::verifier, profiler_terms(context, task),
                                           draw_hash("profilers", beacon, task.id, 0), task.spec.profiling.profilers,
                                           params::kMaxDrawTries));
    task.draw_at = 0;
    if (drawn.size() < needed(task)) return give_up(context, task, "no_profilers");
    task.profiling.beacon = draw_hash("profile", beacon, task.id, 0);
    for (const types::Address& address : drawn) {
        task.profiling.profilers.push_back({address, {}, {}, {}, {}});
        emit(context, types::KindGroup::verification, events::ProfilerDrawn{task.id, address});
    }
    enter(context, task, TaskState::profiling, context.market_ms + market::in_ms(task.spec.profiling.window_s),
          "profilers_drawn");
    return {};
}

bool is_sealed(const TaskProfiler& profiler) { return !profiler.commitment.is_zero(); }
bool is_shown(const TaskProfiler& profiler) { return !profiler.replay.is_zero(); }

// The fee alone makes it worth while: nobody has agreed to the task's price, so that who leaves it alone loses nothing.
void drop_unsealed(types::Task& task) { std::erase_if(task.profiling.profilers, std::not_fn(is_sealed)); }

// Who has seen what others measured must not choose by its silence.
Status dismiss_unshown(Context& context, types::Task& task) {
    for (TaskProfiler& profiler : task.profiling.profilers)
        if (!is_shown(profiler))
            QUERN_CHECK(slash_part(context, task, Role::verifier, profiler.address,
                                   std::exchange(profiler.locked, Uint256()), context.market().no_reveal_slash_percent,
                                   "no_reveal"));
    std::erase_if(task.profiling.profilers, std::not_fn(is_shown));
    return {};
}

// Those whose replay more than half of all who have shown one have, and two at least: it is a function of the task, so
// whoever has another one has not made it.
std::vector<TaskProfiler> agreeing(const types::Task& task) {
    const auto& all = task.profiling.profilers;
    for (const TaskProfiler& one : all) {
        std::vector<TaskProfiler> same;
        std::copy_if(all.begin(), all.end(), std::back_inserter(same),
                     [&](const TaskProfiler& other) { return other.replay == one.replay; });
        if (same.size() >= kMinPaid && 2 * same.size() > all.size()) return same;
    }
    return {};
}

// The limits are the data tensor before the last, as if the submission had named them.
Status set_limits(Context& context, types::Task& task, Bytes limits) {
    task.profiling.profilers.clear();
    task.profiling.revealing = false;
    task.spec.data_roots[task.spec.data_roots.size() - 2] = crypto::content_id_of(limits);
    emit(context, types::KindGroup::tasks, events::LimitsFound{task.id, limits});
    task.profiling.limits = std::move(limits);
    open_bidding(context, task, "profiled");
    return {};
}

// What nobody is paid of the fees is the submitter's. Who has worked is paid where too few did for limits, too: else
// one who shows something else, or nothing, takes what the others have measured for nothing, as often as it likes.
Status conclude_reveals(Context& context, types::Task& task) {
    const std::vector<TaskProfiler> same = agreeing(task);
    const Uint256 fee = market::profiler_fee(task);
    const Uint256 all = fee * Uint256(task.spec.profiling.profilers);
    for (const TaskProfiler& profiler : same)
        QUERN_CHECK(pay_from_escrow(context, task, profiler.address, fee, "profiler_fee"));
    if (task.profiling.profilers.size() < needed(task)) return give_up(context, task, "profilers_silent");
    if (same.size() < needed(task)) return give_up(context, task, "profiles_differ");
    QUERN_CHECK(release_all(context, task));
    const std::uint64_t segments = market::segment_count(task.steps, task.spec.work.interval);
    auto limits = core::limits_from(same, core::terms_of(task.spec.profiling, segments));
    if (!limits) return give_up(context, task, limits.error().name);
    QUERN_CHECK(pay_from_escrow(context, task, task.submitter, all - fee * Uint256(same.size()), "refund"));
    return set_limits(context, task, std::move(*limits));
}

// Too few for limits show theirs all the same: a submitter that gives its data to these alone would have their work,
// and their bonds bound meanwhile, for nothing.
Status conclude_commits(Context& context, types::Task& task) {
    if (task.profiling.profilers.size() < kMinPaid) return give_up(context, task, "profilers_silent");
    task.profiling.revealing = true;
    enter(context, task, TaskState::profiling, context.market_ms + market::in_ms(task.spec.windows.verify_s),
          "profiles_committed");
    return {};
}

}  // namespace

void begin_profiling(Context& context, types::Task& task) {
    task.draw_at = context.height;
    enter(context, task, TaskState::profiling, market::draw_due(context.market_ms), "submitted");
}

Status move_profiling_on(Context& context, types::Task& task) {
    if (task.draw_at != 0) return draw_profilers(context, task);
    if (!task.profiling.revealing) {
        drop_unsealed(task);
        return conclude_commits(context, task);
    }
    QUERN_CHECK(dismiss_unshown(context, task));
    return conclude_reveals(context, task);
}

namespace {

struct OwnProfile {
    types::Task task;
    std::size_t place = 0;
};

Expected<OwnProfile> load_own(const Context& context, std::uint64_t id, bool revealing) {
    QUERN_TRY(auto task, load_task(context.state, id));
    if (task.state != TaskState::profiling || task.draw_at != 0 || task.profiling.revealing != revealing)
        return fail("task.wrong_state",
                    task.state == TaskState::profiling ? task.reason : types::to_string(task.state));
    if (context.market_ms >= task.deadline)
        return fail("task.deadline_passed", "market time " + std::to_string(task.deadline));
    const auto& profilers = task.profiling.profilers;
    const auto own = std::find_if(profilers.begin(), profilers.end(),
                                  [&](const TaskProfiler& each) { return each.address == context.sender; });
    if (own == profilers.end()) return fail("profile.not_drawn");
    const auto place = static_cast<std::size_t>(own - profilers.begin());
    return OwnProfile{std::move(task), place};
}

}  // namespace

// --- profile_commit --------------------------------------------------------------------------------------------------

Status Handler<NativeKind::profile_commit>::check_form(const params::MarketParams&, const Payload& data) {
    QUERN_CHECK(check_task_id(data.task));
    if (data.commitment.is_zero()) return fail("profile.zero_commitment");
    return {};
}

struct Handler<NativeKind::profile_commit>::Prepared {
    OwnProfile own;
};

auto Handler<NativeKind::profile_commit>::check_state(const Context& context, const Payload& data)
    -> Expected<Prepared> {
    QUERN_TRY(auto own, load_own(context, data.task, false));
    if (is_sealed(own.task.profiling.profilers[own.place])) return fail("profile.already_committed");
    QUERN_TRY(const auto bond, load_bond(context.state, Role::verifier, context.sender));
    if (const Uint256 needs = market::profiler_bond(context.market(), own.task); free_part(bond) < needs)
        return fail("bond.insufficient", "free " + free_part(bond).to_decimal() + ", need " + needs.to_decimal());
    return Prepared{std::move(own)};
}

Status Handler<NativeKind::profile_commit>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& [task, place] = prepared.own;
    TaskProfiler& profiler = task.profiling.profilers[place];
    profiler.commitment = data.commitment;
    profiler.locked = market::profiler_bond(context.market(), task);
    QUERN_CHECK(lock_bond(context, task.id, Role::verifier, context.sender, profiler.locked));
    emit(context, types::KindGroup::verification, events::ProfileCommitted{data.task, context.sender, data.commitment});
    const auto& all = task.profiling.profilers;
    if (std::all_of(all.begin(), all.end(), is_sealed)) QUERN_CHECK(conclude_commits(context, task));
    store_task(context.state, task);
    return {};
}

// --- profile_reveal --------------------------------------------------------------------------------------------------

Status Handler<NativeKind::profile_reveal>::check_form(const params::MarketParams&, const Payload& data) {
    return check_task_id(data.task);
}

struct Handler<NativeKind::profile_reveal>::Prepared {
    OwnProfile own;
    compute::tolerance::Profile profile;
};

auto Handler<NativeKind::profile_reveal>::check_state(const Context& context, const Payload& data)
    -> Expected<Prepared> {
    QUERN_TRY(auto own, load_own(context, data.task, true));
    const TaskProfiler& profiler = own.task.profiling.profilers[own.place];
    if (is_shown(profiler)) return fail("profile.already_revealed");
    QUERN_TRY(auto profile, core::decode_profile(data.measures, own.task.spec.profiling.segments));
    if (core::profile_commitment(context.sender, data.measures, data.salt) != profiler.commitment)
        return fail("profile.wrong_opening");
    return Prepared{std::move(own), std::move(profile)};
}

Status Handler<NativeKind::profile_reveal>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& [task, place] = prepared.own;
    TaskProfiler& profiler = task.profiling.profilers[place];
    profiler.replay = core::replay_hash(prepared.profile);
    profiler.bounds = core::bounds_of(prepared.profile);
    emit(context, types::KindGroup::verification, events::ProfileRevealed{data.task, context.sender, data.measures});
    const auto& all = task.profiling.profilers;
    if (std::all_of(all.begin(), all.end(), is_shown)) QUERN_CHECK(conclude_reveals(context, task));
    store_task(context.state, task);
    return {};
}

QUERN_DEFINE_RUN(profile_commit, kNothing)
QUERN_DEFINE_RUN(profile_reveal, kNothing)

}  // namespace quern::chain::exec::handlers
