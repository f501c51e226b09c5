#include "node/serve/tx_gateway.h"

#include "base/log.h"

namespace quern::node {

namespace mempool = chain::mempool;

std::vector<mempool::PooledPtr> TxGateway::admit(std::span<mempool::Arrival> arrivals) {
    for (;;) {
        // The snapshot must live while its state is read.
        const auto snapshot = board_.latest();
        // Senders' accounts are asked for again when their transactions are executed.
        const chain::state::FlatState state(*snapshot->reader, {snapshot->accounts.get(), snapshot->number(), true});
        if (mempool::admit(pool_, arrivals, state, snapshot->number())) break;
    }
    std::vector<mempool::PooledPtr> taken;
    for (const auto& arrival : arrivals)
        if (arrival.pooled) taken.push_back(arrival.pooled);
    return taken;
}

void TxGateway::warn_once(const Status& written) {
    if (!written && !journal_failed_)
        log::warning(log::Category::mempool, "waiting transactions will not survive a restart: {}",
                     written.error().to_string());
    journal_failed_ = !written;
}

void TxGateway::write_journal(std::span<const mempool::PooledPtr> transactions) {
    std::vector<mempool::JournalEntryView> entries;
    entries.reserve(transactions.size());
    for (const auto& pooled : transactions)
        entries.push_back({pooled->transaction.sender, pooled->transaction.encoded});
    warn_once(journal_.append(entries));
}

std::vector<chain::api::Submission> TxGateway::submit_all(std::span<const Bytes> encoded, const Bytes20& source) {
    // Where others recover at the same time, each does so on its own thread: waiting in turn for all threads gains
    // nothing.
    const bool alone = submitting_.fetch_add(1) == 0;
    auto arrivals = mempool::recover_all(pool_, alone ? &threads_ : nullptr, encoded, source);
    --submitting_;
    const auto taken = admit(arrivals);
    if (!taken.empty()) {
        {
            const MutexLock lock(mutex_);
            write_journal(taken);
        }
        // Asked first: the hashes' texts would be made for nothing.
        const bool told = log::enabled(log::Level::debug, log::Category::mempool);
        for (const auto& pooled : told ? std::span(taken) : std::span<const mempool::PooledPtr>())
            log::debug(log::Category::mempool, "admitted tx={} sender={} nonce={}", to_hex0x(pooled->transaction.hash),
                       to_hex0x(pooled->transaction.sender), pooled->transaction.tx.nonce);
        if (watcher_) watcher_(taken);
        if (on_admitted_) on_admitted_(taken);
    }
    std::vector<chain::api::Submission> submissions;
    submissions.reserve(arrivals.size());
    for (auto& arrival : arrivals) submissions.push_back({std::move(arrival.result), arrival.hash});
    return submissions;
}

std::size_t TxGateway::restore() {
    std::vector<mempool::JournalEntry> loaded;
    {
        const MutexLock lock(mutex_);
        loaded = journal_.take_loaded();
    }
    std::size_t good = 0;
    for (std::size_t at = 0; at < loaded.size();) {
        std::size_t count = 0;
        for (std::size_t bytes = 0; count < kJournalPiece && at + count < loaded.size(); ++count) {
            bytes += loaded[at + count].transaction.size();
            if (bytes > kJournalPieceBytes && count != 0) break;
        }
        const auto piece = std::span(loaded).subspan(at, count);
        auto arrivals = mempool::recover_all(threads_, piece);
        good += admit(arrivals).size();
        for (auto& entry : piece) entry.transaction = {};  // the pool has what it wants of it
        at += count;
    }
    return good;
}

void TxGateway::tidy_journal() {
    const MutexLock lock(mutex_);
    if (!journal_.has_old()) {
        if (journal_.size() <= journal_slack_ + 3 * tidy_size_) return;
        const auto aside = journal_.put_aside();
        warn_once(aside);
        if (!aside) return;
        journaled_ = 0;
        move_until_ = pool_.last_arrival();
    }
    // What arrives from now on is written to the newer file as it comes.
    if (move_until_ == 0) move_until_ = pool_.last_arrival();
    auto piece = pool_.arrived_after(journaled_, kJournalPiece, kJournalPieceBytes);
    while (!piece.empty() && piece.back()->arrival > move_until_) piece.pop_back();
    if (!piece.empty()) {
        journaled_ = piece.back()->arrival;
        write_journal(piece);
        // As long as it cannot be written the old file stays.
        if (journal_failed_) journaled_ = 0;
        return;
    }
    move_until_ = 0;
    tidy_size_ = journal_.size();
    warn_once(journal_.delete_old());
}

}  // namespace quern::node
