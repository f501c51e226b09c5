// What chain and workers both ask about a claim's record. Pure; thread-safe.
#pragma once

#include "chain/types/native_objects.h"

namespace quern::chain::market {

// Whether the solver has lost the history of its claim in a game. One that is void for another reason stands for it
// with its lock until what was said against it in time is decided.
[[nodiscard]] inline bool is_history_lost(const types::Claim& claim) { return claim.voided && claim.locked.is_zero(); }
// Whether the stretches before the claim's are settled.
[[nodiscard]] inline bool is_next_to_settle(const types::Task& task, const types::Claim& claim) {
    return claim.id.stretch == task.settled;
}

}  // namespace quern::chain::market
