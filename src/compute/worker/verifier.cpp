#include "compute/worker/verifier.h"

#include "base/log.h"

namespace quern::compute::worker {
namespace {

using chain::types::NativeKind;
using chain::types::Task;
using chain::types::TaskState;
using log::Category;

constexpr std::uint64_t kDeclareBlocks = 16;  // from one look at the own bond to the next

// A redraw of verifiers asks for a new report.
std::string report_file(const Hash32& verify_beacon) {
    return "report-" + to_hex(verify_beacon.view().first(8)) + ".rlp";
}

// Nothing that the solver could be blamed for.
bool may_pass(const Error& error) { return node_was_away(error) || is_own_limit(error); }

SavedReport pack(bool pass, const Hash32& rival_root, const Hash32& randomness, const std::vector<Hash32>& history,
                 const std::vector<core::ProbeResult>& probes) {
    SavedReport saved;
    saved.pass = pass;
    saved.rival_root = rival_root;
    saved.randomness = randomness;
    if (!pass) saved.history = join_roots(history);
    for (const auto& probe : probes) {
        for (const std::uint32_t dim : probe.shape.dims)
            for (int shift = 24; shift >= 0; shift -= 8)
                saved.probe_dims.push_back(static_cast<std::uint8_t>(dim >> shift));
        saved.probe_tiles.push_back(probe.tile);
        append(saved.probe_words, vm::tensor::tile_bytes(probe.words));
    }
    return saved;
}

Expected<std::vector<core::ProbeResult>> unpack_probes(const SavedReport& saved) {
    std::vector<core::ProbeResult> probes(saved.probe_tiles.size());
    if (saved.probe_dims.size() != 16 * probes.size() ||
        saved.probe_words.size() != std::size_t{vm::tensor::kTileBytes} * probes.size())
        return fail("verify.bad_saved_report");
    for (std::size_t i = 0; i < probes.size(); ++i) {
        for (std::size_t d = 0; d < 4; ++d) {
            std::uint32_t dim = 0;
            for (std::size_t b = 0; b < 4; ++b) dim = dim << 8 | saved.probe_dims[16 * i + 4 * d + b];
            probes[i].shape.dims[d] = dim;
        }
        probes[i].tile = saved.probe_tiles[i];
        QUERN_TRY(probes[i].words,
                  vm::tensor::tile_from_bytes(
                      BytesView(saved.probe_words).subspan(vm::tensor::kTileBytes * i, vm::tensor::kTileBytes)));
    }
    return probes;
}

}  // namespace

Expected<Verifier::Job*> Verifier::job(const Task& task) {
    if (Job* known = current_job(jobs_, task)) return known;
    Job job;
    job.round = task.round;
    job.verify_beacon = task.verify_beacon;
    QUERN_TRY(job.workspace, Workspace::open(context_.options.datadir, task));
    QUERN_TRY(job.saved, job.workspace.load<SavedReport>(report_file(task.verify_beacon)));
    if (!job.saved) {
        const auto& me = context_.sender.address();
        const std::uint64_t segments = core::segment_count(task.spec.steps, task.spec.interval);
        const auto drawn = core::draw_segments(task.verify_beacon, me, segments, task.spec.samples);
        const auto inputs = context_.inputs.load(task);
        if (!inputs) {
            if (may_pass(inputs.error())) return fail(inputs.error());
            log::warning(Category::verifier, "inputs missing or wrong task={} round={} reason={}", task.id, task.round,
                         inputs.error().to_string());
            job.data_missing = true;
            return &(jobs_[task.id] = std::move(job));
        }
        auto probes =
            core::draw_probes(task.verify_beacon, me, drawn, task.spec.interval, (*inputs)->program.nodes.size());
        if (context_.options.fault.fault == Fault::pass_without_work) {
            job.saved = pack(true, {}, task.verify_beacon, {}, std::vector<core::ProbeResult>(probes.size()));
            QUERN_CHECK(job.workspace.save(report_file(job.verify_beacon), *job.saved));
        } else {
            const FaultPlan fault =
                context_.options.fault.fault == Fault::false_accusation ? context_.options.fault : FaultPlan{};
            auto replay = Replay::begin(context_, task, drawn, std::move(probes), fault);
            if (replay)
                job.replay = std::move(*replay);
            else if (may_pass(replay.error()))
                return fail(replay.error());
            else
                job.data_missing = true;
            log::info(Category::verifier, "replay begins task={} round={} segments={}{}", task.id, task.round,
                      drawn.size(), job.data_missing ? " data=missing" : "");
        }
    }
    return &(jobs_[task.id] = std::move(job));
}

void Verifier::on_block() {
    if (context_.height < declare_at_) return;
    declare_at_ = context_.height + kDeclareBlocks;
    const auto bond = context_.node.bond(chain::types::Role::verifier, context_.sender.address());
    if (!bond || !*bond) return;
    const chain::types::Capacity mine{context_.options.max_step_work, context_.options.work_per_block,
                                      context_.options.max_memory_mib};
    if ((*bond)->capacity == mine) return;
    context_.sender.send("declare_capacity", NativeKind::declare_capacity,
                         chain::types::DeclareCapacityPayload{chain::types::Role::verifier, mine});
}

void Verifier::on_task(const Task& task) {
    if (task.state < TaskState::custody || task.state > TaskState::revealing) return;
    const chain::types::VerifierReport* report = nullptr;
    for (const auto& candidate : task.reports)
        if (candidate.verifier == context_.sender.address() && !candidate.slashed) report = &candidate;
    if (report == nullptr) return;
    const auto current = job(task);
    if (!current) {
        log::warning(Category::verifier, "cannot verify task={} reason={}", task.id, current.error().to_string());
        return;
    }
    const Job& mine = **current;
    const bool knows = mine.data_missing || mine.saved || (mine.replay && mine.replay->checkpoints_checked());
    if (task.state == TaskState::custody && report->custody == 0 && knows) {
        const chain::types::CustodyReceiptPayload payload{task.id, !mine.data_missing};
        context_.sender.send(purpose("custody", task), NativeKind::custody_receipt, payload);
    }
    if (!mine.saved) return;
    if (task.state == TaskState::committing && report->commitment.is_zero()) {
        if (const auto sealed = seal(mine))
            context_.sender.send(purpose("verify_commit", task), NativeKind::verify_commit,
                                 chain::types::VerifyCommitPayload{task.id, sealed->commitment});
    }
    if (task.state == TaskState::revealing && !report->commitment.is_zero() && !report->revealed) {
        if (const auto sealed = seal(mine)) {
            auto reveal = core::make_reveal(*sealed, task.id, sealed->true_index);
            if (!reveal.pass) reveal.initial_path = core::history_path(split_roots(mine.saved->history), 0);
            context_.sender.send(purpose("verify_reveal", task), NativeKind::verify_reveal, reveal);
        }
    }
}

bool Verifier::work(std::uint64_t milliseconds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    const auto tasks = next_in_turn(jobs_, turns_, [](const Job& job) { return job.replay && !job.saved; });
    std::size_t waiting = tasks.size();
    for (const std::uint64_t task : tasks) {
        if (waiting < tasks.size() && std::chrono::steady_clock::now() >= until) break;
        turns_.ran(task);
        Job& job = jobs_.at(task);
        const auto share = share_of(until, waiting--);
        const std::size_t before = job.replay->segments_done();
        Status status = job.replay->check_checkpoints(share);
        if (status && job.replay->checkpoints_checked()) status = job.replay->advance(share);
        if (job.replay->segments_done() != before)
            log::info(Category::verifier, "replays task={} segment={}/{}", task, job.replay->segments_done(),
                      job.replay->segments());
        if (!status) {
            if (!may_pass(status.error())) job.data_missing = true;
            log::warning(Category::verifier, "replay stopped task={} reason={}", task, status.error().to_string());
            job.replay.reset();
            if (!job.data_missing) {
                jobs_.erase(task);  // begun again with the next look at the task
                return true;
            }
            continue;
        }
        if (!job.replay->done()) continue;
        if (const Status status = finish(job); !status)
            log::error(Category::verifier, "report not saved task={} reason={}", task, status.error().to_string());
        else
            log::info(Category::verifier, "replayed task={} verdict={}{}", task, job.saved->pass ? "PASS" : "FAIL",
                      job.saved->pass ? "" : " step=" + std::to_string(job.replay->first_difference()));
        if (job.saved) job.replay.reset();
    }
    return !tasks.empty();
}

Status Verifier::finish(Job& job) {
    Hash32 randomness;
    context_.rng.fill(randomness.data);
    const bool pass = job.replay->first_difference() == 0;
    const Hash32 rival_root = pass ? Hash32{} : core::history_root(job.replay->history());
    SavedReport saved = pack(pass, rival_root, randomness, job.replay->history(), job.replay->probe_results());
    QUERN_CHECK(job.workspace.save(report_file(job.verify_beacon), saved));
    job.saved = std::move(saved);
    return {};
}

Expected<core::SealedReport> Verifier::seal(const Job& job) const {
    QUERN_TRY(const auto probes, unpack_probes(*job.saved));
    return core::seal_report(context_.sender.address(), job.saved->pass, job.saved->rival_root, probes,
                             job.saved->randomness);
}

void Verifier::forget_all_but(const std::set<std::uint64_t>& live) {
    std::erase_if(jobs_, [&](const auto& entry) { return !live.contains(entry.first); });
}

std::vector<Hash32> Verifier::claimed_history(const Task& task) {
    const auto current = job(task);
    if (!current || !(*current)->saved || (*current)->saved->pass) return {};
    return split_roots((*current)->saved->history);
}

}  // namespace quern::compute::worker
