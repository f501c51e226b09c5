// stake_*: validators and role bonds.
#include "rpc/methods/backend.h"
#include "rpc/methods/market_json.h"

namespace quern::rpc::methods {
namespace {

namespace types = chain::types;

// All objects under a prefix, at most kMaxScan, as `show` makes them; keys are of any form.
template <types::Record T, class Show>
Expected<json::Array> all_under(const chain::api::StateView& state, const Bytes& prefix, Show&& show) {
    json::Array result;
    Bytes start;
    while (result.size() < kMaxScan) {
        const auto page = state.native_range(prefix, start, kScanPage);
        for (const auto& [key, value] : page) {
            QUERN_TRY(const T record, types::decode_record<T>(value));
            result.push_back(show(record));
            start = key;
        }
        if (page.size() < kScanPage) break;
        start.push_back(0);  // the next key after the last one
    }
    return result;
}

Result validators(const Backend& backend) {
    QUERN_RPC_TRY(const auto state, backend.chain->state({}));
    Uint256 total;
    QUERN_RPC_TRY(auto list,
                  all_under<types::ValidatorObject>(*state, types::object_key(types::ObjectPrefix::validator),
                                                    [&](const types::ValidatorObject& validator) {
                                                        total += validator.stake;
                                                        return types::to_json(validator);
                                                    }));
    return json::Value::object({{"validators", std::move(list)}, {"totalStake", quantity(total)}});
}

Result roles(const Backend& backend, const Call& call) {
    QUERN_RPC_TRY(const auto state, backend.chain->state({}));
    Bytes prefix = types::object_key(types::ObjectPrefix::role_bond);
    std::optional<types::Address> address;
    if (call.has(0)) {
        if (const auto read = read_address(call.value(0))) {
            address = *read;
        } else if (const auto role = role_from(call.value(0))) {
            prefix.push_back(static_cast<std::uint8_t>(*role));
        } else {
            return rpc_fail(kInvalidParams, "invalid argument 0 (filter): neither an address nor a role");
        }
    }
    json::Array result;
    QUERN_RPC_TRY(auto all, all_under<types::RoleBond>(*state, prefix, [&](const types::RoleBond& bond) {
                      return !address || bond.address == *address ? role_bond_json(bond) : json::Value();
                  }));
    for (json::Value& bond : all)
        if (!bond.is_null()) result.push_back(std::move(bond));
    return result;
}

}  // namespace

Status add_stake_methods(Registry& registry, const Backend& backend) {
    QUERN_CHECK(registry.add({"stake_validators",
                              "The validators and their stakes.",
                              {},
                              {"object", "validators: address, publicKey, stake; totalStake"},
                              {},
                              {},
                              [backend](const Call&) -> Result { return validators(backend); }}));
    return registry.add({"stake_roles",
                         "Bonds of solvers, verifiers and whistleblowers.",
                         {{"filter", Kind::any, false, "an address, or a role by name or number"}},
                         {"array", "address, role, roleName, bonded, locked, free, unbonding, faults"},
                         {},
                         {{R"(["solver"])", "[]"}},
                         [backend](const Call& call) -> Result { return roles(backend, call); }});
}

}  // namespace quern::rpc::methods
