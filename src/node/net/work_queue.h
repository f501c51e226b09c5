// One thread that does jobs in order, with a bound on how many wait and how much they hold: checking transactions of
// peers. post() may be called from any thread; start and stop belong to one.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "base/mutex.h"

namespace quern::node {

class WorkQueue {
public:
    WorkQueue(std::size_t max_jobs, std::size_t max_bytes) : max_jobs_(max_jobs), max_bytes_(max_bytes) {}
    ~WorkQueue() { stop(); }
    WorkQueue(const WorkQueue&) = delete;
    WorkQueue& operator=(const WorkQueue&) = delete;

    void start();
    // Drops what waits and joins; later posts are refused.
    void stop();
    // False when full or stopped; the job is dropped. `bytes` is what it holds.
    [[nodiscard]] bool post(std::size_t bytes, std::function<void()> job);

private:
    void run();

    const std::size_t max_jobs_;
    const std::size_t max_bytes_;
    Mutex mutex_;
    CondVar changed_;
    std::deque<std::pair<std::size_t, std::function<void()>>> jobs_ QUERN_GUARDED_BY(mutex_);
    std::size_t bytes_ QUERN_GUARDED_BY(mutex_) = 0;
    bool stopping_ QUERN_GUARDED_BY(mutex_) = false;
    std::thread thread_;
};

}  // namespace quern::node
