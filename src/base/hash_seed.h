// A secret of this process for hash tables whose keys a stranger can choose: without it nobody can make keys that all
// fall into one place. It decides how long a look-up takes and nothing else: no table that uses it may be iterated in
// its own order where that reaches a result. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace quern {
inline namespace base {

// Drawn once, at the first call.
[[nodiscard]] std::uint64_t hash_seed();

// A seeded hash of kSize bytes (multiply and fold, as in Wang Yi's wyhash).
template <std::size_t kSize>
[[nodiscard]] inline std::uint64_t seeded_hash(const std::uint8_t* bytes, std::uint64_t seed) {
    const auto fold = [](std::uint64_t a, std::uint64_t b) {
        const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
        return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    };
    std::uint64_t hash = seed;
    for (std::size_t at = 0; at < kSize; at += 16) {
        std::uint64_t words[2] = {0, 0};
        std::memcpy(words, bytes + at, kSize - at < 16 ? kSize - at : 16);
        hash = fold(words[0] ^ hash ^ 0x9e3779b97f4a7c15U, words[1] ^ seed ^ 0xd6e8feb86659fd93U);
    }
    return fold(hash ^ 0xa0761d6478bd642fU, seed | 1U);
}

}  // namespace base
}  // namespace quern
