// Transactions of peers on their way into the mempool: says which announced ones are worth fetching, checks fetched
// ones on a thread of its own (signatures cost more than the network thread may spend), and remembers those that are in
// blocks or refused. What follows from a refusal its band decides. Thread-safe.
#pragma once

#include "base/mutex.h"
#include "chain/api/tx_submitter.h"
#include "chain/mempool/pool.h"
#include "node/net/work_queue.h"
#include "p2p/gossip/tx_relay.h"
#include "p2p/offence.h"

namespace quern::node {

inline constexpr std::size_t kMaxRememberedTransactions = 262'144;  // in recent blocks, or refused for good
inline constexpr std::size_t kMaxRefusedForNow = 16'384;            // until the next block
inline constexpr std::size_t kMaxInboxJobs = 4096;                  // answers of peers that wait to be checked
inline constexpr std::size_t kMaxInboxBytes = 32U << 20;
inline constexpr std::size_t kMaxTransactionsPerJob = 128;  // then others have their turn

class TransactionInbox {
public:
    using ShortId = p2p::messages::ShortId;
    // What a peer's transaction was worth reporting for.
    using Report = std::function<void(const Bytes20& peer, p2p::Offence offence)>;
    // Both outlive the inbox.
    TransactionInbox(chain::api::TxSubmitter& submitter, const chain::mempool::Pool& pool)
        : submitter_(submitter), pool_(pool) {}

    void start(Report report);
    void stop() { queue_.stop(); }

    [[nodiscard]] bool wants(const ShortId& id) const;
    // Whether it waits for a block.
    [[nodiscard]] bool has(const ShortId& id) const { return pool_.find_short(id) != nullptr; }
    [[nodiscard]] std::optional<Bytes> find(const ShortId& id) const;
    // Fetched from a peer. Dropped when too much waits already.
    void take(const Bytes20& peer, std::vector<Bytes> encoded);
    void committed(const std::vector<Bytes>& transactions);

private:
    // How many were checked for nothing.
    [[nodiscard]] std::size_t check(const Bytes20& peer, const std::vector<Bytes>& encoded);

    chain::api::TxSubmitter& submitter_;
    const chain::mempool::Pool& pool_;
    Report report_;
    WorkQueue queue_{kMaxInboxJobs, kMaxInboxBytes};
    mutable Mutex mutex_;
    p2p::gossip::BoundedIds done_ QUERN_GUARDED_BY(mutex_){kMaxRememberedTransactions};
    p2p::gossip::BoundedIds refused_ QUERN_GUARDED_BY(mutex_){kMaxRefusedForNow};
};

}  // namespace quern::node
