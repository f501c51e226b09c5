// How long a task's windows must be at least, by what its submitter promises about those who take part: a class of
// speed (work units a second) and one of bandwidth (bytes a second). Used by execution, wallets and workers. Pure
// functions; thread-safe.
//
// Class c of x a second is floor(2 log2 x) and stands for floor(sqrt(2^c)); class 0 promises nothing and asks for
// nothing.
#pragma once

#include "base/expected.h"
#include "chain/market/work.h"

namespace quern::chain::market {

inline constexpr std::uint32_t kMaxClass = 126;  // whose rate still fits 64 bits

// The largest class that `rate` has; 0 for 0 and 1.
[[nodiscard]] std::uint32_t class_of_rate(std::uint64_t rate);
// What a class up to kMaxClass stands for.
[[nodiscard]] std::uint64_t rate_of_class(std::uint32_t rate_class);
// Whether who has this class of speed does the work in half of the seconds, as windows are at least; of class 0 nothing
// is known, and it is taken for quick enough.
[[nodiscard]] bool has_time_for(std::uint32_t rate_class, const Uint256& work, std::uint64_t seconds);

// What verifiers fetch of a task, beside its history.
struct TaskBytes {
    std::uint64_t state = 0;       // of one state
    std::uint64_t data = 0;        // of the data set
    std::uint64_t programs = 1;    // so many of 2^23 bytes at most
    std::uint64_t custodians = 0;  // who fetch a fragment of its history each
    std::uint64_t claimed = 0;     // of the data set, what claims bring
};
// States that a verifier asks for beside those with which its segments begin: the first and the last of the stretch,
// and that with which the last segment begins.
inline constexpr std::uint64_t kStatesBeside = 3;
// Seconds, of each window below; 1 where nothing is promised.
struct LeastWindows {
    Uint256 verify_s;
    Uint256 heartbeat_s;
    Uint256 profile_s;  // ProfilingTerms::window_s, of a task that has profilers
};
// With m verifiers, stretches of T steps (N where there is one), n = min(s, T / k) segments of each verifier, none of
// more work than W with its commitments, and p programs:
//   verify_s    >= 2 ((1 + m) ((n + 3) * state + data + 2^23 p + 32 (T / u + T / k + 2)) + c f) / bandwidth
//                                     what one uplink sends in custody; f: fragment_bytes (custody.h)
//   verify_s    >= 2 n W / speed      the replay before the commitment
//   heartbeat_s >= 2 W / speed        as long as a clock gives for it
//   profile_s   >= 2 p' (state + data + 2^23 p) / bandwidth + 2 (2 s' W) / speed
//                                     what p' profilers fetch, then s' segments, trained and replayed
[[nodiscard]] LeastWindows least_windows(const types::TaskSubmitPayload& spec, const TaskWork& work,
                                         const TaskBytes& bytes);
// Errors: task.bad_class, task.window_too_short (the detail says how long it must be).
[[nodiscard]] Status check_windows(const types::TaskSubmitPayload& spec, const TaskWork& work, const TaskBytes& bytes);

}  // namespace quern::chain::market
