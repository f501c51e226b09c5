// What a transaction must pass before the pool's lock is taken, for many at once: signatures are recovered on the
// thread pool, each sender's account is read once. The node's gateway calls these in turn. Thread-safe.
#pragma once

#include "base/thread_pool.h"
#include "chain/mempool/journal.h"
#include "chain/mempool/pool.h"

namespace quern::chain::mempool {

// One of the encoded transactions: recovered, or refused because of its form.
struct Arrival {
    exec::Result result;
    Hash32 hash;                                // of the encoding, whatever it holds
    std::shared_ptr<PooledTransaction> pooled;  // null when it was refused
};

// In the order of `encoded`. What the pool has already is not recovered again. `threads`: null for this thread alone,
// where others recover beside it.
[[nodiscard]] std::vector<Arrival> recover_all(const Pool& pool, ThreadPool* threads, std::span<const Bytes> encoded,
                                               const Source& source);
// The same from the node's own journal, whose senders are believed.
[[nodiscard]] std::vector<Arrival> recover_all(ThreadPool& threads, std::span<const JournalEntry> entries);

// Those that the pool may take on this state, which is that after block `height`; the others get their refusal.
// Afterwards each arrival that is not refused yet is the pool's answer. False when a newer block was announced in the
// meantime: nothing was changed, try again with its state.
[[nodiscard]] bool admit(Pool& pool, std::span<Arrival> arrivals, const state::StateReader& state,
                         std::uint64_t height);

}  // namespace quern::chain::mempool
