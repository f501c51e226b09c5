#include "node/serve/tx_gateway.h"

#include "base/log.h"

namespace quern::node {
namespace {
// The journal is rewritten when it is this much larger than what waits.
constexpr std::uint64_t kJournalSlackBytes = 4U << 20;
}  // namespace

Expected<chain::mempool::PooledPtr> TxGateway::admit(BytesView encoded) {
    auto transaction = pool_.senders().recover(encoded);
    if (!transaction) {
        if (transaction.error().name == "tx.invalid_signature")
            return fail("invalid sender", transaction.error().detail);  // the message that wallets know
        return fail(transaction.error());
    }
    for (;;) {
        // The snapshot must live while the pool reads its state.
        const auto snapshot = board_.latest();
        auto added = pool_.add(*transaction, snapshot->state, snapshot->number());
        if (added || added.error().name != "mempool.stale_state") return added;
    }
}

Expected<Hash32> TxGateway::submit(BytesView encoded) {
    const Hash32 hash = chain::types::transaction_hash(encoded);
    QUERN_TRY(const auto pooled, admit(encoded));
    {
        const std::lock_guard lock(mutex_);
        const auto written = journal_.append(pooled->transaction.encoded);
        if (!written && !journal_failed_)
            log::warning(log::Category::mempool, "waiting transactions will not survive a restart: {}",
                         written.error().to_string());
        journal_failed_ = !written;
    }
    log::debug(log::Category::mempool, "admitted tx={} sender={} nonce={}", to_hex0x(hash),
               to_hex0x(pooled->transaction.sender), pooled->transaction.tx.nonce);
    if (watcher_) watcher_(*pooled);
    if (on_admitted_) on_admitted_(*pooled);
    return hash;
}

std::size_t TxGateway::restore() {
    std::vector<Bytes> loaded;
    {
        const std::lock_guard lock(mutex_);
        loaded = journal_.take_loaded();
    }
    std::size_t good = 0;
    for (const auto& encoded : loaded)
        if (admit(encoded)) ++good;
    if (good < loaded.size()) {
        const std::lock_guard lock(mutex_);
        const auto all = pool_.all();
        std::vector<BytesView> left;
        for (const auto& pooled : all) left.emplace_back(pooled->transaction.encoded);
        if (const auto written = journal_.rewrite(left); !written)
            log::warning(log::Category::mempool, "{}", written.error().to_string());
    }
    return good;
}

void TxGateway::tidy_journal() {
    const std::lock_guard lock(mutex_);
    if (journal_.size() < kJournalSlackBytes + 2 * pool_.status().bytes) return;
    const auto all = pool_.all();
    std::vector<BytesView> left;
    for (const auto& pooled : all) left.emplace_back(pooled->transaction.encoded);
    if (const auto written = journal_.rewrite(left); !written)
        log::warning(log::Category::mempool, "{}", written.error().to_string());
}

}  // namespace quern::node
