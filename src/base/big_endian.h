// Numbers as bytes, the most significant first: as hashes, keys, files and messages have them. Pure functions.
#pragma once

#include "base/bytes.h"

namespace quern {
inline namespace base {

[[nodiscard]] constexpr FixedBytes<8> be64(std::uint64_t number) {
    FixedBytes<8> bytes;
    for (std::size_t i = 0; i < 8; ++i) bytes.data[i] = static_cast<std::uint8_t>(number >> (56 - 8 * i));
    return bytes;
}

// The lowest `width` bytes of `number`, at most 8.
inline void append_big_endian(Bytes& out, std::uint64_t number, std::size_t width) {
    for (std::size_t i = width; i-- > 0;) out.push_back(static_cast<std::uint8_t>(number >> (8 * i)));
}

// Of at most 8 bytes.
[[nodiscard]] constexpr std::uint64_t from_big_endian(BytesView bytes) {
    std::uint64_t number = 0;
    for (const std::uint8_t byte : bytes) number = number << 8 | byte;
    return number;
}

}  // namespace base
}  // namespace quern
