#include "node/chain/executor_thread.h"

#include "base/log.h"

namespace quern::node {

namespace sdbft = chain::consensus::sdbft;

void ExecutorThread::start(Hooks hooks) {
    hooks_ = std::move(hooks);
    thread_ = std::thread([this] { run(); });
}

void ExecutorThread::stop() {
    {
        const MutexLock lock(mutex_);
        stopping_ = true;
        given_up_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

std::optional<ExecutorThread::Place> ExecutorThread::place_of(const Job& job) {
    if (const auto* build = std::get_if<sdbft::BlockRequest>(&job))
        return Place{{build->epoch, build->view}, build->parent.hash};
    if (const auto* validate = std::get_if<sdbft::action::Validate>(&job))
        return Place{{validate->epoch, validate->view}, validate->parent};
    return std::nullopt;
}

// Consensus asks for a block only when its ancestors are valid: what rests on the older one names it as its parent.
bool ExecutorThread::is_overtaken(const Job& older, const Place& newer) {
    const auto* validate = std::get_if<sdbft::action::Validate>(&older);
    return validate != nullptr && std::pair(validate->epoch, validate->view) < newer.view &&
           validate->hash != newer.parent;
}

void ExecutorThread::post(Job job) {
    bool fits = true;
    {
        const MutexLock lock(mutex_);
        // The view of an older question is over.
        if (std::holds_alternative<sdbft::BlockRequest>(job))
            std::erase_if(
                jobs_, [](const Waiting& waiting) { return std::holds_alternative<sdbft::BlockRequest>(waiting.job); });
        if (const auto place = place_of(job)) {
            for (auto& waiting : jobs_) waiting.given_up = waiting.given_up || is_overtaken(waiting.job, *place);
            if (running_ != nullptr && is_overtaken(*running_, *place)) given_up_ = true;
        }
        fits = jobs_.size() < kMaxExecutorJobs;
        if (fits) jobs_.push_back({std::move(job)});
    }
    if (!fits) return hooks_.failed(fault("executor.too_many_jobs", std::to_string(kMaxExecutorJobs)).value());
    changed_.notify_one();
}

void ExecutorThread::run() {
    for (;;) {
        std::optional<Job> job;
        {
            MutexLock lock(mutex_);
            while (!stopping_ && jobs_.empty()) changed_.wait(lock);
            if (stopping_) return;
            job = std::move(jobs_.front().job);
            given_up_ = jobs_.front().given_up;
            jobs_.pop_front();
            running_ = &*job;
        }
        const auto done = std::visit([this](const auto& asked) { return perform(asked); }, *job);
        {
            const MutexLock lock(mutex_);
            running_ = nullptr;
        }
        for (const auto& hash : chain_.take_forgotten()) hooks_.answer(sdbft::event::Forgotten{hash});
        if (done) continue;
        return hooks_.failed(done.error());
    }
}

Status ExecutorThread::perform(const sdbft::BlockRequest& request) {
    auto built = chain_.build_block(request);
    if (!built) {
        if (built.error().is_local_fault()) return fail(built.error());
        log::warning(log::Category::consensus, "no block built parent={} view={} reason={}", request.parent.number,
                     request.view, built.error().to_string());
        hooks_.answer(sdbft::event::BuildFailed{request.view});
        return {};
    }
    hooks_.answer(sdbft::event::Built{request.view, std::move(built->block)});
    return {};
}

Status ExecutorThread::perform(const sdbft::action::Validate& block) {
    const auto valid = given_up_ ? Status(busy("block.given_up"))
                                 : chain_.validate_block(block.hash, block.block, [this] { return given_up_.load(); });
    if (!valid && valid.error().is_busy()) {
        hooks_.answer(sdbft::event::Forgotten{block.hash});
        return {};
    }
    if (!valid) {
        // Nothing was learnt about the block: a vote against it, or for it, would be a guess.
        if (valid.error().kind != ErrorKind::input) return valid;
        log::warning(log::Category::consensus, "invalid block hash={} reason={}", to_hex0x(block.hash),
                     valid.error().to_string());
    }
    hooks_.answer(sdbft::event::Validated{block.hash, valid.has_value()});
    return {};
}

Status ExecutorThread::perform(const sdbft::action::Commit& block) {
    auto committed = chain_.commit(block.hash, block.block, block.certificate, hooks_.committed);
    if (!committed) return fail(committed.error());
    hooks_.answer(std::move(*committed));
    return {};
}

}  // namespace quern::node
