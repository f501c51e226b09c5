// Profiling of tasks in tolerance mode: what profilers seal and show, and the limits that follow from it
// (doc/tolerance.md, "Profiling"). Used by profilers (build) and the chain (check). Pure functions; thread-safe.
#pragma once

#include <algorithm>
#include <span>

#include "chain/market/work.h"
#include "chain/types/native_objects.h"
#include "chain/types/native_tx.h"
#include "compute/tolerance/limits.h"

namespace quern::compute::core {

inline constexpr std::uint32_t kMinProfilers = tolerance::kMinProfilers;
inline constexpr std::uint32_t kMaxProfilers = 16;
inline constexpr std::uint32_t kMinProfiledSegments = tolerance::kMinProfiled;
inline constexpr std::uint32_t kMaxProfiledSegments = 64;
// Measures of a segment in a reveal: l2, linf, moments, rest, loose, movement.
inline constexpr std::size_t kProfiledMeasures = 6;

// So many must have replayed the same, more than half of those that a task asks for, for limits to be found.
[[nodiscard]] constexpr std::uint32_t agreeing_profilers(std::uint32_t asked) {
    return std::max(kMinProfilers, asked / 2 + 1);
}

// Whether profilers find the task's limits.
[[nodiscard]] inline bool is_profiled(const chain::types::TaskSubmitPayload& spec) {
    return spec.profiling.profilers != 0;
}
// Of a task of so many segments.
[[nodiscard]] tolerance::Terms terms_of(const chain::types::ProfilingTerms& profiling, std::uint64_t segments);
// Of a submission with its plan's steps. Errors: task.bad_profiling (terms without profilers, or out of their bounds,
// or of an exact task); tolerance.bad_terms. Its window is looked at with the others (check_windows).
[[nodiscard]] Status check_profiling(const chain::types::TaskSubmitPayload& spec,
                                     const chain::market::PlannedWork& plan);

// Of ProfileRevealPayload::measures: exact and cosine are left out, and read as +0. Error: profile.bad_measures,
// another size than that of so many segments.
[[nodiscard]] Bytes encode_profile(std::span<const tolerance::Measured> profile);
[[nodiscard]] Expected<tolerance::Profile> decode_profile(BytesView measures, std::uint32_t segments);

// SHA-256("quern.profile" || address || measures || salt): binds the sender, so that a copied one opens for nobody
// else.
[[nodiscard]] Hash32 profile_commitment(const chain::types::Address& profiler, BytesView measures, const Hash32& salt);
// SHA-256 of the movements, 4 bytes little endian each: what any replay finds, whatever was trained.
[[nodiscard]] Hash32 replay_hash(std::span<const tolerance::Measured> profile);

[[nodiscard]] chain::types::ProfiledBounds bounds_of(std::span<const tolerance::Measured> profile);
// The limits as a data tensor by what these have found. Errors: those of derive_limits.
[[nodiscard]] Expected<Bytes> limits_from(std::span<const chain::types::TaskProfiler> profilers,
                                          const tolerance::Terms& terms);

}  // namespace quern::compute::core
