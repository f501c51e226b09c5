// Ommers, the headers beside the chain that proof of work rewards (Yellow Paper, 11.1 and 11.3). Functions without
// state.
#pragma once

#include "chain/ethereum/ancestry.h"
#include "chain/ethereum/networks.h"
#include "chain/state/overlay.h"

namespace quern::chain::ethereum {

// At most two, each a valid child of one of the six ancestors behind the parent, none on the chain itself or named
// there before. Errors: block.too_many_uncles, block.uncle_is_ancestor, block.uncle_in_chain, block.uncle_is_brother,
// block.uncle_parent_incorrect, and those of check_header.
[[nodiscard]] Status check_ommers(const Network& network, const Block& block, const Ancestor& parent);

// To the coinbase of the block and of each ommer; nothing from Paris on.
void pay_rewards(state::Overlay& overlay, const Fork& fork, const Block& block);

}  // namespace quern::chain::ethereum
