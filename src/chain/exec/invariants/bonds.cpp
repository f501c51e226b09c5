#include "chain/exec/invariants/invariants.h"

namespace quern::chain::exec::invariants {
namespace {

using types::ObjectPrefix;

// What an object claims of bonds' locked parts; bonds count their locked part as negative.
Expected<Uint256> locks_of(BytesView key, const std::optional<Bytes>& value) {
    if (!value || key.empty()) return Uint256();
    switch (static_cast<ObjectPrefix>(key[0])) {
        case ObjectPrefix::role_bond: {
            QUERN_TRY(const auto bond, types::decode_record<types::RoleBond>(*value));
            if (bond.locked > bond.bonded) return fail("invariant.bond_locks", to_hex(bond.address));
            return Uint256() - bond.locked;
        }
        case ObjectPrefix::task: {
            QUERN_TRY(const auto task, types::decode_record<types::Task>(*value));
            Uint256 sum = task.solver_locked;
            for (const auto& report : task.reports) sum += report.locked;
            return sum;
        }
        case ObjectPrefix::challenge: {
            QUERN_TRY(const auto challenge, types::decode_record<types::ChallengeCommitment>(*value));
            return challenge.stake;
        }
        case ObjectPrefix::dispute: {
            QUERN_TRY(const auto dispute, types::decode_record<types::Dispute>(*value));
            const bool own_lock = dispute.rival_role == types::Role::whistleblower && dispute.closed_at == 0;
            return own_lock ? dispute.rival_locked : Uint256();
        }
        case ObjectPrefix::globals:
        case ObjectPrefix::beacon:
        case ObjectPrefix::epoch:
        case ObjectPrefix::validator:
        case ObjectPrefix::validator_rank:
        case ObjectPrefix::stake_delegation:
        case ObjectPrefix::stake_unbonding:
        case ObjectPrefix::conviction:
            break;
    }
    return Uint256();
}

}  // namespace

Status check_bonds(const state::Overlay& state) {
    Uint256 difference;
    for (const auto& [key, value] : state.changed_native()) {
        QUERN_TRY(const Uint256 after, locks_of(key, value));
        QUERN_TRY(const Uint256 before, locks_of(key, state.base().native(key)));
        difference += after - before;
    }
    if (!difference.is_zero()) return fail("invariant.lock_sum", "difference " + difference.to_hex_quantity());
    return {};
}

}  // namespace quern::chain::exec::invariants
