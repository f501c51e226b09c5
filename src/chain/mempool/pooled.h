// A waiting transaction and what decides its place: where it came from, when, and what it pays. Used by the pool and by
// those who read it. Plain values; a PooledTransaction does not change once it is in the pool.
#pragma once

#include <memory>
#include <vector>

#include "chain/types/transaction.h"

namespace quern::chain::mempool {

// Who handed a transaction in: a peer's address, or all zeros for this node's own clients and its journal.
using Source = Bytes20;

struct PooledTransaction {
    types::RecoveredTransaction transaction;
    Source source;
    std::uint64_t arrival = 0;  // order of admission, for ties
    std::uint64_t height = 0;   // newest block at admission
    std::size_t bytes = 0;      // memory that it takes, all tables included
    Uint256 outlay;             // exec::outlay_of
};
using PooledPtr = std::shared_ptr<const PooledTransaction>;

// Memory that a waiting transaction takes with its places in the pool's tables; a sender's own entry is counted with
// each of its transactions, as most have one. An estimate from above, checked against the allocator by a test.
[[nodiscard]] std::size_t footprint(const types::RecoveredTransaction& transaction);

// Gas at the fee cap, plus value, plus outlay; the largest number when that overflows. (Gas and value alone do not:
// that is refused before.)
[[nodiscard]] Uint256 cost_of(const PooledTransaction& pooled);

// Order of eviction: cheapest fee cap first, then lowest tip, then the latest arrival. What travels without a fee has a
// limit of its own and is dearer than all others.
struct Price {
    Uint256 fee_cap;
    Uint256 tip_cap;
    std::uint64_t arrival = 0;
    [[nodiscard]] bool operator<(const Price& other) const;
};
[[nodiscard]] Price price_of(const PooledTransaction& pooled);

// A submission of a task, native or as a call to the tasks' reserved address; the same for moves in disputes.
[[nodiscard]] bool is_task_submit(const types::Transaction& tx);
[[nodiscard]] bool is_dispute_move(const types::Transaction& tx);

}  // namespace quern::chain::mempool
