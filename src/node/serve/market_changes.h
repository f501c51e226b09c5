// What a block changed in the market, read from its receipts' events: the tasks and disputes subscriptions' matter.
// Pure; thread-safe.
#pragma once

#include "chain/api/events.h"

namespace quern::node {

// `after`: the state after the block, for what the events do not say; null when it is not kept.
[[nodiscard]] std::vector<chain::api::MarketChange> market_changes(const chain::types::Block& block,
                                                                   const std::vector<chain::types::Receipt>& receipts,
                                                                   const chain::api::StateView* after);

}  // namespace quern::node
