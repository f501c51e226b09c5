// Long work that a signal ends in order: a flag for it to look at. Used by src/bin; main thread.
#pragma once

#include <atomic>
#include <csignal>
#include <initializer_list>

namespace quern {

inline std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // set by a signal's handler

// From now on these signals set it. flags: of sigaction; with SA_RESETHAND the second one ends the program at once.
inline void stop_on(std::initializer_list<int> signals, int flags = 0) {
    struct sigaction action {};
    action.sa_handler = [](int) { stop_requested = true; };
    action.sa_flags = flags;
    for (const int signal : signals) sigaction(signal, &action, nullptr);
}

// Of commands at a terminal: the first asks, the second ends it.
inline void stop_on_interrupt() { stop_on({SIGINT, SIGTERM}, static_cast<int>(SA_RESETHAND)); }

}  // namespace quern
