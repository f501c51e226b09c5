#include "base/clock.h"

#include <chrono>

namespace quern {
inline namespace base {
namespace {

template <class Source>
std::uint64_t milliseconds_of() {
    const auto since = Source::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(since).count());
}

}  // namespace

std::uint64_t SystemClock::now_ms() const { return milliseconds_of<std::chrono::system_clock>(); }
std::uint64_t SystemClock::monotonic_ms() const { return milliseconds_of<std::chrono::steady_clock>(); }

}  // namespace base
}  // namespace quern
