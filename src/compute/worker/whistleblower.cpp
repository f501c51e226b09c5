#include "compute/worker/whistleblower.h"

#include <numeric>

#include "base/log.h"
#include "compute/core/claims.h"

namespace quern::compute::worker {
namespace {

using chain::types::NativeKind;
using chain::types::Task;
using chain::types::TaskState;
using log::Category;

std::string challenge_file(const Hash32& history_root) {
    return "challenge-" + to_hex(history_root.view().first(8)) + ".rlp";
}

std::string purpose(const char* what, const Task& task) {
    return std::string(what) + "/" + std::to_string(task.id) + "." + std::to_string(task.round);
}

}  // namespace

Expected<Whistleblower::Watch*> Whistleblower::watch(const Task& task) {
    if (const auto known = watches_.find(task.id); known != watches_.end()) {
        if (known->second.round == task.round && known->second.history_root == task.history_root) return &known->second;
        watches_.erase(known);
    }
    Watch watch;
    watch.round = task.round;
    watch.history_root = task.history_root;
    QUERN_TRY(watch.workspace, Workspace::open(context_.options.datadir, task));
    QUERN_TRY(watch.saved, watch.workspace.load<SavedChallenge>(challenge_file(task.history_root)));
    if (!watch.saved) {
        std::vector<std::uint64_t> segments(core::segment_count(task.spec.steps, task.spec.interval));
        std::iota(segments.begin(), segments.end(), 0);
        const FaultPlan fault =
            context_.options.fault.fault == Fault::false_accusation ? context_.options.fault : FaultPlan{};
        QUERN_TRY(watch.replay, Replay::begin(context_, task, std::move(segments), {}, fault));
        log::info(Category::whistleblower, "replay begins task={} round={}", task.id, task.round);
    }
    return &(watches_[task.id] = std::move(watch));
}

void Whistleblower::on_task(const Task& task) {
    if (task.state < TaskState::proved || task.state > TaskState::disputed) return;
    const auto& me = context_.sender.address();
    if (task.solver == me || task.submitter == me) return;
    for (const auto& report : task.reports)
        if (report.verifier == me) return;
    const auto current = watch(task);
    if (!current) {
        log::debug(Category::whistleblower, "cannot watch task={} reason={}", task.id, current.error().to_string());
        return;
    }
    Watch& mine = **current;
    if (mine.saved && mine.saved->accuse) challenge(task, mine);
}

void Whistleblower::challenge(const Task& task, Watch& watch) {
    const auto& me = context_.sender.address();
    const SavedChallenge& saved = *watch.saved;
    // A dispute of this claim by this worker is on the chain already: nothing to do here.
    for (const std::uint64_t id : task.disputes) {
        const auto dispute = context_.node.dispute(id);
        if (!dispute || dispute->rival == me) return;
    }
    const Hash32 commitment = core::challenge_commitment(me, saved.rival_root, saved.salt);
    // Reveal first: it is refused until the commitment is in an earlier block, whoever sent that before a restart.
    std::vector<Hash32> roots = split_roots(saved.history);
    chain::types::ChallengeRevealPayload reveal;
    reveal.task = task.id;
    reveal.claim = saved.rival_root;
    reveal.salt = saved.salt;
    reveal.opening = core::encode(core::HistoryChallenge{core::history_path(roots, 0)});
    if (context_.sender.send(purpose("challenge_reveal", task), NativeKind::challenge_reveal, reveal) !=
        Sender::Outcome::refused)
        return;
    context_.sender.send(purpose("challenge_commit", task), NativeKind::challenge_commit,
                         chain::types::ChallengeCommitPayload{task.id, commitment});
}

bool Whistleblower::work(std::uint64_t milliseconds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    bool worked = false;
    for (auto& [task, watch] : watches_) {
        if (!watch.replay || watch.saved) continue;
        worked = true;
        if (const Status status = watch.replay->advance(until); !status) {
            log::warning(Category::whistleblower, "replay stopped task={} reason={}", task, status.error().to_string());
            watches_.erase(task);
            return true;
        }
        // The first wrong segment is enough once it is whole.
        const bool found = watch.replay->first_difference() != 0;
        if (!watch.replay->done() && !found) continue;
        if (found && !watch.replay->done() && !watch.replay->at_segment_start()) continue;
        SavedChallenge saved;
        saved.accuse = found;
        if (found) {
            saved.rival_root = core::history_root(watch.replay->history());
            saved.history = join_roots(watch.replay->history());
            context_.rng.fill(saved.salt.data);
        }
        if (const Status status = watch.workspace.save(challenge_file(watch.history_root), saved); !status) {
            log::error(Category::whistleblower, "challenge not saved task={} reason={}", task,
                       status.error().to_string());
            continue;
        }
        log::info(Category::whistleblower, "replayed task={} verdict={}{}", task, found ? "WRONG" : "right",
                  found ? " step=" + std::to_string(watch.replay->first_difference()) : "");
        watch.saved = std::move(saved);
    }
    return worked;
}

void Whistleblower::forget_all_but(const std::set<std::uint64_t>& live) {
    std::erase_if(watches_, [&](const auto& entry) { return !live.contains(entry.first); });
}

std::vector<Hash32> Whistleblower::claimed_history(const Task& task) {
    const auto current = watch(task);
    if (!current || !(*current)->saved || !(*current)->saved->accuse) return {};
    return split_roots((*current)->saved->history);
}

}  // namespace quern::compute::worker
