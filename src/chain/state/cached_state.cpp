#include "chain/state/cached_state.h"

namespace quern::chain::state {

std::optional<Account> CachedState::account(const types::Address& address) const {
    for (const AccountTable* table : changed_)
        if (const auto* found = table->find(address))
            return found->value.is_empty() ? std::nullopt : std::optional(found->value);
    return committed_.account(address);
}

Status CachedState::status() const {
    QUERN_CHECK(committed_.status());
    return parent_.status();
}

}  // namespace quern::chain::state
