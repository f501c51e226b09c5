// Keccak-256 of many messages side by side: as many at a time as the CPU's vectors have lanes (8 with AVX-512, 4 with
// AVX2, else 1). For tries, whose nodes are hashed by the thousand. Thread-safe.
#pragma once

#include "base/bytes.h"

namespace quern::crypto {

// hashes[i] = keccak256(messages[i]); the spans are of one size.
void keccak256_many(std::span<const BytesView> messages, std::span<Hash32> hashes);

// The same with a given number of lanes (1, 4 or 8), for tests; false when this CPU has not got them.
[[nodiscard]] bool keccak256_many_in_lanes(std::size_t lanes, std::span<const BytesView> messages,
                                           std::span<Hash32> hashes);

}  // namespace quern::crypto
