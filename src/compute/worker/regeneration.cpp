#include "compute/worker/regeneration.h"

#include "base/log.h"
#include "chain/market/delays.h"

namespace quern::compute::worker {

using log::Category;

Expected<std::unique_ptr<Regeneration>> Regeneration::begin(Context& context, const chain::types::TaskClaim& live,
                                                            Wanted wanted, const FaultPlan& fault,
                                                            std::function<void()> stored) {
    const auto& [task, claim, reports, custody] = live;
    std::unique_ptr<Regeneration> made(new Regeneration);
    made->there_[wanted.first] = wanted.start;
    for (const KeptState& state : wanted.kept) made->there_[state.step] = state.content;
    for (const std::uint64_t step : wanted.steps)
        if (!made->there_.contains(step)) made->wanted_.push_back(step);
    if (made->wanted_.empty()) return std::unique_ptr<Regeneration>();
    made->context_ = &context;
    made->before_ = chain::market::stretch_of(live).before;
    made->stride_ = task.spec.work.stride;
    made->history_ = std::move(wanted.history);
    QUERN_TRY(made->inputs_, context.inputs.load(*context.node, task));
    if (wanted.beside_training) {
        std::uint64_t bytes = state_bytes(made->inputs_->programs.any());
        for (const vm::tensor::Program& program : made->inputs_->programs.programs)
            bytes += vm::tensor::step_bytes(program);
        made->room_ = context.inputs.hold(bytes, Duty::bound);
        // Verifiers who wait in vain would cost the lock.
        if (made->room_ == nullptr)
            log::warning(Category::solver, "more memory than allowed, for states that verifiers ask for task={} MiB={}",
                         task.id, bytes >> 20);
    }
    made->seed_ = vm::tensor::seed_tensor(claim.seed_beacon);
    QUERN_TRY(auto data, context.inputs.data_of(*context.node, live, *made->inputs_));
    made->data_ = std::make_unique<DataReader>(std::move(data));
    made->data_->bind(*context.node, &context.stopping);
    made->runner_ = std::make_unique<StepRunner>(made->inputs_->programs, *made->data_, made->seed_, fault,
                                                 context.options.backend, context.pool.get(), &context.stopping);
    made->publisher_ =
        std::make_unique<Publisher>(context.connect(), context.pool.get(), context.stopping, std::move(stored));
    made->runner_->set_before_writing(
        [publisher = made->publisher_.get()](std::size_t slot) { publisher->before_writing(slot); });
    log::info(Category::solver, "drawn states are computed again task={} states={}", task.id, made->wanted_.size());
    return made;
}

bool Regeneration::is_on_the_way() const {
    const std::uint64_t wanted = wanted_.front();
    return !state_.empty() && step_ <= wanted && step_ >= std::prev(there_.upper_bound(wanted))->first;
}

// The state that is being sent stays until it is stored; what comes after it is computed meanwhile.
bool Regeneration::runs() const {
    if (!publisher_->runs() || publisher_->is_stored()) return !done();
    return !wanted_.empty() && is_on_the_way() && step_ < wanted_.front();
}

void Regeneration::take_stored() {
    auto stored = publisher_->take();
    if (!stored) return;
    there_[sent_] = stored->content;
    made_.push_back({sent_, stored->content, std::move(stored->slots)});
}

Status Regeneration::load() {
    while (!is_on_the_way()) {
        const auto nearest = std::prev(there_.upper_bound(wanted_.front()));
        state_.clear();  // not beside the one that is read
        auto state = context_->inputs.checkpoint(*context_->node, inputs_->programs.any(),
                                                 {nearest->second, root_after(nearest->first)}, context_->pool.get(),
                                                 &context_->stopping);
        if (!state && is_not_found(state.error()) && nearest != there_.begin()) {
            there_.erase(nearest);  // there is a longer way
            continue;
        }
        QUERN_TRY(state_, std::move(state));
        step_ = nearest->first;
    }
    return {};
}

Status Regeneration::advance(const Slice& slice) {
    for (bool first = true; first || !slice.over(); first = false) {
        take_stored();
        if (wanted_.empty() || !runs()) return {};
        QUERN_CHECK(load());
        if (step_ < wanted_.front()) {
            if (!runner_->run(state_, ++step_)) {
                state_.clear();  // what the step has written over is gone
                return data_->why_ended(context_->stopping);
            }
            continue;
        }
        if (publisher_->runs()) return {};
        sent_slots_ = vm::tensor::slot_roots(state_, context_->pool.get(), &context_->stopping);
        if (context_->stopping.requested()) return busy("worker.stopped");
        if (vm::tensor::state_root(sent_slots_) != root_after(step_))
            return fail("worker.other_state", "step " + std::to_string(step_));
        QUERN_CHECK(publisher_->begin(inputs_->programs.any(), state_, sent_slots_));
        sent_ = step_;
        wanted_.pop_front();
    }
    return {};
}

}  // namespace quern::compute::worker
