// Randomness as an interface, so that simulations replay from a seed. OsRng for keys and salts; SeededRng for tests
// and simulations only. OsRng is thread-safe; a SeededRng belongs to one thread.
#pragma once

#include <cstdint>
#include <span>

namespace quern {
inline namespace base {

class Rng {
public:
    virtual ~Rng() = default;
    virtual void fill(std::span<std::uint8_t> target) = 0;

    [[nodiscard]] std::uint64_t u64();
    // Uniform in 0..bound-1; 0 for bound 0.
    [[nodiscard]] std::uint64_t below(std::uint64_t bound);
};

// getrandom(2).
class OsRng final : public Rng {
public:
    void fill(std::span<std::uint8_t> target) override;
};

// xoshiro256** seeded through SplitMix64: quick and reproducible, not for secrets.
class SeededRng final : public Rng {
public:
    explicit SeededRng(std::uint64_t seed);
    void fill(std::span<std::uint8_t> target) override;

private:
    std::uint64_t step();
    std::uint64_t state_[4];
};

}  // namespace base
}  // namespace quern
