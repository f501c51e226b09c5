// One thread that does jobs for peers: checking their transactions. Whoever let it work for nothing waits for those who
// did not, others take turns; when too much waits, the newest job goes of the peer that has most. So a peer, or many,
// that send signed transactions which nobody can pay for hold up nobody else's. post() may be called from any thread;
// start and stop belong to one.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <thread>

#include "base/bytes.h"
#include "base/mutex.h"

namespace quern::node {

class WorkQueue {
public:
    static constexpr std::size_t kMaxRemembered = 1'024;  // peers whose jobs were in vain
    static constexpr std::size_t kJobsToForgive = 256;    // after so many, half of it is forgotten

    // What of the job was in vain, in any unit.
    using Job = std::function<std::size_t()>;

    WorkQueue(std::size_t max_jobs, std::size_t max_bytes) : max_jobs_(max_jobs), max_bytes_(max_bytes) {}
    ~WorkQueue() { stop(); }
    WorkQueue(const WorkQueue&) = delete;
    WorkQueue& operator=(const WorkQueue&) = delete;

    void start();
    // Drops what waits and joins; later posts are refused.
    void stop();
    // False when this job is dropped: the queue is stopped, or full and nobody has more waiting. `bytes` is what it
    // holds.
    [[nodiscard]] bool post(const Bytes20& peer, std::size_t bytes, Job job);

private:
    struct Waiting {
        std::size_t bytes = 0;
        Job job;
    };
    struct Lane {
        std::deque<Waiting> jobs;
        std::size_t bytes = 0;
    };
    using Lanes = std::map<Bytes20, Lane>;

    void run();
    [[nodiscard]] Lanes::iterator next() QUERN_REQUIRES(mutex_);
    void note(const Bytes20& peer, std::size_t in_vain) QUERN_REQUIRES(mutex_);
    void forgive() QUERN_REQUIRES(mutex_);

    const std::size_t max_jobs_;
    const std::size_t max_bytes_;
    Mutex mutex_;
    CondVar changed_;
    Lanes lanes_ QUERN_GUARDED_BY(mutex_);  // none is empty
    std::map<Bytes20, std::size_t> in_vain_ QUERN_GUARDED_BY(mutex_);
    Bytes20 last_ QUERN_GUARDED_BY(mutex_);
    std::size_t jobs_ QUERN_GUARDED_BY(mutex_) = 0;
    std::size_t bytes_ QUERN_GUARDED_BY(mutex_) = 0;
    std::size_t done_ QUERN_GUARDED_BY(mutex_) = 0;
    bool stopping_ QUERN_GUARDED_BY(mutex_) = false;
    std::thread thread_;
};

}  // namespace quern::node
