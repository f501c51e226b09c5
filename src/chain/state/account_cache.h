// Accounts of the committed state that were used last, so that execution and admission need not ask the database for
// them. It knows after which block it is and answers for the state after that block alone; a reader of an older state
// gets nothing from it and can put nothing into it. Whoever commits tells it of every change (put_all) before anybody
// else can see the new state. Thread-safe; its lock is split by address.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "base/mutex.h"
#include "chain/state/key_table.h"
#include "chain/state/overlay.h"

namespace quern::chain::state {

// Accounts as a block left them; empty ones are gone.
using AccountTable = KeyTable<types::Address, Account>;

class AccountCache {
public:
    static constexpr std::size_t kMaxAccounts = std::size_t{1} << 18;  // in each of two generations, 130 bytes each

    explicit AccountCache(std::size_t max_accounts = kMaxAccounts);
    // As it is after block `height`; nothing when it is not known; an empty account when there is none.
    [[nodiscard]] std::optional<Account> find(const types::Address& address, std::uint64_t height);
    // What was read from the state after block `height`; no effect when the cache is at another one.
    void put(const types::Address& address, const Account& account, std::uint64_t height);
    // What block `height`, which is committed now, changed.
    void put_all(const AccountTable& changed, std::uint64_t height);
    [[nodiscard]] std::size_t size() const;

private:
    static constexpr std::size_t kParts = 16;
    struct Part {
        mutable Mutex mutex;
        std::uint64_t height QUERN_GUARDED_BY(mutex) = 0;
        std::unique_ptr<AccountTable> young QUERN_GUARDED_BY(mutex) = std::make_unique<AccountTable>();
        // Dropped when the young ones are as many as may be.
        std::unique_ptr<AccountTable> old QUERN_GUARDED_BY(mutex) = std::make_unique<AccountTable>();
    };
    [[nodiscard]] std::size_t part_of(const types::Address& address) const;
    void put_in(Part& part, const types::Address& address, const Account& account) QUERN_REQUIRES(part.mutex);

    const std::uint64_t seed_ = hash_seed();  // else somebody would make accounts that crowd one part
    const std::size_t max_of_part_;
    std::array<Part, kParts> parts_{};
};

}  // namespace quern::chain::state
