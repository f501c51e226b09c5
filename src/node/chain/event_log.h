// Log lines for people: what a committed block did to tasks and disputes, read from its receipts' events. Thread-safe.
#pragma once

#include <vector>

#include "chain/types/receipt.h"

namespace quern::node {

void log_market_events(std::uint64_t block, const std::vector<chain::types::Receipt>& receipts);

}  // namespace quern::node
