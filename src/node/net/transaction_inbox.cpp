#include "node/net/transaction_inbox.h"

#include "base/log.h"

namespace quern::node {

using p2p::messages::short_id;

void TransactionInbox::start(Report report) {
    report_ = std::move(report);
    queue_.start();
}

bool TransactionInbox::is_invalid(const Error& error) {
    return error.name.starts_with("tx.") || error.name.starts_with("rlp.") || error.name == "invalid sender";
}

bool TransactionInbox::wants(const ShortId& id) const {
    const std::lock_guard lock(mutex_);
    if (done_.contains(id) || refused_.contains(id)) return false;
    const auto known = pooled_.find(id);
    return known == pooled_.end() || pool_.find(known->second) == nullptr;
}

std::optional<Bytes> TransactionInbox::find(const ShortId& id) const {
    const std::lock_guard lock(mutex_);
    const auto known = pooled_.find(id);
    if (known == pooled_.end()) return std::nullopt;
    const auto pooled = pool_.find(known->second);
    return pooled ? std::optional(pooled->transaction.encoded) : std::nullopt;
}

void TransactionInbox::take(const Bytes20& peer, std::vector<Bytes> encoded) {
    std::size_t bytes = 0;
    for (const auto& transaction : encoded) bytes += transaction.size();
    const bool queued = queue_.post(bytes, [this, peer, encoded = std::move(encoded)] {
        for (const auto& transaction : encoded) check(peer, transaction);
    });
    if (!queued) log::debug(log::Category::mempool, "inbox full dropped_from={}", to_hex0x(peer));
}

void TransactionInbox::check(const Bytes20& peer, const Bytes& encoded) {
    const auto taken = submitter_.submit(encoded);
    if (taken) return;
    const Error& error = taken.error();
    const bool invalid = is_invalid(error);
    {
        const std::lock_guard lock(mutex_);
        const ShortId id = short_id(chain::types::transaction_hash(encoded));
        // The others may fit after a block: a nonce gap closes, a balance grows, room is made.
        (invalid || error.name == "nonce too low" ? done_ : refused_).insert(id);
    }
    if (error.name != "already known")
        log::debug(log::Category::mempool, "refused from={} reason={}", to_hex0x(peer), error.to_string());
    if (invalid) report_(peer, p2p::Offence::invalid_transaction);
}

void TransactionInbox::admitted(const chain::mempool::PooledTransaction& transaction) {
    const Hash32& hash = transaction.transaction.hash;
    const std::lock_guard lock(mutex_);
    if (!pooled_.emplace(short_id(hash), hash).second) return;
    pooled_order_.push_back(short_id(hash));
    if (pooled_order_.size() > kMaxRememberedTransactions) {
        pooled_.erase(pooled_order_.front());
        pooled_order_.pop_front();
    }
}

void TransactionInbox::committed(const std::vector<Bytes>& transactions) {
    const std::lock_guard lock(mutex_);
    for (const auto& encoded : transactions) done_.insert(short_id(chain::types::transaction_hash(encoded)));
    refused_ = p2p::gossip::BoundedIds(kMaxRefusedForNow);
}

}  // namespace quern::node
