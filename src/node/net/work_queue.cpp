#include "node/net/work_queue.h"

namespace quern::node {

void WorkQueue::start() {
    thread_ = std::thread([this] { run(); });
}

void WorkQueue::stop() {
    {
        const MutexLock lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    const MutexLock lock(mutex_);
    jobs_.clear();
    bytes_ = 0;
}

bool WorkQueue::post(std::size_t bytes, std::function<void()> job) {
    {
        const MutexLock lock(mutex_);
        if (stopping_ || jobs_.size() >= max_jobs_ || bytes_ + bytes > max_bytes_) return false;
        bytes_ += bytes;
        jobs_.emplace_back(bytes, std::move(job));
    }
    changed_.notify_one();
    return true;
}

void WorkQueue::run() {
    for (;;) {
        std::pair<std::size_t, std::function<void()>> job;
        {
            MutexLock lock(mutex_);
            while (!stopping_ && jobs_.empty()) changed_.wait(lock);
            if (stopping_) return;
            job = std::move(jobs_.front());
            jobs_.pop_front();
        }
        job.second();
        const MutexLock lock(mutex_);
        bytes_ -= std::min(bytes_, job.first);
    }
}

}  // namespace quern::node
