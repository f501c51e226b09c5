// The door for transactions: checks, queues, journals, and tells who watches. What comes together costs one lock
// of the pool, one write to the journal and one call of each listener. Thread-safe.
#pragma once

#include <atomic>
#include <functional>

#include "base/mutex.h"
#include "base/thread_pool.h"
#include "chain/api/tx_submitter.h"
#include "chain/mempool/admission.h"
#include "node/chain/snapshot.h"

namespace quern::node {

// The journal is written anew when it has grown to three times what it was then and by so much, in pieces of so many
// transactions and bytes: blocks wait for a piece.
inline constexpr std::uint64_t kJournalSlackBytes = 16U << 20;
inline constexpr std::size_t kJournalPiece = 4'096;
inline constexpr std::size_t kJournalPieceBytes = std::size_t{4} << 20;

class TxGateway final : public chain::api::TxSubmitter {
public:
    // `pool`, `board` and `threads` outlive the gateway.
    TxGateway(chain::mempool::Pool& pool, const SnapshotBoard& board, ThreadPool& threads,
              chain::mempool::PoolJournal journal, std::uint64_t journal_slack = kJournalSlackBytes)
        : pool_(pool), board_(board), threads_(threads), journal_slack_(journal_slack), journal_(std::move(journal)) {}

    // Called after each admission with what was admitted together, from the submitting thread. Set before the first
    // submission.
    using Admitted = std::function<void(std::span<const chain::mempool::PooledPtr> transactions)>;
    void on_admitted(Admitted callback) { on_admitted_ = std::move(callback); }
    // As on_admitted, for those that only want to know.
    void watch(Admitted watcher) { watcher_ = std::move(watcher); }

    [[nodiscard]] std::vector<chain::api::Submission> submit_all(std::span<const Bytes> encoded,
                                                                 const Bytes20& source) override;
    // Queues what the journal held; gives the number that was still good.
    std::size_t restore();
    // A piece of the way to a new journal when most of it is outdated. Call after blocks.
    void tidy_journal();

private:
    // What the pool said to each; those that it took.
    [[nodiscard]] std::vector<chain::mempool::PooledPtr> admit(std::span<chain::mempool::Arrival> arrivals);
    void write_journal(std::span<const chain::mempool::PooledPtr> transactions) QUERN_REQUIRES(mutex_);
    void warn_once(const Status& written) QUERN_REQUIRES(mutex_);

    chain::mempool::Pool& pool_;
    const SnapshotBoard& board_;
    ThreadPool& threads_;
    const std::uint64_t journal_slack_;
    Admitted on_admitted_;
    Admitted watcher_;
    std::atomic<std::size_t> submitting_{0};  // threads that are at it
    Mutex mutex_;
    chain::mempool::PoolJournal journal_ QUERN_GUARDED_BY(mutex_);
    bool journal_failed_ QUERN_GUARDED_BY(mutex_) = false;
    std::uint64_t journaled_ QUERN_GUARDED_BY(mutex_) = 0;  // arrivals up to this are in the newer file, or need not be
    std::uint64_t move_until_ QUERN_GUARDED_BY(mutex_) = 0;
    std::uint64_t tidy_size_ QUERN_GUARDED_BY(mutex_) = 0;  // when it was last written anew
};

}  // namespace quern::node
