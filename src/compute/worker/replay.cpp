#include "compute/worker/replay.h"

#include <algorithm>

#include "base/log.h"
#include "compute/core/history.h"
#include "compute/core/task_spec.h"
#include "compute/worker/finding.h"

namespace quern::compute::worker {
namespace {

constexpr std::uint64_t kMostStarts = 256;          // of a history that nobody serves
constexpr std::uint64_t kClaimedAtOnce = 1U << 20;  // bytes

}  // namespace

Expected<std::unique_ptr<Replay>> Replay::begin(Context& context, const chain::types::TaskClaim& live,
                                                std::vector<std::uint64_t> segments, std::vector<core::Probe> probes,
                                                const FaultPlan& fault, Duty duty) {
    const auto& [task, claim, reports, custody] = live;
    std::unique_ptr<Replay> replay(new Replay);
    replay->context_ = &context;
    replay->interval_ = task.spec.work.interval;
    replay->stride_ = task.spec.work.stride;
    replay->before_ = chain::market::stretch_of(live).before;
    QUERN_TRY(replay->inputs_, context.inputs.load(*context.node, task, duty));
    auto manifest = context.inputs.manifest(*context.node, live);
    if (manifest) {
        replay->manifest_ = std::move(*manifest);
    } else {
        // Before that it may still come, and majorities may say that it does not.
        const bool said_to_be_there = claim.state >= chain::types::ClaimState::committing;
        const bool may_come = is_on_its_way(manifest.error()) && claim.state == chain::types::ClaimState::committing;
        if (duty == Duty::bound || !said_to_be_there || may_come || !is_withheld(manifest.error()))
            return fail(manifest.error());
        auto unserved = InputStore::unserved_manifest(*context.node, live);
        if (!unserved) return fail(manifest.error());  // it is asked for again
        replay->manifest_ = std::make_shared<const core::HistoryManifest>(std::move(*unserved));
        replay->served_ = false;
        log::warning(log::Category::whistleblower, "history is not served, and trained here task={} steps={} reason={}",
                     task.id, replay->manifest_->steps(), manifest.error().to_string());
    }
    replay->live_ = {task, claim, {}, {}};
    replay->seed_ = vm::tensor::seed_tensor(claim.seed_beacon);
    replay->history_ = replay->manifest_->state_roots;
    const std::uint64_t last = replay->manifest_->checkpoint_contents.size() - 1;
    std::set<std::uint64_t> needed(segments.begin(), segments.end());
    needed.insert({0, last - 1, last});  // there is a segment in each stretch
    replay->to_check_.assign(needed.rbegin(), needed.rend());
    replay->segments_ = std::move(segments);
    replay->results_.resize(probes.size());
    replay->probes_ = std::move(probes);
    QUERN_TRY(auto data, context.inputs.data_of(*context.node, live, *replay->inputs_));
    if (core::claims_data(task.spec))
        replay->claimed_left_ = vm::tensor::data_bytes(replay->inputs_->programs.any().header.data.back());
    replay->data_ = std::make_unique<DataReader>(std::move(data));
    replay->data_->bind(*context.node, &context.stopping);
    replay->runner_ = std::make_unique<StepRunner>(replay->inputs_->programs, *replay->data_, replay->seed_, fault,
                                                   context.options.backend, context.pool.get(), &context.stopping);
    return replay;
}

Expected<vm::tensor::State> Replay::checkpoint_before(std::uint64_t segment) {
    const Hash32& root = manifest_->state_roots[segment * (interval_ / stride_)];
    auto state = context_->inputs.checkpoint(*context_->node, inputs_->programs.any(),
                                             {manifest_->checkpoint_contents[segment], root, custody_of(live_)});
    if (state || segment != 0 || !is_withheld(state.error())) return state;
    return context_->inputs.first_state(*context_->node, live_, inputs_->programs.any(), std::move(state));
}

void Replay::keep_starts(LocalStates files) {
    files_ = std::move(files);
    if (!served_) files_->clear();  // of a replay that did not come to its end
}

Status Replay::check_checkpoints(const Slice& slice) {
    for (bool first = true; !checkpoints_checked() && (first || !slice.over()); first = false) {
        if (to_check_.empty()) {
            QUERN_CHECK(check_claimed());
            continue;
        }
        QUERN_CHECK(checkpoint_before(to_check_.back()));
        to_check_.pop_back();
    }
    return {};
}

// The next part of what the solver claims in tolerance mode: all of it, since only the programs know which step reads
// what.
Status Replay::check_claimed() {
    const auto& data = inputs_->programs.any().header.data;
    Bytes piece(std::min<std::uint64_t>(claimed_left_, kClaimedAtOnce));
    const std::uint64_t first = vm::tensor::data_bytes(data.back()) - claimed_left_;
    if (!data_->read(data.size() - 1, first, piece)) return data_->why_ended(context_->stopping);
    claimed_left_ -= piece.size();
    return {};
}

Status Replay::advance(const Slice& slice) {
    for (bool first = true; !done() && (first || !slice.over()); first = false) {
        const std::uint64_t segment = segments_[segment_];
        const core::SegmentSteps steps = core::segment_steps(segment, interval_, before_);
        if (step_ == 0) {
            const bool goes_on = segment_ != 0 && segments_[segment_ - 1] + 1 == segment && state_matches_;
            if (!goes_on && !served_ && segment_ != 0) {
                go_back();
                continue;
            }
            if (goes_on) {
                keep_start(segment);
            } else {
                state_.clear();  // not beside the one that is read
                QUERN_TRY(state_, checkpoint_before(segment));
            }
            step_ = steps.first - 1;
        }
        if (!run_step(++step_)) {
            step_ = 0;  // what the step has written over is gone
            state_matches_ = false;
            return data_->why_ended(context_->stopping);
        }
        if (step_ == steps.last) {
            step_ = 0;
            ++segment_;
            if (done() && !served_) compare_roots();
        }
    }
    return {};
}

void Replay::compare_roots() {
    if (core::history_root(history_) == live_.claim.history_root) {
        if (files_) files_->clear();
        kept_.clear();
        return;
    }
    first_difference_ = kWrongSomewhere;
    // It may have come meanwhile: those who passed what is wrong answer for it, too.
    const auto manifest = context_->inputs.manifest(*context_->node, live_);
    if (!manifest) return;
    std::uint64_t stride = 0;
    while (history_[stride] == (*manifest)->state_roots[stride]) ++stride;  // their roots differ
    first_difference_ = before_ + stride * stride_;
}

// To the nearest state that is kept before the present segment, or to the first.
void Replay::go_back() {
    const auto nearest = kept_.upper_bound(segments_[segment_]);
    segment_ = 0;
    state_.clear();
    if (!files_ || nearest == kept_.begin()) return;
    const std::uint64_t segment = *std::prev(nearest);
    auto found =
        files_->nearest(first_step_of(segment), inputs_->programs.any(), context_->pool.get(), &context_->stopping);
    if (!found || found->step != first_step_of(segment)) return;
    state_ = std::move(found->state);
    segment_ = segment;  // all segments are replayed
    state_matches_ = true;
}

// Of what was not served `history_` has the roots of its own.
Hash32 Replay::root_before(std::uint64_t segment) const { return history_[segment * (interval_ / stride_)]; }
std::uint64_t Replay::first_step_of(std::uint64_t segment) const {
    return core::segment_steps(segment, interval_, before_).first;
}

void Replay::drop_start(std::uint64_t segment) {
    files_->remove(first_step_of(segment), root_before(segment));
    kept_.erase(segment);
}

// Many states of one history are not to keep a solver in this process from bidding.
std::size_t Replay::most_starts() const {
    const std::uint64_t room = (context_->options.max_disk_mib << 20) / 2;
    return std::clamp<std::uint64_t>(room / std::max<std::uint64_t>(state_bytes(inputs_->programs.any()), 1), 1,
                                     kMostStarts);
}

void Replay::keep_start(std::uint64_t segment) {
    if (!files_) return;
    if (served_)
        while (!kept_.empty()) drop_start(*kept_.begin());
    while (kept_.size() >= most_starts()) {
        kept_each_ *= 2;
        for (const std::uint64_t each : std::set<std::uint64_t>(kept_))
            if (each % kept_each_ != 0) drop_start(each);
    }
    const WorkerOptions& options = context_->options;
    const bool wanted = segment % kept_each_ == 0;
    if (!wanted || !Workspace::has_room(options.datadir, state_bytes(inputs_->programs.any()), options.max_disk_mib))
        return;
    if (const Status written = files_->write(first_step_of(segment), root_before(segment), state_); !written)
        log::warning(log::Category::worker, "a state is not kept step={} reason={}", first_step_of(segment),
                     written.error().to_string());
    else
        kept_.insert(segment);
}

bool Replay::run_step(std::uint64_t step) {
    bool probed = false;
    for (const auto& probe : probes_) probed = probed || probe.step == step;
    if (probed) {
        const bool ran = runner_->run_tapped(state_, step, [&](const vm::tensor::TappedNode& tapped) {
            for (std::size_t i = 0; i < probes_.size(); ++i) {
                if (probes_[i].step != step || probes_[i].node != tapped.number) continue;
                const vm::tensor::Shape& shape = tapped.output.shape();
                const std::uint64_t tile = core::probe_tile(probes_[i], shape);
                results_[i] = {shape, tile, vm::tensor::read_tile(tapped.output, tile)};
            }
        });
        if (!ran) return false;
    } else if (!runner_->run(state_, step)) {
        return false;
    }
    if (step % stride_ != 0) return true;
    const Hash32 root = vm::tensor::state_root(state_, context_->pool.get(), &context_->stopping);
    if (context_->stopping.requested()) return false;
    const std::uint64_t stride = core::stride_of(step, stride_, before_);
    if (!served_) {
        history_[stride] = root;
        state_matches_ = true;  // as far as anybody knows
        return true;
    }
    state_matches_ = root == manifest_->state_roots[stride];
    if (state_matches_) return true;
    if (first_difference_ == 0) first_difference_ = step;
    // Differences of later segments start from checkpoints that this claim already contradicts.
    if (core::segment_of(first_difference_, interval_, before_) == core::segment_of(step, interval_, before_))
        history_[stride] = root;
    return true;
}

}  // namespace quern::compute::worker
