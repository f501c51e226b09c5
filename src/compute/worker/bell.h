// Ends a wait: whoever has news rings, one thread waits. Thread-safe; may be rung from any thread, not from a signal
// handler (which sets `stop` instead).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>

#include "base/mutex.h"

namespace quern::compute::worker {

class Bell {
public:
    void ring() {
        {
            const MutexLock lock(mutex_);
            rung_ = true;
        }
        changed_.notify_all();
    }
    // Waits until it was rung since the last wait, at most so long, and not beyond `stop`. True: it was rung.
    bool wait(std::uint64_t milliseconds, const std::atomic<bool>& stop) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
        MutexLock lock(mutex_);
        while (!rung_ && !stop) {
            const auto now = std::chrono::steady_clock::now();
            if (now >= deadline) return false;
            (void)changed_.wait_until(lock, std::min(deadline, now + kLook));
        }
        return std::exchange(rung_, false);
    }

private:
    static constexpr std::chrono::milliseconds kLook{100};  // at most so long until a stop is seen
    Mutex mutex_;
    CondVar changed_;
    bool rung_ QUERN_GUARDED_BY(mutex_) = false;
};

}  // namespace quern::compute::worker
