// CRC-32 as PNG and ZIP have it. For tests.
#pragma once

#include "base/bytes.h"

namespace quern::test {

inline std::uint32_t crc_of(BytesView bytes) {
    std::uint32_t crc = ~0U;
    for (const std::uint8_t byte : bytes) {
        crc ^= byte;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320U : 0U);
    }
    return ~crc;
}

}  // namespace quern::test
