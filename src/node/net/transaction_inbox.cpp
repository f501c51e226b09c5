#include "node/net/transaction_inbox.h"

#include "base/log.h"
#include "base/thread_priority.h"

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
    for (std::size_t at = 0; at < encoded.size(); at += kMaxTransactionsPerJob) {
        const auto first = encoded.begin() + static_cast<std::ptrdiff_t>(at);
        const auto count = std::min(kMaxTransactionsPerJob, encoded.size() - at);
        std::vector<Bytes> piece(std::make_move_iterator(first),
                                 std::make_move_iterator(first + static_cast<std::ptrdiff_t>(count)));
        std::size_t bytes = 0;
        for (const auto& transaction : piece) bytes += transaction.size() + sizeof(Bytes);
        const bool queued =
            queue_.post(peer, bytes, [this, peer, piece = std::move(piece)] { return check(peer, piece); });
        if (!queued) log::debug(log::Category::mempool, "inbox full dropped_from={}", to_hex0x(peer));
    }
}

std::size_t TransactionInbox::check(const Bytes20& peer, const std::vector<Bytes>& encoded) {
    stand_back(kRelayNice);
    std::size_t malformed = 0;
    std::size_t in_vain = 0;
    for (const auto& submission : submitter_.submit_all(encoded, peer)) {
        if (submission) continue;
        const bool is_malformed = submission.result.band == exec::Band::malformed;
        malformed += is_malformed ? 1 : 0;
        // Known ones cost nothing, and a full pool is not the sender's fault.
        const bool is_excused = exec::is(submission.result, exec::kAlreadyKnown) ||
                                exec::is(submission.result, exec::kPoolFull) ||
                                exec::is(submission.result, exec::kNonceTooLow);
        in_vain += is_excused ? 0 : 1;
        log::debug(log::Category::mempool, "refused from={} reason={}", to_hex0x(peer), submission.result.to_string());
        const MutexLock lock(mutex_);
        // The others may fit after a block: a nonce gap closes, a balance grows, room is made.
        (is_malformed ? done_ : refused_).insert(short_id(submission.hash));
    }
    for (; malformed != 0; --malformed) report_(peer, p2p::Offence::invalid_transaction);
    return in_vain;
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
