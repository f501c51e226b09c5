// Accounts as the state trie and the flat table hold them: Ethereum's rlp([nonce, balance, storage root, code hash]).
// Pure; thread-safe.
#pragma once

#include "chain/state/overlay.h"

namespace quern::chain::state {

[[nodiscard]] Bytes encode(const Account& account);
// Errors: rlp.*.
[[nodiscard]] Expected<Account> decode_account(BytesView bytes);

}  // namespace quern::chain::state
