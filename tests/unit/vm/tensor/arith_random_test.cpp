#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "unit/vm/tensor/arith_inputs.h"
#include "vm/tensor/arith/random.h"
#include "vm/tensor/arith/soft_float.h"

namespace quern::vm::tensor::arith {
namespace {

using Counter = std::array<std::uint32_t, 4>;

// The known answers published with the Random123 library.
TEST(Philox, gives_the_published_known_answers) {
    EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}), (Counter{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
    EXPECT_EQ(philox4x32_10({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}),
              (Counter{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
    EXPECT_EQ(philox4x32_10({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}, {0xa4093822U, 0x299f31d0U}),
              (Counter{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

TEST(Philox, word_is_the_first_of_the_counter_index_c1_c2_0) {
    EXPECT_EQ(philox_word(0, 0, 0, 0, 0), 0x6627e8d5U);
    EXPECT_EQ(philox_word(7, 8, 9, 10, 11), philox4x32_10({7, 8, 9, 0}, {10, 11})[0]);
    EXPECT_NE(philox_word(7, 8, 9, 10, 11), philox_word(8, 7, 9, 10, 11));
}

TEST(Philox, four_words_of_a_call_are_of_a_counter_that_single_words_never_have) {
    for (std::uint32_t i = 0; i < 8; ++i) {
        EXPECT_EQ(philox_four_word(i, 8, 9, 10, 11), philox4x32_10({i / 4, 8, 9, 1}, {10, 11})[i % 4]) << i;
        EXPECT_NE(philox_four_word(i, 8, 9, 10, 11), philox_word(i / 4, 8, 9, 10, 11)) << i;
    }
    EXPECT_EQ(philox_four_word(0x7fffffff, 1, 2, 3, 4), philox4x32_10({0x1fffffff, 1, 2, 1}, {3, 4})[3]);
}

TEST(PermuteIndex, is_a_bijection_for_every_domain_size) {
    test::Words words(1);
    for (std::uint32_t n : {1U,  2U,   3U,   4U,   5U,   7U,    15U,   16U,   17U,   31U,    63U,   64U,
                            65U, 100U, 255U, 256U, 257U, 1000U, 1024U, 1025U, 4097U, 65536U, 70001U}) {
        const std::uint32_t key0 = words.bits();
        const std::uint32_t key1 = words.bits();
        std::vector<bool> seen(n);
        for (std::uint32_t i = 0; i < n; ++i) {
            const std::uint32_t j = permute_index(i, key0, key1, n);
            ASSERT_LT(j, n);
            ASSERT_FALSE(seen[j]) << "n " << n << " index " << i;
            seen[j] = true;
        }
    }
}

TEST(PermuteIndex, is_total_and_takes_the_index_modulo_n) {
    EXPECT_EQ(permute_index(123, 4, 5, 0), 0U);
    EXPECT_EQ(permute_index(~0U, 4, 5, 1), 0U);
    for (std::uint32_t i = 0; i < 100; ++i)
        EXPECT_EQ(permute_index(i + 1000U, 4, 5, 1000), permute_index(i, 4, 5, 1000));
    EXPECT_LT(permute_index(~0U, 1, 2, ~0U), ~0U);
    EXPECT_EQ(permute_index(~0U, 1, 2, ~0U), permute_index(0, 1, 2, ~0U));
}

// Walks are short whatever the keys: the longest found in a minute, 62 rounds, was with n = 2^30 + 1 and these keys.
// Where few values lie outside it is about one in sqrt(n) that takes a second round.
TEST(PermuteIndex, seldom_walks) {
    constexpr std::uint32_t kN = (1U << 30) + 1;
    const auto rounds = [](std::uint32_t index, std::uint32_t key0, std::uint32_t key1, std::uint32_t n) {
        // The first round of a larger n with the same halves is one round of this one.
        std::uint32_t walked = 1;
        std::uint32_t half_bits = 1;
        while ((std::uint64_t{1} << (2 * half_bits)) < n) ++half_bits;
        const std::uint32_t whole = (((n - 1) >> half_bits) + 1) << half_bits;
        for (std::uint32_t at = permute_index(index, key0, key1, whole); at >= n;
             at = permute_index(at, key0, key1, whole))
            ++walked;
        return walked;
    };
    EXPECT_EQ(rounds(99'525'950, 3'266'092'863, 8'301'773, kN), 1U);
    std::uint32_t all = 0;
    for (std::uint32_t i = 0; i < 100'000; ++i) all += rounds(i, 1, i, kN);
    EXPECT_LT(all, 100'100U);
    std::uint32_t longest = 0;
    for (std::uint32_t i = 0; i < 100'000; ++i) longest = std::max(longest, rounds(i % 65, 1, i, 65));
    EXPECT_LE(longest, 16U);  // 15 values of 80 lie outside
}

TEST(PermuteIndex, depends_on_both_keys) {
    int moved0 = 0;
    int moved1 = 0;
    for (std::uint32_t i = 0; i < 1000; ++i) {
        moved0 += permute_index(i, 1, 2, 1000) != permute_index(i, 3, 2, 1000) ? 1 : 0;
        moved1 += permute_index(i, 1, 2, 1000) != permute_index(i, 1, 3, 1000) ? 1 : 0;
    }
    EXPECT_GT(moved0, 950);
    EXPECT_GT(moved1, 950);
}

// Values that another implementation of doc/arithmetic.md can be checked with.
TEST(PermuteIndex, keeps_its_definition) {
    std::vector<std::uint32_t> values;
    for (std::uint32_t i = 0; i < 10; ++i) values.push_back(evaluate_soft(ElementOp::permute_index, i, 1, 2, 10));
    EXPECT_EQ(values, (std::vector<std::uint32_t>{9, 2, 1, 3, 7, 5, 6, 8, 4, 0}));
}

}  // namespace
}  // namespace quern::vm::tensor::arith
