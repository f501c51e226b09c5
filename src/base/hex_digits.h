// Hexadecimal digits of texts that are read on hot paths. Whole texts: base/bytes.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace quern {
inline namespace base {

// Of each character its value as a digit, or -1: digits of random data are branches that no processor foresees.
inline constexpr auto kHexValues = [] {
    std::array<std::int8_t, 256> values{};
    values.fill(-1);
    for (std::int8_t i = 0; i < 10; ++i) values[static_cast<std::size_t>('0' + i)] = i;
    for (std::int8_t i = 0; i < 6; ++i) {
        values[static_cast<std::size_t>('a' + i)] = static_cast<std::int8_t>(10 + i);
        values[static_cast<std::size_t>('A' + i)] = static_cast<std::int8_t>(10 + i);
    }
    return values;
}();

// Either case; -1 when it is none.
constexpr int hex_digit(char c) { return kHexValues[static_cast<unsigned char>(c)]; }

}  // namespace base
}  // namespace quern
