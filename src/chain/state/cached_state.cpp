#include "chain/state/cached_state.h"

namespace quern::chain::state {

const Account* AccountCache::find(const types::Address& address) {
    if (const auto* found = young_->find(address)) return &found->value;
    const auto* found = old_->find(address);
    if (found == nullptr) return nullptr;
    put(address, Account(found->value));
    return &young_->find(address)->value;
}

void AccountCache::put(const types::Address& address, const Account& account) {
    if (young_->size() >= max_accounts_ && young_->find(address) == nullptr) {
        old_ = std::move(young_);
        young_ = std::make_unique<AccountTable>();
    }
    young_->find_or_add(address).first->value = account;
}

void AccountCache::put_all(const AccountTable& changed) {
    for (const auto* entry : changed.in_key_order([](const Account&) { return true; })) put(entry->key, entry->value);
}

std::optional<Account> CachedState::account(const types::Address& address) const {
    const auto known = [](const Account& account) {
        return account.is_empty() ? std::nullopt : std::optional(account);
    };
    for (const AccountTable* table : changed_)
        if (const auto* found = table->find(address)) return known(found->value);
    if (const Account* cached = cache_.find(address)) return known(*cached);
    const auto account = committed_.account(address);
    // What a fault left unread is not known to be absent.
    if (committed_.status()) cache_.put(address, account ? *account : empty_account());
    return account;
}

Status CachedState::status() const {
    QUERN_CHECK(committed_.status());
    return parent_.status();
}

}  // namespace quern::chain::state
