// Time as an interface, so that simulations and tests move it by hand. Consensus rules never read a clock. SystemClock
// is thread-safe; ManualClock too (its time is atomic).
#pragma once

#include <atomic>
#include <cstdint>

namespace quern {
inline namespace base {

class Clock {
public:
    virtual ~Clock() = default;
    // Milliseconds since 1970-01-01 UTC; may jump.
    [[nodiscard]] virtual std::uint64_t now_ms() const = 0;
    // Milliseconds since an arbitrary start; never goes back.
    [[nodiscard]] virtual std::uint64_t monotonic_ms() const = 0;
};

class SystemClock final : public Clock {
public:
    [[nodiscard]] std::uint64_t now_ms() const override;
    [[nodiscard]] std::uint64_t monotonic_ms() const override;
};

class ManualClock final : public Clock {
public:
    explicit ManualClock(std::uint64_t start_ms = 0) : now_(start_ms) {}
    [[nodiscard]] std::uint64_t now_ms() const override { return now_.load(); }
    [[nodiscard]] std::uint64_t monotonic_ms() const override { return now_.load(); }
    void advance(std::uint64_t milliseconds) { now_ += milliseconds; }

private:
    std::atomic<std::uint64_t> now_;
};

}  // namespace base
}  // namespace quern
