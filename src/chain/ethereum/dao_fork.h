// The irregular change of state that undid the DAO (EIP-779). Function without state.
#pragma once

#include "chain/state/overlay.h"

namespace quern::chain::ethereum {

// All that the DAO's 116 accounts have goes to the contract that pays it back.
void move_dao_balances(state::Overlay& overlay);

}  // namespace quern::chain::ethereum
