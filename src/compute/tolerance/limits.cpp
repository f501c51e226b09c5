#include "compute/tolerance/limits.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "vm/tensor/arith/soft_float.h"

namespace quern::compute::tolerance {
namespace {

using vm::tensor::arith::soft_add;
using vm::tensor::arith::soft_div;
using vm::tensor::arith::soft_from_i32;
using vm::tensor::arith::soft_mul;
using vm::tensor::arith::soft_sub;

constexpr std::uint32_t kOne = 0x3f800000;
constexpr std::uint32_t kSix = 0x40c00000;

[[nodiscard]] constexpr std::uint32_t magnitude(std::uint32_t word) { return word & 0x7fffffffU; }
[[nodiscard]] constexpr bool is_positive(std::uint32_t word) { return word > 0 && word < kInfinity; }

using Word = std::uint32_t ProfileSummary::*;

[[nodiscard]] std::vector<std::uint32_t> words_of(std::span<const ProfileSummary> profiles, Word word) {
    std::vector<std::uint32_t> words;
    for (const ProfileSummary& each : profiles) words.push_back(each.*word);
    return words;
}

// By a rule that no minority of profilers moves far: the robust bound of the largest error of each, and the margin.
[[nodiscard]] std::uint32_t bound_of(std::span<const ProfileSummary> profiles, Word word) {
    const std::uint32_t bound = robust_bound(words_of(profiles, word));
    return std::max(kLeastLimit, order_of(soft_mul(bound, soft_from_i32(kMargin))));
}

// What each segment may have when all of a history may have no more than `cap` together: the word below the quotient,
// so that rounding does not add up.
[[nodiscard]] std::uint32_t share_of(std::uint32_t cap, std::uint64_t segments) {
    if (segments == 1) return cap;
    const std::uint32_t share = soft_div(cap, soft_from_i32(static_cast<std::uint32_t>(segments)));
    return share == 0 ? 0 : share - 1;
}

// What limits of moments and rest may be that the submitter has not allowed by name.
[[nodiscard]] std::uint32_t most_beside(std::uint32_t cap) {
    return std::max(kLeastLimit, order_of(soft_mul(cap, soft_from_i32(kCapMultiple))));
}

// As people write it, the same on each machine.
[[nodiscard]] std::string text_of(std::uint32_t word) {
    std::array<char, 32> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), __builtin_bit_cast(float, word));
    return {text.data(), end.ptr};
}

[[nodiscard]] Status check_term(std::string_view name, std::uint32_t word, bool good, std::string_view wanted) {
    if (good) return {};
    return fail("tolerance.bad_terms", std::string(name) + " is " + text_of(word) + ", not " + std::string(wanted));
}

[[nodiscard]] constexpr std::array<std::uint32_t Limits::*, kLimitBytes / 4> limit_words() {
    return {&Limits::l2,    &Limits::linf,           &Limits::moments,      &Limits::rest,
            &Limits::loose, &Limits::least_movement, &Limits::most_movement};
}

[[nodiscard]] constexpr std::array<std::string_view, kLimitBytes / 4> limit_names() {
    return {"l2", "linf", "moments", "rest", "loose", "least movement", "most movement"};
}

}  // namespace

Status check_terms(const Terms& terms) {
    constexpr std::string_view kAbove = "a finite number above 0";
    QUERN_CHECK(check_term("cap", terms.cap, is_positive(terms.cap), kAbove));
    QUERN_CHECK(check_term("history-cap", terms.history_cap, is_positive(terms.history_cap), kAbove));
    QUERN_CHECK(
        check_term("range", terms.range, is_positive(terms.range) && terms.range >= kOne, "a finite number from 1 on"));
    const Allowance& allowed = terms.allowance;
    for (const auto& [name, word] : {std::pair<std::string_view, std::uint32_t>{"allow-l2", allowed.l2},
                                     {"allow-linf", allowed.linf},
                                     {"allow-moments", allowed.moments},
                                     {"allow-rest", allowed.rest}})
        QUERN_CHECK(check_term(name, word, word < kInfinity, "a finite number from +0 on"));
    if (terms.segments < 1 || terms.segments > kMaxLimitedSegments)
        return fail("tolerance.bad_terms",
                    std::to_string(terms.segments) + " segments, not 1 to " + std::to_string(kMaxLimitedSegments));
    return {};
}

Bytes encode_limits(const Limits& limits) {
    Bytes bytes;
    for (const auto word : limit_words())
        for (unsigned byte = 0; byte < 4; ++byte)
            bytes.push_back(static_cast<std::uint8_t>(limits.*word >> (8 * byte)));
    return bytes;
}

Expected<Limits> decode_limits(BytesView bytes) {
    if (bytes.size() != kLimitBytes)
        return fail("tolerance.bad_limits",
                    std::to_string(bytes.size()) + " bytes, not " + std::to_string(kLimitBytes));
    Limits limits;
    std::size_t at = 0;
    for (const auto word : limit_words()) {
        for (unsigned byte = 0; byte < 4; ++byte) limits.*word |= std::uint32_t{bytes[at++]} << (8 * byte);
        if (limits.*word >= kInfinity)
            return fail("tolerance.bad_limits", std::string(limit_names()[at / 4 - 1]) + " is " +
                                                    text_of(limits.*word) + ", not a finite number from +0 on");
    }
    if (limits.least_movement > limits.most_movement)
        return fail("tolerance.bad_limits", "the least movement, " + text_of(limits.least_movement) +
                                                ", is above the most, " + text_of(limits.most_movement));
    return limits;
}

std::uint32_t median(std::span<const std::uint32_t> words) {
    if (words.empty()) return kInfinity;
    std::vector<std::uint32_t> sorted;
    for (const std::uint32_t word : words) sorted.push_back(order_of(word));
    std::sort(sorted.begin(), sorted.end());
    return sorted[(sorted.size() - 1) / 2];
}

std::uint32_t largest(std::span<const std::uint32_t> words) {
    std::uint32_t most = 0;
    for (const std::uint32_t word : words) most = std::max(most, order_of(word));
    return words.empty() ? kInfinity : most;
}

std::uint32_t robust_bound(std::span<const std::uint32_t> words) {
    const std::uint32_t middle = median(words);
    std::vector<std::uint32_t> deviations;
    for (const std::uint32_t word : words) deviations.push_back(magnitude(soft_sub(order_of(word), middle)));
    return order_of(soft_add(middle, soft_mul(kSix, median(deviations))));
}

ProfileSummary summary_of(std::span<const Measured> profile) {
    const auto words = [&](Measure measure) {
        std::vector<std::uint32_t> all;
        for (const Measured& each : profile) all.push_back(each[measure]);
        return all;
    };
    return {largest(words(Measure::l2)),     largest(words(Measure::linf)),  largest(words(Measure::moments)),
            largest(words(Measure::rest)),   largest(words(Measure::loose)), median(words(Measure::l2)),
            median(words(Measure::movement))};
}

Expected<Limits> derive_limits(std::span<const Profile> profiles, const Terms& terms) {
    for (const Profile& profile : profiles)
        if (profile.size() < kMinProfiled || profile.size() > kMaxProfiled)
            return fail("tolerance.wrong_profilers", std::to_string(profile.size()) + " segments of a profiler");
    std::vector<ProfileSummary> summaries;
    for (const Profile& profile : profiles) summaries.push_back(summary_of(profile));
    return derive_limits(summaries, terms);
}

Expected<Limits> derive_limits(std::span<const ProfileSummary> profiles, const Terms& terms) {
    QUERN_CHECK(check_terms(terms));
    if (profiles.size() < kMinProfilers || profiles.size() > kMaxProfilers)
        return fail("tolerance.wrong_profilers", std::to_string(profiles.size()) + " profilers");
    Limits limits;
    limits.l2 = bound_of(profiles, &ProfileSummary::l2);
    limits.linf = bound_of(profiles, &ProfileSummary::linf);
    limits.moments = bound_of(profiles, &ProfileSummary::moments);
    limits.rest = bound_of(profiles, &ProfileSummary::rest);
    limits.loose = bound_of(profiles, &ProfileSummary::loose);
    const std::uint32_t movement = median(words_of(profiles, &ProfileSummary::movement));
    limits.least_movement = order_of(soft_div(movement, terms.range));
    limits.most_movement = order_of(soft_mul(movement, terms.range));
    for (const std::uint32_t bound :
         {limits.l2, limits.linf, limits.moments, limits.rest, limits.loose, limits.most_movement})
        if (bound >= kInfinity) return fail("tolerance.not_reproducible", "a bound is not finite");
    if (!is_positive(limits.least_movement)) return fail("tolerance.not_reproducible", "nothing moves");
    const std::uint32_t cap = std::min(terms.cap, share_of(terms.history_cap, terms.segments));
    const std::uint32_t noise = median(words_of(profiles, &ProfileSummary::noise));
    if (cap < noise)
        return fail("tolerance.cap_too_low", "the cap of a segment, " + text_of(cap) +
                                                 ", is below the median noise of profilers, " + text_of(noise));
    const std::uint32_t most = most_beside(terms.cap);
    limits.l2 = std::min(std::max(limits.l2, terms.allowance.l2), cap);
    limits.linf = std::max(limits.linf, terms.allowance.linf);
    limits.moments = std::max(std::min(limits.moments, most), terms.allowance.moments);
    limits.rest = std::max(std::min(limits.rest, most), terms.allowance.rest);
    limits.loose = std::min(limits.loose, kMostLoose);
    return limits;
}

std::optional<Measure> refused_by(const Measured& measured, const Limits& limits) {
    if (!within(measured[Measure::l2], limits.l2)) return Measure::l2;
    if (!within(measured[Measure::linf], limits.linf)) return Measure::linf;
    if (!within(measured[Measure::moments], limits.moments)) return Measure::moments;
    if (!within(measured[Measure::rest], limits.rest)) return Measure::rest;
    if (!within(measured[Measure::loose], limits.loose)) return Measure::loose;
    if (measured[Measure::exact] != 0) return Measure::exact;
    if (!within(measured[Measure::movement], limits.most_movement) ||
        measured[Measure::movement] < limits.least_movement)
        return Measure::movement;
    return std::nullopt;
}

}  // namespace quern::compute::tolerance
