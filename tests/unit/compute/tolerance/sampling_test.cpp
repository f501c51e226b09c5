// Which segments are replayed: the beacon's and the largest, whatever a solver says of their sizes.
#include "compute/tolerance/judge/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace quern::compute::tolerance {
namespace {

std::uint32_t word(float x) { return __builtin_bit_cast(std::uint32_t, x); }

const Hash32 kBeacon{{1, 2, 3}};
const core::Address kVerifier{{9}};

TEST(Sampling, takes_the_largest_beside_those_that_the_beacon_draws) {
    std::vector<std::uint32_t> said;
    for (int i = 0; i < 100; ++i) said.push_back(word(static_cast<float>((i * 37) % 100)));
    const auto drawn = core::draw_segments(kBeacon, kVerifier, 100, 20);
    const auto chosen = choose_segments(kBeacon, kVerifier, said, 20, 7);
    EXPECT_EQ(chosen.size(), 27U);
    EXPECT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
    EXPECT_EQ(std::set(chosen.begin(), chosen.end()).size(), chosen.size());
    EXPECT_TRUE(std::includes(chosen.begin(), chosen.end(), drawn.begin(), drawn.end()));
    std::vector<std::uint64_t> added;
    std::set_difference(chosen.begin(), chosen.end(), drawn.begin(), drawn.end(), std::back_inserter(added));
    float least = 1e9F;
    for (const std::uint64_t i : added) least = std::min(least, __builtin_bit_cast(float, said[i]));
    for (std::uint64_t i = 0; i < 100; ++i) {
        if (std::binary_search(chosen.begin(), chosen.end(), i)) continue;
        EXPECT_LT(__builtin_bit_cast(float, said[i]), least) << i;
    }
}

TEST(Sampling, among_equals_the_earlier_segments_come_first) {
    const std::vector<std::uint32_t> said(10, word(2.0F));
    EXPECT_EQ(choose_segments(kBeacon, kVerifier, said, 0, 3), (std::vector<std::uint64_t>{0, 1, 2}));
}

TEST(Sampling, what_is_no_size_comes_first) {
    std::vector<std::uint32_t> said(10, word(2.0F));
    said[4] = 0x7f800000;
    said[6] = 0x7fc00000;
    said[8] = word(-1.0F);
    EXPECT_EQ(choose_segments(kBeacon, kVerifier, said, 0, 3), (std::vector<std::uint64_t>{4, 6, 8}));
    EXPECT_EQ(choose_segments(kBeacon, kVerifier, said, 0, 2), (std::vector<std::uint64_t>{4, 6}));
}

TEST(Sampling, takes_all_when_there_are_no_more) {
    const std::vector<std::uint32_t> said(5, word(1.0F));
    const std::vector<std::uint64_t> all{0, 1, 2, 3, 4};
    EXPECT_EQ(choose_segments(kBeacon, kVerifier, said, 2, 9), all);
    EXPECT_EQ(choose_segments(kBeacon, kVerifier, said, 9, 0), all);
    EXPECT_TRUE(choose_segments(kBeacon, kVerifier, {}, 3, 3).empty());
}

TEST(Sampling, small_forged_segments_are_found_by_the_beacon_alone) {
    std::vector<std::uint32_t> said(300, word(1.0F));
    for (std::size_t i = 0; i < 300; i += 10) said[i] = word(0.5F);
    const auto found = [&](const std::vector<std::uint64_t>& chosen) {
        return std::any_of(chosen.begin(), chosen.end(), [](std::uint64_t i) { return i % 10 == 0; });
    };
    int by_beacon = 0;
    for (std::uint8_t b = 0; b < 200; ++b) {
        const Hash32 beacon{{b}};
        EXPECT_FALSE(found(choose_segments(beacon, kVerifier, said, 0, 30)));
        by_beacon += found(choose_segments(beacon, kVerifier, said, 20, 10)) ? 1 : 0;
    }
    EXPECT_GT(by_beacon, 160);  // 1 - 0.9^20 = 0.88 of 200
}

}  // namespace
}  // namespace quern::compute::tolerance
