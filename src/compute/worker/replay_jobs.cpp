#include "compute/worker/replay_jobs.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "chain/market/delays.h"
#include "compute/core/history.h"
#include "compute/worker/largest_rows.h"
#include "compute/worker/task_time.h"

namespace quern::compute::worker {
namespace {

using chain::types::ClaimState;
using log::Category;

// A question about data takes a second of the thread when they are on their way: rarely, where others could run.
constexpr std::uint64_t kAskAgainMs = 5'000;

std::string files_of(const char* what, const Claim& claim) {
    return std::string(what) + "-" + std::to_string(claim.id.stretch) + "-";
}
// A redraw of verifiers asks for another replay.
std::string file_of(const char* what, const Claim& claim) {
    return files_of(what, claim) + to_hex(claim.verify_beacon.view().first(8)) + ".rlp";
}

// What each probe's tile is, in a few bytes where there are many.
void keep_probes(Finding& finding, std::span<const core::ProbeResult> results) {
    for (const auto& probe : results) {
        finding.probe_hashes.push_back(vm::tensor::tile_hash(probe.words));
        if (results.size() <= kMaxWatchedTiles) finding.probe_tiles.push_back(probe.words);
    }
}

template <class Saved>
Expected<std::optional<Saved>> load_saved(const char* what, const Workspace& workspace, const Claim& claim) {
    return workspace.load<Saved>(file_of(what, claim));
}

class VerifierDuty final : public ReplayDuty {
public:
    VerifierDuty(const Address& address, const FaultPlan& fault) : address_(address), fault_(fault) {}
    Category category() const override { return Category::verifier; }
    Duty duty() const override { return Duty::bound; }
    bool checks_data_first() const override { return true; }
    bool stops_when_wrong() const override { return false; }

    ReplayPlan plan(const TaskClaim& live, const core::TaskPlan& steps) const override {
        const auto& [task, claim, reports, custody] = live;
        ReplayPlan plan;
        plan.segments = core::segments_of(task, claim, address_);
        plan.probes = probes_of(live, address_, steps);
        plan.own = plan.probes.size();
        // What peers must tell of these segments is on the way.
        for (const auto& report : reports) {
            const auto shared = peer_probes(live, address_, report.verifier, steps);
            for (const auto& each : shared) plan.probes.push_back(each.probe);
        }
        return plan;
    }
    Expected<std::shared_ptr<Finding>> load(const Workspace& workspace, const Claim& claim) const override {
        QUERN_TRY(const auto saved, load_saved<SavedReport>("report", workspace, claim));
        if (!saved) return std::shared_ptr<Finding>();
        QUERN_TRY(Finding finding, unpack(*saved));
        return std::make_shared<Finding>(std::move(finding));
    }
    Status save(const Workspace& workspace, const Claim& claim, const Finding& finding) const override {
        return workspace.save(file_of("report", claim), pack_report(finding));
    }
    // A receipt first, then the report.
    std::uint64_t due(const TaskClaim& live, const Replayed& told) const override {
        const bool receipted = live.claim.state == ClaimState::custody && told.data_checked;
        return live.claim.deadline + (receipted ? chain::market::in_ms(live.task.spec.windows.verify_s) : 0);
    }
    std::optional<Finding> invent(const Claim& claim, const ReplayPlan& plan) const override {
        if (fault_.fault != Fault::pass_without_work) return std::nullopt;
        Finding finding;
        finding.secret = claim.verify_beacon;
        finding.probes.resize(plan.own);
        return finding;
    }

private:
    Address address_;
    FaultPlan fault_;
};

class WhistleblowerDuty final : public ReplayDuty {
public:
    Category category() const override { return Category::whistleblower; }
    Duty duty() const override { return Duty::voluntary; }
    bool checks_data_first() const override { return false; }
    bool stops_when_wrong() const override { return true; }

    ReplayPlan plan(const TaskClaim& live, const core::TaskPlan& steps) const override {
        const auto& [task, claim, reports, custody] = live;
        ReplayPlan plan;
        plan.segments.resize(core::segment_count(chain::market::stretch_of(live).steps, task.spec.work.interval));
        std::iota(plan.segments.begin(), plan.segments.end(), 0);
        for (const auto& report : reports) {
            const auto drawn = probes_of(live, report.verifier, steps);
            plan.probes.insert(plan.probes.end(), drawn.begin(), drawn.end());
        }
        return plan;
    }
    Expected<std::shared_ptr<Finding>> load(const Workspace& workspace, const Claim& claim) const override {
        QUERN_TRY(auto saved, load_saved<SavedWatch>("watch", workspace, claim));
        if (saved) return found_in(*saved);
        // A history that was found wrong stays wrong when verifiers are drawn again.
        QUERN_TRY(const auto names, workspace.files(files_of("watch", claim)));
        for (const std::string& name : names) {
            QUERN_TRY(saved, workspace.load<SavedWatch>(name));
            if (saved && saved->wrong_step != 0) return found_in(*saved);
        }
        return std::shared_ptr<Finding>();
    }
    Status save(const Workspace& workspace, const Claim& claim, const Finding& finding) const override {
        return workspace.save(file_of("watch", claim), pack_watch(finding));
    }
    // Before the challenge window closes, whatever comes before it.
    std::uint64_t due(const TaskClaim& live, const Replayed&) const override {
        const auto& [task, claim, reports, custody] = live;
        if (claim.state >= ClaimState::challenge) return claim.deadline;
        // The reveals' window begins anew once the beacon that forces errors is there.
        const std::uint64_t windows = static_cast<std::uint64_t>(ClaimState::revealing) -
                                      static_cast<std::uint64_t>(claim.state) +
                                      (chain::market::awaits_forced_beacon(claim) ? 1 : 0);
        return claim.deadline +
               chain::market::in_ms(windows * task.spec.windows.verify_s + task.spec.windows.challenge_s);
    }

private:
    [[nodiscard]] static Expected<std::shared_ptr<Finding>> found_in(const SavedWatch& saved) {
        QUERN_TRY(Finding finding, unpack(saved));
        return std::make_shared<Finding>(std::move(finding));
    }
};

}  // namespace

std::unique_ptr<ReplayDuty> verifier_duty(const Address& address, const FaultPlan& fault) {
    return std::make_unique<VerifierDuty>(address, fault);
}
std::unique_ptr<ReplayDuty> whistleblower_duty() { return std::make_unique<WhistleblowerDuty>(); }

void ReplayJobs::take_orders() {
    const auto orders = board_.take();
    if (!orders) return;
    std::erase_if(jobs_, [&](const auto& entry) { return !is_wanted(*orders, entry.second.order); });
    const bool others = std::any_of(jobs_.begin(), jobs_.end(), [](const auto& entry) { return entry.second.runs(); });
    for (const auto& [id, order] : *orders) {
        const auto [at, is_new] = jobs_.try_emplace(id);
        Job& job = at->second;
        job.order = order;
        job.duty = duty_.get();
        if (!is_new && !job.failed) continue;
        if (!is_new && others && context_.clock.monotonic_ms() < job.again_ms) continue;
        job.failed = false;
        if (job.replay != nullptr) continue;
        if (const Status begun = begin(job); !begun) stopped(job, begun.error());
    }
}

Status ReplayJobs::complete(Job& job, Finding& finding) {
    if (!finding.pass || finding.probe_hashes.empty()) return {};
    const auto inputs = context_.inputs.load(*context_.node, job.order.live->task, duty_->duty());
    if (inputs)
        finding.programs = std::make_shared<const core::TaskPrograms>((*inputs)->programs);
    else if (duty_->duty() == Duty::voluntary)  // a report must not wait for what only its peers' are compared with
        return fail(inputs.error());
    return {};
}

Status ReplayJobs::begin(Job& job) {
    const TaskClaim& live = *job.order.live;
    const auto& [task, claim, reports, custody] = live;
    QUERN_TRY(job.workspace, Workspace::open(context_.options.datadir, task));
    QUERN_TRY(auto saved, duty_->load(job.workspace, claim));
    if (saved == nullptr) {
        QUERN_TRY(const auto inputs, context_.inputs.load(*context_.node, task, duty_->duty()));
        if (duty_->duty() == Duty::voluntary) QUERN_CHECK(context_.inputs.try_data(*context_.node, task, *inputs));
        ReplayPlan plan = duty_->plan(live, inputs->programs.plan);
        if (auto invented = duty_->invent(claim, plan)) {
            QUERN_CHECK(duty_->save(job.workspace, claim, *invented));
            saved = std::make_shared<Finding>(std::move(*invented));
        } else {
            const FaultPlan& fault = context_.options.fault;
            const std::size_t segments = plan.segments.size();
            if (context_.profile != nullptr)
                log::info(duty_->category(), "replay takes about seconds={:.1f} task={}",
                          replay_time(inputs->programs, task, chain::market::stretch_of(live), plan.segments,
                                      plan.probes.size(), *context_.profile),
                          task.id);
            job.own_probes = plan.own;
            QUERN_TRY(job.replay, Replay::begin(context_, live, std::move(plan.segments), std::move(plan.probes),
                                                fault.accuser_cheats() ? fault : FaultPlan{}, duty_->duty()));
            // A verifier has been served what it was drawn for.
            if (duty_->duty() == Duty::voluntary)
                job.replay->keep_starts(LocalStates(job.workspace, claim.history_root));
            log::info(duty_->category(), "replay begins task={} round={} segments={}", task.id, task.round, segments);
            return {};
        }
    }
    QUERN_CHECK(complete(job, *saved));
    job.told.data_awaited = false;
    job.told.finding = std::move(saved);
    board_.publish(job.order, job.told);
    return {};
}

void ReplayJobs::stopped(Job& job, const Error& error) {
    const bool awaited = is_awaited(error);
    // What was checked need not be read again; the memory is others' where nobody sends anything.
    if (!is_on_its_way(error)) job.replay.reset();
    job.custody.reset();
    // Nothing that the solver could be blamed for, or not yet: tried again.
    job.failed = awaited || is_passing(error) || is_own_limit(error);
    job.again_ms = context_.clock.monotonic_ms() + kAskAgainMs;
    const char* const what = awaited ? "awaited" : job.failed ? "unknown" : "missing";
    if (const std::string reason = error.to_string(); std::exchange(job.said, reason) != reason)
        log::warning(duty_->category(), "replay stopped task={} round={} data={} reason={}", job.order.task(),
                     job.order.live->task.round, what, reason);
    const bool known = job.told.data_awaited == awaited && job.told.data_missing == !job.failed;
    job.told.data_awaited = awaited;
    job.told.data_missing = !job.failed;
    if (!known) board_.publish(job.order, job.told);  // or news and orders would chase each other
}

bool ReplayJobs::work(std::uint64_t milliseconds) {
    take_orders();
    return run_in_turn(jobs_, turns_, [&](Job& job) {
        if (const Status status = advance(job, Slice(context_, milliseconds)); !status) stopped(job, status.error());
    });
}

Status ReplayJobs::advance(Job& job, const Slice& slice) {
    Replay& replay = *job.replay;
    if (duty_->checks_data_first() && !job.told.data_checked) {
        QUERN_CHECK(replay.check_checkpoints(slice));
        if (!replay.checkpoints_checked()) return {};
        QUERN_TRY(const bool checked, custody_checked(job));
        if (!checked) return {};
        job.told.data_checked = true;
        job.told.data_awaited = false;
        board_.publish(job.order, job.told);
    }
    const std::size_t before = replay.segments_done();
    QUERN_CHECK(replay.advance(slice));
    if (replay.segments_done() != before)
        log::info(duty_->category(), "replays task={} segment={}/{}", job.order.task(), replay.segments_done(),
                  replay.segments());
    const bool wrong = replay.first_difference() != 0;
    // A wrong segment is enough once it is whole.
    if (!replay.done() && !(wrong && duty_->stops_when_wrong() && replay.at_segment_start())) return {};
    return finish(job);
}

Expected<bool> ReplayJobs::custody_checked(Job& job) {
    const auto& live = job.order.live;
    const CustodyRef custody = custody_of(*live);
    if (!custody.exists() && live->task.spec.work.largest == 0) return true;
    if (job.custody == nullptr) {
        job.custody = std::make_unique<CustodyRun>(
            context_.connect(), context_.stopping,
            [live, custody, &store = context_.inputs, backend = context_.options.backend, pool = context_.pool](
                NodeView& node, const CustodyLimits& all) -> Status {
                QUERN_CHECK(check_largest_rows(node, store, *live, {backend, pool.get(), all.cancellation}));
                if (!custody.exists()) return {};
                QUERN_TRY(const auto inputs, store.load(node, live->task));
                const CustodyLimits limits = limits_of(inputs->programs.any(), all);
                QUERN_TRY(const auto history, store.manifest(node, *live));
                QUERN_TRY(const auto contents, custody_contents(node, inputs->programs.any(),
                                                                live->claim.history_content, *history, limits));
                QUERN_TRY(const auto manifest, fetch_custody(node, custody.manifest, custody.code));
                return check_custody(node, manifest, contents, limits);
            },
            [&board = board_] { board.wake(); });
    }
    if (!job.custody->is_done()) return false;
    QUERN_CHECK(job.custody->result());
    job.custody.reset();
    return true;
}

Status ReplayJobs::finish(Job& job) {
    const auto& [task, claim, reports, custody] = *job.order.live;
    auto finding = std::make_shared<Finding>();
    finding->wrong_step = job.replay->first_difference();
    finding->pass = finding->wrong_step == 0;
    if (!finding->pass) finding->history = job.replay->history();
    const std::span results(job.replay->probe_results());
    const auto own = results.first(job.own_probes);
    finding->probes.assign(own.begin(), own.end());
    if (finding->pass) keep_probes(*finding, results.subspan(job.own_probes));
    context_.rng->fill(finding->secret.data);
    context_.rng->fill(finding->peer_secret.data);
    QUERN_CHECK(duty_->save(job.workspace, claim, *finding));
    QUERN_CHECK(complete(job, *finding));
    const bool report = duty_->duty() == Duty::bound;
    const char* const verdict = finding->pass ? (report ? "PASS" : "right") : (report ? "FAIL" : "WRONG");
    log::info(duty_->category(), "replayed task={} verdict={}{}", task.id, verdict,
              finding->pass                            ? ""
              : finding->wrong_step == kWrongSomewhere ? " step=unknown"
                                                       : " step=" + std::to_string(finding->wrong_step));
    job.replay.reset();
    job.told.finding = std::move(finding);
    board_.publish(job.order, job.told);
    return {};
}

}  // namespace quern::compute::worker
