// When a call must end without its result: its deadline has passed, the client has gone, or the node stops. Handlers
// that walk over many blocks or records ask between two of them. Shared by the thread that runs the call and the one
// that watches the connection; thread-safe.
#pragma once

#include <atomic>
#include <chrono>

namespace quern::rpc {

class CallDeadline {
public:
    // `stopping`: of the server; may be null, and lives as long as the calls.
    CallDeadline(std::chrono::milliseconds limit, const std::atomic<bool>* stopping)
        : deadline_(std::chrono::steady_clock::now() + limit), stopping_(stopping) {}

    void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
    [[nodiscard]] bool is_cancelled() const {
        return cancelled_.load(std::memory_order_relaxed) ||
               (stopping_ != nullptr && stopping_->load(std::memory_order_relaxed)) ||
               std::chrono::steady_clock::now() >= deadline_;
    }

private:
    const std::chrono::steady_clock::time_point deadline_;
    const std::atomic<bool>* const stopping_;
    std::atomic<bool> cancelled_{false};
};

}  // namespace quern::rpc
