// The state that blocks are executed on, with accounts at hand: those that the blocks between the committed state and
// the parent changed, then those of the committed state that were used lately, then the tables. Everything else is read
// from the tables as it is (FlatState). Used by one thread.
#pragma once

#include <vector>

#include "chain/state/flat_state.h"
#include "chain/state/key_table.h"

namespace quern::chain::state {

// Accounts as a block left them; empty ones are gone.
using AccountTable = KeyTable<types::Address, Account>;

// Accounts of the committed state, those used last. It must be told of every change.
class AccountCache {
public:
    static constexpr std::size_t kMaxAccounts = std::size_t{1} << 18;  // in each of two generations, 130 bytes each

    explicit AccountCache(std::size_t max_accounts = kMaxAccounts) : max_accounts_(max_accounts) {}
    // Null when it is not known; an empty account when there is none.
    [[nodiscard]] const Account* find(const types::Address& address);
    void put(const types::Address& address, const Account& account);
    // What a block that is committed now changed.
    void put_all(const AccountTable& changed);
    [[nodiscard]] std::size_t size() const { return young_->size() + old_->size(); }

private:
    std::size_t max_accounts_;
    std::unique_ptr<AccountTable> young_ = std::make_unique<AccountTable>();
    std::unique_ptr<AccountTable> old_ =
        std::make_unique<AccountTable>();  // dropped when the young ones are as many as may be
};

class CachedState final : public StateReader {
public:
    // `committed` reads the committed state, `parent` that after the blocks whose changes are given, newest first; it
    // is the same where there are none. All outlive this.
    CachedState(const store::Reader& committed, const store::Reader& parent, std::vector<const AccountTable*> changed,
                AccountCache& cache)
        : committed_(committed), parent_(parent), changed_(std::move(changed)), cache_(cache) {}

    [[nodiscard]] std::optional<Account> account(const types::Address& address) const override;
    [[nodiscard]] Bytes code(const Hash32& code_hash) const override { return parent_.code(code_hash); }
    [[nodiscard]] Hash32 storage(const types::Address& address, const Hash32& slot) const override {
        return parent_.storage(address, slot);
    }
    [[nodiscard]] std::optional<Bytes> native(BytesView key) const override { return parent_.native(key); }
    [[nodiscard]] std::vector<std::pair<Bytes, Bytes>> native_range(BytesView prefix, BytesView start,
                                                                    std::size_t limit) const override {
        return parent_.native_range(prefix, start, limit);
    }

    // The first fault of the store that a read met.
    [[nodiscard]] Status status() const;

private:
    FlatState committed_;
    FlatState parent_;
    std::vector<const AccountTable*> changed_;
    AccountCache& cache_;
};

}  // namespace quern::chain::state
