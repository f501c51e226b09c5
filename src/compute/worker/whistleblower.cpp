#include "compute/worker/whistleblower.h"

#include <algorithm>
#include <numeric>

#include "base/log.h"
#include "compute/core/claims.h"
#include "crypto/hash.h"
#include "crypto/merkle.h"

namespace quern::compute::worker {
namespace {

using chain::types::NativeKind;
using chain::types::Task;
using chain::types::TaskState;
using log::Category;

// A redraw of verifiers asks for another watch.
std::string watch_file(const Hash32& verify_beacon) {
    return "watch-" + to_hex(verify_beacon.view().first(8)) + ".rlp";
}

std::string purpose(const char* what, const Task& task, std::uint32_t target) {
    return worker::purpose(what, task) + ":" + std::to_string(target);
}

// Whether the verifier was drawn for the segment of a step.
bool sampled(const Task& task, const chain::types::Address& verifier, std::uint64_t step) {
    const std::uint64_t segments = core::segment_count(task.spec.steps, task.spec.interval);
    const auto drawn = core::draw_segments(task.verify_beacon, verifier, segments, task.spec.samples);
    return std::binary_search(drawn.begin(), drawn.end(), (step - 1) / task.spec.interval);
}

// Probes of one report, in its result tree's order.
std::vector<core::Probe> probes_of(const Task& task, const chain::types::Address& verifier, std::uint64_t node_count) {
    const std::uint64_t segments = core::segment_count(task.spec.steps, task.spec.interval);
    const auto drawn = core::draw_segments(task.verify_beacon, verifier, segments, task.spec.samples);
    return core::draw_probes(task.verify_beacon, verifier, drawn, task.spec.interval, node_count);
}

Hash32 salt_of(const SavedWatch& saved, std::uint32_t target) {
    const std::array<std::uint8_t, 4> number{static_cast<std::uint8_t>(target >> 24),
                                             static_cast<std::uint8_t>(target >> 16),
                                             static_cast<std::uint8_t>(target >> 8), static_cast<std::uint8_t>(target)};
    return crypto::sha256({saved.secret.view(), number});
}

}  // namespace

Expected<Whistleblower::Watch*> Whistleblower::watch(const Task& task) {
    if (Watch* known = current_job(watches_, task)) return known;
    Watch watch;
    watch.round = task.round;
    watch.verify_beacon = task.verify_beacon;
    QUERN_TRY(watch.workspace, Workspace::open(context_.options.datadir, task));
    QUERN_TRY(watch.saved, watch.workspace.load<SavedWatch>(watch_file(task.verify_beacon)));
    if (!watch.saved) {
        QUERN_TRY(const auto inputs, context_.inputs.load(task, Duty::voluntary));
        std::vector<std::uint64_t> segments(core::segment_count(task.spec.steps, task.spec.interval));
        std::iota(segments.begin(), segments.end(), 0);
        std::vector<core::Probe> probes;
        for (const auto& report : task.reports) {
            const auto drawn = probes_of(task, report.verifier, inputs->program.nodes.size());
            probes.insert(probes.end(), drawn.begin(), drawn.end());
        }
        const FaultPlan fault =
            context_.options.fault.fault == Fault::false_accusation ? context_.options.fault : FaultPlan{};
        QUERN_TRY(watch.replay,
                  Replay::begin(context_, task, std::move(segments), std::move(probes), fault, Duty::voluntary));
        log::info(Category::whistleblower, "replay begins task={} round={}", task.id, task.round);
    }
    return &(watches_[task.id] = std::move(watch));
}

void Whistleblower::on_task(const Task& task) {
    if (task.state < TaskState::custody || task.state > TaskState::disputed) return;
    const auto& me = context_.sender.address();
    if (task.solver == me || task.submitter == me) return;
    for (const auto& report : task.reports)
        if (report.verifier == me) return;
    const auto current = watch(task);
    if (!current) {
        log::debug(Category::whistleblower, "cannot watch task={} reason={}", task.id, current.error().to_string());
        return;
    }
    if (!(*current)->saved) return;
    const SavedWatch& saved = *(*current)->saved;
    const auto found = accusations(task, saved);
    if (!found) {
        log::warning(Category::whistleblower, "cannot accuse task={} reason={}", task.id, found.error().to_string());
        return;
    }
    for (const Accusation& accusation : *found) challenge(task, saved, accusation);
}

Expected<std::vector<Whistleblower::Accusation>> Whistleblower::accusations(const Task& task, const SavedWatch& saved) {
    std::vector<Accusation> found;
    if (saved.wrong_step != 0) {
        // Probes that were taken from a wrong history are not worth a challenge: those who passed the wrong step answer
        // for it as the solver does.
        const std::vector<Hash32> roots = split_roots(saved.history);
        const Hash32 claim = core::history_root(roots);
        const Bytes opening = core::encode(core::HistoryChallenge{core::history_path(roots, 0)});
        found.push_back({0, claim, opening});
        for (std::size_t i = 0; i < task.reports.size(); ++i) {
            const auto& report = task.reports[i];
            if (report.revealed && report.pass && !report.slashed && sampled(task, report.verifier, saved.wrong_step))
                found.push_back({core::kPassTarget + static_cast<std::uint32_t>(i), claim, opening});
        }
        return found;
    }
    QUERN_TRY(const auto inputs, context_.inputs.load(task));
    const auto& program = inputs->program;
    const std::vector<Hash32> expected = split_roots(saved.probes);
    std::size_t first = 0;
    for (std::size_t i = 0; i < task.reports.size(); ++i) {
        const auto& report = task.reports[i];
        const auto probes = probes_of(task, report.verifier, program.nodes.size());
        const std::size_t begin = first;
        first += probes.size();
        if (first > expected.size()) return fail("watch.bad_saved_file");
        if (!report.revealed || !report.pass || report.slashed || report.probes.size() != probes.size()) continue;
        for (std::size_t p = 0; p < probes.size(); ++p) {
            if (report.probes[p] == expected[begin + p]) continue;
            core::ProbeChallenge challenge;
            challenge.segment = probes[p].segment;
            challenge.probe = probes[p].probe;
            challenge.tile_hash = report.probes[p];
            challenge.path =
                crypto::merkle_path(core::result_leaves(report.pass, report.rival_root, report.probes), 1 + p);
            challenge.node = core::ProgramProver(program).node(probes[p].node);
            found.push_back({static_cast<std::uint32_t>(1 + i), expected[begin + p], core::encode(challenge)});
            break;  // one wrong tile is enough
        }
    }
    return found;
}

void Whistleblower::challenge(const Task& task, const SavedWatch& saved, const Accusation& accusation) {
    const auto& me = context_.sender.address();
    for (const std::uint64_t id : task.disputes) {
        const auto dispute = context_.node.dispute(id);
        if (!dispute) return;
        // Those of earlier rounds, and about reports of earlier draws, were about something else.
        const std::uint64_t since = accusation.target == 0 ? task.assigned_at : task.proved_at;
        if (dispute->rival == me && dispute->target == accusation.target && dispute->opened_at > since) return;
    }
    const Hash32 salt = salt_of(saved, accusation.target);
    chain::types::ChallengeRevealPayload reveal;
    reveal.task = task.id;
    reveal.target = accusation.target;
    reveal.claim = accusation.claim;
    reveal.salt = salt;
    reveal.opening = accusation.opening;
    // Reveal first: it is refused until the commitment is in an earlier block, whoever sent that before a restart. It
    // is tried in every block, because the commitment holds the task back only for a few.
    if (context_.sender.send(purpose("challenge_reveal", task, accusation.target), NativeKind::challenge_reveal, reveal,
                             Sender::Retry::next_block) != Sender::Outcome::refused)
        return;
    if (task.voided) return;  // too late for another commitment
    const Hash32 commitment = core::challenge_commitment(me, accusation.claim, salt);
    context_.sender.send(purpose("challenge_commit", task, accusation.target), NativeKind::challenge_commit,
                         chain::types::ChallengeCommitPayload{task.id, commitment});
}

bool Whistleblower::work(std::uint64_t milliseconds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    const auto tasks = next_in_turn(watches_, turns_, [](const Watch& watch) { return watch.replay && !watch.saved; });
    std::size_t waiting = tasks.size();
    for (const std::uint64_t task : tasks) {
        if (waiting < tasks.size() && std::chrono::steady_clock::now() >= until) break;
        turns_.ran(task);
        Watch& watch = watches_.at(task);
        const auto share = share_of(until, waiting--);
        if (const Status status = watch.replay->advance(share); !status) {
            if (node_was_away(status.error())) continue;  // goes on where it stands
            log::warning(Category::whistleblower, "replay stopped task={} reason={}", task, status.error().to_string());
            watch.replay.reset();
            watch.given_up = true;
            continue;
        }
        // The first wrong segment is enough once it is whole.
        const bool wrong = watch.replay->first_difference() != 0;
        if (!watch.replay->done() && !(wrong && watch.replay->at_segment_start())) continue;
        if (const Status status = save(watch); !status) {
            log::error(Category::whistleblower, "findings not saved task={} reason={}", task,
                       status.error().to_string());
            continue;
        }
        log::info(Category::whistleblower, "replayed task={} verdict={}{}", task, wrong ? "WRONG" : "right",
                  wrong ? " step=" + std::to_string(watch.replay->first_difference()) : "");
        watch.replay.reset();
    }
    return !tasks.empty();
}

Status Whistleblower::save(Watch& watch) {
    SavedWatch saved;
    saved.wrong_step = watch.replay->first_difference();
    if (saved.wrong_step != 0)
        saved.history = join_roots(watch.replay->history());
    else
        for (const auto& probe : watch.replay->probe_results())
            append(saved.probes, vm::tensor::tile_hash(probe.words));
    context_.rng.fill(saved.secret.data);
    QUERN_CHECK(watch.workspace.save(watch_file(watch.verify_beacon), saved));
    watch.saved = std::move(saved);
    return {};
}

void Whistleblower::forget_all_but(const std::set<std::uint64_t>& live) {
    std::erase_if(watches_, [&](const auto& entry) { return !live.contains(entry.first); });
}

std::vector<Hash32> Whistleblower::claimed_history(const Task& task) {
    const auto current = watch(task);
    if (!current || !(*current)->saved || (*current)->saved->wrong_step == 0) return {};
    return split_roots((*current)->saved->history);
}

}  // namespace quern::compute::worker
