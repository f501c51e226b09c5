// The pool's transactions in the order in which a block takes them: best tip above the base fee first, nonces in order,
// pulled in pieces so that a block of thousands does not hold up admission and the rest of the pool is never touched.
// Used by the block builder, on one thread, while others add to the pool; what is evicted meanwhile is passed over.
#pragma once

#include <queue>
#include <unordered_set>

#include "chain/mempool/pool.h"

namespace quern::chain::mempool {

inline constexpr std::size_t kMaxMovesInRun = 64;  // of one sender; what comes after them competes by price

class Selection {
public:
    // Senders' next nonces where they are not the committed state's: a block that is not final yet has used those
    // before.
    using Ahead = std::unordered_map<types::Address, std::uint64_t, SeededHasher>;

    // `pool` outlives the selection.
    Selection(const Pool& pool, const Uint256& base_fee, Ahead ahead = {});

    // What can come next of senders whose next transaction is a move in a dispute: that one and the moves that follow
    // it, kMaxMovesInRun in all. Looks at `limit` senders at most, from where the last call ended: first at those that
    // are ahead of the committed state, then at the others, who can pay most first. Before the first pull().
    [[nodiscard]] std::vector<std::vector<PooledPtr>> next_moves(std::size_t limit);
    // Whether next_moves() has not looked at all of them.
    [[nodiscard]] bool has_more_moves() const { return !moves_ended_; }
    // Senders that next_moves() looked at in all its calls: its steps.
    [[nodiscard]] std::size_t moves_looked_at() const { return moves_looked_at_; }
    // The sender's transactions below this nonce are in the block. Before the first pull().
    void took(const types::Address& sender, std::uint64_t next_nonce);
    // The next best ones that can pay the base fee; fewer than `count` when there are no more.
    [[nodiscard]] std::vector<PooledPtr> pull(std::size_t count);
    // No more of this sender. What was pulled already is the caller's.
    void close(const types::Address& sender) { closed_.insert(sender); }

private:
    struct Next {
        Uint256 tip;
        std::uint64_t arrival = 0;
        PooledPtr pooled;
        bool operator<(const Next& other) const {
            if (tip != other.tip) return tip < other.tip;
            return arrival > other.arrival;
        }
    };
    void begin() QUERN_REQUIRES(pool_.mutex_);
    // Offers the sender's transaction with this nonce, if it can come next.
    void offer(const Pool::SenderEntry& sender, std::uint64_t nonce) QUERN_REQUIRES(pool_.mutex_);
    void offer_heads() QUERN_REQUIRES(pool_.mutex_);
    [[nodiscard]] std::vector<PooledPtr> run_of_moves(const Pool::SenderEntry& sender, std::uint64_t nonce) const
        QUERN_REQUIRES(pool_.mutex_);

    const Pool& pool_;
    const Uint256 base_fee_;
    Ahead ahead_;
    bool begun_ = false;
    std::optional<std::vector<std::pair<types::Address, std::uint64_t>>> movers_ahead_;  // not looked at yet
    std::optional<Pool::MoveHead> last_move_;                                            // the last one looked at
    bool moves_ended_ = false;
    std::size_t moves_looked_at_ = 0;
    std::optional<Pool::Head> last_;  // the last head that was offered
    std::priority_queue<Next> next_;
    std::unordered_set<types::Address, SeededHasher> closed_;
};

}  // namespace quern::chain::mempool
