// The compression function F of BLAKE2b with any number of rounds (RFC 7693, section 3.2; EIP-152). Of our own, since
// libraries offer the hash alone, whose rounds are 12. Used by the EVM's contract 0x09. Pure; thread-safe.
#pragma once

#include <array>
#include <cstdint>

namespace quern::crypto {

// Replaces the state `h` by F(h, m, t, f) with `rounds` rounds; `t` is the offset counter, its low word first.
void blake2b_compress(std::uint32_t rounds, std::array<std::uint64_t, 8>& h, const std::array<std::uint64_t, 16>& m,
                      const std::array<std::uint64_t, 2>& t, bool is_final);

}  // namespace quern::crypto
