#include "rpc/methods/ledger_json.h"

#include "rpc/values.h"

namespace quern::rpc::methods {

using Sign = chain::api::Movement::Sign;

namespace {
constexpr std::size_t kQrnDecimals = 18;

template <class T>
json::Value or_null(const std::optional<T>& value) {
    return value ? json::Value(*value) : json::Value();
}

std::string with_sign(bool negative, std::string digits) { return negative ? "-" + digits : digits; }

}  // namespace

std::string in_qrn(const Uint256& grains) {
    std::string digits = grains.to_decimal();
    if (digits.size() <= kQrnDecimals) digits.insert(0, kQrnDecimals + 1 - digits.size(), '0');
    digits.insert(digits.size() - kQrnDecimals, 1, '.');
    while (digits.back() == '0') digits.pop_back();
    if (digits.back() == '.') digits.pop_back();
    return digits;
}

void Balance::add(const Uint256& grains, Sign sign) {
    if (sign == Sign::plus) add(grains);
    if (sign == Sign::minus) take(grains);
}

std::string Balance::grains() const {
    const bool negative = came_ < went_;
    return with_sign(negative, (negative ? went_ - came_ : came_ - went_).to_decimal());
}

std::string Balance::qrn() const {
    const bool negative = came_ < went_;
    return with_sign(negative, in_qrn(negative ? went_ - came_ : came_ - went_));
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
