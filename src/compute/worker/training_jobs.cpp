#include "compute/worker/training_jobs.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/log.h"
#include "chain/market/delays.h"
#include "compute/core/task_spec.h"
#include "compute/program/held_out.h"
#include "compute/worker/largest_rows.h"
#include "compute/worker/task_time.h"
#include "crypto/merkle.h"

namespace quern::compute::worker {
namespace {

using chain::types::ClaimState;
using log::Category;

std::string progress_file(std::uint32_t stretch) { return "training-" + std::to_string(stretch) + ".rlp"; }
std::string rows_path(const Workspace& workspace, std::uint32_t stretch) {
    return workspace.directory() + "/claimed-" + std::to_string(stretch) + ".bin";
}

FaultPlan fault_of(const WorkerOptions& options) { return options.fault.solver_cheats() ? options.fault : FaultPlan{}; }

// Between two looks at a task whose contents do not come, at most: those of others are not to wait for them.
constexpr std::uint64_t kExamineAgainMs = 60'000;
// Before a training goes on from its last checkpoint whose data did not come, where others share its thread.
constexpr std::uint64_t kTrainAgainMs = 60'000;

// What another attempt may cure: the node or the content was not there, this process failed.
bool may_pass(const Error& error) { return is_passing(error) || is_not_found(error); }

}  // namespace

// --- Examining -------------------------------------------------------------------------------------------------------

// Not a reason to decline: files of ended tasks go, and then there is room.
bool ExamineJobs::has_room() {
    const auto used = Workspace::used_bytes(context_.options.datadir);
    const bool room = used && *used >> 20 < context_.options.max_disk_mib;
    if (!room && !std::exchange(full_, true))
        log::warning(Category::solver, "no bids: the data directory holds --max-disk-mib={} or more",
                     context_.options.max_disk_mib);
    if (room) full_ = false;
    return room;
}

Status ExamineJobs::examine(const Task& task) {
    // Half of the memory stays for what this worker answers for already.
    QUERN_TRY(const auto inputs, context_.inputs.load(*context_.node, task, Duty::voluntary));
    if (context_.profile != nullptr) {
        const chain::market::Stretch stretch = chain::market::stretch_of(task, task.settled);
        QUERN_CHECK(check_time(inputs->programs, task, stretch, *context_.profile));
    }
    QUERN_CHECK(context_.inputs.try_data(*context_.node, task, *inputs));
    if (core::claims_data(task.spec)) {
        QUERN_TRY(const auto judged, judged_task(inputs->programs, task));
        // The rows, and as many again on their way into the store.
        const std::uint64_t rows = 2 * judged.programs.claimed_bytes();
        if (!Workspace::has_room(context_.options.datadir, rows, context_.options.max_disk_mib))
            return fail("inputs.too_much_disk", std::to_string(rows >> 20) + " MiB for what is claimed");
        QUERN_TRY(const auto start, InputStore::start_of(*context_.node, task));
        QUERN_TRY(const auto state, context_.inputs.checkpoint(*context_.node, inputs->programs.any(), start));
        if (task.settled == 0) return tolerance::judge::check_first_state(judged.programs, state);
        return {};
    }
    if (task.settled == 0) return {};
    QUERN_TRY(const auto start, InputStore::start_of(*context_.node, task));
    QUERN_CHECK(context_.inputs.checkpoint(*context_.node, inputs->programs.any(), start));
    return {};
}

bool ExamineJobs::work() {
    const auto orders = board_.take();
    if (!orders) return false;
    std::erase_if(later_, [&](const auto& entry) { return !orders->contains(entry.first); });
    for (const auto& [id, order] : *orders) {
        if (context_.stop) return false;
        const Examined known = board_.facts(order);
        if (known.fit || !known.unfit.empty() || !has_room()) continue;
        const std::uint64_t now = context_.clock.monotonic_ms();
        if (const auto later = later_.find(id); later != later_.end() && now < later->second.at_ms) continue;
        const Status judged = examine(order.live->task);
        if (judged) {
            board_.publish(order, {true, {}});
        } else if (!may_pass(judged.error())) {
            board_.publish(order, {false, judged.error().to_string()});
        } else {
            Later& later = later_[id];
            later.at_ms = context_.clock.monotonic_ms() + later.wait_ms;
            later.wait_ms = std::min(2 * later.wait_ms, kExamineAgainMs);
        }
    }
    return true;
}

// --- Training --------------------------------------------------------------------------------------------------------

void TrainingJobs::take_orders() {
    auto orders = board_.take();
    if (!orders) return;
    const bool others =
        std::any_of(trainings_.begin(), trainings_.end(), [](const auto& entry) { return entry.second.runs(); });
    const std::uint64_t now = context_.clock.monotonic_ms();
    std::erase_if(trainings_, [&](const auto& entry) {
        const Training& training = entry.second;
        return (training.failed && (!others || now >= training.again_ms)) || !is_wanted(*orders, training.order);
    });
    for (auto& [id, order] : *orders) {
        if (const auto known = trainings_.find(id); known != trainings_.end()) {
            known->second.order = order;
            continue;
        }
        Training& training = trainings_[id];
        training.order = order;
        if (const Status begun = begin(training); !begun) {
            training.failed = true;
            log::warning(Category::solver, "cannot train task={} reason={}", id.task, begun.error().to_string());
        }
    }
}

Status TrainingJobs::begin(Training& training) {
    const auto& [task, claim, reports, custody] = *training.order.live;
    QUERN_TRY(training.workspace, Workspace::open(context_.options.datadir, task));
    QUERN_TRY(auto saved, training.workspace.load<TrainingProgress>(progress_file(claim.id.stretch)));
    const bool resumed = saved && !saved->checkpoints.empty();
    if (resumed) {
        training.saved = std::move(*saved);
        training.roots = split_roots(training.saved.state_roots);
        training.step = training.saved.checkpoints.back().step;
        log::info(Category::solver, "training resumed task={} round={} step={}", task.id, task.round,
                  training.saved.checkpoints.back().step);
        if (training.complete()) {
            tell(training);
            return regenerate(training);
        }
    }
    QUERN_TRY(training.inputs, context_.inputs.load(*context_.node, task));
    if (resumed) {
        const CheckpointRecord& last = training.saved.checkpoints.back();
        QUERN_TRY(training.state, context_.inputs.checkpoint(*context_.node, training.inputs->programs.any(),
                                                             {last.content, last.state_root}));
    } else {
        QUERN_CHECK(begin_stretch(training));
    }
    training.seed = vm::tensor::seed_tensor(claim.seed_beacon);
    training.data = std::make_unique<DataReader>(training.inputs->data);
    training.data->bind(*context_.node, &context_.stopping);
    training.publisher = std::make_unique<Publisher>(context_.connect(), context_.pool.get(), context_.stopping,
                                                     [&board = board_] { board.wake(); });
    QUERN_CHECK(make_runner(training));
    tell(training);
    return {};
}

Status TrainingJobs::make_runner(Training& training) {
    const TaskClaim& live = *training.order.live;
    const WorkerOptions& options = context_.options;
    const FaultPlan fault = fault_of(options);
    const auto before_writing = [publisher = training.publisher.get()](std::size_t slot) {
        publisher->before_writing(slot);
    };
    if (!core::claims_data(live.task.spec)) {
        training.runner = std::make_unique<StepRunner>(training.inputs->programs, *training.data, training.seed, fault,
                                                       options.backend, context_.pool.get(), &context_.stopping);
        training.runner->set_before_writing(before_writing);
        return {};
    }
    const auto& program = training.inputs->programs.any();
    const MakeFastSteps none;
    // Libtorch and a replay of each segment take longer than the replay alone: where there is no time for both nothing
    // is gained by it, and a heartbeat might be missed. Libtorch is taken to be no slower than the canonical steps.
    const bool in_time =
        context_.profile == nullptr || options.check_segments > 1 ||
        check_time(training.inputs->programs, live.task, chain::market::stretch_of(live), *context_.profile, 2)
            .has_value();
    if (options.fast_steps && !in_time)
        log::info(Category::solver, "no time for libtorch beside the replay: trained canonically task={}",
                  live.task.id);
    // Another executor's step, and the state with which its segment begins.
    training.fast_room = options.fast_steps && in_time
                             ? context_.inputs.hold(vm::tensor::step_bytes(program) + state_bytes(program), Duty::bound)
                             : nullptr;
    if (options.fast_steps && in_time && training.fast_room == nullptr)
        log::warning(Category::solver, "no memory for libtorch beside the replay: trained canonically task={}",
                     live.task.id);
    QUERN_TRY(training.tolerant,
              TolerantSteps::make(
                  {training.inputs->programs, live.task, *training.data, training.seed, fault, options.backend,
                   context_.pool.get(), &context_.stopping, training.fast_room == nullptr ? none : options.fast_steps,
                   options.check_segments, *context_.rng, rows_path(training.workspace, live.claim.id.stretch),
                   training.step != chain::market::stretch_of(live).before, chain::market::stretch_of(live).before}));
    training.tolerant->set_before_writing(before_writing);
    log::info(Category::solver, "in tolerance mode task={} by={} check_segments={}", live.task.id,
              training.tolerant->is_fast() ? "libtorch" : "canonical", options.check_segments);
    return {};
}

Status TrainingJobs::begin_stretch(Training& training) {
    const auto& [task, claim, reports, custody] = *training.order.live;
    QUERN_TRY(const auto start, start_of(training));
    QUERN_TRY(training.state, context_.inputs.checkpoint(*context_.node, training.inputs->programs.any(), start));
    training.step = chain::market::stretch_of(*training.order.live).before;
    training.roots = {start.root};
    training.saved.checkpoints.push_back({training.step, start.root, start.content, 0, {}});
    training.saved.state_roots = join_roots(training.roots);
    QUERN_CHECK(forget_settled(training));
    log::info(Category::solver, "training begins task={} round={} steps={}-{}", task.id, task.round, training.step + 1,
              training.last());
    if (context_.profile != nullptr)
        log::info(Category::solver, "training takes about seconds={:.1f} task={}",
                  training_time(training.inputs->programs, task, chain::market::stretch_of(*training.order.live),
                                *context_.profile),
                  task.id);
    return {};
}

Expected<StateRef> TrainingJobs::start_of(Training& training) {
    const auto& [task, claim, reports, custody] = *training.order.live;
    if (claim.id.stretch != 0) {
        QUERN_TRY(auto own, training.workspace.load<TrainingProgress>(progress_file(claim.id.stretch - 1)));
        if (own && !own->checkpoints.empty() && own->checkpoints.back().state_root == claim.start_root) {
            if (!own->kept.empty() && own->kept.back().content == own->checkpoints.back().content)
                training.saved.kept = {std::move(own->kept.back())};
            return StateRef{own->checkpoints.back().content, claim.start_root};
        }
    }
    if (claim.id.stretch > task.settled) return fail("worker.no_start", "the stretch before it was trained elsewhere");
    return InputStore::start_of(*context_.node, task);
}

Status TrainingJobs::forget_settled(Training& training) {
    const std::uint32_t stretch = training.order.live->claim.id.stretch;
    if (stretch < chain::types::kMaxUnsettled) return {};
    const std::string name = progress_file(stretch - chain::types::kMaxUnsettled);
    QUERN_TRY(auto settled, training.workspace.load<TrainingProgress>(name));
    if (!settled) return {};
    QUERN_TRY(const auto before, training.workspace.load<TrainingProgress>(progress_file(stretch - 1)));
    std::set<Hash32> needed;  // its last state is the first one of the next stretch
    if (before)
        for (const KeptState& state : before->kept) {
            needed.insert(state.content);
            needed.insert(state.slots.begin(), state.slots.end());
        }
    for (auto* states : {&settled->kept, &settled->leaving})
        for (KeptState& state : *states) {
            if (needed.contains(state.content)) continue;
            std::erase_if(state.slots, [&](const Hash32& id) { return needed.contains(id); });
            training.saved.leaving.push_back(std::move(state));
        }
    QUERN_CHECK(save(training));
    const std::string rows = rows_path(training.workspace, stretch - chain::types::kMaxUnsettled);
    if (fs::exists(rows)) QUERN_CHECK(fs::remove_file(rows));
    return fs::remove_file(training.workspace.directory() + "/" + name);
}

Status TrainingJobs::regenerate(Training& training) {
    const TaskClaim& live = *training.order.live;
    if (live.claim.state != ClaimState::custody && live.claim.state != ClaimState::committing) return {};
    const CheckpointRecord& start = training.saved.checkpoints.front();
    const bool beside = std::any_of(trainings_.begin(), trainings_.end(),
                                    [](const auto& entry) { return entry.second.holds_programs(); });
    QUERN_TRY(
        training.regeneration,
        Regeneration::begin(context_, live,
                            {drawn_steps(live), training.roots, start.step, start.content, training.saved.kept, beside},
                            fault_of(context_.options), [&board = board_] { board.wake(); }));
    return {};
}

Status TrainingJobs::save(Training& training) {
    QUERN_CHECK(training.workspace.save(progress_file(training.order.live->claim.id.stretch), training.saved));
    drop_leaving(training);
    return {};
}

// What is still wanted of the same contents stays; what the chain names stays by the node's duty, and is tried again.
void TrainingJobs::drop_leaving(Training& training) {
    auto& leaving = training.saved.leaving;
    // One that is computed again may be on its way into the store, and is not among those kept before it is there.
    if (leaving.empty() || training.regeneration != nullptr) return;
    std::set<Hash32> needed;
    for (const auto& [id, other] : trainings_) {
        needed.insert(other.sent.slots.begin(), other.sent.slots.end());
        if (other.regeneration != nullptr) {
            const auto& slots = other.regeneration->sent_slots();
            needed.insert(slots.begin(), slots.end());
        }
        for (const KeptState& state : other.saved.kept) {
            needed.insert(state.content);
            needed.insert(state.slots.begin(), state.slots.end());
        }
    }
    std::set<Hash32> spare;
    for (const KeptState& state : leaving) {
        spare.insert(state.slots.begin(), state.slots.end());
        spare.insert(state.content);
    }
    std::erase_if(spare, [&](const Hash32& id) { return needed.contains(id); });
    const auto held = context_.node->drop_contents(std::vector<Hash32>(spare.begin(), spare.end()));
    if (!held && is_passing(held.error())) return;
    if (!held && !std::exchange(refused_, true))
        log::warning(Category::solver, "states that nobody needs stay in the node's store reason={}",
                     held.error().to_string());
    const std::set<Hash32> kept = held ? std::set<Hash32>(held->begin(), held->end()) : std::set<Hash32>();
    std::erase_if(leaving, [&](const KeptState& state) {
        return !kept.contains(state.content) && std::none_of(state.slots.begin(), state.slots.end(),
                                                             [&](const Hash32& id) { return kept.contains(id); });
    });
}

void TrainingJobs::tell(Training& training) {
    training.told.checkpoints.clear();  // those that are not posted yet
    for (const CheckpointRecord& record : training.saved.checkpoints)
        if (record.step > training.order.live->claim.step) training.told.checkpoints.push_back(record);
    if (training.complete() && training.told.history == nullptr)
        training.told.history = std::make_shared<const std::vector<Hash32>>(training.roots);
    board_.publish(training.order, training.told);
}

bool TrainingJobs::Training::runs() const {
    if (failed) return false;
    if (regeneration != nullptr) return regeneration->runs();
    if (is_sending()) return can_step() || publisher->is_stored();
    const bool to_prove = order.live->claim.state == ClaimState::working && told.proof == nullptr;
    return !complete() || (to_prove && (fragments == nullptr || fragments->is_done()));
}

std::uint64_t TrainingJobs::Training::due() const {
    const auto& [task, claim, reports, custody] = *order.live;
    const std::uint64_t ahead = (step - std::min(claim.step, step)) / task.spec.work.interval;
    return claim.deadline + ahead * chain::market::in_ms(task.spec.windows.heartbeat_s);
}

CheckpointRecord TrainingJobs::Training::checkpoint(std::uint64_t at, std::span<const Hash32> slots) const {
    const auto& program = inputs->programs.any();
    CheckpointRecord record;
    record.step = at;
    record.state_root = roots.back();
    record.loss = loss_bits(program, state);
    record.loss_path = crypto::merkle_path(slots, program.header.loss_slot);
    return record;
}

void TrainingJobs::Training::tell_metrics(std::uint64_t at) const {
    const auto metrics = program::read_metrics(inputs->programs.any(), state);
    if (!metrics) return;
    log::info(Category::solver, "evaluated task={} step={} updates={} loss={:.4f} accuracy={:.4f}", order.task(), at,
              metrics->step, metrics->loss, metrics->accuracy.value_or(0.0F));
}

bool TrainingJobs::work(std::uint64_t milliseconds) {
    take_orders();
    return run_in_turn(trainings_, turns_, [&](Training& training) {
        const Status status = advance(training, Slice(context_, milliseconds));
        if (status) return;
        // What came after the last saved checkpoint is lost: a retry begins there.
        training.failed = true;
        if (is_on_its_way(status.error())) training.again_ms = context_.clock.monotonic_ms() + kTrainAgainMs;
        training.regeneration.reset();
        training.fragments.reset();
        log::error(Category::solver, "training stopped task={} step={} reason={}", training.order.task(), training.step,
                   status.error().to_string());
    });
}

Status TrainingJobs::advance(Training& training, const Slice& slice) {
    if (training.regeneration == nullptr) {
        QUERN_CHECK(train(training, slice));
        return training.complete() && !training.is_sending() ? finish(training) : Status();
    }
    const Status status = training.regeneration->advance(slice);
    std::vector<KeptState> made = training.regeneration->take();
    if (!made.empty()) {
        auto& kept = training.saved.kept;
        std::move(made.begin(), made.end(), std::back_inserter(kept));
        std::sort(kept.begin(), kept.end(), [](const KeptState& a, const KeptState& b) { return a.step < b.step; });
        QUERN_CHECK(save(training));
    }
    if (status && training.regeneration->done()) {
        training.regeneration.reset();
        drop_leaving(training);
    }
    return status;
}

Expected<bool> TrainingJobs::run_step(Training& training, std::uint64_t step) {
    Status ran;
    if (training.tolerant != nullptr) {
        ran = training.tolerant->run(training.state, step);
        if (ran) return true;
    } else if (training.runner->run(training.state, step)) {
        return true;
    }
    auto missing = training.data->take_missing();
    if (context_.stopping.requested()) return false;
    if (missing) return fail(std::move(*missing));
    if (!ran) return fail(ran.error());
    return false;
}

Status TrainingJobs::train(Training& training, const Slice& slice) {
    const auto& spec = training.order.live->task.spec;
    QUERN_CHECK(publish(training));
    for (bool first = true; training.can_step() && !context_.stop && (first || !slice.over()); first = false) {
        const std::uint64_t begun_ms = context_.clock.monotonic_ms();
        const std::uint64_t step = training.step + 1;
        QUERN_TRY(const bool ran, run_step(training, step));
        if (!ran) return {};
        if (step % spec.work.stride == 0) {
            const std::vector<Hash32> slots =
                vm::tensor::slot_roots(training.state, context_.pool.get(), &context_.stopping);
            if (context_.stopping.requested()) return {};
            training.roots.push_back(vm::tensor::state_root(slots));
            if (step % spec.work.interval == 0) {
                training.waits = {training.checkpoint(step, slots), slots};
                training.tell_metrics(step);
            }
        }
        training.step = step;
        training.segment_ms += context_.clock.monotonic_ms() - begun_ms;
        if (training.waits) {
            auto& longest = training.saved.segment_ms;
            longest = std::max(longest, std::exchange(training.segment_ms, 0));
        }
        QUERN_CHECK(publish(training));
    }
    return {};
}

// Saves the checkpoint that is in the store by now, and begins with the one that waits for that.
Status TrainingJobs::publish(Training& training) {
    if (training.publisher == nullptr) return {};
    if (auto stored = training.publisher->take()) {
        const TaskClaim& live = *training.order.live;
        auto& saved = training.saved;
        const std::uint64_t step = training.sent.record.step;
        const std::uint64_t done = step - chain::market::stretch_of(live).before;
        const auto strides = static_cast<std::ptrdiff_t>(done / live.task.spec.work.stride);
        training.sent.record.content = stored->content;
        saved.state_roots = join_roots({training.roots.begin(), training.roots.begin() + strides + 1});
        saved.checkpoints.push_back(std::exchange(training.sent, {}).record);
        saved.kept.push_back({step, stored->content, std::move(stored->slots)});
        const std::uint64_t spacing =
            kept_spacing(live, done / live.task.spec.work.interval,
                         {context_.options.keep_states_mib << 20,
                          training.inputs->programs.any().header.sizes.state_bytes, saved.segment_ms});
        for (KeptState& spare : take_spare(live, spacing, saved.kept)) saved.leaving.push_back(std::move(spare));
        QUERN_CHECK(save(training));
        tell(training);
        log::info(Category::solver, "trained task={} step={}/{} loss={:.4f}", training.order.task(), step,
                  training.last(), std::bit_cast<float>(training.saved.checkpoints.back().loss));
    }
    if (!training.waits || training.publisher->runs()) return {};
    training.sent = *std::exchange(training.waits, std::nullopt);
    return training.publisher->begin(training.inputs->programs.any(), training.state, training.sent.slots);
}

// Stores the manifest and makes the proof, when there is one to be made.
Status TrainingJobs::finish(Training& training) {
    const auto& [task, claim, reports, custody] = *training.order.live;
    if (claim.state != ClaimState::working) return {};
    core::HistoryManifest manifest;
    manifest.interval = task.spec.work.interval;
    manifest.stride = task.spec.work.stride;
    manifest.state_roots = training.roots;
    for (const auto& record : training.saved.checkpoints) manifest.checkpoint_contents.push_back(record.content);
    QUERN_TRY(const Hash32 content, context_.node->put_content(core::encode(manifest)));
    QUERN_TRY(const std::optional<Hash32> kept, custody_manifest(training, content, std::move(manifest)));
    if (!kept) return {};
    const CheckpointRecord& last = training.saved.checkpoints.back();
    chain::types::TaskProvePayload payload;
    payload.task = task.id;
    payload.history_root = core::history_root(training.roots);
    payload.history_content = content;
    payload.custody_content = *kept;
    if (core::claims_data(task.spec)) QUERN_CHECK(claim_rows(training, payload));
    payload.initial_path = core::history_path(training.roots, 0);
    payload.final_root = training.roots.back();
    payload.final_path = core::history_path(training.roots, training.roots.size() - 1);
    payload.loss = last.loss;
    payload.loss_path = last.loss_path;
    training.told.proof = std::make_shared<const chain::types::TaskProvePayload>(std::move(payload));
    tell(training);
    // What is left to do needs no states: room for other tasks.
    training.fragments.reset();
    training.publisher.reset();
    training.runner.reset();
    training.tolerant.reset();
    training.fast_room.reset();
    training.data.reset();
    training.inputs.reset();
    training.state.clear();
    return {};
}

// Of one that is complete since before, nothing but the file is there.
Status TrainingJobs::claim_rows(Training& training, chain::types::TaskProvePayload& proof) {
    const TaskClaim& live = *training.order.live;
    QUERN_TRY(const auto plan, core::TaskPlan::decode(live.task.spec.plan));
    const std::uint64_t bytes = vm::tensor::data_bytes(plan.header().data.back());
    QUERN_TRY(const auto rows,
              ClaimedRows::open(rows_path(training.workspace, live.claim.id.stretch), bytes, bytes, false));
    QUERN_TRY(proof.claimed_content, rows.put(*context_.node));
    if (live.task.spec.work.largest == 0) return {};
    // Room for the states of this.
    training.publisher.reset();
    training.runner.reset();
    training.tolerant.reset();
    training.fast_room.reset();
    training.state.clear();
    const CheckpointRecord& first = training.saved.checkpoints.front();
    QUERN_TRY(proof.largest,
              own_largest_rows(*context_.node, context_.inputs, live, {first.content, first.state_root}, rows,
                               {context_.options.backend, context_.pool.get(), &context_.stopping}));
    if (context_.options.fault.fault != Fault::wrong_largest) return {};
    const std::uint64_t segments =
        core::segment_count(chain::market::stretch_of(live).steps, live.task.spec.work.interval);
    for (std::uint64_t& segment : proof.largest) segment = (segment + 1) % segments;
    std::sort(proof.largest.begin(), proof.largest.end());
    return {};
}

Expected<std::optional<Hash32>> TrainingJobs::custody_manifest(Training& training, const Hash32& history,
                                                               core::HistoryManifest manifest) {
    if (training.order.live->task.custodians == 0) return std::optional(Hash32());
    if (training.fragments != nullptr) {
        if (!training.fragments->is_done()) return std::optional<Hash32>();
        QUERN_CHECK(training.fragments->result());
        return std::optional(*training.custody_manifest);
    }
    if (training.inputs == nullptr) {
        QUERN_TRY(training.inputs, context_.inputs.load(*context_.node, training.order.live->task));
    }
    training.custody_manifest = std::make_shared<Hash32>();
    const crypto::CellCode code = custody_of(*training.order.live).code;
    log::info(Category::solver, "fragments are made task={} custodians={}", training.order.task(), code.total);
    training.fragments = std::make_unique<CustodyRun>(
        context_.connect(), context_.stopping,
        [=, inputs = training.inputs, made = training.custody_manifest, manifest = std::move(manifest),
         fault = context_.options.fault.fault](NodeView& node, const CustodyLimits& all) -> Status {
            const CustodyLimits limits = limits_of(inputs->programs.any(), all);
            QUERN_TRY(const auto contents, custody_contents(node, inputs->programs.any(), history, manifest, limits));
            QUERN_TRY(*made, put_custody(node, code, contents, limits));
            if (fault != Fault::bad_custody) return {};
            QUERN_TRY(auto wrong, fetch_custody(node, *made, code));
            for (auto& each : wrong.contents) each.fragments.back() = each.content;
            QUERN_TRY(*made, node.put_content(core::encode(wrong)));
            return {};
        },
        [&board = board_] { board.wake(); });
    return std::optional<Hash32>();
}

}  // namespace quern::compute::worker
