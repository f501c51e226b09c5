// Whether a header may follow another: numbers, times, limits, difficulty, fees, and which fields its fork has (Yellow
// Paper, 4.3.4; EIPs 779, 1559, 3675, 4399, 4844, 4895, 7685). The seal of proof of work is not looked at: official
// fixtures say NoProof. Pure; thread-safe.
#pragma once

#include "chain/ethereum/ancestry.h"
#include "chain/ethereum/networks.h"

namespace quern::chain::ethereum {

// Errors have the names that execution-spec-tests has for them, in lower case behind "block.":
// BlockException.INVALID_GASLIMIT is block.invalid_gaslimit.
[[nodiscard]] Status check_header(const Network& network, const Header& header, const Ancestor& parent);

}  // namespace quern::chain::ethereum
