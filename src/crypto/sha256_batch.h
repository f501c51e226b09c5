// SHA-256 of many messages at once, in the lanes of the CPU's vector units: commitments hash a tile of 4,096 bytes
// after the other, and one message alone leaves most of such a unit idle. By Intel's multi-buffer library where it is
// built in, else one message after the other by crypto/hash.h; the hashes are the same. Thread-safe.
#pragma once

#include <span>
#include <string_view>

#include "crypto/hash.h"

namespace quern::crypto {

// So many messages fill the lanes of every CPU; of equal length at best. Fewer than that gain less or nothing.
inline constexpr std::size_t kHashLanes = 16;

// hashes[i] = sha256(messages[i]); as many hashes as messages.
void sha256_batch(std::span<const BytesView> messages, std::span<Hash32> hashes);
// What does it, for benchmarks and bug reports: "avx512", "avx2", "avx", "sse" or "one by one".
[[nodiscard]] std::string_view sha256_batch_engine();

}  // namespace quern::crypto
