// Limits made of what profilers say, honest and not, and what segments they refuse.
#include "compute/tolerance/limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/rng.h"

namespace quern::compute::tolerance {
namespace {

constexpr std::uint32_t kNan = 0x7fc00000;
constexpr float kMost = std::numeric_limits<float>::max();

std::uint32_t word(float x) { return __builtin_bit_cast(std::uint32_t, x); }
double number(std::uint32_t x) { return static_cast<double>(__builtin_bit_cast(float, x)); }

std::vector<std::uint32_t> words(std::initializer_list<float> numbers) {
    std::vector<std::uint32_t> result;
    for (const float each : numbers) result.push_back(word(each));
    return result;
}

Measured measured(float error, float movement) {
    Measured result;
    for (const Measure each : {Measure::l2, Measure::linf, Measure::moments, Measure::rest, Measure::loose})
        result[each] = word(error);
    result[Measure::movement] = word(movement);
    result[Measure::cosine] = word(1.0F);
    return result;
}

// Errors around `middle`, a tenth of it up and down.
Profile profile(float middle, float movement = 1.0F) {
    Profile result;
    for (int i = 0; i < 9; ++i)
        result.push_back(measured(middle * (1.0F + 0.025F * static_cast<float>(i - 4)), movement));
    return result;
}

Profile constant_profile(std::uint32_t each) {
    Measured same;
    same.words.fill(each);
    return Profile(9, same);
}

const Terms kTerms{word(1.0F), word(1.0F), 1, word(16.0F)};

TEST(Limits, the_median_is_a_word_that_was_given_in_the_order_of_errors) {
    EXPECT_EQ(median(words({3, 1, 2})), word(2));
    EXPECT_EQ(median(words({4, 3, 1, 2})), word(2));  // of two in the middle the lower
    EXPECT_EQ(median({}), kInfinity);
    EXPECT_EQ(median(std::array{word(1), kNan, word(-5)}), kInfinity);  // neither is an error: both count as the worst
    EXPECT_EQ(median(std::array{word(1), word(2), word(-5)}), word(2));
    EXPECT_EQ(order_of(word(-0.0F)), kInfinity);
    EXPECT_EQ(order_of(0xff800000), kInfinity);
    EXPECT_EQ(order_of(word(kMost)), word(kMost));
}

TEST(Limits, the_largest_counts_what_is_no_error_as_the_worst) {
    EXPECT_EQ(largest(words({1, 3, 2})), word(3));
    EXPECT_EQ(largest(std::array{word(1), word(-0.0F)}), kInfinity);
    EXPECT_EQ(largest(std::array{word(1), kNan}), kInfinity);
    EXPECT_EQ(largest({}), kInfinity);
}

TEST(Limits, a_robust_bound_is_the_median_and_six_median_deviations) {
    EXPECT_EQ(robust_bound(words({1, 2, 3, 4, 100})), word(9));
    EXPECT_EQ(robust_bound(words({5, 5, 5})), word(5));
    EXPECT_EQ(robust_bound(std::array{word(1), kNan, kNan}), kInfinity);
}

TEST(Limits, a_minority_cannot_move_a_robust_bound_out_of_the_others_range) {
    SeededRng rng(11);
    for (int turn = 0; turn < 2000; ++turn) {
        const std::uint64_t honest = 2 + rng.below(6);
        const std::uint64_t hostile = rng.below(honest);
        std::vector<std::uint32_t> all;
        for (std::uint64_t i = 0; i < honest; ++i)
            all.push_back(word(1e-4F + 1e-7F * static_cast<float>(rng.below(1000))));
        const auto [low, high] = std::minmax_element(all.begin(), all.end());
        const double least = number(*low);
        const double most = number(*high);
        for (std::uint64_t i = 0; i < hostile; ++i) all.push_back(static_cast<std::uint32_t>(rng.below(1ULL << 32)));
        const double bound = number(robust_bound(all));
        EXPECT_GE(bound, least);
        EXPECT_LE(bound, (most + 6 * (most - least)) * (1 + 1e-6)) << honest << " honest, " << hostile << " hostile";
    }
}

TEST(Limits, one_profiler_of_three_cannot_move_them_by_any_factor) {
    const std::vector<Profile> honest{profile(1e-4F), profile(1.2e-4F, 1.1F)};
    const double low = kMargin * number(honest[0].back()[Measure::l2]);  // the largest
    const double high = kMargin * number(honest[1].back()[Measure::l2]);
    std::vector<std::uint32_t> lies{0, 1, kNan, kInfinity, 0xff800000, 0xffffffff, word(-1), word(kMost)};
    for (float factor = 1e-30F; factor < 1e30F; factor *= 7) lies.push_back(word(1e-4F * factor));
    for (const std::uint32_t lie : lies) {
        std::vector<Profile> profiles = honest;
        profiles.push_back(constant_profile(lie));
        for (int turn = 0; turn < 3; ++turn) {  // whoever of the three it is
            const auto limits = derive_limits(profiles, kTerms);
            ASSERT_TRUE(limits) << limits.error().to_string();
            for (const std::uint32_t each : {limits->l2, limits->linf, limits->moments, limits->rest, limits->loose}) {
                EXPECT_GE(number(each), low) << lie;
                EXPECT_LE(number(each), high + 6.001 * (high - low)) << lie;
            }
            EXPECT_GE(number(limits->least_movement), 1.0 / 16);
            EXPECT_LE(number(limits->most_movement), 1.1 * 16.001);
            std::rotate(profiles.begin(), profiles.begin() + 1, profiles.end());
        }
    }
    // Two that agree are the majority: it is theirs.
    const auto theirs = derive_limits(std::vector{honest[0], profile(3e-3F), profile(3e-3F)}, kTerms);
    ASSERT_TRUE(theirs);
    EXPECT_GT(number(theirs->l2), kMargin * 3e-3);
}

TEST(Limits, the_largest_segment_of_a_profiler_counts) {
    Profile first_steps = profile(1e-4F);
    first_steps[0][Measure::linf] = word(1e-2F);
    const auto limits = derive_limits(std::vector(3, first_steps), kTerms);
    ASSERT_TRUE(limits) << limits.error().to_string();
    EXPECT_EQ(limits->linf, word(kMargin * 1e-2F));
    EXPECT_EQ(limits->l2, derive_limits(std::vector(3, profile(1e-4F)), kTerms)->l2);
    // Of one profiler alone it does not: two others have measured less.
    const auto alone = derive_limits(std::vector{first_steps, profile(1e-4F), profile(1e-4F)}, kTerms);
    ASSERT_TRUE(alone);
    EXPECT_LT(number(alone->linf), kMargin * 2e-4);
    // Who could not reproduce one segment has reproduced nothing; how far training moves is the median still.
    Profile broken = profile(1e-4F);
    broken[8].words.fill(kNan);
    EXPECT_EQ(derive_limits(std::vector(3, broken), kTerms).error().name, "tolerance.not_reproducible");
    const auto others = derive_limits(std::vector{broken, profile(1e-4F), profile(1e-4F)}, kTerms);
    ASSERT_TRUE(others);
    Profile far = profile(1e-4F);
    far[0][Measure::movement] = word(9.0F);
    EXPECT_EQ(derive_limits(std::vector(3, far), kTerms)->most_movement, word(16.0F));
}

TEST(Limits, are_no_closer_than_rounding) {
    const std::vector<Profile> profiles(3, profile(0));
    const auto limits = derive_limits(profiles, kTerms);
    ASSERT_TRUE(limits) << limits.error().to_string();
    for (const std::uint32_t each : {limits->l2, limits->linf, limits->moments, limits->rest, limits->loose})
        EXPECT_EQ(each, word(0x1p-18F));
}

TEST(Limits, caps_bound_a_segment_and_the_sum_over_the_history) {
    const std::vector<Profile> profiles(3, profile(1e-4F));
    Terms terms = kTerms;
    terms.cap = word(1.05e-4F);
    EXPECT_EQ(derive_limits(profiles, terms)->l2, terms.cap);
    for (std::uint64_t segments = 1; segments < 5000; segments += 37) {
        terms = {word(1.0F), word(1.01e-4F * static_cast<float>(segments)), segments, word(16.0F)};
        const auto limits = derive_limits(profiles, terms);
        ASSERT_TRUE(limits) << limits.error().to_string();
        EXPECT_LE(number(limits->l2) * static_cast<double>(segments), number(terms.history_cap)) << segments;
        EXPECT_GT(number(limits->l2) * static_cast<double>(segments), number(terms.history_cap) * 0.9999) << segments;
    }
}

// Of l2 the cap holds whatever profilers say. It would be worth little beside moments that they can make the solver's
// to set: huge ones say by themselves where the next segment leads.
TEST(Limits, a_majority_that_lies_cannot_free_moments_nor_the_rest_nor_loose_slots) {
    Terms terms = kTerms;
    terms.cap = word(1e-2F);
    std::vector<Profile> profiles(3, profile(1e-4F));
    for (const float lie : {1.0F, 1e30F}) {
        for (std::size_t liar = 0; liar < 2; ++liar)
            for (const Measure each : {Measure::l2, Measure::moments, Measure::rest, Measure::loose})
                profiles[liar][0][each] = word(lie);
        const auto limits = derive_limits(profiles, terms);
        ASSERT_TRUE(limits) << limits.error().to_string();
        EXPECT_EQ(limits->l2, word(1e-2F));
        EXPECT_EQ(limits->moments, word(4e-2F));
        EXPECT_EQ(limits->rest, word(4e-2F));
        EXPECT_EQ(limits->loose, word(8.0F));
    }
    // What the submitter allows by name it has, and the least limit is no cap's to take.
    terms.allowance.rest = word(0.5F);
    EXPECT_EQ(derive_limits(profiles, terms)->rest, word(0.5F));
    terms = kTerms;
    terms.cap = word(1e-7F);
    const auto closest = derive_limits(std::vector<Profile>(3, profile(0)), terms);
    ASSERT_TRUE(closest) << closest.error().to_string();
    EXPECT_EQ(closest->moments, word(0x1p-18F));
    // The largest cap bounds nothing, and does not become a bound that nothing passes.
    terms.cap = word(kMost);
    const auto open = derive_limits(std::vector<Profile>(3, profile(0.25F)), terms);
    ASSERT_TRUE(open);
    EXPECT_NEAR(number(open->moments), kMargin * 0.275, 1e-4);
}

TEST(Limits, an_allowance_is_the_least_limit_and_caps_bound_it) {
    const std::vector<Profile> profiles(3, profile(1e-4F));
    Terms terms = kTerms;
    const auto before = derive_limits(profiles, terms);
    ASSERT_TRUE(before);
    terms.allowance = {word(0.5F), word(0.6F), word(0.7F), word(1e-6F)};
    auto limits = derive_limits(profiles, terms);
    ASSERT_TRUE(limits);
    EXPECT_EQ(limits->l2, word(0.5F));
    EXPECT_EQ(limits->linf, word(0.6F));
    EXPECT_EQ(limits->moments, word(0.7F));
    EXPECT_EQ(limits->rest, before->rest);
    terms.cap = word(0.25F);
    EXPECT_EQ(derive_limits(profiles, terms)->l2, word(0.25F));
}

TEST(Limits, refuses_terms_and_profiles_by_name) {
    const std::vector<Profile> profiles(3, profile(1e-4F));
    const auto error_with = [&](auto change, const std::vector<Profile>& given) {
        Terms terms = kTerms;
        change(terms);
        const auto limits = derive_limits(given, terms);
        return limits ? std::string("none") : std::string(limits.error().name);
    };
    const auto as_it_is = [](Terms&) {};
    EXPECT_EQ(error_with(as_it_is, profiles), "none");
    for (const std::uint32_t bad : {0U, kNan, kInfinity, word(-1)}) {
        EXPECT_EQ(error_with([&](Terms& t) { t.cap = bad; }, profiles), "tolerance.bad_terms") << bad;
        EXPECT_EQ(error_with([&](Terms& t) { t.history_cap = bad; }, profiles), "tolerance.bad_terms") << bad;
        EXPECT_EQ(error_with([&](Terms& t) { t.range = bad; }, profiles), "tolerance.bad_terms") << bad;
    }
    for (const std::uint32_t bad : {kNan, kInfinity, word(-1)}) {
        EXPECT_EQ(error_with([&](Terms& t) { t.allowance.l2 = bad; }, profiles), "tolerance.bad_terms") << bad;
        EXPECT_EQ(error_with([&](Terms& t) { t.allowance.rest = bad; }, profiles), "tolerance.bad_terms") << bad;
    }
    EXPECT_EQ(error_with([](Terms& t) { t.range = word(0.99F); }, profiles), "tolerance.bad_terms");
    EXPECT_EQ(error_with([](Terms& t) { t.segments = 0; }, profiles), "tolerance.bad_terms");
    EXPECT_EQ(error_with([](Terms& t) { t.segments = kMaxLimitedSegments + 1; }, profiles), "tolerance.bad_terms");
    EXPECT_EQ(error_with(as_it_is, std::vector<Profile>(2, profile(1e-4F))), "tolerance.wrong_profilers");
    EXPECT_EQ(error_with(as_it_is, std::vector<Profile>(kMaxProfilers + 1, profile(1e-4F))),
              "tolerance.wrong_profilers");
    EXPECT_EQ(error_with(as_it_is, std::vector<Profile>(3, Profile(kMinProfiled - 1))), "tolerance.wrong_profilers");
    EXPECT_EQ(error_with(as_it_is, std::vector<Profile>(3, Profile(kMaxProfiled + 1))), "tolerance.wrong_profilers");
    EXPECT_EQ(error_with(as_it_is, std::vector<Profile>(3, constant_profile(kNan))), "tolerance.not_reproducible");
    EXPECT_EQ(error_with(as_it_is, std::vector<Profile>(3, profile(1e-4F, 0))), "tolerance.not_reproducible");
    EXPECT_EQ(error_with([](Terms& t) { t.cap = word(0.9e-4F); }, profiles), "tolerance.cap_too_low");
    EXPECT_EQ(error_with([](Terms& t) { t.segments = 1U << 20; }, profiles), "tolerance.cap_too_low");
}

TEST(Limits, says_which_term_is_wrong_and_by_what_number) {
    EXPECT_TRUE(check_terms(kTerms));
    Terms terms = kTerms;
    terms.range = word(0.5F);
    EXPECT_EQ(check_terms(terms).error().detail, "range is 0.5, not a finite number from 1 on");
    terms.allowance.moments = kNan;
    terms.range = kTerms.range;
    EXPECT_EQ(check_terms(terms).error().detail, "allow-moments is nan, not a finite number from +0 on");
    terms.cap = 0;
    EXPECT_EQ(check_terms(terms).error().detail, "cap is 0, not a finite number above 0");
    terms = kTerms;
    terms.cap = word(0.5e-4F);
    EXPECT_EQ(derive_limits(std::vector<Profile>(3, constant_profile(word(1e-4F))), terms).error().detail,
              "the cap of a segment, 5e-05, is below the median noise of profilers, 1e-04");
    Limits limits{};
    limits.moments = kNan;
    EXPECT_EQ(decode_limits(encode_limits(limits)).error().detail, "moments is nan, not a finite number from +0 on");
    EXPECT_EQ(decode_limits(Bytes(27)).error().detail, "27 bytes, not 28");
}

TEST(Limits, a_segment_is_refused_by_the_measure_that_is_too_far) {
    const Limits limits{word(1e-3F), word(2e-3F), word(3e-3F), word(4e-3F), word(5e-3F), word(0.5F), word(2.0F)};
    const Measured good = measured(1e-3F, 1.0F);
    EXPECT_EQ(refused_by(good, limits), std::nullopt);
    const std::array<std::pair<Measure, std::uint32_t>, 5> bounds{{{Measure::l2, limits.l2},
                                                                   {Measure::linf, limits.linf},
                                                                   {Measure::moments, limits.moments},
                                                                   {Measure::rest, limits.rest},
                                                                   {Measure::loose, limits.loose}}};
    for (const auto& [measure, bound] : bounds) {
        Measured each = good;
        each[measure] = bound;
        EXPECT_EQ(refused_by(each, limits), std::nullopt);
        for (const std::uint32_t far : {bound + 1, kInfinity, kNan, 0xffc00000U, word(-1e-9F), 0x80000000U}) {
            each[measure] = far;
            EXPECT_EQ(refused_by(each, limits), measure) << far;
        }
    }
    Measured each = good;
    for (const std::uint32_t wrong : {word(1.0F), kNan, 1U}) {
        each[Measure::exact] = wrong;
        EXPECT_EQ(refused_by(each, limits), Measure::exact);
    }
    each = good;
    for (const std::uint32_t movement : {limits.least_movement, limits.most_movement}) {
        each[Measure::movement] = movement;
        EXPECT_EQ(refused_by(each, limits), std::nullopt);
    }
    for (const std::uint32_t movement : {limits.least_movement - 1, limits.most_movement + 1, kNan, word(-1.0F), 0U}) {
        each[Measure::movement] = movement;
        EXPECT_EQ(refused_by(each, limits), Measure::movement) << movement;
    }
    EXPECT_EQ(refused_by(measured(0, 1.0F), Limits{kInfinity, 0, 0, 0, 0, 0, word(2.0F)}), Measure::l2);
}

TEST(Limits, are_seven_words_in_their_order) {
    const Limits limits{1, 0x01020304, 3, 4, 5, 6, 0x3f800000};
    const Bytes bytes = encode_limits(limits);
    ASSERT_EQ(bytes.size(), kLimitBytes);
    EXPECT_EQ(Bytes(bytes.begin() + 4, bytes.begin() + 8), (Bytes{4, 3, 2, 1}));
    EXPECT_EQ(Bytes(bytes.end() - 8, bytes.end()), (Bytes{6, 0, 0, 0, 0, 0, 0x80, 0x3f}));
    const auto decoded = decode_limits(bytes);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(*decoded, limits);
    const auto error_of = [](const Bytes& given) {
        const auto found = decode_limits(given);
        return found ? std::string("none") : std::string(found.error().name);
    };
    Bytes other = bytes;
    other.pop_back();
    EXPECT_EQ(error_of(other), "tolerance.bad_limits");
    other.resize(kLimitBytes + 1);
    EXPECT_EQ(error_of(other), "tolerance.bad_limits");
    for (const auto word : {&Limits::l2, &Limits::linf, &Limits::moments, &Limits::rest, &Limits::loose,
                            &Limits::least_movement, &Limits::most_movement})
        for (const std::uint32_t wrong : {kInfinity, kNan, 0x80000000U, 0xffffffffU}) {
            Limits bad = limits;
            bad.*word = wrong;
            EXPECT_EQ(error_of(encode_limits(bad)), "tolerance.bad_limits") << wrong;
        }
    Limits none = limits;
    none.least_movement = none.most_movement + 1;
    EXPECT_EQ(error_of(encode_limits(none)), "tolerance.bad_limits");
    none.least_movement = none.most_movement;
    EXPECT_EQ(error_of(encode_limits(none)), "none");
}

}  // namespace
}  // namespace quern::compute::tolerance
