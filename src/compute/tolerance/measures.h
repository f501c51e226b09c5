// What the distance program measures of a segment, as words of binary32, and the order in which they are compared.
// Used by the distance program, by limits and by whoever judges. Plain values; thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quern::compute::tolerance {

// In the order of the slots. c is the claim, r the replay, p the checkpoint before; |x| is the L2 norm.
enum class Measure : std::uint8_t {
    l2,        // |c - r| / |r - p| over all parameters as one vector
    linf,      // the largest |c - r| of an element, by the largest |r - p|
    moments,   // as l2 of the companions of one prefix, the largest of all prefixes
    rest,      // |c - r| / |max(|r - p|, |r|)|, the largest of all slots of the rest
    exact,     // words of exact slots that differ
    movement,  // |r - p| over all parameters
    cosine,    // of the angle between c - p and r - p, over all parameters
    loose,     // the largest |c - p| of an element of the slots that are left out, by the largest |r - p| of the others
};
inline constexpr std::size_t kMeasures = 8;
inline constexpr std::array<std::string_view, kMeasures> kMeasureNames{"l2",    "linf",     "moments", "rest",
                                                                       "exact", "movement", "cosine",  "loose"};

// By measure: words of binary32.
struct Measured {
    std::array<std::uint32_t, kMeasures> words{};

    bool operator==(const Measured&) const = default;
    [[nodiscard]] constexpr std::uint32_t operator[](Measure measure) const {
        return words[static_cast<std::size_t>(measure)];
    }
    [[nodiscard]] constexpr std::uint32_t& operator[](Measure measure) {
        return words[static_cast<std::size_t>(measure)];
    }
};

// The total order of errors: +0 and above by their number, which is the order of their words; what is no such number
// (NaN, a negative one, -0) counts as infinity, the largest.
inline constexpr std::uint32_t kInfinity = 0x7f800000;
[[nodiscard]] constexpr std::uint32_t order_of(std::uint32_t word) { return word < kInfinity ? word : kInfinity; }
// Whether an error is at most the bound. No bound lets infinity or NaN pass, and a bound that is no finite number from
// +0 on lets nothing pass.
[[nodiscard]] constexpr bool within(std::uint32_t error, std::uint32_t bound) {
    return bound < kInfinity && error <= bound;
}

}  // namespace quern::compute::tolerance
