// The bounds of tolerance mode: what profilers measured, made into limits that a minority of them cannot move at will,
// the submitter's caps, and the judgement of a segment by them. In integer arithmetic on words of binary32, the same on
// each machine (doc/tolerance.md, "Limits"). Used by the chain, verifiers and solvers. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/expected.h"
#include "compute/tolerance/measures.h"

namespace quern::compute::tolerance {

inline constexpr std::size_t kMinProfilers = 3;
inline constexpr std::size_t kMaxProfilers = 1U << 6;
inline constexpr std::size_t kMinProfiled = 8;  // segments of a profiler
inline constexpr std::size_t kMaxProfiled = 1U << 10;
// A limit is so many times the robust bound of what was profiled. Profilers see the first steps, one order of the data
// and their own machines: later segments were seen to be 50 times noisier, and the error of the worst element exceeds x
// with a chance that falls as 1/x only. A power of two, so that nothing is rounded.
inline constexpr std::uint32_t kMargin = 256;
// Nothing measured makes the limits of moments and rest larger than so many times the cap: the cap itself is of l2
// alone, and whoever may be off by as much as moments move needs no gradients (doc/tolerance.md, "Limits").
inline constexpr std::uint32_t kCapMultiple = 4;
// 8: no element of a loose slot moves further, by the farthest of the others. Honest ones move about as far as these,
// which is no noise that a margin would be for.
inline constexpr std::uint32_t kMostLoose = 0x41000000;
// 2^-18, 64 times the rounding of one operation: no limit is below. Where most profilers agree with their replay to the
// bit, a solver that does not is not yet a liar.
inline constexpr std::uint32_t kLeastLimit = 0x36800000;
inline constexpr std::uint64_t kMaxLimitedSegments = std::uint64_t{1} << 20;  // of a history

// The element at (n - 1) / 2 of n words in the order of order_of(): a word that somebody gave, or infinity. Of none
// infinity.
[[nodiscard]] std::uint32_t median(std::span<const std::uint32_t> words);
// The last of them in that order; of none infinity.
[[nodiscard]] std::uint32_t largest(std::span<const std::uint32_t> words);
// median + 6 MAD, MAD the median of |word - median|: subtraction, product and sum rounded to nearest even, each once.
// Whatever fewer than half of the words are, it is at most h + 6 (h - l) and at least l, l and h the least and the
// largest of the others, when those are more than half.
[[nodiscard]] std::uint32_t robust_bound(std::span<const std::uint32_t> words);

// What one profiler measured between its fast backend and its own canonical replay.
using Profile = std::vector<Measured>;

// What the submitter allows though profilers measured less: +0 and above. Where a ReLU or a maximum turns, one
// element's rounding makes a step that few segments have, and no median sees.
struct Allowance {
    std::uint32_t l2 = 0;
    std::uint32_t linf = 0;
    std::uint32_t moments = 0;
    std::uint32_t rest = 0;
};

// What the submitter asks for. All words are finite; those that are no allowances lie above +0.
struct Terms {
    std::uint32_t cap = 0;          // l2 of a segment; of moments and rest kCapMultiple times as much
    std::uint32_t history_cap = 0;  // the sum of l2 over all segments of the history
    std::uint64_t segments = 1;     // of the history, 1 to kMaxLimitedSegments
    std::uint32_t range = 0;        // 1 and above: by what factor a movement may leave the profiled one, up and down
    Allowance allowance{};
};

// The largest errors that a segment may have, and where its movement must lie.
struct Limits {
    std::uint32_t l2 = 0;
    std::uint32_t linf = 0;
    std::uint32_t moments = 0;
    std::uint32_t rest = 0;
    std::uint32_t loose = 0;
    std::uint32_t least_movement = 0;
    std::uint32_t most_movement = 0;

    bool operator==(const Limits&) const = default;
};
// As a data tensor of a judged task: f32[7], in their order, little endian.
inline constexpr std::size_t kLimitBytes = 28;
[[nodiscard]] Bytes encode_limits(const Limits& limits);
// Error tolerance.bad_limits: another size, or limits that let nothing pass: a word that is no finite number from +0
// on, or a least movement above the most.
[[nodiscard]] Expected<Limits> decode_limits(BytesView bytes);

// What limits are derived from of one profiler, all as order_of has it: the largest of its errors, and medians. All of
// it is the word of one: nothing robust is gained by looking away from some of it, and a segment with larger errors
// than others, as Adam's first is, is one that solvers have too.
struct ProfileSummary {
    std::uint32_t l2 = 0;
    std::uint32_t linf = 0;
    std::uint32_t moments = 0;
    std::uint32_t rest = 0;
    std::uint32_t loose = 0;
    std::uint32_t noise = 0;     // the median l2
    std::uint32_t movement = 0;  // the median
};
[[nodiscard]] ProfileSummary summary_of(std::span<const Measured> profile);

// Whether they are as Terms says: before anybody profiles, which takes long. Error tolerance.bad_terms, with the name
// and the value of what is wrong.
[[nodiscard]] Status check_terms(const Terms& terms);

// Errors: those of check_terms(); tolerance.wrong_profilers (fewer or more than the bounds above, of profilers or of a
// profiler's segments); tolerance.not_reproducible (a bound or the movement is no finite number above +0, as when most
// profilers could not reproduce themselves); tolerance.cap_too_low (a cap lies below the median noise
// of the median profiler, so that honest solvers would be refused).
[[nodiscard]] Expected<Limits> derive_limits(std::span<const Profile> profiles, const Terms& terms);
// Of what the segments of each come to: whoever summed them up has counted them. The last two errors are reasons with
// which tasks end: their names are consensus.
[[nodiscard]] Expected<Limits> derive_limits(std::span<const ProfileSummary> profiles, const Terms& terms);

// The first measure, in their order, by which a segment is refused; nullopt: it is accepted. The cosine is not judged:
// l2 bounds the angle.
[[nodiscard]] std::optional<Measure> refused_by(const Measured& measured, const Limits& limits);

}  // namespace quern::compute::tolerance
