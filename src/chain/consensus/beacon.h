// The randomness chain: beacon(h) = SHA-256(beacon(h-1) || VRF output), where the output is the first proposer's ECVRF
// output on beacon(h-1) (crypto/vrf.h), proven in the header. Pure.
#pragma once

#include "base/bytes.h"

namespace quern::chain::consensus {

[[nodiscard]] Hash32 next_beacon(const Hash32& previous_beacon, const Hash32& vrf_output);

}  // namespace quern::chain::consensus
