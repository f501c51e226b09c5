// Amounts of money as people read them. Pure; thread-safe.
#pragma once

#include <string>

#include "base/uint256.h"

namespace quern::chain::types {

inline constexpr std::size_t kQrnDecimals = 18;

// Grains as QRN, without trailing zeros: "1.5".
[[nodiscard]] std::string in_qrn(const Uint256& grains);

}  // namespace quern::chain::types
