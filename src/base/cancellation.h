// Whether somebody still wants what is being computed: looked at between the parts of work that takes long (nodes of a
// step, batches of hashes), which then ends without a result. Once requested it stays so, whatever is asked for later:
// what was left half done is never taken for whole. Thread-safe where the function is that it asks.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

namespace quern {
inline namespace base {

class Cancellation {
public:
    Cancellation() = default;  // never requested
    // `asks` is called each time until it says so once.
    explicit Cancellation(std::function<bool()> asks) : asks_(std::move(asks)) {}

    [[nodiscard]] bool requested() const {
        if (requested_.load(std::memory_order_relaxed)) return true;
        if (!asks_ || !asks_()) return false;
        requested_.store(true, std::memory_order_relaxed);
        return true;
    }

private:
    std::function<bool()> asks_;
    mutable std::atomic<bool> requested_{false};
};

// Of a function that may be given none.
[[nodiscard]] inline bool is_requested(const Cancellation* cancellation) {
    return cancellation != nullptr && cancellation->requested();
}

}  // namespace base
}  // namespace quern
