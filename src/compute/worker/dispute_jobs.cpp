#include "compute/worker/dispute_jobs.h"

#include <algorithm>

#include "base/log.h"
#include "compute/core/claims.h"
#include "compute/worker/kept_states.h"

namespace quern::compute::worker {
namespace {

using log::Category;

constexpr unsigned kRefusals = 3;  // of a checkpoint, before an earlier one is replayed from

}  // namespace

std::optional<PlayOrder> DisputeJobs::claim_next(std::shared_ptr<Playing>& playing) {
    const MutexLock lock(mutex_);
    if (auto orders = board_.take()) {
        orders_ = std::move(*orders);
        tried_.clear();
        for (auto it = playing_.begin(); it != playing_.end();)
            it = orders_.contains(it->first) ? std::next(it) : playing_.erase(it);
        std::set<std::uint64_t> tasks;
        for (const auto& [id, order] : orders_) tasks.insert(order.live->task.id);
        std::erase_if(shared_, [&](const auto& entry) { return !tasks.contains(entry.first); });
    }
    const PlayOrder* next = nullptr;
    for (const auto& [id, order] : orders_) {
        if (!order.play.due || busy_.contains(order.live->task.id) || tried_.contains(id)) continue;
        if (board_.facts(order) != nullptr) continue;
        if (next == nullptr || order.play.deadline < next->play.deadline) next = &order;
    }
    if (next == nullptr) return std::nullopt;
    busy_.insert(next->live->task.id);
    if (const auto known = playing_.find(next->id()); known != playing_.end()) playing = known->second;
    return *next;
}

void DisputeJobs::release(const PlayOrder& order, std::shared_ptr<Playing> playing, bool done) {
    {
        const MutexLock lock(mutex_);
        busy_.erase(order.live->task.id);
        const auto wanted = orders_.find(order.id());
        if (wanted != orders_.end()) {
            // One game's is part of what the task was given room for. Another that finds none begins anew each time.
            const auto takes_it = [&](const auto& other) {
                return other.second->inputs == playing->inputs && other.second->room == nullptr;
            };
            if (playing != nullptr &&
                (playing->room != nullptr || std::none_of(playing_.begin(), playing_.end(), takes_it)))
                playing_[order.id()] = std::move(playing);
            // A position that came meanwhile has not been tried.
            if (!done && wanted->second.same_job(order)) tried_.insert(order.id());
        }
    }
    board_.wake();  // another thread may go on with this game
}

bool DisputeJobs::work(Context& context) {
    std::shared_ptr<Playing> playing;
    const auto order = claim_next(playing);
    if (!order) return false;
    board_.wake();  // another thread, for the next game
    // Not by another position: what was executed for this one serves there too.
    const Cancellation cancellation([&] {
        return context.stop || !board_.has(order->id(), [](const PlayOrder& wanted) { return wanted.play.due; });
    });
    Expected<core::Move> move = core::Move{};
    if (playing == nullptr) {
        auto begun = begin(context, *order);
        if (begun)
            playing = std::move(*begun);
        else
            move = fail(begun.error());
    }
    if (move && playing != nullptr) {
        playing->context = &context;
        playing->cancellation = &cancellation;
        playing->data->bind(*context.node, &cancellation);
        move = playing->strategy->next_move(*order->game, order->play.side, order->post.get(), &cancellation);
        // A machine that computes wrongly believes itself, and shows the leaf that it loses by.
        if (playing->fault.fault == Fault::other_flip && order->game->phase == core::Phase::leaf) {
            if (auto witness = playing->strategy->leaf_witness(*order->game, &cancellation))
                move = core::Move{std::move(*witness)};
        }
        if (const auto missing = playing->data->take_missing(); missing && !move && !cancellation.requested())
            move = detailed(move.error(), missing->to_string());
        playing->context = nullptr;
        playing->cancellation = nullptr;
    }
    if (move)
        board_.publish(*order, std::make_shared<const PlannedMove>(PlannedMove{order->position, std::move(*move)}));
    else if (cancellation.requested())
        log::info(Category::dispute, "move given up dispute={} position={}", order->id(), order->position);
    else
        log::warning(Category::dispute, "no move dispute={} position={} reason={}", order->id(), order->position,
                     move.error().to_string());
    release(*order, std::move(playing), static_cast<bool>(move));
    return true;
}

Expected<std::shared_ptr<DisputeJobs::Playing>> DisputeJobs::begin(Context& context, const PlayOrder& order) {
    const auto& [task, claim, reports, custody] = *order.live;
    auto fresh = std::make_shared<Playing>();
    Playing& playing = *fresh;
    playing.live = order.live;
    QUERN_TRY(playing.inputs, context.inputs.load(*context.node, task));
    QUERN_TRY(auto data, context.inputs.data_of(*context.node, *order.live, *playing.inputs));
    playing.data = std::make_unique<DataReader>(std::move(data));
    QUERN_TRY(playing.manifest, manifest_of(context, order));
    QUERN_TRY(const Workspace workspace, Workspace::open(context.options.datadir, task));
    playing.kept = LocalStates(workspace, claim.history_root);
    playing.before = chain::market::stretch_of(*order.live).before;
    playing.drawn = drawn_steps(*order.live);
    playing.seed = vm::tensor::seed_tensor(claim.seed_beacon);

    core::DisputeParty party;
    party.history = order.play.claim != nullptr ? *order.play.claim : playing.manifest->state_roots;
    const FaultPlan& planned = context.options.fault;
    const bool defends = order.play.side == core::Side::defender;
    if (order.play.claim != nullptr && (defends ? planned.solver_cheats() : planned.accuser_cheats()))
        playing.fault = planned;
    party.programs = &playing.inputs->programs;
    party.data = playing.data.get();
    party.seed = playing.seed;
    party.backend = context.options.backend;
    party.pool = context.pool.get();  // one for all threads that play
    if (playing.fault.fault == Fault::none) party.share = share_of(context, order, playing.inputs->programs);
    playing.room =
        context.inputs.hold(core::game_bytes(playing.inputs->programs.programs, task.spec.work.stride), Duty::bound);
    party.state_before = [&playing](std::uint64_t step) { return state_before(playing, step); };
    party.states_of = [&playing](std::uint64_t first, std::uint64_t last) { return states_of(playing, first, last); };
    if (playing.fault.fault != Fault::none) {
        party.alter = [&playing](std::uint64_t step, std::uint32_t node, vm::tensor::Tensor& output) {
            const Alteration alter = alteration(playing.fault, playing.inputs->programs.at(step), playing.altered_from,
                                                step, playing.inputs->programs.plan.steps());
            if (alter) alter(node, output);
        };
    }
    playing.strategy = std::make_unique<core::DisputeStrategy>(std::move(party));
    log::info(Category::dispute, "playing dispute={} task={} side={}", order.id(), task.id,
              defends ? "defender" : "rival");
    return fresh;
}

// Who has trained a history that nobody serves has roots and states of its own, and needs no others.
Expected<std::shared_ptr<const core::HistoryManifest>> DisputeJobs::manifest_of(Context& context,
                                                                                const PlayOrder& order) {
    auto served = context.inputs.manifest(*context.node, *order.live);
    // A verifier has been served what it was drawn for.
    const bool watched = order.play.side == core::Side::rival && order.play.claim != nullptr &&
                         order.dispute->rival_role == chain::types::Role::whistleblower;
    if (served || !watched || !is_withheld(served.error())) return served;
    QUERN_TRY(auto unserved, InputStore::unserved_manifest(*context.node, *order.live));
    if (order.play.claim->size() != unserved.state_roots.size()) return fail("dispute.bad_claim");
    unserved.state_roots = *order.play.claim;
    return std::make_shared<const core::HistoryManifest>(std::move(unserved));
}

std::shared_ptr<core::StepShare> DisputeJobs::share_of(Context& context, const PlayOrder& order,
                                                       const core::TaskPrograms& programs) {
    const MutexLock lock(mutex_);
    Shared& shared = shared_[order.live->task.id];
    if (shared.steps == nullptr || shared.round != order.live->task.round) {
        shared = {order.live->task.round, nullptr, nullptr};
        std::size_t states = kKeptStates;
        while (states > 1 && shared.room == nullptr)
            shared.room = context.inputs.hold(--states * state_bytes(programs.any()), Duty::voluntary);
        shared.steps = std::make_shared<core::StepShare>(shared.room == nullptr ? 1 : states + 1);
    }
    return shared.steps;
}

std::string_view DisputeJobs::unfinished(const Playing& playing) {
    return playing.cancellation->requested() ? core::kMoveCancelled : core::kDataMissing;
}

Expected<vm::tensor::State> DisputeJobs::state_before(Playing& playing, std::uint64_t step) {
    if (step <= playing.before || step > playing.before + playing.manifest->steps()) return fail("dispute.bad_step");
    Context& context = *playing.context;
    std::uint64_t kept = playing.fault.fault == Fault::none ? playing.kept.nearest_step(step) : 0;
    const std::uint64_t interval = playing.manifest->interval;
    const std::uint64_t strides = interval / playing.manifest->stride;  // of a segment
    std::uint64_t first = 0;                                            // that `found` is before
    Expected<vm::tensor::State> found = fail(kContentNotFound);
    for (const std::uint64_t segment : checkpoints_before(playing, core::segment_of(step, interval, playing.before))) {
        first = core::segment_steps(segment, interval, playing.before).first;
        if (first <= kept) {
            auto local =
                playing.kept.nearest(step, playing.inputs->programs.any(), context.pool.get(), playing.cancellation);
            if (playing.cancellation->requested()) return busy(core::kMoveCancelled);
            kept = 0;
            if (local && local->step >= first) {
                first = local->step;
                found = std::move(local->state);
                break;
            }
        }
        found = context.inputs.checkpoint(*context.node, playing.inputs->programs.any(),
                                          {playing.manifest->checkpoint_contents[segment],
                                           playing.manifest->state_roots[segment * strides], custody_of(*playing.live)},
                                          context.pool.get(), playing.cancellation);
        if (!found && segment == 0 && is_withheld(found.error()))
            found = context.inputs.first_state(*context.node, *playing.live, playing.inputs->programs.any(),
                                               std::move(found), context.pool.get(), playing.cancellation);
        if (found || playing.cancellation->requested()) break;
        // One that may come yet is waited for a little, because the way from an earlier one is longer.
        if (found.error().is_busy() && ++playing.refusals < kRefusals) break;
    }
    QUERN_TRY(vm::tensor::State state, std::move(found));
    playing.refusals = 0;
    StepRunner runner(playing.inputs->programs, *playing.data, playing.seed, playing.fault, context.options.backend,
                      context.pool.get(), playing.cancellation);
    for (std::uint64_t i = first; i < step; ++i)
        if (!runner.run(state, i)) return busy(unfinished(playing));
    if (playing.fault.fault != Fault::none)
        playing.altered_from = state;
    else if (step != first)
        keep_state(playing, step, state);
    return state;
}

// A solver keeps few of its states, and may withhold the very one that is asked for: any earlier one leads there as
// well. The nearest that the node has itself; later ones that others may have; the first.
std::vector<std::uint64_t> DisputeJobs::checkpoints_before(Playing& playing, std::uint64_t segment) {
    std::set<std::uint64_t> segments{0, segment};
    if (playing.manifest->checkpoint_contents[segment].is_zero()) return {0};  // nobody serves any
    for (const std::uint64_t step : playing.drawn) {
        const std::uint64_t drawn = (step - playing.before) / playing.manifest->interval;
        if (drawn < segment) segments.insert(drawn);
    }
    for (std::uint64_t each = segment + 1; each-- > 0;) {
        const auto here = playing.context->node->has_content(playing.manifest->checkpoint_contents[each]);
        if (!here || !*here) continue;
        segments.insert(each);
        break;
    }
    return {segments.rbegin(), segments.rend()};
}

void DisputeJobs::keep_state(const Playing& playing, std::uint64_t step, const vm::tensor::State& state) {
    const WorkerOptions& options = playing.context->options;
    if (!Workspace::has_room(options.datadir, state_bytes(playing.inputs->programs.any()), options.max_disk_mib))
        return;
    const Hash32 root = vm::tensor::state_root(state, playing.context->pool.get(), playing.cancellation);
    if (playing.cancellation->requested()) return;
    if (const Status kept = playing.kept.write(step, root, state); !kept)
        log::warning(Category::dispute, "a state is not kept step={} reason={}", step, kept.error().to_string());
}

Expected<std::vector<Hash32>> DisputeJobs::states_of(Playing& playing, std::uint64_t first, std::uint64_t last) {
    QUERN_TRY(vm::tensor::State state, state_before(playing, first));
    Context& context = *playing.context;
    StepRunner runner(playing.inputs->programs, *playing.data, playing.seed, playing.fault, context.options.backend,
                      context.pool.get(), playing.cancellation);
    std::vector<Hash32> roots;
    roots.reserve(last - first + 1);
    for (std::uint64_t step = first; step <= last; ++step) {
        if (!runner.run(state, step)) return busy(unfinished(playing));
        roots.push_back(vm::tensor::state_root(state, context.pool.get(), playing.cancellation));
        if (playing.cancellation->requested()) return busy(core::kMoveCancelled);
    }
    return roots;
}

}  // namespace quern::compute::worker
