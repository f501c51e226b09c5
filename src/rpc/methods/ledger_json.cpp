#include "rpc/methods/ledger_json.h"

#include "rpc/values.h"

namespace quern::rpc::methods {

using Sign = chain::api::Movement::Sign;

namespace {

template <class T>
json::Value or_null(const std::optional<T>& value) {
    return value ? json::Value(*value) : json::Value();
}

}  // namespace

void add(Balance& sum, const Uint256& grains, Sign sign) {
    if (sign == Sign::plus) sum.add(grains);
    if (sign == Sign::minus) sum.take(grains);
}

json::Value place_json(const chain::api::Place& place) {
    return json::Value::object({{"block", place.block},
                                {"timestamp", place.timestamp},
                                {"transaction", hex(place.transaction)},
                                {"from", hex(place.sender)},
                                {"kind", place.kind.empty() ? json::Value() : json::Value(place.kind)}});
}

void set_event(json::Value& object, const chain::api::ToldEvent& event) {
    object.set("event", event.name);
    object.set("task", or_null(event.task));
    object.set("dispute", or_null(event.dispute));
    object.set("fields", event.fields);
}

json::Value holdings_json(const chain::api::Holdings& holdings) {
    json::Array bonds;
    for (const auto& bond : holdings.bonds)
        bonds.push_back(json::Value::object({{"role", chain::types::to_string(bond.role)},
                                             {"bonded", quantity(bond.bonded)},
                                             {"locked", quantity(bond.locked)},
                                             {"unbonding", quantity(bond.unbonding)}}));
    return json::Value::object({{"balance", quantity(holdings.balance)}, {"bonds", std::move(bonds)}});
}

}  // namespace quern::rpc::methods
