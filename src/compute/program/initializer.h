// How a state slot starts out. Builders attach one to each slot; initial_state() (initial_state.h) turns them and a
// seed into tensors. Plain values; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace quern::compute::program {

struct Initializer {
    enum class Kind : std::uint8_t { constant, normal, given };
    Kind kind = Kind::constant;
    std::uint32_t word = 0;  // constant: every element (f32 bits or i32); normal: the standard deviation as f32 bits
    std::shared_ptr<const std::vector<std::uint32_t>> words{};  // given: as many as the slot has, row by row

    bool operator==(const Initializer&) const = default;
    [[nodiscard]] static Initializer zeros() { return {}; }
    [[nodiscard]] static Initializer constant_word(std::uint32_t word) { return {Kind::constant, word}; }
    [[nodiscard]] static Initializer constant(float value) {
        return {Kind::constant, __builtin_bit_cast(std::uint32_t, value)};
    }
    [[nodiscard]] static Initializer normal(float deviation) {
        return {Kind::normal, __builtin_bit_cast(std::uint32_t, deviation)};
    }
    [[nodiscard]] static Initializer given(std::shared_ptr<const std::vector<std::uint32_t>> words) {
        return {Kind::given, 0, std::move(words)};
    }
};

}  // namespace quern::compute::program
