// Picks waiting transactions for a block and executes them: first the reserved lane (the due move of each open dispute
// game, one per game, within 10 % of the block's gas), then by price, respecting nonces. Deterministic given its
// inputs, but policy, not consensus: another validator may choose otherwise. Belongs to the chain thread.
#pragma once

#include <functional>

#include "chain/mempool/pool.h"

namespace quern::chain::mempool {

inline constexpr std::uint64_t kReservedLanePercent = 10;
// Room for header, certificate and list prefixes beside the transactions.
inline constexpr std::size_t kMaxBlockTransactionBytes = types::kMaxBlockBytes - (std::size_t{128} << 10);

// The game for which this transaction is a due move (its side owes one), or nullopt.
using LaneRule = std::function<std::optional<std::uint64_t>(const types::RecoveredTransaction&)>;

struct FillLimits {
    std::uint64_t gas_limit = 0;
    std::uint64_t lane_percent = kReservedLanePercent;
    std::size_t max_bytes = kMaxBlockTransactionBytes;
};

struct FilledBlock {
    std::vector<PooledPtr> included;  // in order; execution holds their receipts
    struct Refused {
        PooledPtr transaction;
        exec::Result result;
    };
    // What this state refuses. The state may never become final: see refused_for_good().
    std::vector<Refused> refused;
    std::size_t from_lane = 0;  // how many of `included` came through the lane
};

// Of each queue the part that can be executed on `state`: what a block that is not final yet includes is passed over,
// not dropped, because that block may never become final.
[[nodiscard]] std::vector<SenderQueue> executable_on(std::vector<SenderQueue> queues, const state::StateReader& state);
// Whether a refused transaction would be refused on the committed state, too, so that it can leave the pool.
[[nodiscard]] bool refused_for_good(const params::ChainParams& params, const state::StateReader& committed,
                                    const types::RecoveredTransaction& transaction);

// `execution` has begun and is not finished.
[[nodiscard]] FilledBlock fill_block(exec::BlockExecution& execution, std::vector<SenderQueue> queues,
                                     const Uint256& base_fee, const FillLimits& limits, const LaneRule& lane);

}  // namespace quern::chain::mempool
