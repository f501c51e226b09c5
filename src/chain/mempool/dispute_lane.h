// Which transactions may use the reserved lane of a block: the due moves of open dispute games (native, or as calls to
// the disputes' reserved address). Policy of the block builder, not consensus. Thread-safe as the state it reads.
#pragma once

#include "chain/mempool/block_builder.h"

namespace quern::chain::mempool {

// The dispute in which `transaction` is a move that its sender owes, or a concession of one of its two sides.
[[nodiscard]] std::optional<std::uint64_t> due_dispute_move(const state::StateReader& state,
                                                            const types::RecoveredTransaction& transaction);

}  // namespace quern::chain::mempool
