// What the ledger tells, in results: events, places and amounts. Pure; thread-safe.
#pragma once

#include "base/json.h"
#include "base/uint256.h"
#include "chain/api/ledger.h"
#include "chain/types/amount.h"
#include "rpc/balance.h"

namespace quern::rpc::methods {

using chain::types::in_qrn;

// Adds or takes the amount of a movement, as its sign says.
void add(Balance& sum, const Uint256& grains, chain::api::Movement::Sign sign);

// block, timestamp, transaction, from, kind: the first members of whatever happened there.
[[nodiscard]] json::Value place_json(const chain::api::Place& place);
// event, task, dispute (each null where it names none) and the event's fields.
void set_event(json::Value& object, const chain::api::ToldEvent& event);
[[nodiscard]] json::Value holdings_json(const chain::api::Holdings& holdings);

}  // namespace quern::rpc::methods
