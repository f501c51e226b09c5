// Transactions that wait for a block: a queue by nonce for each sender, ordered among senders by price. Admission
// checks form, signature values, fees, balance and nonce; replacement wants 10 % more. What an account can execute and
// pay for is *ready*; what waits behind a gap, or for money that is spent, is *parked* in a small quota of its own
// (per sender, per source, in all) and expires. Limits by count, memory and sender hold the pool's size: what is ready
// pushes out what is parked, then the cheapest last transaction of another queue. Used by the node (submission, block
// building, pending queries). Thread-safe.
#pragma once

#include <map>
#include <set>
#include <span>
#include <unordered_map>

#include "base/mutex.h"
#include "chain/exec/block_executor.h"
#include "chain/exec/result/refusals.h"
#include "chain/mempool/account_queue.h"
#include "chain/mempool/tables.h"
#include "chain/types/sender_cache.h"

namespace quern::chain::mempool {

struct PoolLimits {
    std::size_t max_transactions = 200'000;          // ten seconds of load
    std::size_t max_bytes = std::size_t{512} << 20;  // of memory, as footprint() counts it
    std::size_t max_per_sender = 1'024;
    std::size_t max_free = 64;               // evidence that offers no fee
    std::uint64_t max_nonce_gap = 1'024;     // a nonce may be this far ahead of the account's
    std::uint64_t replacement_percent = 10;  // a replacement pays this much more, in both fee fields
    // Parked transactions cost their senders nothing.
    std::size_t max_parked = 4'096;
    std::size_t max_parked_bytes = std::size_t{16} << 20;
    std::size_t max_parked_per_sender = 256;
    std::size_t max_parked_per_source = 1'024;
    std::uint64_t parked_blocks = 600;      // heights after which a parked one leaves
    std::uint64_t waiting_blocks = 43'200;  // and a ready one whose fee no block's base fee came down to
};

struct PoolStatus {
    std::size_t transactions = 0;
    std::size_t executable = 0;
    std::size_t bytes = 0;
    std::size_t senders = 0;
};

// An account after a block.
struct AccountAfter {
    types::Address address;
    AccountView account;
};

// A transaction that passed the checks which need no lock (admission.h).
struct Candidate {
    std::shared_ptr<PooledTransaction> pooled;
    AccountView account;  // of its sender
};

struct Admitted {
    exec::Result result;
    PooledPtr pooled;  // null when it was refused
};

class Pool {
public:
    // `params` outlives the pool.
    explicit Pool(const params::ChainParams& params, const PoolLimits& limits = {});

    // Checks against `state`, which is the one after block `height`, and queues. Refusals: precheck's, and of
    // exec/result/refusals.h; "mempool.stale_state" (retry) when a newer block was announced in the meantime: the
    // caller tries again with the newer state.
    [[nodiscard]] Admitted add(types::RecoveredTransaction transaction, const state::StateReader& state,
                               std::uint64_t height, const Source& source = {});
    // Many at once, under one lock, in this order. Their accounts are those after block `height`. An empty list for a
    // stale state.
    [[nodiscard]] std::vector<Admitted> add(std::vector<Candidate> candidates, std::uint64_t height);
    // Block `height` was committed: `senders` are the accounts that sent its transactions, each once; drops what the
    // block holds and what it made invalid, and what waited too long. `state` came of the block.
    void on_block(std::span<const AccountAfter> senders, const state::StateReader& state, std::uint64_t height);
    // Drops transactions that execution refused. Their senders' later ones are parked and wait for the nonce.
    void drop(const std::vector<Hash32>& hashes);

    [[nodiscard]] PooledPtr find(const Hash32& hash) const;
    // By the first 8 bytes of the hash, as peers name transactions.
    [[nodiscard]] PooledPtr find_short(const FixedBytes<8>& id) const;
    // One lock for all; null where there is none.
    [[nodiscard]] std::vector<PooledPtr> find(std::span<const Hash32> hashes) const;
    // Remembers who sent what, also of transactions that never wait here: blocks and answers use it, too.
    [[nodiscard]] types::SenderCache& senders() const { return senders_; }
    [[nodiscard]] const params::ChainParams& params() const { return params_; }
    [[nodiscard]] const PoolLimits& limits() const { return limits_; }
    // The nonce after the sender's transactions that follow each other from `account_nonce` on.
    [[nodiscard]] std::uint64_t next_nonce(const types::Address& sender, std::uint64_t account_nonce) const;
    // Whether a ready one can pay this base fee. Constant time.
    [[nodiscard]] bool has_executable(const Uint256& base_fee) const;
    // Waiting task_submit transactions, native or as calls to the tasks' reserved address, by arrival: the pending part
    // of the task pool.
    [[nodiscard]] std::vector<PooledPtr> tasks() const;
    // The first of them by arrival, after that number, at most `limit`; of more than `bytes` (encoded) only the first.
    [[nodiscard]] std::vector<PooledPtr> arrived_after(std::uint64_t arrival, std::size_t limit,
                                                       std::size_t bytes = ~std::size_t{0}) const;
    // The last by arrival, the newest first: at most `limit`, and as many bytes when encoded.
    [[nodiscard]] std::vector<PooledPtr> latest(std::size_t limit, std::size_t bytes) const;
    // The newest of all arrivals so far.
    [[nodiscard]] std::uint64_t last_arrival() const;
    [[nodiscard]] PoolStatus status() const;
    // How many wait behind a gap or for money.
    [[nodiscard]] std::size_t parked() const;
    // Whether all tables agree with the queues and keep their limits. For tests: it reads everything.
    [[nodiscard]] Status check() const;

private:
    friend class Selection;
    struct SenderEntry {
        types::Address address;
        AccountQueue queue;
        std::uint64_t known_at = 0;  // height of what the queue knows of the account
    };
    struct Head {  // dearest tip first
        Uint256 tip_cap;
        std::uint64_t arrival = 0;
        SenderEntry* sender = nullptr;
        bool operator<(const Head& other) const {
            if (tip_cap != other.tip_cap) return tip_cap > other.tip_cap;
            return arrival < other.arrival;
        }
    };
    struct MoveHead {  // who can pay most first, then by arrival
        Uint256 fee_cap;
        std::uint64_t arrival = 0;
        SenderEntry* sender = nullptr;
        bool operator<(const MoveHead& other) const {
            if (fee_cap != other.fee_cap) return fee_cap > other.fee_cap;
            return arrival < other.arrival;
        }
    };
    struct Tail {  // cheapest first
        Price price;
        SenderEntry* sender = nullptr;
        bool operator<(const Tail& other) const { return price < other.price; }
    };
    struct Excess {
        std::size_t count = 0;
        std::size_t bytes = 0;
        [[nodiscard]] bool none() const { return count == 0 && bytes == 0; }
    };
    using Senders = std::unordered_map<types::Address, std::unique_ptr<SenderEntry>, SeededHasher>;

    // pool.cpp
    [[nodiscard]] Admitted add_one(const Candidate& candidate, std::uint64_t height) QUERN_REQUIRES(mutex_);
    [[nodiscard]] exec::Result check_place(const Candidate& candidate, const SenderEntry* sender, bool parks) const
        QUERN_REQUIRES(mutex_);
    [[nodiscard]] SenderEntry* find_sender(const types::Address& address) const QUERN_REQUIRES(mutex_);
    // pool_tables.cpp
    void set_account(SenderEntry& sender, const AccountView& account, std::uint64_t height) QUERN_REQUIRES(mutex_);
    // Brings the tables in line with the queue; a sender whose queue is empty is gone afterwards.
    void relist(SenderEntry& sender) QUERN_REQUIRES(mutex_);
    void list_ends(SenderEntry& sender) QUERN_REQUIRES(mutex_);
    void remember(const PooledPtr& pooled) QUERN_REQUIRES(mutex_);
    void forget(const AccountQueue::Slot& slot) QUERN_REQUIRES(mutex_);
    void erase(const types::Address& sender, std::uint64_t nonce) QUERN_REQUIRES(mutex_);
    // pool_room.cpp
    [[nodiscard]] bool make_room(const PooledTransaction& newcomer, bool parks, const PooledPtr& replaced)
        QUERN_REQUIRES(mutex_);
    [[nodiscard]] bool make_parking_room(const PooledTransaction& newcomer, const PooledPtr& replaced)
        QUERN_REQUIRES(mutex_);
    // The cheapest last ready transactions, dearer and dearer, until so much is free; nothing when the newcomer does
    // not beat them.
    [[nodiscard]] std::optional<std::vector<ParkedTable::Place>> cheaper_than(const PooledTransaction& newcomer,
                                                                              Excess excess) const
        QUERN_REQUIRES(mutex_);
    // How far the pool would be above its limits with the newcomer, and so much less in it.
    [[nodiscard]] Excess excess(const PooledTransaction& newcomer, const PooledPtr& replaced, std::size_t count_off,
                                std::size_t bytes_off) const QUERN_REQUIRES(mutex_);
    // The cheapest parked one of the newcomer's source leaves, if it is cheaper than the newcomer.
    [[nodiscard]] bool own_gives_way(const PooledTransaction& newcomer) QUERN_REQUIRES(mutex_);
    void evict_parked(const Source& source) QUERN_REQUIRES(mutex_);
    void trim_parked() QUERN_REQUIRES(mutex_);
    void drop_spent_evidence(const state::StateReader& state) QUERN_REQUIRES(mutex_);
    void drop_expired() QUERN_REQUIRES(mutex_);
    void look_again_at_unpayable(const state::StateReader& state) QUERN_REQUIRES(mutex_);

    const params::ChainParams& params_;
    const PoolLimits limits_;
    mutable types::SenderCache senders_;  // has locks of its own
    mutable Mutex mutex_;
    Senders by_sender_ QUERN_GUARDED_BY(mutex_);
    HashTable by_hash_ QUERN_GUARDED_BY(mutex_);
    std::map<std::uint64_t, PooledPtr> by_arrival_ QUERN_GUARDED_BY(mutex_);
    std::map<std::uint64_t, PooledPtr> tasks_ QUERN_GUARDED_BY(mutex_);
    std::map<std::uint64_t, PooledPtr> free_ QUERN_GUARDED_BY(mutex_);  // offer no fee
    std::set<Head> heads_ QUERN_GUARDED_BY(mutex_);                     // the first ready one of each queue
    std::multiset<Uint256> head_fees_ QUERN_GUARDED_BY(mutex_);         // and their fee caps
    std::set<MoveHead> move_heads_ QUERN_GUARDED_BY(mutex_);            // those that are moves in disputes
    std::set<Tail> tails_ QUERN_GUARDED_BY(mutex_);                     // the last ready one of each queue
    ParkedTable parked_ QUERN_GUARDED_BY(mutex_);
    std::size_t bytes_ QUERN_GUARDED_BY(mutex_) = 0;
    std::size_t ready_ QUERN_GUARDED_BY(mutex_) = 0;
    std::uint64_t next_arrival_ QUERN_GUARDED_BY(mutex_) = 1;
    std::uint64_t height_ QUERN_GUARDED_BY(mutex_) = 0;      // newest announced block
    std::uint64_t next_sweep_ QUERN_GUARDED_BY(mutex_) = 0;  // height at which parked ones are looked at again
};

}  // namespace quern::chain::mempool
