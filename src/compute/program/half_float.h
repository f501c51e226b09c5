// Numbers of 16 bits as binary32, exactly. Used by the readers of other tools' files. Pure; thread-safe.
#pragma once

#include <bit>
#include <cstdint>

namespace quern::compute::program {

// binary16 (IEEE 754-2008), infinities and NaN as such.
[[nodiscard]] constexpr std::uint32_t widened_half(std::uint32_t half) {
    const std::uint32_t sign = (half & 0x8000) << 16;
    const std::uint32_t exponent = half >> 10 & 0x1f;
    const std::uint32_t fraction = half & 0x3ff;
    if (exponent == 0x1f) return sign | 0x7f800000 | fraction << 13;
    if (exponent != 0) return sign | (exponent + 112) << 23 | fraction << 13;
    if (fraction == 0) return sign;
    const auto shift = static_cast<std::uint32_t>(std::countl_zero(fraction)) - 21;  // to where a normal's leading 1 is
    return sign | (113 - shift) << 23 | (fraction << shift & 0x3ff) << 13;
}
// bfloat16: the upper half of a binary32.
[[nodiscard]] constexpr std::uint32_t widened_bfloat16(std::uint32_t half) { return half << 16; }

}  // namespace quern::compute::program
