// Transactions that wait for a block: a queue by nonce for each sender, ordered among senders by price. Admission
// checks form, signature values, fees, balance and nonce (exec::precheck), replacement wants 10 % more, and limits by
// count, bytes and sender hold the pool's size; the cheapest last transaction of a queue makes room for a better paying
// one. Used by the node (submission, block building, pending queries). Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

#include "chain/exec/block_executor.h"
#include "chain/types/sender_cache.h"

namespace quern::chain::mempool {

struct PoolLimits {
    std::size_t max_transactions = 20'000;
    std::size_t max_bytes = std::size_t{128} << 20;
    std::size_t max_per_sender = 256;
    std::size_t max_free = 64;               // evidence that offers no fee
    std::uint64_t max_nonce_gap = 256;       // a nonce may be this far ahead of the account's
    std::uint64_t replacement_percent = 10;  // a replacement pays this much more, in both fee fields
};

struct PooledTransaction {
    types::RecoveredTransaction transaction;
    std::uint64_t arrival = 0;  // order of admission, for ties
};
using PooledPtr = std::shared_ptr<const PooledTransaction>;
// Transactions of one sender by ascending nonce; those that can be executed now are without gaps.
using SenderQueue = std::vector<PooledPtr>;

struct PoolStatus {
    std::size_t transactions = 0;
    std::size_t executable = 0;
    std::size_t bytes = 0;
    std::size_t senders = 0;
};

class Pool {
public:
    // `params` outlives the pool.
    explicit Pool(const params::ChainParams& params, const PoolLimits& limits = {});

    // Checks against `state`, which is the one after block `height`, and queues. When a newer block was announced in
    // the meantime the error is mempool.stale_state: the caller tries again with the newer state. Errors: precheck's,
    // and "already known", "replacement transaction underpriced", "nonce too high", "account limit exceeded", "txpool
    // is full", "insufficient funds for gas * price + value" (all of the sender's queued transactions together).
    [[nodiscard]] Expected<PooledPtr> add(types::RecoveredTransaction transaction, const state::StateReader& state,
                                          std::uint64_t height);
    // Block `height` was committed and `state` came of it: drops what it holds and what it made invalid.
    void on_block(const std::vector<types::RecoveredTransaction>& included, const state::StateReader& state,
                  std::uint64_t height);
    // Drops transactions that execution refused. Their senders' later ones stay and wait for the nonce.
    void drop(const std::vector<Hash32>& hashes);

    [[nodiscard]] PooledPtr find(const Hash32& hash) const;
    // Remembers who sent what, also of transactions that never wait here: blocks and answers use it, too.
    [[nodiscard]] types::SenderCache& senders() const { return senders_; }
    // The nonce after the sender's executable transactions; `account_nonce` when it has none.
    [[nodiscard]] std::uint64_t next_nonce(const types::Address& sender, std::uint64_t account_nonce) const;
    // Executable transactions by sender.
    [[nodiscard]] std::vector<SenderQueue> executable() const;
    // All transactions by sender and ascending nonce, gaps and all: for a state that is ahead of the committed one.
    [[nodiscard]] std::vector<SenderQueue> waiting() const;
    // Whether one of them can pay this base fee.
    [[nodiscard]] bool has_executable(const Uint256& base_fee) const;
    // Waiting task_submit transactions, native or as calls to the tasks' reserved address, by arrival: the pending part
    // of the task pool.
    [[nodiscard]] std::vector<PooledPtr> tasks() const;
    // All, by arrival: for the journal.
    [[nodiscard]] std::vector<PooledPtr> all() const;
    [[nodiscard]] PoolStatus status() const;

private:
    struct Queue {
        std::uint64_t account_nonce = 0;
        std::map<std::uint64_t, PooledPtr> by_nonce;
        Uint256 cost;  // of all, at their fee caps
        [[nodiscard]] std::size_t executable() const;
    };
    // Eviction order: cheapest fee cap first, then lowest tip, then the latest arrival.
    struct Price {
        Uint256 fee_cap;
        Uint256 tip_cap;
        std::uint64_t arrival = 0;
        types::Address sender;
        bool operator<(const Price& other) const;
    };
    using Queues = std::map<types::Address, Queue>;

    [[nodiscard]] static Price price_of(const PooledTransaction& pooled);
    // Keep tails_ and the totals right around a change of a queue.
    void unlist_tail(const Queue& queue);
    void list_tail(const Queue& queue);
    void erase(Queues::iterator queue, std::uint64_t nonce);
    void drop_stale(Queues::iterator queue);
    void drop_spent_evidence(const state::StateReader& state);
    [[nodiscard]] Status make_room(const PooledTransaction& newcomer, const PooledPtr& replaced);

    const params::ChainParams& params_;
    const PoolLimits limits_;
    mutable types::SenderCache senders_;  // has locks of its own
    mutable std::mutex mutex_;            // guards everything below
    Queues queues_;
    std::unordered_map<Hash32, PooledPtr, FixedBytesHasher> by_hash_;
    std::set<Price> tails_;  // the last transaction of each queue
    std::size_t bytes_ = 0;
    std::size_t free_ = 0;  // transactions that offer no fee
    std::uint64_t next_arrival_ = 0;
    std::uint64_t height_ = 0;  // newest announced block
};

}  // namespace quern::chain::mempool
