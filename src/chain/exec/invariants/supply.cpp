#include "chain/exec/invariants/invariants.h"

namespace quern::chain::exec::invariants {
namespace {

using types::ObjectPrefix;

// Money held by one native object; globals count what was minted as negative. Sums wrap modulo 2^256, which is exact
// for a sum that must be zero.
Expected<Uint256> money_of(BytesView key, const std::optional<Bytes>& value) {
    if (!value || key.empty()) return Uint256();
    switch (static_cast<ObjectPrefix>(key[0])) {
        case ObjectPrefix::globals: {
            QUERN_TRY(const auto globals, types::decode_record<types::Globals>(*value));
            return globals.burned + globals.jackpot_vault + globals.treasury_vault - globals.minted;
        }
        case ObjectPrefix::validator: {
            QUERN_TRY(const auto validator, types::decode_record<types::ValidatorObject>(*value));
            return validator.stake;
        }
        case ObjectPrefix::stake_unbonding: {
            QUERN_TRY(const auto unbonding, types::decode_record<types::StakeUnbonding>(*value));
            Uint256 sum;
            for (const auto& entry : unbonding.entries) sum += entry.amount;
            return sum;
        }
        case ObjectPrefix::role_bond: {
            QUERN_TRY(const auto bond, types::decode_record<types::RoleBond>(*value));
            Uint256 sum = bond.bonded;
            for (const auto& entry : bond.unbonding) sum += entry.amount;
            return sum;
        }
        case ObjectPrefix::task: {
            QUERN_TRY(const auto task, types::decode_record<types::Task>(*value));
            return task.escrow;
        }
        case ObjectPrefix::beacon:
        case ObjectPrefix::epoch:
        case ObjectPrefix::validator_rank:
        case ObjectPrefix::stake_delegation:
        case ObjectPrefix::conviction:
        case ObjectPrefix::challenge:
        case ObjectPrefix::dispute:
            break;
    }
    return Uint256();
}

}  // namespace

Status check_supply(const state::Overlay& state) {
    Uint256 difference;
    for (const auto& [address, account] : state.changed_accounts()) {
        const auto before = state.account_before(address);
        difference += account.balance - (before ? before->balance : Uint256());
    }
    for (const auto& [key, value] : state.changed_native()) {
        QUERN_TRY(const Uint256 after, money_of(key, value));
        QUERN_TRY(const Uint256 before, money_of(key, state.base().native(key)));
        difference += after - before;
    }
    if (!difference.is_zero()) return fail("invariant.supply", "difference " + difference.to_hex_quantity());
    return {};
}

}  // namespace quern::chain::exec::invariants
