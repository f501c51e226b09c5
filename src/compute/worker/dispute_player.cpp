#include "compute/worker/dispute_player.h"

#include "base/log.h"
#include "compute/core/claims.h"

namespace quern::compute::worker {
namespace {

using chain::types::Dispute;
using chain::types::DisputeWinner;
using chain::types::NativeKind;
using chain::types::Role;
using chain::types::Task;
using log::Category;

constexpr std::size_t kMaxGameBytes = std::size_t{1} << 20;

}  // namespace

void DisputePlayer::on_task(const Task& task) {
    if (task.open_disputes == 0) return;
    for (const std::uint64_t id : task.disputes)
        if (!closed_.contains(id)) on_dispute(task, id);
}

void DisputePlayer::on_dispute(const Task& task, std::uint64_t id) {
    const auto dispute = context_.node.dispute(id);
    if (!dispute) return;
    if (dispute->winner != DisputeWinner::none || dispute->closed_at != 0) {
        closed_.insert(id);
        plays_.erase(id);
        return;
    }
    const auto& me = context_.sender.address();
    if (dispute->defender != me && dispute->rival != me) return;
    const core::Side side = dispute->defender == me ? core::Side::defender : core::Side::rival;
    if (dispute->game.size() > kMaxGameBytes) return;
    const auto game = chain::types::decode_record<core::Game>(dispute->game);
    if (!game) {
        log::error(Category::dispute, "unreadable game dispute={} reason={}", id, game.error().to_string());
        return;
    }
    const auto current = play(task, *dispute);
    if (!current) {
        log::warning(Category::dispute, "cannot play dispute={} reason={}", id, current.error().to_string());
        return;
    }
    const auto move = (*current)->strategy->next_move(*game, side);
    if (!move) {
        log::warning(Category::dispute, "no move dispute={} reason={}", id, move.error().to_string());
        return;
    }
    // One purpose per position, so that a move is sent once.
    const std::string purpose = "dispute/" + std::to_string(id) + "@" + core::to_string(game->phase) + "." +
                                std::to_string(game->cursor.level) + "." + std::to_string(game->cursor.index);
    if (const auto* split = std::get_if<core::SplitMove>(&*move)) {
        context_.sender.send(purpose, NativeKind::dispute_split,
                             chain::types::DisputeSplitPayload{id, chain::types::encode_record(*split)});
    } else if (const auto* witness = std::get_if<core::LeafWitness>(&*move)) {
        context_.sender.send(purpose, NativeKind::dispute_prove_leaf,
                             chain::types::DisputeProveLeafPayload{id, chain::types::encode_record(*witness)});
    } else if (std::holds_alternative<core::Concede>(*move)) {
        context_.sender.send(purpose, NativeKind::dispute_concede, chain::types::DisputeConcedePayload{id});
    }
}

Expected<DisputePlayer::Play*> DisputePlayer::play(const Task& task, const Dispute& dispute) {
    if (const auto known = plays_.find(dispute.id); known != plays_.end()) return known->second.get();
    const bool defends = dispute.defender == context_.sender.address();
    auto fresh = std::make_unique<Play>();
    Play& play = *fresh;
    play.task = task.id;
    QUERN_TRY(play.inputs, context_.inputs.load(task));
    QUERN_TRY(play.manifest, context_.inputs.manifest(task));
    play.steps = task.spec.steps;
    play.seed = vm::tensor::seed_tensor(task.seed_beacon);

    core::DisputeParty party;
    const FaultPlan& planned = context_.options.fault;
    if (core::is_probe_target(dispute.target)) {
        party.history = play.manifest->state_roots;  // both start from the solver's history
    } else if (core::is_pass_target(dispute.target) && defends) {
        party.history = play.manifest->state_roots;  // it passed the solver's history: what it executes must lead there
    } else if (defends) {
        party.history = claims_.solver(task);
        if (planned.solver_cheats()) play.fault = planned;
    } else {
        party.history = dispute.rival_role == Role::verifier ? claims_.verifier(task) : claims_.whistleblower(task);
        if (planned.fault == Fault::false_accusation) play.fault = planned;
    }
    if (party.history.empty()) return fail("dispute.no_claim", "this worker has no history for the task");
    play.runner = std::make_unique<StepRunner>(play.inputs->program, play.inputs->data, play.seed, play.steps,
                                               play.fault, context_.options.backend, &context_.pool);
    party.program = &play.inputs->program;
    party.data = &play.inputs->data;
    party.seed = play.seed;
    party.backend = context_.options.backend;
    party.pool = &context_.pool;
    party.state_before = [this, &play](std::uint64_t step) { return state_before(play, step); };
    if (play.fault.fault != Fault::none) {
        party.alter = [&play](std::uint64_t step, std::uint32_t node, vm::tensor::Tensor& output) {
            const Alteration alter = alteration(play.fault, play.inputs->program, play.altered_from, step, play.steps);
            if (alter) alter(node, output);
        };
    }
    play.strategy = std::make_unique<core::DisputeStrategy>(std::move(party));
    log::info(Category::dispute, "playing dispute={} task={} side={}", dispute.id, task.id,
              defends ? "defender" : "rival");
    return (plays_[dispute.id] = std::move(fresh)).get();
}

Expected<vm::tensor::State> DisputePlayer::state_before(Play& play, std::uint64_t step) {
    if (step == 0 || step > play.steps) return fail("dispute.bad_step");
    const std::uint64_t interval = play.manifest->interval;
    std::uint64_t segment = (step - 1) / interval;
    const auto checkpoint = [&] {
        return context_.inputs.checkpoint(play.inputs->program, play.manifest->checkpoint_contents[segment],
                                          play.manifest->state_roots[segment * interval]);
    };
    // A solver may withhold the very checkpoint that is asked for: an earlier one leads there as well.
    auto found = checkpoint();
    while (!found && segment > 0 && !found.error().name.starts_with("http.")) {
        --segment;
        found = checkpoint();
    }
    QUERN_TRY(vm::tensor::State state, std::move(found));
    for (std::uint64_t i = segment * interval + 1; i < step; ++i) play.runner->run(state, i);
    play.altered_from = state;
    return state;
}

void DisputePlayer::forget_all_but(const std::set<std::uint64_t>& live_tasks) {
    std::erase_if(plays_, [&](const auto& entry) { return !live_tasks.contains(entry.second->task); });
}

}  // namespace quern::compute::worker
