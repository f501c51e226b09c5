#include "chain/exec/handlers/context.h"

#include <algorithm>
#include <utility>

#include "chain/exec/handlers/draw_table.h"
#include "chain/exec/handlers/events.h"
#include "chain/market/delays.h"

namespace quern::chain::exec::handlers {

using types::key_of;

Expected<types::Globals> load_globals(const state::Overlay& state) {
    QUERN_TRY(auto globals, state.load<types::Globals>());
    return globals.value_or(types::Globals{});
}

void store_globals(state::Overlay& state, const types::Globals& globals) {
    state.store(key_of<types::Globals>(), globals);
}

Expected<types::RoleBond> load_bond(const state::Overlay& state, types::Role role, const types::Address& address) {
    QUERN_TRY(auto bond, state.load<types::RoleBond>(role, address));
    if (bond) return std::move(*bond);
    types::RoleBond empty;
    empty.address = address;
    empty.role = role;
    return empty;
}

void store_bond(state::Overlay& state, const types::RoleBond& bond) {
    Bytes key = key_of<types::RoleBond>(bond.role, bond.address);
    if (bond.bonded.is_zero() && bond.locked.is_zero() && bond.unbonding.empty() && bond.games == 0)
        state.erase_native(key);
    else
        state.store(std::move(key), bond);
}

Expected<types::Task> load_task(const state::Overlay& state, std::uint64_t id) {
    QUERN_TRY(auto task, state.load<types::Task>(id));
    if (!task) return fail("task.unknown", std::to_string(id));
    return std::move(*task);
}

void store_task(state::Overlay& state, const types::Task& task) { state.store(key_of<types::Task>(task.id), task); }

Expected<types::Claim> load_claim(const state::Overlay& state, const types::ClaimId& id) {
    QUERN_TRY(auto claim, state.load<types::Claim>(id));
    if (!claim) return fault("state.corrupt_object", "task " + std::to_string(id.task) + " runs without its claim");
    return std::move(*claim);
}

namespace {

Status check_running(const types::Task& task) {
    if (task.state != types::TaskState::running) return fail("task.wrong_state", types::to_string(task.state));
    return {};
}

}  // namespace

LiveClaim make_live(types::Task task, types::Claim claim) {
    LiveClaim live;
    live.stored_task = types::encode_record(task);
    live.task = std::move(task);
    live.claim = std::move(claim);
    return live;
}

Expected<LiveClaim> load_live(const state::Overlay& state, std::uint64_t id, std::uint32_t stretch) {
    QUERN_TRY(auto task, load_task(state, id));
    QUERN_CHECK(check_running(task));
    const auto unsettled = types::unsettled_claims(task);
    const types::ClaimId wanted{id, 0, stretch, task.round};
    if (std::find(unsettled.begin(), unsettled.end(), wanted) == unsettled.end())
        return fail("task.no_such_claim", "stretch " + std::to_string(stretch));
    QUERN_TRY(auto claim, load_claim(state, wanted));
    if (types::is_final(claim.state)) return fail("task.wrong_state", types::to_string(claim.state));
    return make_live(std::move(task), std::move(claim));
}

Expected<LiveClaim> load_newest(const state::Overlay& state, types::Task task) {
    QUERN_CHECK(check_running(task));
    QUERN_TRY(auto claim, load_claim(state, types::unsettled_claims(task).back()));
    return make_live(std::move(task), std::move(claim));
}

Expected<LiveClaim> load_live(const state::Overlay& state, const types::ClaimId& id) {
    QUERN_TRY(auto task, load_task(state, id.task));
    QUERN_TRY(auto claim, load_claim(state, id));
    return make_live(std::move(task), std::move(claim));
}

void store_live(state::Overlay& state, const LiveClaim& live) {
    state.store(key_of<types::Claim>(live.claim.id), live.claim);
    Bytes task = types::encode_record(live.task);
    if (!equal(task, live.stored_task)) state.set_native(key_of<types::Task>(live.task.id), std::move(task));
}

Expected<types::VerifierReport> load_report(const state::Overlay& state, const types::Claim& claim, std::size_t place) {
    QUERN_TRY(auto report, state.load<types::VerifierReport>(claim.id, static_cast<std::uint8_t>(place)));
    if (place >= claim.drawn || !report)
        return fault("state.corrupt_object", "task " + std::to_string(claim.id.task) + " lacks a report");
    return std::move(*report);
}

Expected<std::vector<types::VerifierReport>> load_reports(const state::Overlay& state, const types::Claim& claim) {
    std::vector<types::VerifierReport> reports;
    for (std::size_t place = 0; place < claim.drawn; ++place) {
        QUERN_TRY(auto report, load_report(state, claim, place));
        reports.push_back(std::move(report));
    }
    return reports;
}

void store_report(state::Overlay& state, const types::VerifierReport& report) {
    state.store(key_of<types::VerifierReport>(report.claim, report.place), report);
}

Expected<types::Dispute> load_dispute(const state::Overlay& state, std::uint64_t id) {
    QUERN_TRY(auto dispute, state.load<types::Dispute>(id));
    if (!dispute) return fail("dispute.unknown", std::to_string(id));
    return std::move(*dispute);
}

void store_dispute(state::Overlay& state, const types::Dispute& dispute) {
    state.store(key_of<types::Dispute>(dispute.id), dispute);
}

Expected<Hash32> beacon_at(const Context& context, std::uint64_t height) {
    if (height > context.height) return fail("beacon.not_known", "height " + std::to_string(height));
    const std::uint64_t effective = market::beacon_height(height, context.height);
    QUERN_TRY(const auto beacon, context.state.load<types::BeaconObject>(effective));
    if (!beacon) return fail("beacon.not_known", "height " + std::to_string(effective));
    return beacon->value;
}

namespace {

tl::unexpected<Error> poor(const Uint256& balance, const Uint256& amount) {
    return fail("account.insufficient_balance", "have " + balance.to_decimal() + ", need " + amount.to_decimal());
}

}  // namespace

Status check_balance(const Context& context, const Uint256& amount) {
    const Uint256& balance = context.state.account_view(context.sender).balance;
    return balance < amount ? Status(poor(balance, amount)) : Status();
}

Status take_from_account(Context& context, const types::Address& address, const Uint256& amount) {
    auto account = context.state.account_or_empty(address);
    const auto rest = checked_sub(account.balance, amount);
    if (!rest) return poor(account.balance, amount);
    account.balance = *rest;
    context.state.set_account(address, account);
    return {};
}

void pay_account(Context& context, const types::Address& address, const Uint256& amount) {
    if (amount.is_zero()) return;
    auto account = context.state.account_or_empty(address);
    account.balance += amount;  // the minted total fits 256 bits, so no balance overflows
    context.state.set_account(address, account);
}

namespace {

// Of the bond's part `unused`, which answers for nothing.
Status lock_part(Context& context, std::uint64_t task, types::RoleBond bond, const Uint256& unused,
                 const Uint256& amount) {
    if (unused < amount)
        return fail("bond.insufficient", "free " + unused.to_decimal() + ", need " + amount.to_decimal());
    if (amount.is_zero()) return {};
    bond.locked += amount;
    store_bond(context.state, bond);
    emit(context, types::KindGroup::roles, events::BondLocked{bond.address, task, bond.role, amount, bond.locked});
    return {};
}

}  // namespace

Status lock_bond(Context& context, std::uint64_t task, types::Role role, const types::Address& address,
                 const Uint256& amount) {
    QUERN_TRY(auto bond, load_bond(context.state, role, address));
    const Uint256 unused = free_part(bond);
    return lock_part(context, task, std::move(bond), unused, amount);
}

Status lock_whole_bond(Context& context, std::uint64_t task, types::Role role, const types::Address& address,
                       const Uint256& amount) {
    QUERN_TRY(auto bond, load_bond(context.state, role, address));
    const Uint256 unused = checked_sub(market::whole_bond(bond), bond.locked).value_or(Uint256());
    return lock_part(context, task, std::move(bond), unused, amount);
}

Status unlock_bond(Context& context, std::uint64_t task, types::Role role, const types::Address& address,
                   const Uint256& amount) {
    if (amount.is_zero()) return {};
    QUERN_TRY(auto bond, load_bond(context.state, role, address));
    if (bond.locked < amount) return fail("bond.not_locked");
    bond.locked -= amount;
    store_bond(context.state, bond);
    emit(context, types::KindGroup::roles, events::BondReleased{address, task, role, amount, bond.locked});
    return {};
}

Status seize_bond(Context& context, types::Role role, const types::Address& address, const Uint256& amount) {
    if (amount.is_zero()) return {};
    QUERN_TRY(auto bond, load_bond(context.state, role, address));
    if (bond.locked < amount || market::whole_bond(bond) < amount) return fail("bond.not_locked");
    bond.locked -= amount;
    const Uint256 before = bond.bonded;
    Uint256 left = amount - std::min(amount, bond.bonded);
    bond.bonded -= amount - left;
    while (!left.is_zero()) {
        Uint256& newest = bond.unbonding.back().amount;
        const Uint256 part = std::min(left, newest);
        newest -= part;
        left -= part;
        if (newest.is_zero()) bond.unbonding.pop_back();
    }
    ++bond.faults;
    QUERN_CHECK(bond_changed(context, bond, before));
    store_bond(context.state, bond);
    return {};
}

}  // namespace quern::chain::exec::handlers
