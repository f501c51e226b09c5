// bond, unbond, withdraw, declare_capacity: stakes that answer for a role, and what their owners can do. A bond's
// locked part backs open work; the free part can be unbonded and is paid out after the unbonding period.
#include <algorithm>

#include "chain/exec/handlers/draw_table.h"
#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/handler.h"
#include "chain/market/windows.h"

namespace quern::chain::exec::handlers {
namespace {

using types::NativeKind;

Status check_role(types::Role role) {
    if (role < types::Role::solver || role > types::Role::relay) return fail("bond.unknown_role");
    return {};
}

// A draw looks at so many bonds at most: small ones must not crowd the others out.
Status check_remaining(const Context& context, const Uint256& bonded) {
    const Uint256 least = market::min_bond(context.market());
    if (!bonded.is_zero() && bonded < least) return fail("bond.below_minimum", "at least " + least.to_decimal());
    return {};
}

void announce(Context& context, const types::RoleBond& bond) {
    const Uint256 unbonding = market::whole_bond(bond) - bond.bonded;
    emit(context, types::KindGroup::roles, events::BondChanged{bond.address, bond.role, bond.bonded, unbonding});
}

}  // namespace

Status Handler<NativeKind::bond>::check_form(const params::MarketParams&, const Payload& data) {
    QUERN_CHECK(check_role(data.role));
    if (data.amount.is_zero()) return fail("bond.zero_amount");
    return {};
}

struct Handler<NativeKind::bond>::Prepared {
    types::RoleBond bond;
};

auto Handler<NativeKind::bond>::check_state(const Context& context, const Payload& data) -> Expected<Prepared> {
    QUERN_CHECK(check_balance(context, data.amount));
    QUERN_TRY(auto bond, load_bond(context.state, data.role, context.sender));
    QUERN_CHECK(check_remaining(context, bond.bonded + data.amount));
    return Prepared{std::move(bond)};
}

Status Handler<NativeKind::bond>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& bond = prepared.bond;
    QUERN_CHECK(take_from_account(context, context.sender, data.amount));
    const Uint256 before = bond.bonded;
    bond.bonded += data.amount;
    QUERN_CHECK(bond_changed(context, bond, before));
    store_bond(context.state, bond);
    announce(context, bond);
    return {};
}

Status Handler<NativeKind::unbond>::check_form(const params::MarketParams&, const Payload& data) {
    QUERN_CHECK(check_role(data.role));
    if (data.amount.is_zero()) return fail("bond.zero_amount");
    return {};
}

struct Handler<NativeKind::unbond>::Prepared {
    types::RoleBond bond;
};

auto Handler<NativeKind::unbond>::check_state(const Context& context, const Payload& data) -> Expected<Prepared> {
    QUERN_TRY(auto bond, load_bond(context.state, data.role, context.sender));
    if (free_part(bond) < data.amount)
        return fail("bond.insufficient",
                    "free " + free_part(bond).to_decimal() + ", asked " + data.amount.to_decimal());
    if (bond.unbonding.size() >= params::kMaxRoleUnbondings) return fail("bond.too_many_unbondings", "withdraw first");
    QUERN_CHECK(check_remaining(context, bond.bonded - data.amount));
    return Prepared{std::move(bond)};
}

Status Handler<NativeKind::unbond>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& bond = prepared.bond;
    const Uint256 before = bond.bonded;
    bond.bonded -= data.amount;
    bond.unbonding.push_back({data.amount, context.height + context.market().unbonding_blocks});
    QUERN_CHECK(bond_changed(context, bond, before));
    store_bond(context.state, bond);
    announce(context, bond);
    return {};
}

Status Handler<NativeKind::withdraw>::check_form(const params::MarketParams&, const Payload& data) {
    return check_role(data.role);
}

struct Handler<NativeKind::withdraw>::Prepared {
    types::RoleBond bond;
};

auto Handler<NativeKind::withdraw>::check_state(const Context& context, const Payload& data) -> Expected<Prepared> {
    QUERN_TRY(auto bond, load_bond(context.state, data.role, context.sender));
    const bool ripe =
        std::any_of(bond.unbonding.begin(), bond.unbonding.end(),
                    [&](const types::UnbondingEntry& entry) { return entry.matures_at <= context.height; });
    if (!ripe) return fail("bond.nothing_to_withdraw");
    if (market::whole_bond(bond) == bond.locked)
        return fail("bond.nothing_to_withdraw", "what has left still answers for open work");
    return Prepared{std::move(bond)};
}

Status Handler<NativeKind::withdraw>::apply(Context& context, const Payload&, Prepared&& prepared) {
    auto& bond = prepared.bond;
    Uint256 unused = market::whole_bond(bond) - bond.locked;
    for (auto& entry : bond.unbonding) {
        if (entry.matures_at > context.height) continue;
        const Uint256 paid = std::min(entry.amount, unused);
        pay_account(context, context.sender, paid);
        unused -= paid;
        entry.amount -= paid;
    }
    std::erase_if(bond.unbonding, [](const types::UnbondingEntry& entry) { return entry.amount.is_zero(); });
    store_bond(context.state, bond);
    announce(context, bond);
    return {};
}

Status Handler<NativeKind::declare_capacity>::check_form(const params::MarketParams&, const Payload& data) {
    if (std::max(data.capacity.speed_class, data.capacity.bandwidth_class) > market::kMaxClass)
        return fail("bond.bad_class", "at most " + std::to_string(market::kMaxClass));
    return check_role(data.role);
}

struct Handler<NativeKind::declare_capacity>::Prepared {
    types::RoleBond bond;
};

auto Handler<NativeKind::declare_capacity>::check_state(const Context& context, const Payload& data)
    -> Expected<Prepared> {
    QUERN_TRY(auto bond, load_bond(context.state, data.role, context.sender));
    if (bond.bonded.is_zero()) return fail("bond.none");
    if (bond.capacity == data.capacity) return fail("bond.same_capacity");
    // A draw goes by what was declared before its anchor, and only one former capacity is kept: who could declare twice
    // while a draw waits would choose after its beacon.
    if (bond.capacity_since != 0 && context.height < bond.capacity_since + params::kCapacityBlocks)
        return fail("bond.capacity_too_soon",
                    "not before height " + std::to_string(bond.capacity_since + params::kCapacityBlocks));
    return Prepared{std::move(bond)};
}

Status Handler<NativeKind::declare_capacity>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& bond = prepared.bond;
    bond.former_capacity = bond.capacity;
    bond.capacity = data.capacity;
    bond.capacity_since = context.height;
    store_bond(context.state, bond);
    emit(context, types::KindGroup::roles, events::CapacityDeclared{bond.address, bond.role, data.capacity});
    return {};
}

QUERN_DEFINE_RUN(bond, data.amount)
QUERN_DEFINE_RUN(unbond, kNothing)
QUERN_DEFINE_RUN(withdraw, kNothing)
QUERN_DEFINE_RUN(declare_capacity, kNothing)

}  // namespace quern::chain::exec::handlers
