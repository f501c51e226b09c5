// Constants of the elementary functions, as binary32 bits so that the integer-only code can share them; values and
// sequences in doc/arithmetic.md. Polynomials are listed from the highest power down. Constant data.
#pragma once

#include <cstdint>

namespace quern::vm::tensor::arith::constants {

inline constexpr std::uint32_t kOne = 0x3f800000U;
inline constexpr std::uint32_t kTwo = 0x40000000U;
inline constexpr std::uint32_t kMinusHalf = 0xbf000000U;
inline constexpr std::uint32_t kInfinity = 0x7f800000U;
inline constexpr std::uint32_t kMinusInfinity = 0xff800000U;
inline constexpr std::uint32_t kSignBit = 0x80000000U;

// exp: n = rint(x log2 e), r = x - n ln 2 in two parts, exp(r) = 1 + r + r^2 P(r).
inline constexpr std::uint32_t kExpLow = 0xc2d00000U;        // -104
inline constexpr std::uint32_t kExpHigh = 0x42b20000U;       // 89
inline constexpr std::uint32_t kLog2E = 0x3fb8aa3bU;         // 0x1.715476p+0
inline constexpr std::uint32_t kMinusLn2High = 0xbf318000U;  // -0x1.63p-1
inline constexpr std::uint32_t kMinusLn2Low = 0x395e8083U;   // 0x1.bd0106p-13
inline constexpr std::uint32_t kExpPolynomial[6] = {0x39506967U, 0x3ab743ceU, 0x3c088908U,
                                                    0x3d2aa9c1U, 0x3e2aaaaaU, 0x3f000000U};

// log: x = 2^e m, sqrt(1/2) <= m < sqrt(2), f = m - 1, log(m) = f - f^2 / 2 + f^3 P(f).
inline constexpr std::uint32_t kMinNormal = 0x00800000U;     // 2^-126
inline constexpr std::uint32_t kSqrtHalfBits = 0x3f3504f3U;  // subtracted from the bits to find e
inline constexpr std::uint32_t kLogLn2Low = 0xb95e8083U;     // -0x1.bd0106p-13
inline constexpr std::uint32_t kLogLn2High = 0x3f318000U;    // 0x1.63p-1
inline constexpr std::uint32_t kLogPolynomial[9] = {0x3d9021bbU, 0xbdebd1b8U, 0x3def251aU, 0xbdfe5d4fU, 0x3e11e9bfU,
                                                    0xbe2aae50U, 0x3e4cceacU, 0xbe7ffffcU, 0x3eaaaaaaU};

// tanh: |x| < 0.625: x + x^3 P(x^2); else 1 - 2 / (exp(2 |x|) + 1).
inline constexpr std::uint32_t kTanhSmall = 0x3f200000U;  // 0.625
inline constexpr std::uint32_t kTanhPolynomial[5] = {0xbbbaf0eaU, 0x3ca9134eU, 0xbd5c1e2dU, 0x3e088393U, 0xbeaaaa99U};

// erf: |x| < 475/512: x + x P(x^2); else 1 - exp(-t + t Q(t)), t = |x| capped at 3.9375, where erf rounds to 1.
inline constexpr std::uint32_t kErfSmall = 0x3f6d8000U;  // 0.927734375
inline constexpr std::uint32_t kErfHigh = 0x407c0000U;   // 3.9375
inline constexpr std::uint32_t kErfSmallPolynomial[6] = {0xba1c6c34U, 0x3ba379b6U, 0xbcdb4048U,
                                                         0x3de70cedU, 0xbec09372U, 0x3e0375d3U};
inline constexpr std::uint32_t kErfLargePolynomial[7] = {0xb740cfc4U, 0x39aa9cc6U, 0xbb6f6896U, 0x3cc2d7caU,
                                                         0xbdd9a067U, 0xbf22983eU, 0xbe03bd73U};

}  // namespace quern::vm::tensor::arith::constants
