#include "node/net/transaction_inbox.h"

#include "base/log.h"

namespace quern::node {

namespace exec = chain::exec;
using p2p::messages::short_id;

void TransactionInbox::start(Report report) {
    report_ = std::move(report);
    queue_.start();
}

bool TransactionInbox::wants(const ShortId& id) const {
    {
        const MutexLock lock(mutex_);
        if (done_.contains(id) || refused_.contains(id)) return false;
    }
    return pool_.find_short(id) == nullptr;
}

std::optional<Bytes> TransactionInbox::find(const ShortId& id) const {
    const auto pooled = pool_.find_short(id);
    return pooled ? std::optional(pooled->transaction.encoded) : std::nullopt;
}

void TransactionInbox::take(const Bytes20& peer, std::vector<Bytes> encoded) {
    std::size_t bytes = 0;
    for (const auto& transaction : encoded) bytes += transaction.size();
    const bool queued = queue_.post(bytes, [this, peer, encoded = std::move(encoded)] { check(peer, encoded); });
    if (!queued) log::debug(log::Category::mempool, "inbox full dropped_from={}", to_hex0x(peer));
}

void TransactionInbox::check(const Bytes20& peer, const std::vector<Bytes>& encoded) {
    std::size_t malformed = 0;
    for (const auto& submission : submitter_.submit_all(encoded, peer)) {
        if (submission) continue;
        const bool is_malformed = submission.result.band == exec::Band::malformed;
        malformed += is_malformed ? 1 : 0;
        log::debug(log::Category::mempool, "refused from={} reason={}", to_hex0x(peer), submission.result.to_string());
        const MutexLock lock(mutex_);
        // The others may fit after a block: a nonce gap closes, a balance grows, room is made.
        (is_malformed ? done_ : refused_).insert(short_id(submission.hash));
    }
    for (; malformed != 0; --malformed) report_(peer, p2p::Offence::invalid_transaction);
}

void TransactionInbox::committed(const std::vector<Bytes>& transactions) {
    std::vector<ShortId> ids;
    ids.reserve(transactions.size());
    for (const auto& encoded : transactions) ids.push_back(short_id(chain::types::transaction_hash(encoded)));
    const MutexLock lock(mutex_);
    for (const auto& id : ids) done_.insert(id);
    refused_ = p2p::gossip::BoundedIds(kMaxRefusedForNow);
}

}  // namespace quern::node
