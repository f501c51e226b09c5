#include "node/net/duty_queue.h"

#include <algorithm>

namespace quern::node {

void DutyQueue::start() {
    {
        const MutexLock lock(mutex_);
        stopping_ = false;
    }
    thread_ = std::thread([this] { run(); });
}

void DutyQueue::stop() {
    {
        const MutexLock lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    std::deque<std::function<void()>> own;
    std::map<Bytes20, std::deque<Question>> lanes;
    const MutexLock lock(mutex_);
    own.swap(own_);
    lanes.swap(lanes_);
    served_ = 0;
}

bool DutyQueue::post_own(std::function<void()> job) {
    {
        const MutexLock lock(mutex_);
        if (stopping_ || own_.size() >= kMaxOwnJobs) return false;
        own_.push_back(std::move(job));
    }
    changed_.notify_one();
    return true;
}

void DutyQueue::post_for(const Bytes20& peer, Served job) {
    Served refused;  // answered outside the lock
    {
        const MutexLock lock(mutex_);
        if (stopping_) return;
        auto& lane = lanes_[peer];
        if (lane.size() >= kMaxServedJobsPerPeer) {
            refused = std::move(job);
        } else {
            lane.push_back({clock_.monotonic_ms(), std::move(job)});
            ++served_;
        }
        if (served_ > kMaxServedJobs) {
            const auto longest = std::max_element(lanes_.begin(), lanes_.end(), [](const auto& a, const auto& b) {
                return a.second.size() < b.second.size();
            });
            refused = std::move(longest->second.back().job);
            longest->second.pop_back();
            --served_;
            if (longest->second.empty()) lanes_.erase(longest);
        }
    }
    if (refused) refused(false);
    changed_.notify_one();
}

void DutyQueue::forget(const Bytes20& peer) {
    std::deque<Question> lane;  // let go of outside the lock
    const MutexLock lock(mutex_);
    const auto known = lanes_.find(peer);
    if (known == lanes_.end()) return;
    lane.swap(known->second);
    served_ -= lane.size();
    lanes_.erase(known);
}

std::size_t DutyQueue::waiting() const {
    const MutexLock lock(mutex_);
    return own_.size() + served_;
}

std::function<void()> DutyQueue::next() {
    if (!own_.empty()) {
        auto job = std::move(own_.front());
        own_.pop_front();
        return job;
    }
    auto at = lanes_.upper_bound(last_);
    if (at == lanes_.end()) at = lanes_.begin();
    last_ = at->first;
    Question question = std::move(at->second.front());
    at->second.pop_front();
    --served_;
    if (at->second.empty()) lanes_.erase(at);
    const bool in_time = clock_.monotonic_ms() <= question.asked_ms + kServeDeadlineMs;
    return [job = std::move(question.job), in_time] { job(in_time); };
}

bool DutyQueue::run_one() {
    std::function<void()> job;
    {
        const MutexLock lock(mutex_);
        if (stopping_ || (own_.empty() && lanes_.empty())) return false;
        job = next();
    }
    job();
    return true;
}

void DutyQueue::run() {
    for (;;) {
        std::function<void()> job;
        {
            MutexLock lock(mutex_);
            while (!stopping_ && own_.empty() && lanes_.empty()) changed_.wait(lock);
            if (stopping_) return;
            job = next();
        }
        job();
    }
}

}  // namespace quern::node
