// SipHash-2-4 (Aumasson and Bernstein, 2012): a keyed 64-bit hash of short inputs, for tables and short ids whose
// collisions nobody without the key can prepare. Not for signatures or commitments. Pure; thread-safe.
#pragma once

#include "base/bytes.h"

namespace quern::crypto {

[[nodiscard]] std::uint64_t siphash24(const FixedBytes<16>& key, BytesView message);

}  // namespace quern::crypto
