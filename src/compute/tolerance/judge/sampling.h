// Which segments of a history a verifier replays in tolerance mode: some that the beacon draws, and those with the
// largest updates (doc/tolerance.md, "Samples"). Used by the chain and verifiers. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compute/core/verification_report.h"

namespace quern::compute::tolerance {

// `drawn` of the history's segments as in exact mode (core::draw_segments), and of the others the `largest` whose
// solver says that they moved most; among equals the earlier ones. said: words of binary32, one for each segment, in
// the order of order_of(), so that what is no number comes first. Ascending; all when there are no more.
[[nodiscard]] std::vector<std::uint64_t> choose_segments(const Hash32& beacon, const core::Address& verifier,
                                                         std::span<const std::uint32_t> said, std::uint64_t drawn,
                                                         std::uint64_t largest);

}  // namespace quern::compute::tolerance
