// How a state slot starts out. Builders attach one to each slot; initial_state() (initial_state.h) turns them and a
// seed into tensors. Plain values; thread-safe.
#pragma once

#include <cstdint>

namespace quern::compute::program {

struct Initializer {
    enum class Kind : std::uint8_t { constant, normal };
    Kind kind = Kind::constant;
    std::uint32_t word = 0;  // constant: every element (f32 bits or i32); normal: the standard deviation as f32 bits

    constexpr bool operator==(const Initializer&) const = default;
    [[nodiscard]] static constexpr Initializer zeros() { return {}; }
    [[nodiscard]] static constexpr Initializer constant_word(std::uint32_t word) { return {Kind::constant, word}; }
    [[nodiscard]] static constexpr Initializer constant(float value) {
        return {Kind::constant, __builtin_bit_cast(std::uint32_t, value)};
    }
    [[nodiscard]] static constexpr Initializer normal(float deviation) {
        return {Kind::normal, __builtin_bit_cast(std::uint32_t, deviation)};
    }
};

}  // namespace quern::compute::program
