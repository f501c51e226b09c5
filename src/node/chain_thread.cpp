#include "node/chain_thread.h"

#include "base/log.h"

namespace quern::node {

namespace consensus = chain::consensus;

void ChainThread::start() {
    thread_ = std::thread([this] { run(); });
}

void ChainThread::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void ChainThread::wake() {
    {
        const std::lock_guard lock(mutex_);
        woken_ = true;
    }
    changed_.notify_all();
}

void ChainThread::run() {
    if (const auto status = run_until_stopped(); !status) on_failure_(status.error());
}

Status ChainThread::run_until_stopped() {
    consensus::Driver driver(parts_.engine, parts_.producer, parts_.journal, parts_.clock);
    QUERN_CHECK(driver.handle(consensus::event::Started{}));
    std::uint64_t seen = parts_.chain.tip().number;
    bool waiting = false;
    for (;;) {
        const bool wait_now = parts_.pool.has_executable(parts_.chain.board().latest()->next_base_fee);
        if (wait_now != waiting) {
            waiting = wait_now;
            QUERN_CHECK(driver.handle(consensus::event::TransactionsWait{waiting}));
        }
        if (parts_.chain.tip().number != seen) {
            seen = parts_.chain.tip().number;
            parts_.gateway.tidy_journal();
            continue;  // the block may have emptied the pool
        }
        {
            std::unique_lock lock(mutex_);
            const auto ready = [this] { return stopping_ || woken_; };
            const std::uint64_t now = parts_.clock.monotonic_ms();
            const std::uint64_t wake_at = driver.wake_at().value_or(now + 1000);
            if (wake_at > now) changed_.wait_for(lock, std::chrono::milliseconds(wake_at - now), ready);
            if (stopping_) return {};
            woken_ = false;
        }
        QUERN_CHECK(driver.handle(consensus::event::TimePassed{}));
    }
}

}  // namespace quern::node
