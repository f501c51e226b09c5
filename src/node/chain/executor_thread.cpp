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
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void ExecutorThread::post(Job job) {
    bool fits = true;
    {
        const MutexLock lock(mutex_);
        // The view of an older question is over.
        if (std::holds_alternative<sdbft::BlockRequest>(job))
            std::erase_if(jobs_,
                          [](const Job& waiting) { return std::holds_alternative<sdbft::BlockRequest>(waiting); });
        fits = jobs_.size() < kMaxExecutorJobs;
        if (fits) jobs_.push_back(std::move(job));
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
            job = std::move(jobs_.front());
            jobs_.pop_front();
        }
        const auto done = std::visit([this](const auto& asked) { return perform(asked); }, *job);
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
    const auto valid = chain_.validate_block(block.hash, block.block);
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
    auto committed = chain_.commit(block.hash, block.block, block.certificate);
    if (!committed) return fail(committed.error());
    hooks_.committed(chain_.board().latest());
    hooks_.answer(std::move(*committed));
    return {};
}

}  // namespace quern::node
