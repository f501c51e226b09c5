// What a block asks of the beacon chain: deposits that its logs tell of (EIP-6110), withdrawals (EIP-7002) and
// consolidations (EIP-7251) that contracts have queued, and the hash of them all (EIP-7685). Pure; thread-safe.
#pragma once

#include <span>

#include "chain/types/receipt.h"

namespace quern::chain::ethereum {

enum class RequestType : std::uint8_t { deposit = 0, withdrawal = 1, consolidation = 2 };

struct Requests {
    RequestType type = RequestType::deposit;
    Bytes data;  // one behind the other
};

// Adds the deposits that these logs of the deposit contract tell of. Error: block.invalid_deposit_event_layout.
[[nodiscard]] Status add_deposits(std::span<const types::Log> logs, Bytes& deposits);

// By type, ascending; those without data do not count.
[[nodiscard]] Hash32 hash_of(std::span<const Requests> requests);

}  // namespace quern::chain::ethereum
