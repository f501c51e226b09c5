#include "rpc/methods/market_json.h"

#include <iterator>

namespace quern::rpc::methods {

namespace types = chain::types;

json::Value task_json(const types::Task& task) {
    json::Value object = types::to_json(task);
    object.set("stateName", types::to_string(task.state));
    object.set("final", types::is_final(task.state));
    object.set("firstLossValue", task.step == 0 ? json::Value() : json::Value(f32_value(task.first_loss)));
    object.set("lossValue", task.step == 0 ? json::Value() : json::Value(f32_value(task.loss)));
    return object;
}

json::Value role_bond_json(const types::RoleBond& bond) {
    json::Value object = types::to_json(bond);
    object.set("roleName", types::to_string(bond.role));
    object.set("free", checked_sub(bond.bonded, bond.locked).value_or(Uint256()).to_hex_quantity());
    return object;
}

std::optional<types::Role> role_from(const json::Value& value) {
    for (const types::Role role : types::kRoles)
        if (value == json::Value(types::to_string(role)) || value == json::Value(static_cast<std::uint64_t>(role)))
            return role;
    return std::nullopt;
}

}  // namespace quern::rpc::methods
