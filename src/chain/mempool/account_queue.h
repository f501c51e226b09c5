// The waiting transactions of one sender by nonce, and how many of the first of them its account can execute one after
// the other: those are ready; the others wait behind a gap or for money, and are parked. Belongs to the pool, under its
// lock.
#pragma once

#include "chain/mempool/pooled.h"

namespace quern::chain::mempool {

// What the pool knows of an account.
struct AccountView {
    std::uint64_t nonce = 0;
    Uint256 balance;
    bool operator==(const AccountView&) const = default;
};

class AccountQueue {
public:
    struct Slot {
        PooledPtr pooled;
        Uint256 cost;
        // What the pool's tables hold of it; kept by the pool.
        bool listed = false;
        bool parked = false;
        std::uint64_t parked_at = 0;  // height
        [[nodiscard]] std::uint64_t nonce() const { return pooled->transaction.tx.nonce; }
    };

    [[nodiscard]] const AccountView& account() const { return account_; }
    // The account's newest state. Gives back what is below its nonce, which leaves the queue.
    [[nodiscard]] std::vector<Slot> set_account(const AccountView& account);
    // Ascending nonces.
    [[nodiscard]] const std::vector<Slot>& slots() const { return slots_; }
    [[nodiscard]] std::vector<Slot>& slots() { return slots_; }
    [[nodiscard]] const Slot* find(std::uint64_t nonce) const;
    // How many of the first slots are ready.
    [[nodiscard]] std::size_t ready() const { return ready_; }
    [[nodiscard]] std::size_t parked() const { return slots_.size() - ready_; }
    // Of all slots; whoever inserts has checked that it does not overflow.
    [[nodiscard]] const Uint256& cost() const { return cost_; }
    // Whether a transaction of this nonce would stand behind a gap.
    [[nodiscard]] bool has_gap_before(std::uint64_t nonce) const;
    // In the place of one with the same nonce, which comes back.
    [[nodiscard]] PooledPtr put(PooledPtr pooled);
    [[nodiscard]] PooledPtr take(std::uint64_t nonce);

    // What the pool's tables hold of this queue; kept by the pool.
    PooledPtr listed_head;
    PooledPtr listed_tail;

private:
    [[nodiscard]] std::vector<Slot>::iterator lower_bound(std::uint64_t nonce);
    void recount();

    AccountView account_;
    std::vector<Slot> slots_;
    std::size_t ready_ = 0;
    Uint256 cost_;
};

}  // namespace quern::chain::mempool
