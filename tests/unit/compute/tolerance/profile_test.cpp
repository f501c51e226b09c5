// Profilers: each backend is measured from where the canonical replay is, and limits follow from that.
#include "compute/tolerance/profile/profile.h"

#include <gtest/gtest.h>

#include "support/training_game.h"

namespace quern::compute::tolerance::profile {
namespace {

using vm::tensor::Executor;
using vm::tensor::State;

float number(std::uint32_t x) { return __builtin_bit_cast(float, x); }

struct ProfileTest : ::testing::Test {
    test::Training training = test::train(test::small_architecture(), 2);
    distance::SegmentPrograms segment = *distance::build_segment_programs(training.program());
    Executor executor{training.program(), vm::tensor::arith::Backend::scalar, nullptr};
    Meter meter{training.program(), segment, training.data, training.seed, nullptr};
    std::vector<State> begun;  // what steps were called with

    // Canonical steps, after each of which the words that rounding may differ in are `off` by that much.
    Profiler backend(const std::string& name, std::uint32_t off) {
        return {name, [this, off](State& state) -> Status {
                    begun.push_back(state);
                    EXPECT_TRUE(executor.step(state, training.data, training.seed));
                    for (std::size_t s = 0; s < state.size(); ++s)
                        if (segment.classes[s] != distance::Class::exact)
                            for (std::uint32_t& word : state[s].words) word ^= off;
                    return {};
                }};
    }
};

TEST_F(ProfileTest, measures_each_backend_from_where_the_replay_is) {
    const std::vector<Profiler> backends{backend("canonical", 0), backend("near", 1), backend("far", 0x400)};
    std::vector<std::uint64_t> told;
    const auto profiles =
        profile_segments(meter, backends, training.states[0], 3, 8,
                         [&](const Profiler& profiler, const Measured&, std::uint64_t done, std::uint64_t all) {
                             EXPECT_EQ(profiler.name, backends[told.size() % 3].name);
                             EXPECT_EQ(all, 24U);
                             told.push_back(done);
                         });
    ASSERT_TRUE(profiles) << profiles.error().to_string();
    ASSERT_EQ(profiles->size(), 3U);
    for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(told[i], i + 1);
    // Whose segments begin with the same state, the canonical one after the segment before.
    State state = training.states[0];
    ASSERT_EQ(begun.size(), 24U * 3);
    for (std::size_t each = 0; each < 8; ++each) {
        for (std::size_t p = 0; p < 3; ++p) EXPECT_EQ(begun[(each * 3 + p) * 3], state);
        EXPECT_TRUE(meter.replay(state, 3));
        EXPECT_EQ((*profiles)[0][each][Measure::l2], 0U);
        EXPECT_GT(number((*profiles)[0][each][Measure::movement]), 1e-4F);
        EXPECT_GT(number((*profiles)[1][each][Measure::l2]), 0.0F);
        EXPECT_GT(number((*profiles)[2][each][Measure::l2]), 50 * number((*profiles)[1][each][Measure::l2]));
        for (std::size_t p = 0; p < 3; ++p) EXPECT_EQ((*profiles)[p][each][Measure::exact], 0U);
    }
    const auto limits = derive_limits(*profiles, TermNumbers{.cap = 0.5F}.of(8));
    ASSERT_TRUE(limits) << limits.error().to_string();
    for (const Measured& each : (*profiles)[1]) EXPECT_EQ(refused_by(each, *limits), std::nullopt);
}

TEST_F(ProfileTest, ends_with_what_a_backend_says_or_when_it_is_cancelled) {
    const std::vector<Profiler> failing{backend("canonical", 0),
                                        {"broken", [](State&) -> Status { return fail("torch.failed", "why"); }}};
    EXPECT_EQ(profile_segments(meter, failing, training.states[0], 1, 8).error().name, "torch.failed");
    bool stop = false;
    const Cancellation cancelled([&] { return stop; });
    Meter stopping(training.program(), segment, training.data, training.seed, nullptr, &cancelled);
    const std::vector<Profiler> backends{backend("canonical", 0)};
    const auto ended = profile_segments(
        stopping, backends, training.states[0], 1, 8,
        [&](const Profiler&, const Measured&, std::uint64_t done, std::uint64_t) { stop = done == 2; });
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().name, "tolerance.no_replay");
    EXPECT_EQ(begun.size(), 1U + 2);
    State other = training.states[0];
    other.pop_back();
    EXPECT_EQ(meter.measure(training.states[0], other, training.states[0]).error().name, "executor.bad_state");
}

TEST(TermNumbers, are_words_and_the_history_has_the_cap_of_each_segment_unless_it_is_given) {
    const Terms plain = TermNumbers{}.of(10);
    EXPECT_EQ(number(plain.cap), 1e-2F);
    EXPECT_FLOAT_EQ(number(plain.history_cap), 1e-1F);
    EXPECT_EQ(number(plain.range), 16.0F);
    EXPECT_EQ(plain.segments, 10U);
    const Terms given = TermNumbers{1e-3F, 2e-3F, 4, 1, 2, 3, 5}.of(10);
    EXPECT_EQ(number(given.history_cap), 2e-3F);
    EXPECT_EQ(number(given.allowance.l2), 1.0F);
    EXPECT_EQ(number(given.allowance.linf), 2.0F);
    EXPECT_EQ(number(given.allowance.moments), 3.0F);
    EXPECT_EQ(number(given.allowance.rest), 5.0F);
}

}  // namespace
}  // namespace quern::compute::tolerance::profile
