// The genesis header of a blockchain test. Pure; thread-safe.
#pragma once

#include "base/json.h"
#include "chain/ethereum/block.h"

namespace quern::chain::statetest {

// From genesisRLP, a block, or, where there is none (older fixtures), from genesisBlockHeader's fields. Its hash must
// be the one that genesisBlockHeader says. Errors: json.*, hex.*, rlp.*, uint256.*, statetest.bad_genesis.
[[nodiscard]] Expected<ethereum::Header> parse_genesis(const json::Value& test);

}  // namespace quern::chain::statetest
