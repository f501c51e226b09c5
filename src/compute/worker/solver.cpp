#include "compute/worker/solver.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "compute/program/state_file.h"
#include "crypto/merkle.h"

namespace quern::compute::worker {
namespace {

using chain::types::NativeKind;
using chain::types::Task;
using chain::types::TaskState;
using log::Category;

constexpr const char* kProgressFile = "training.rlp";
constexpr std::uint64_t kMaxSegments = 1U << 14;  // the progress file holds a record and a Merkle path for each

// Failures that another attempt may cure: the node or the content was not there.
bool may_pass(const Error& error) {
    return node_was_away(error) || error.name == "content.not_found" || error.name == "inputs.busy";
}

}  // namespace

void Solver::on_task(const Task& task) {
    switch (task.state) {
        case TaskState::open:
            bid(task);
            break;
        case TaskState::assigned:
            if (task.solver == context_.sender.address())
                context_.sender.send(purpose("start", task), NativeKind::task_start,
                                     chain::types::TaskIdPayload{task.id});
            break;
        case TaskState::training:
            if (task.solver != context_.sender.address()) break;
            if (task.step < task.spec.steps)
                heartbeat(task);
            else
                prove(task);
            break;
        default:
            break;
    }
}

void Solver::bid(const Task& task) {
    const auto& me = context_.sender.address();
    if (declined_.contains(task.id) || task.submitter == me) return;
    if (std::find(task.barred.begin(), task.barred.end(), me) != task.barred.end()) return;
    for (const auto& bid : task.bids)
        if (bid.bidder == me) return;
    if (task.deadline != 0 && context_.height + 1 >= task.deadline) return;

    const auto decline = [&](std::string why) {
        log::info(Category::solver, "task declined task={} reason={}", task.id, why);
        declined_[task.id] = std::move(why);
    };
    if (task.spec.memory_mib > context_.options.max_memory_mib) return decline("needs more memory than allowed");
    const Uint256 price = context_.options.bid_price.is_zero() ? task.spec.price_cap / 2 : context_.options.bid_price;
    if (price > task.spec.price_cap) return decline("pays less than this solver's price");
    if (price.is_zero()) return decline("pays nothing");
    if (core::segment_count(task.spec.steps, task.spec.interval) > kMaxSegments)
        return decline("more checkpoints than this solver keeps");
    if (context_.sender.is_pending(purpose("bid", task))) return;
    // Not declined: files of ended tasks go, and then there is room.
    const auto used = Workspace::used_bytes(context_.options.datadir);
    if (!used || *used >> 20 >= context_.options.max_disk_mib) {
        if (!std::exchange(full_, true))
            log::warning(Category::solver, "no bids: the data directory holds --max-disk-mib={} or more",
                         context_.options.max_disk_mib);
        return;
    }
    full_ = false;
    const auto inputs = context_.inputs.load(task);
    if (!inputs) {
        if (!may_pass(inputs.error())) decline(inputs.error().to_string());
        return;
    }
    context_.sender.send(purpose("bid", task), NativeKind::task_bid, chain::types::TaskBidPayload{task.id, price});
}

Expected<Solver::Training*> Solver::training(const Task& task) {
    if (const auto known = trainings_.find(task.id); known != trainings_.end()) {
        if (known->second.round == task.round) return &known->second;
        trainings_.erase(known);
    }
    Training training;
    training.round = task.round;
    QUERN_TRY(training.workspace, Workspace::open(context_.options.datadir, task));
    QUERN_TRY(training.inputs, context_.inputs.load(task));
    const auto& program = training.inputs->program;
    training.seed = vm::tensor::seed_tensor(task.seed_beacon);
    training.steps = task.spec.steps;
    training.interval = task.spec.interval;
    QUERN_TRY(auto saved, training.workspace.load<TrainingProgress>(kProgressFile));
    if (saved && !saved->checkpoints.empty()) {
        training.saved = std::move(*saved);
        training.roots = split_roots(training.saved.state_roots);
        const CheckpointRecord& last = training.saved.checkpoints.back();
        QUERN_TRY(training.state, context_.inputs.checkpoint(program, last.content, last.state_root));
        log::info(Category::solver, "training resumed task={} round={} step={}", task.id, task.round, last.step);
    } else {
        training.state = training.inputs->initial;
        training.roots = {task.spec.init_root};
        training.saved.checkpoints.push_back({0, task.spec.init_root, task.spec.init_content, 0, {}});
        training.saved.state_roots = join_roots(training.roots);
        log::info(Category::solver, "training begins task={} round={} steps={}", task.id, task.round, training.steps);
    }
    auto& kept = trainings_[task.id] = std::move(training);
    kept.runner =
        std::make_unique<StepRunner>(kept.inputs->program, kept.inputs->data, kept.seed, kept.steps,
                                     context_.options.fault.solver_cheats() ? context_.options.fault : FaultPlan{},
                                     context_.options.backend, &context_.pool);
    return &kept;
}

bool Solver::work(std::uint64_t milliseconds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    const auto runs = [](const Training& training) { return training.roots.size() <= training.steps; };
    const auto tasks = next_in_turn(trainings_, turns_, runs);
    std::size_t waiting = tasks.size();
    for (const std::uint64_t task : tasks) {
        if (waiting < tasks.size() && std::chrono::steady_clock::now() >= until) break;
        turns_.ran(task);
        Training& training = trainings_.at(task);
        const auto share = share_of(until, waiting--);
        while (training.roots.size() <= training.steps && std::chrono::steady_clock::now() < share) {
            const std::uint64_t step = training.roots.size();
            training.runner->run(training.state, step);
            training.roots.push_back(vm::tensor::state_root(training.state));
            training.saved.losses.push_back(loss_bits(training.inputs->program, training.state));
            if (step % training.interval != 0) continue;
            if (const Status status = checkpoint(training); !status) {
                // Kept in memory only up to here: the last saved checkpoint is where a retry begins.
                log::error(Category::solver, "checkpoint not stored task={} step={} reason={}", task, step,
                           status.error().to_string());
                trainings_.erase(task);
                return true;
            }
            log::info(Category::solver, "trained task={} step={}/{} loss={:.4f}", task, step, training.steps,
                      std::bit_cast<float>(training.saved.losses.back()));
        }
    }
    return !tasks.empty();
}

Status Solver::checkpoint(Training& training) {
    const auto& program = training.inputs->program;
    CheckpointRecord record;
    record.step = training.roots.size() - 1;
    record.state_root = training.roots.back();
    record.loss = loss_bits(program, training.state);
    const std::vector<Hash32> slots = vm::tensor::slot_roots(training.state);
    record.loss_path = crypto::merkle_path(slots, program.header.loss_slot);
    QUERN_TRY(const Bytes file, program::write_state(program, training.state));
    QUERN_TRY(record.content, context_.node.put_content(file));
    training.saved.checkpoints.push_back(std::move(record));
    training.saved.state_roots = join_roots(training.roots);
    return training.workspace.save(kProgressFile, training.saved);
}

void Solver::heartbeat(const Task& task) {
    const auto current = training(task);
    if (!current) {
        log::warning(Category::solver, "cannot train task={} reason={}", task.id, current.error().to_string());
        return;
    }
    const std::uint64_t due = task.step + task.spec.interval;
    for (const CheckpointRecord& record : (*current)->saved.checkpoints) {
        if (record.step != due) continue;
        chain::types::TaskCheckpointPayload payload{task.id,        record.step, record.state_root,
                                                    record.content, record.loss, record.loss_path};
        context_.sender.send(purpose("checkpoint", task) + "@" + std::to_string(due), NativeKind::task_checkpoint,
                             payload);
    }
}

void Solver::prove(const Task& task) {
    const auto current = training(task);
    if (!current || (*current)->roots.size() != task.spec.steps + 1) return;
    const Training& training = **current;
    core::HistoryManifest manifest;
    manifest.interval = task.spec.interval;
    manifest.state_roots = training.roots;
    for (const auto& record : training.saved.checkpoints) manifest.checkpoint_contents.push_back(record.content);
    const auto content = context_.node.put_content(core::encode(manifest));
    if (!content) {
        log::warning(Category::solver, "manifest not stored task={} reason={}", task.id, content.error().to_string());
        return;
    }
    const CheckpointRecord& last = training.saved.checkpoints.back();
    chain::types::TaskProvePayload payload;
    payload.task = task.id;
    payload.history_root = core::history_root(training.roots);
    payload.history_content = *content;
    payload.initial_path = core::history_path(training.roots, 0);
    payload.final_root = training.roots.back();
    payload.final_path = core::history_path(training.roots, task.spec.steps);
    payload.loss = last.loss;
    payload.loss_path = last.loss_path;
    context_.sender.send(purpose("prove", task), NativeKind::task_prove, payload);
}

void Solver::forget_all_but(const std::set<std::uint64_t>& live) {
    std::erase_if(trainings_, [&](const auto& entry) { return !live.contains(entry.first); });
    std::erase_if(declined_, [&](const auto& entry) { return !live.contains(entry.first); });
}

std::vector<Hash32> Solver::claimed_history(const Task& task) {
    const auto current = training(task);
    // A solver that lost its progress is training again: until it is done it has no history to stand for.
    if (!current || (*current)->roots.size() != task.spec.steps + 1) return {};
    return (*current)->roots;
}

}  // namespace quern::compute::worker
