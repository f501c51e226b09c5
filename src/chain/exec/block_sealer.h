// Makes a block's header: what consensus and the parent give before its transactions run, and what they give after.
// Used by the node to build blocks, and to check those of others against what it would have made. Pure.
#pragma once

#include "chain/consensus/sdbft/actions.h"
#include "chain/params/params.h"
#include "chain/state/state_tries.h"
#include "chain/types/block.h"
#include "chain/types/receipt.h"

namespace quern::chain::exec {

// The header of a block that consensus asks for, without the results of its execution.
[[nodiscard]] types::BlockHeader header_for(const consensus::sdbft::BlockRequest& request,
                                            const types::BlockHeader& parent, const params::ChainParams& params,
                                            const types::Address& beneficiary);

// What the block's content and execution put into its header.
void fill_results(types::Block& block, const std::vector<types::Receipt>& receipts, std::uint64_t gas_used,
                  const state::Roots& roots);

}  // namespace quern::chain::exec
