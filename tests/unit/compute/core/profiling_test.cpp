#include "compute/core/profiling.h"

#include <gtest/gtest.h>

#include <bit>

#include "base/bytes.h"
#include "chain/types/native_objects.h"
#include "crypto/hash.h"

namespace quern::compute::core {
namespace {

using tolerance::Measure;
using tolerance::Measured;

// Six different words, the first one's bytes different from each other.
Measured some(std::uint32_t first) {
    Measured measured{};
    measured[Measure::l2] = first;
    measured[Measure::linf] = 2;
    measured[Measure::moments] = 3;
    measured[Measure::rest] = 4;
    measured[Measure::loose] = 5;
    measured[Measure::movement] = 6;
    return measured;
}

TEST(ProfilingQuorum, is_more_than_half_and_three_at_least) {
    static_assert(agreeing_profilers(3) == 3 && agreeing_profilers(4) == 3 && agreeing_profilers(5) == 3);
    static_assert(agreeing_profilers(6) == 4 && agreeing_profilers(7) == 4 && agreeing_profilers(16) == 9);
    for (std::uint32_t asked = kMinProfilers; asked <= kMaxProfilers; ++asked)
        EXPECT_GT(2 * agreeing_profilers(asked), asked) << "two groups cannot both be enough";
}

TEST(Profiles, are_six_words_a_segment_little_endian) {
    Measured measured = some(0x01020304);
    measured[Measure::exact] = measured[Measure::cosine] = 7;
    const Bytes bytes = encode_profile(std::vector<Measured>{measured});
    EXPECT_EQ(to_hex(bytes), "040302010200000003000000040000000500000006000000");
    const auto read = decode_profile(bytes, 1);
    ASSERT_TRUE(read);
    for (const auto measure :
         {Measure::l2, Measure::linf, Measure::moments, Measure::rest, Measure::loose, Measure::movement})
        EXPECT_EQ((*read)[0][measure], measured[measure]);
    EXPECT_EQ((*read)[0][Measure::exact], 0U);
    EXPECT_EQ((*read)[0][Measure::cosine], 0U);
}

TEST(Profiles, have_as_many_bytes_as_segments_ask_for) {
    const Bytes two = encode_profile(std::vector<Measured>(2, some(1)));
    EXPECT_TRUE(decode_profile(two, 2));
    for (const std::size_t size : {std::size_t{0}, two.size() - 1, two.size() / 2})
        EXPECT_EQ(decode_profile(BytesView(two).first(size), 2).error().name, "profile.bad_measures") << size;
    Bytes more = two;
    more.push_back(0);
    EXPECT_EQ(decode_profile(more, 2).error().name, "profile.bad_measures");
    EXPECT_EQ(decode_profile(two, 1).error().name, "profile.bad_measures");
}

TEST(Profiles, are_sealed_with_who_sends_them_and_a_salt) {
    chain::types::Address who;
    who.data[19] = 0xaa;
    Hash32 salt;
    salt.data[0] = 0xbb;
    const Bytes measures{1, 2, 3};
    Bytes sealed(as_bytes("quern.profile").begin(), as_bytes("quern.profile").end());
    sealed.insert(sealed.end(), who.data.begin(), who.data.end());
    sealed.insert(sealed.end(), measures.begin(), measures.end());
    sealed.insert(sealed.end(), salt.data.begin(), salt.data.end());
    EXPECT_EQ(profile_commitment(who, measures, salt), crypto::sha256(sealed));
}

TEST(Profiles, are_the_same_replay_when_each_movement_is_bit_by_bit) {
    std::vector<Measured> profile(8, some(1));
    const Hash32 replay = replay_hash(profile);
    Bytes movements;
    for (std::size_t i = 0; i < profile.size(); ++i) movements.insert(movements.end(), {6, 0, 0, 0});
    EXPECT_EQ(replay, crypto::sha256(movements));
    profile[3][Measure::l2] = 9;
    EXPECT_EQ(replay_hash(profile), replay) << "each has its own backend";
    profile[7][Measure::movement] = 7;
    EXPECT_NE(replay_hash(profile), replay);
    std::vector<Measured> zero(1, Measured{});
    std::vector<Measured> negative(1, Measured{});
    negative[0][Measure::movement] = 0x80000000;
    EXPECT_NE(replay_hash(zero), replay_hash(negative));
}

// Words that differ, so that none can stand in another's place.
TEST(Profiles, come_to_what_their_limits_are_derived_from) {
    const auto word = [](float x) { return std::bit_cast<std::uint32_t>(x); };
    std::vector<tolerance::Profile> profiles;
    std::vector<chain::types::TaskProfiler> revealed;
    for (int profiler = 0; profiler < 3; ++profiler) {
        tolerance::Profile profile(8);
        for (std::size_t i = 0; i < profile.size(); ++i) {
            const float more = 1.0F + static_cast<float>(i) / 16 + static_cast<float>(profiler) / 8;
            profile[i][Measure::l2] = word(1e-4F * more);
            profile[i][Measure::linf] = word(2e-3F * more);
            profile[i][Measure::moments] = word(3e-4F * more);
            profile[i][Measure::rest] = word(4e-5F * more);
            profile[i][Measure::loose] = word(5e-2F * more);
            profile[i][Measure::movement] = word(1.0F + static_cast<float>(i) / 16);
        }
        const auto summary = tolerance::summary_of(profile);
        const auto bounds = bounds_of(profile);
        EXPECT_EQ(bounds.l2, summary.l2);
        EXPECT_EQ(bounds.linf, summary.linf);
        EXPECT_EQ(bounds.moments, summary.moments);
        EXPECT_EQ(bounds.rest, summary.rest);
        EXPECT_EQ(bounds.loose, summary.loose);
        EXPECT_EQ(bounds.noise, summary.noise);
        EXPECT_EQ(bounds.movement, summary.movement);
        EXPECT_NE(bounds.noise, bounds.l2);
        revealed.push_back({{}, {}, {}, replay_hash(profile), bounds});
        profiles.push_back(std::move(profile));
    }
    chain::types::ProfilingTerms asked;
    asked.cap = word(1);
    asked.history_cap = word(100);
    asked.range = word(16);
    asked.allow_linf = word(8);
    const tolerance::Terms terms = terms_of(asked, 20);
    const auto limits = limits_from(revealed, terms);
    const auto expected = tolerance::derive_limits(profiles, terms);
    ASSERT_TRUE(limits && expected);
    EXPECT_EQ(*limits, tolerance::encode_limits(*expected));
    EXPECT_EQ(expected->linf, word(8));
    asked.cap = word(1e-6F);
    EXPECT_EQ(limits_from(revealed, terms_of(asked, 20)).error().name, "tolerance.cap_too_low");
}

TEST(ProfilingTerms, are_of_a_task_of_tolerance_and_in_bounds) {
    const auto word = [](float x) { return std::bit_cast<std::uint32_t>(x); };
    chain::types::TaskSubmitPayload spec;
    spec.work.mode = chain::types::TaskMode::tolerance;
    spec.data_roots.resize(3);
    spec.profiling = {3, 8, 60, word(1e-2F), word(1), word(2), 0, 0, 0, 0};
    chain::market::PlannedWork plan;
    plan.steps = 400;
    plan.interval = 4;
    const auto refused = [&](auto change) {
        auto other = spec;
        change(other);
        const auto status = check_profiling(other, plan);
        return status ? std::string("none") : std::string(status.error().name);
    };
    EXPECT_EQ(refused([](auto&) {}), "none");
    EXPECT_EQ(refused([](auto& s) { s.profiling.segments = kMaxProfiledSegments; }), "none");
    EXPECT_EQ(refused([](auto& s) { s.profiling.segments = kMaxProfiledSegments + 1; }), "task.bad_profiling");
    EXPECT_EQ(refused([](auto& s) { s.profiling.profilers = kMaxProfilers; }), "none");
    EXPECT_EQ(refused([](auto& s) { s.profiling.profilers = kMaxProfilers + 1; }), "task.bad_profiling");
    EXPECT_EQ(refused([](auto& s) { s.work.mode = chain::types::TaskMode::exact; }), "task.bad_profiling");
    EXPECT_EQ(refused([](auto& s) { s.data_roots.resize(1); }), "task.bad_profiling");
    plan.interval = 100;
    EXPECT_EQ(refused([](auto&) {}), "task.bad_profiling") << "four segments";
}

}  // namespace
}  // namespace quern::compute::core
