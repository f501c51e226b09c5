// The door for transactions: checks, queues, journals, and wakes the chain thread. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>

#include "chain/api/tx_submitter.h"
#include "chain/mempool/journal.h"
#include "chain/mempool/pool.h"
#include "node/chain/snapshot.h"

namespace quern::node {

class TxGateway final : public chain::api::TxSubmitter {
public:
    // `pool` and `board` outlive the gateway.
    TxGateway(chain::mempool::Pool& pool, const SnapshotBoard& board, chain::mempool::PoolJournal journal)
        : pool_(pool), board_(board), journal_(std::move(journal)) {}

    // Called after each admission, from the submitting thread. Set before the first submission.
    using Admitted = std::function<void(const chain::mempool::PooledTransaction& transaction)>;
    void on_admitted(Admitted callback) { on_admitted_ = std::move(callback); }
    // As on_admitted, for those that only want to know.
    void watch(Admitted watcher) { watcher_ = std::move(watcher); }

    [[nodiscard]] Expected<Hash32> submit(BytesView encoded) override;
    // Queues what the journal held; gives the number that was still good.
    std::size_t restore();
    // Writes the journal anew when most of it is outdated. Call after blocks.
    void tidy_journal();

private:
    [[nodiscard]] Expected<chain::mempool::PooledPtr> admit(BytesView encoded);

    chain::mempool::Pool& pool_;
    const SnapshotBoard& board_;
    Admitted on_admitted_;
    Admitted watcher_;
    std::mutex mutex_;  // guards the journal
    chain::mempool::PoolJournal journal_;
    bool journal_failed_ = false;
};

}  // namespace quern::node
