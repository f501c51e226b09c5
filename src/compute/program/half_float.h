// Numbers of 16 bits as binary32, exactly, and binary32 as such. Used by the readers and writers of other tools' files.
// Pure; thread-safe.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>

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

// The nearest binary16, of two that are equally near the even one; nothing where a number would become infinite. A NaN
// keeps the upper bits of its fraction, or its quiet bit where those are zero.
[[nodiscard]] constexpr std::optional<std::uint16_t> narrowed_half(std::uint32_t word) {
    constexpr std::uint32_t kInfinity = 0x7f800000;
    constexpr std::uint32_t kTooLarge = 0x477ff000;  // 65,520: half way from the largest number to what would follow
    constexpr std::uint32_t kSmallestNormal = 0x38800000;
    constexpr std::uint32_t kHalfSmallest = 0x33000000;  // 2^-25, half of the smallest there is
    const std::uint32_t sign = word >> 16 & 0x8000;
    const std::uint32_t magnitude = word & 0x7fffffff;
    const auto result = [sign](std::uint32_t half) { return static_cast<std::uint16_t>(sign | half); };
    if (magnitude > kInfinity) {
        const std::uint32_t fraction = magnitude >> 13 & 0x3ff;
        return result(0x7c00 | (fraction == 0 ? 0x200 : fraction));
    }
    if (magnitude == kInfinity) return result(0x7c00);
    if (magnitude >= kTooLarge) return std::nullopt;
    if (magnitude >= kSmallestNormal)
        return result(((magnitude + 0xfff + (magnitude >> 13 & 1)) >> 13) - (std::uint32_t{112} << 10));
    if (magnitude <= kHalfSmallest) return result(0);
    const std::uint32_t shift = 126 - (magnitude >> 23);
    const std::uint32_t fraction = (magnitude & 0x7fffff) | 0x800000;
    return result((fraction + (std::uint32_t{1} << (shift - 1)) - 1 + (fraction >> shift & 1)) >> shift);
}
// The same of bfloat16.
[[nodiscard]] constexpr std::optional<std::uint16_t> narrowed_bfloat16(std::uint32_t word) {
    constexpr std::uint32_t kInfinity = 0x7f800000;
    if ((word & 0x7fffffff) > kInfinity) {
        const std::uint32_t upper = word >> 16;
        return static_cast<std::uint16_t>((upper & 0x7f) == 0 ? upper | 0x40 : upper);
    }
    const std::uint32_t rounded = (word + 0x7fff + (word >> 16 & 1)) >> 16;
    if ((rounded & 0x7fff) == 0x7f80 && (word & 0x7fffffff) != kInfinity) return std::nullopt;
    return static_cast<std::uint16_t>(rounded);
}

}  // namespace quern::compute::program
