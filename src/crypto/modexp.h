// base^exponent mod modulus of numbers of any length, through GMP. Used by the EVM's contract 0x05 (EIP-198), whose gas
// bounds the lengths before anything here takes memory. Pure; thread-safe.
#pragma once

#include "base/bytes.h"

namespace quern::crypto {

// A big-endian number whose last bytes are zeros that nobody stores: `given`, then `zeros` bytes 00.
struct ZeroEnded {
    BytesView given;
    std::uint64_t zeros = 0;
};

// base^exponent mod modulus, big endian, into the whole of `result`. 0^0 is 1; with the modulus 0 the result is 0 (the
// contract's rule, no mathematics). Memory: what base, modulus and the given part of the exponent take, some times
// over; the exponent's zeros take time alone: 8 squarings a byte. The result must be as long as the modulus at least.
void modexp(const ZeroEnded& base, const ZeroEnded& exponent, const ZeroEnded& modulus, std::span<std::uint8_t> result);

}  // namespace quern::crypto
