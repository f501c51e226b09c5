// How long blocks take from their proposal to finality here: the time now, by this machine's clock, less the header's
// timestamp, by the proposer's. With clocks that differ the figure is off by the difference. Thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/mutex.h"

namespace quern::node {

inline constexpr std::size_t kFinalitySamples = 4096;

class FinalityMeter {
public:
    void add(std::uint64_t milliseconds) {
        const MutexLock lock(mutex_);
        samples_.push_back(milliseconds);
        if (samples_.size() > kFinalitySamples) samples_.pop_front();
    }
    struct Figures {
        std::uint64_t p50 = 0;
        std::uint64_t p99 = 0;
        std::uint64_t largest = 0;
        std::size_t samples = 0;
    };
    [[nodiscard]] Figures figures() const {
        std::vector<std::uint64_t> sorted;
        {
            const MutexLock lock(mutex_);
            sorted.assign(samples_.begin(), samples_.end());
        }
        if (sorted.empty()) return {};
        std::sort(sorted.begin(), sorted.end());
        return {sorted[sorted.size() / 2], sorted[(sorted.size() * 99) / 100], sorted.back(), sorted.size()};
    }

private:
    mutable Mutex mutex_;
    std::deque<std::uint64_t> samples_ QUERN_GUARDED_BY(mutex_);
};

}  // namespace quern::node
