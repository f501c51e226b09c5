#include "node/net/work_queue.h"

#include <algorithm>

#include "base/ensure.h"

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
    Lanes dropped;  // let go of outside the lock
    const MutexLock lock(mutex_);
    lanes_.swap(dropped);
    jobs_ = bytes_ = 0;
}

bool WorkQueue::post(const Bytes20& peer, std::size_t bytes, Job job) {
    bool taken = true;
    std::vector<Job> dropped;  // let go of outside the lock
    {
        const MutexLock lock(mutex_);
        if (stopping_ || bytes > max_bytes_) return false;
        Lane& own = lanes_[peer];
        own.jobs.push_back({bytes, std::move(job)});
        own.bytes += bytes;
        ++jobs_;
        bytes_ += bytes;
        while (jobs_ > max_jobs_ || bytes_ > max_bytes_) {
            const bool by_bytes = bytes_ > max_bytes_;
            const auto most = std::max_element(lanes_.begin(), lanes_.end(), [by_bytes](const auto& a, const auto& b) {
                return by_bytes ? a.second.bytes < b.second.bytes : a.second.jobs.size() < b.second.jobs.size();
            });
            Lane& lane = most->second;
            taken = taken && most->first != peer;
            deduct(lane.bytes, lane.jobs.back().bytes);
            deduct(bytes_, lane.jobs.back().bytes);
            --jobs_;
            dropped.push_back(std::move(lane.jobs.back().job));
            lane.jobs.pop_back();
            if (lane.jobs.empty()) lanes_.erase(most);
        }
    }
    changed_.notify_one();
    return taken;
}

WorkQueue::Lanes::iterator WorkQueue::next() {
    auto best = lanes_.end();
    std::size_t least = 0;
    auto at = lanes_.upper_bound(last_);
    for (std::size_t i = 0; i < lanes_.size(); ++i, ++at) {
        if (at == lanes_.end()) at = lanes_.begin();
        const auto known = in_vain_.find(at->first);
        const std::size_t in_vain = known == in_vain_.end() ? 0 : known->second;
        if (best != lanes_.end() && in_vain >= least) continue;
        best = at;
        least = in_vain;
    }
    return best;
}

void WorkQueue::forgive() {
    for (auto& entry : in_vain_) entry.second /= 2;
    std::erase_if(in_vain_, [](const auto& entry) { return entry.second == 0; });
}

void WorkQueue::note(const Bytes20& peer, std::size_t in_vain) {
    if (in_vain != 0) in_vain_[peer] += in_vain;
    while (in_vain_.size() > kMaxRemembered) forgive();
    if (++done_ % kJobsToForgive == 0) forgive();
}

void WorkQueue::run() {
    for (;;) {
        Bytes20 peer;
        Waiting waiting;
        {
            MutexLock lock(mutex_);
            while (!stopping_ && lanes_.empty()) changed_.wait(lock);
            if (stopping_) return;
            const auto lane = next();
            last_ = peer = lane->first;
            waiting = std::move(lane->second.jobs.front());
            lane->second.jobs.pop_front();
            deduct(lane->second.bytes, waiting.bytes);
            if (lane->second.jobs.empty()) lanes_.erase(lane);
            --jobs_;
        }
        const std::size_t in_vain = waiting.job();
        const MutexLock lock(mutex_);
        bytes_ -= std::min(bytes_, waiting.bytes);
        note(peer, in_vain);
    }
}

}  // namespace quern::node
