// One thread that reads and writes the disk for the node: its own duties first (keeping certificates, evidence), then
// peers' questions, of which each peer has a lane with a share, taken in turn. What a peer asks can delay and crowd out
// what it asks itself, and nothing of the node's own. The posting functions may be called from any thread; start and
// stop belong to one.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <thread>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace quern::node {

inline constexpr std::size_t kMaxServedJobs = 1024;       // of all peers
inline constexpr std::size_t kMaxServedJobsPerPeer = 64;  // as many as p2p lets one have open
inline constexpr std::uint64_t kServeDeadlineMs = 3'000;  // who asked has given up by then
inline constexpr std::size_t kMaxOwnJobs = 64;            // kinds of duties, not items: posters hold the items

class DutyQueue {
public:
    // True while there is time to answer; false: refuse, the question is too old or the queue is full.
    using Served = std::function<void(bool in_time)>;

    explicit DutyQueue(const Clock& clock) : clock_(clock) {}  // outlives the queue
    ~DutyQueue() { stop(); }
    DutyQueue(const DutyQueue&) = delete;
    DutyQueue& operator=(const DutyQueue&) = delete;

    void start();
    // Without the thread: does what is next on the caller's. False when nothing waits.
    bool run_one();
    // Drops what waits and joins; later posts are dropped.
    void stop();
    // A duty of the node itself. False when stopped, or more than kMaxOwnJobs wait.
    [[nodiscard]] bool post_own(std::function<void()> job);
    // A peer's question. Beyond its share it is answered false at once; when the peers' places are all taken, the
    // newest question of whoever has most goes.
    void post_for(const Bytes20& peer, Served job);
    // What the peer asked is forgotten, and answered to nobody.
    void forget(const Bytes20& peer);

    [[nodiscard]] std::size_t waiting() const;

private:
    struct Question {
        std::uint64_t asked_ms = 0;
        Served job;
    };
    void run();
    [[nodiscard]] std::function<void()> next() QUERN_REQUIRES(mutex_);

    const Clock& clock_;
    std::thread thread_;
    mutable Mutex mutex_;
    CondVar changed_;
    std::deque<std::function<void()>> own_ QUERN_GUARDED_BY(mutex_);
    std::map<Bytes20, std::deque<Question>> lanes_ QUERN_GUARDED_BY(mutex_);  // none is empty
    std::size_t served_ QUERN_GUARDED_BY(mutex_) = 0;                         // in all lanes
    Bytes20 last_ QUERN_GUARDED_BY(mutex_);                                   // whose turn it was
    bool stopping_ QUERN_GUARDED_BY(mutex_) = false;
};

}  // namespace quern::node
