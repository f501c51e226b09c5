#include "base/big_endian.h"
#include "chain/exec/invariants/invariants.h"
#include "chain/market/bonds.h"

namespace quern::chain::exec::invariants {
namespace {

using params::kDrawFanout;
using types::DrawNode;
using types::DrawVersion;
using types::Role;

Status wrong(BytesView key) { return fail("invariant.draw_table", to_hex(key)); }

// As it is from the next epoch on.
Expected<DrawVersion> newest(const state::Overlay& state, Role role, std::uint8_t level, std::uint32_t index) {
    QUERN_TRY(const auto node, state.load<DrawNode>(role, level, index));
    return node && !node->versions.empty() ? node->versions.back() : DrawVersion();
}

Status check_bond(const state::Overlay& state, BytesView key, const types::RoleBond& bond) {
    if (!market::is_drawn(bond.role)) return bond.place == 0 && bond.weight.is_zero() ? Status{} : wrong(key);
    if (bond.weight != bond.bonded || (bond.place == 0) != bond.weight.is_zero()) return wrong(key);
    if (bond.place == 0) return {};
    const std::uint32_t place = bond.place - 1;
    QUERN_TRY(const auto leaf, newest(state, bond.role, 0, place / kDrawFanout));
    const std::size_t slot = place % kDrawFanout;
    const bool there = slot < leaf.weights.size() && slot < leaf.addresses.size() &&
                       leaf.addresses[slot] == bond.address && leaf.weights[slot] == bond.weight;
    return there ? Status{} : wrong(key);
}

// Of the key prefix || role || level || index.
Status check_node(const state::Overlay& state, BytesView key, const DrawNode& node) {
    if (key.size() != 7 || node.versions.empty()) return wrong(key);
    const auto role = static_cast<Role>(key[1]);
    const std::uint8_t level = key[2];
    const auto index = static_cast<std::uint32_t>(from_big_endian(key.last(4)));
    const DrawVersion& version = node.versions.back();
    if (version.weights.size() > kDrawFanout || version.addresses.size() != (level == 0 ? version.weights.size() : 0))
        return wrong(key);
    for (std::uint32_t slot = 0; slot < version.weights.size(); ++slot) {
        const std::uint32_t below = index * kDrawFanout + slot;
        if (level == 0) {
            QUERN_TRY(const auto bond, state.load<types::RoleBond>(role, version.addresses[slot]));
            if (!bond || bond->place != below + 1 || bond->weight != version.weights[slot]) return wrong(key);
        } else {
            QUERN_TRY(const auto child, newest(state, role, static_cast<std::uint8_t>(level - 1), below));
            if (market::weight_of(child) != version.weights[slot]) return wrong(key);
        }
    }
    return {};
}

}  // namespace

Status check_draw_tables(const state::Overlay& state) {
    for (const auto& [key, value] : state.changed_native()) {
        if (!value || key.empty()) continue;
        if (key[0] == static_cast<std::uint8_t>(types::ObjectPrefix::role_bond)) {
            QUERN_TRY(const auto bond, types::decode_record<types::RoleBond>(*value));
            QUERN_CHECK(check_bond(state, key, bond));
        } else if (key[0] == static_cast<std::uint8_t>(types::ObjectPrefix::draw_node)) {
            QUERN_TRY(const auto node, types::decode_record<DrawNode>(*value));
            QUERN_CHECK(check_node(state, key, node));
        }
    }
    return {};
}

}  // namespace quern::chain::exec::invariants
