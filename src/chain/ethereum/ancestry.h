// A block as those behind it see it. Of a chain that keeps all its blocks. Plain values.
#pragma once

#include "chain/ethereum/block.h"

namespace quern::chain::ethereum {

struct Ancestor {
    Header header;
    std::vector<Hash32> ommers;  // their hashes
    Uint256 total_difficulty;
    const Ancestor* parent = nullptr;  // null: this is the genesis block
};

}  // namespace quern::chain::ethereum
