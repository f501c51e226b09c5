// Picks waiting transactions for a block and executes them: first the reserved lane (the due moves of open dispute
// games, one for each side, within 10 % of the block's gas), then by price, respecting nonces, until the block is full
// or whoever asks for it has had enough. Deterministic given its inputs, but policy, not consensus: another validator
// may choose otherwise. Belongs to the executor thread.
#pragma once

#include <functional>

#include "chain/mempool/selection.h"

namespace quern::chain::mempool {

inline constexpr std::uint64_t kReservedLanePercent = 10;
// Room for header, certificate and list prefixes beside the transactions.
inline constexpr std::size_t kMaxBlockTransactionBytes = types::kMaxBlockBytes - (std::size_t{128} << 10);
inline constexpr std::size_t kMaxLaneSenders = 1'024;    // whose next move is due
inline constexpr std::size_t kMaxLaneLooks = 16'384;     // senders of what may be moves, in one block
inline constexpr std::size_t kTransactionsPerPull = 64;  // from one look at the pool to the next
// So many in turn that do not fit any more end a block of which less than this part is left.
inline constexpr std::size_t kMaxMisfits = 64;
inline constexpr std::uint64_t kNearlyFull = 8;
inline constexpr std::uint64_t kLeastGas = 21'000;

// The game for which this transaction is a due move (its side owes one), or nullopt.
using LaneRule = std::function<std::optional<std::uint64_t>(const types::RecoveredTransaction&)>;

struct FillLimits {
    std::uint64_t gas_limit = 0;
    std::uint64_t lane_percent = kReservedLanePercent;
    std::size_t max_bytes = kMaxBlockTransactionBytes;
    std::size_t max_transactions = types::kMaxBlockTransactions;
    // Whether the block is large enough, given its gas and bytes so far; a block's first transactions are taken
    // before it is asked. Empty: never.
    std::function<bool(std::uint64_t gas, std::size_t bytes)> enough;
    // Transactions that must not be in this block, and so none of their senders' later ones.
    std::function<bool(const Hash32&)> leave_out;
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
    bool cut_short = false;     // `enough` said so
};

// Whether a refused transaction would be refused on the committed state, too, in block `height`, the one after it, so
// that it can leave the pool.
[[nodiscard]] bool refused_for_good(const params::ChainParams& params, const state::StateReader& committed,
                                    std::uint64_t height, const types::RecoveredTransaction& transaction);

// `execution` has begun and is not finished; `selection` is for its base fee and the state that it is on.
[[nodiscard]] FilledBlock fill_block(exec::BlockExecution& execution, Selection& selection, const FillLimits& limits,
                                     const LaneRule& lane);

}  // namespace quern::chain::mempool
