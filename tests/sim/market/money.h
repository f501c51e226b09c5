// Grains, which the chain counts in, and QRN, which people read. Pure.
#pragma once

#include <map>
#include <string>

#include "base/uint256.h"
#include "chain/params/params.h"

namespace quern::sim::market {

inline constexpr std::uint64_t kGrains = chain::params::kGrainsPerQrn;
[[nodiscard]] double to_qrn(const Uint256& grains);
[[nodiscard]] Uint256 from_qrn(double qrn);  // to the millionth
[[nodiscard]] Uint256 sum(const std::map<std::string, Uint256>& amounts);

}  // namespace quern::sim::market
