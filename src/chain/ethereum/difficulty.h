// What the difficulty of a proof-of-work block must be (Yellow Paper, 4.3.4; EIP-2, EIP-100, and the EIPs that delay
// the bomb). Pure; thread-safe.
#pragma once

#include "chain/ethereum/block.h"
#include "chain/ethereum/networks.h"

namespace quern::chain::ethereum {

// Of a child of `parent` in `fork`, which is before Paris; the child's time is above the parent's.
[[nodiscard]] Uint256 next_difficulty(const Fork& fork, const Header& parent, std::uint64_t timestamp);

}  // namespace quern::chain::ethereum
