#include "base/rng.h"

#include <sys/random.h>

#include <bit>
#include <cerrno>
#include <cstdlib>

#include "base/big_endian.h"

namespace quern {
inline namespace base {

std::uint64_t Rng::u64() {
    std::uint8_t bytes[8];
    fill(bytes);
    return from_big_endian(bytes);
}

std::uint64_t Rng::below(std::uint64_t bound) {
    if (bound == 0) return 0;
    // Values under 2^64 mod bound would make the low residues likelier.
    const std::uint64_t reject_under = (0 - bound) % bound;
    std::uint64_t value = u64();
    while (value < reject_under) value = u64();
    return value % bound;
}

void OsRng::fill(std::span<std::uint8_t> target) {
    while (!target.empty()) {
        const ssize_t got = getrandom(target.data(), target.size(), 0);
        if (got < 0) {
            if (errno == EINTR) continue;
            std::abort();  // no safe way on without randomness
        }
        target = target.subspan(static_cast<std::size_t>(got));
    }
}

SeededRng::SeededRng(std::uint64_t seed) {
    for (auto& word : state_) {
        seed += 0x9e3779b97f4a7c15;
        std::uint64_t mixed = seed;
        mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
        mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
        word = mixed ^ mixed >> 31;
    }
}

std::uint64_t SeededRng::step() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
}

void SeededRng::fill(std::span<std::uint8_t> target) {
    while (!target.empty()) {
        std::uint64_t word = step();
        std::size_t i = 0;
        for (; i < 8 && i < target.size(); ++i, word >>= 8) target[i] = static_cast<std::uint8_t>(word);
        target = target.subspan(i);
    }
}

}  // namespace base
}  // namespace quern
