// Counter-based random words and keyed permutations of the canonical arithmetic: integers only. Used by programs
// (philox node, permute_index) and the chain's leaf. Pure; thread-safe.
#pragma once

#include <array>
#include <cstdint>

namespace quern::vm::tensor::arith {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
[[nodiscard]] constexpr std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                                                   std::array<std::uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * counter[0];
        const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * counter[2];
        counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
                   static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
        key[0] += 0x9E3779B9U;
        key[1] += 0xBB67AE85U;
    }
    return counter;
}

// Word 0 of Philox4x32-10 with counter (index, c1, c2, 0) and key (k0, k1). `index` is the element's logical index.
[[nodiscard]] constexpr std::uint32_t philox_word(std::uint32_t index, std::uint32_t c1, std::uint32_t c2,
                                                  std::uint32_t k0, std::uint32_t k1) {
    return philox4x32_10({index, c1, c2, 0}, {k0, k1})[0];
}

// Word (index mod 4) of Philox4x32-10 with counter (index div 4, c1, c2, 1), another one than philox_word ever has, and
// key (k0, k1).
[[nodiscard]] constexpr std::uint32_t philox_four_word(std::uint32_t index, std::uint32_t c1, std::uint32_t c2,
                                                       std::uint32_t k0, std::uint32_t k1) {
    return philox4x32_10({index / 4, c1, c2, 1}, {k0, k1})[index % 4];
}

// The finaliser of MurmurHash3: a bijection of 32-bit words.
[[nodiscard]] constexpr std::uint32_t mix32(std::uint32_t x) {
    x ^= x >> 16;
    x *= 0x85EBCA6BU;
    x ^= x >> 13;
    x *= 0xC2B2AE35U;
    x ^= x >> 16;
    return x;
}

// The place of index mod n in a permutation of [0, n) chosen by (key0, key1); 0 for n = 0. A Feistel network of 6
// rounds on pairs (high, low) with low < a = 2^h, the least such that a^2 >= n and h >= 1, and high < b = ceil(n / a),
// repeated until a * high + low is below n. Fewer than a of the a * b pairs are not, about one in sqrt(n): who may
// choose the keys finds no long walks, since each step of one is as rare.
[[nodiscard]] constexpr std::uint32_t permute_index(std::uint32_t index, std::uint32_t key0, std::uint32_t key1,
                                                    std::uint32_t n) {
    if (n == 0) return 0;
    std::uint32_t half_bits = 1;
    while ((std::uint64_t{1} << (2 * half_bits)) < n) ++half_bits;
    const std::uint32_t mask = (1U << half_bits) - 1;
    const std::uint32_t highs = ((n - 1) >> half_bits) + 1;
    std::uint32_t value = index % n;
    do {
        std::uint32_t high = value >> half_bits;
        std::uint32_t low = value & mask;
        const auto mixed = [&](std::uint32_t half, std::uint32_t round) {
            return mix32(mix32((half + 0x9E3779B9U * round) ^ key0) ^ key1);
        };
        for (std::uint32_t round = 1; round <= 6; round += 2) {
            high += static_cast<std::uint32_t>((std::uint64_t{mixed(low, round)} * highs) >> 32);
            if (high >= highs) high -= highs;
            low ^= mixed(high, round + 1) & mask;
        }
        value = (high << half_bits) | low;
    } while (value >= n);
    return value;
}

}  // namespace quern::vm::tensor::arith
