#include "compute/core/profiling.h"

#include <array>

#include "crypto/hash.h"

namespace quern::compute::core {

using chain::types::ProfilingTerms;
using tolerance::Measure;
using tolerance::Measured;

namespace {

constexpr std::array<Measure, kProfiledMeasures> kShown{Measure::l2,   Measure::linf,  Measure::moments,
                                                        Measure::rest, Measure::loose, Measure::movement};
constexpr std::size_t kWordBytes = 4;

void append_word(Bytes& bytes, std::uint32_t word) {
    for (unsigned byte = 0; byte < kWordBytes; ++byte) bytes.push_back(static_cast<std::uint8_t>(word >> (8 * byte)));
}

std::uint32_t read_word(BytesView bytes) {
    std::uint32_t word = 0;
    for (unsigned byte = 0; byte < kWordBytes; ++byte) word |= std::uint32_t{bytes[byte]} << (8 * byte);
    return word;
}

Status out_of(const char* what, std::uint64_t given, std::uint64_t least, std::uint64_t most) {
    return fail("task.bad_profiling", std::string(what) + ": " + std::to_string(given) + "; " + std::to_string(least) +
                                          " to " + std::to_string(most));
}

}  // namespace

tolerance::Terms terms_of(const ProfilingTerms& profiling, std::uint64_t segments) {
    return {profiling.cap,
            profiling.history_cap,
            segments,
            profiling.range,
            {profiling.allow_l2, profiling.allow_linf, profiling.allow_moments, profiling.allow_rest}};
}

Status check_profiling(const chain::types::TaskSubmitPayload& spec, const chain::market::PlannedWork& plan) {
    const ProfilingTerms& terms = spec.profiling;
    if (!is_profiled(spec)) {
        if (terms == ProfilingTerms{}) return {};
        return fail("task.bad_profiling", "terms, and no profilers");
    }
    if (spec.work.mode != chain::types::TaskMode::tolerance || spec.data_roots.size() < 2)
        return fail("task.bad_profiling",
                    "only a task in tolerance mode has limits, before the data that claims bring");
    if (terms.profilers < kMinProfilers || terms.profilers > kMaxProfilers)
        return out_of("profilers", terms.profilers, kMinProfilers, kMaxProfilers);
    const std::uint64_t segments = chain::market::segment_count(plan.steps, plan.interval);
    const std::uint64_t most = std::min<std::uint64_t>(kMaxProfiledSegments, segments);
    if (segments < kMinProfiledSegments)
        return fail("task.bad_profiling", "the task has " + std::to_string(segments) + " segments, profilers measure " +
                                              std::to_string(kMinProfiledSegments) + " at least: a shorter interval");
    if (terms.segments < kMinProfiledSegments || terms.segments > most)
        return out_of("segments", terms.segments, kMinProfiledSegments, most);
    return tolerance::check_terms(terms_of(terms, segments));
}

Bytes encode_profile(std::span<const Measured> profile) {
    Bytes bytes;
    for (const Measured& measured : profile)
        for (const Measure measure : kShown) append_word(bytes, measured[measure]);
    return bytes;
}

Expected<tolerance::Profile> decode_profile(BytesView measures, std::uint32_t segments) {
    if (measures.size() != std::size_t{segments} * kProfiledMeasures * kWordBytes)
        return fail("profile.bad_measures", std::to_string(measures.size()) + " bytes of " + std::to_string(segments) +
                                                " segments, " + std::to_string(kProfiledMeasures * kWordBytes) +
                                                " each");
    tolerance::Profile profile(segments);
    for (Measured& measured : profile)
        for (const Measure measure : kShown) {
            measured[measure] = read_word(measures);
            measures = measures.subspan(kWordBytes);
        }
    return profile;
}

Hash32 profile_commitment(const chain::types::Address& profiler, BytesView measures, const Hash32& salt) {
    return crypto::sha256({as_bytes("quern.profile"), profiler.view(), measures, salt.view()});
}

Hash32 replay_hash(std::span<const Measured> profile) {
    Bytes movements;
    for (const Measured& measured : profile) append_word(movements, measured[Measure::movement]);
    return crypto::sha256(movements);
}

chain::types::ProfiledBounds bounds_of(std::span<const Measured> profile) {
    const tolerance::ProfileSummary found = tolerance::summary_of(profile);
    return {found.l2, found.linf, found.moments, found.rest, found.loose, found.noise, found.movement};
}

Expected<Bytes> limits_from(std::span<const chain::types::TaskProfiler> profilers, const tolerance::Terms& terms) {
    std::vector<tolerance::ProfileSummary> found;
    for (const auto& [address, locked, commitment, replay, bounds] : profilers)
        found.push_back(
            {bounds.l2, bounds.linf, bounds.moments, bounds.rest, bounds.loose, bounds.noise, bounds.movement});
    QUERN_TRY(const tolerance::Limits limits, tolerance::derive_limits(found, terms));
    return tolerance::encode_limits(limits);
}

}  // namespace quern::compute::core
