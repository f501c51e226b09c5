#include "rpc/methods/market_json.h"

#include <iterator>

namespace quern::rpc::methods {

namespace types = chain::types;

json::Value task_json(const types::TaskClaim& live) {
    json::Value object = types::to_json(live.task);
    object.set("stateName", types::to_string(live.task.state));
    object.set("final", types::is_final(live.task.state));
    object.set("claim", live.claim.state == types::ClaimState::none ? json::Value() : claim_json(live.claim));
    return object;
}

json::Value claim_json(const types::Claim& claim) {
    json::Value object = types::to_json(claim);
    object.set("stateName", types::to_string(claim.state));
    object.set("final", types::is_final(claim.state));
    object.set("firstLossValue", claim.step == 0 ? json::Value() : json::Value(f32_value(claim.first_loss)));
    object.set("lossValue", claim.step == 0 ? json::Value() : json::Value(f32_value(claim.loss)));
    return object;
}

Expected<types::TaskClaim> with_claim(const chain::api::StateView& state, types::Task task) {
    types::TaskClaim live{std::move(task), {}};
    if (const auto id = types::present_claim(live.task)) {
        QUERN_TRY(auto claim, read_object<types::Claim>(state, *id));
        if (claim) live.claim = std::move(*claim);
    }
    return live;
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
