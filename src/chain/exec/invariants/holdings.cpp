#include "chain/exec/invariants/invariants.h"

namespace quern::chain::exec::invariants {
namespace {

using types::ObjectPrefix;

// What one native object holds: money, and claims on the locked parts of bonds. Sums wrap modulo 2^256, which is exact
// for those that must be zero: globals count what was minted as negative money, bonds their locked part as negative
// claims.
struct Holdings {
    Uint256 money;
    Uint256 locks;
};

template <class Entries>
Uint256 sum_of(const Entries& entries) {
    Uint256 sum;
    for (const auto& entry : entries) sum += entry.amount;
    return sum;
}

Expected<Holdings> holdings_of(BytesView key, const std::optional<Bytes>& value) {
    if (!value) return Holdings();
    QUERN_TRY(const ObjectPrefix prefix, types::prefix_of_key(key));
    switch (prefix) {
        case ObjectPrefix::globals: {
            QUERN_TRY(const auto globals, types::decode_record<types::Globals>(*value));
            return Holdings{globals.burned + globals.jackpot_vault + globals.treasury_vault - globals.minted, {}};
        }
        case ObjectPrefix::validator: {
            QUERN_TRY(const auto validator, types::decode_record<types::ValidatorObject>(*value));
            return Holdings{validator.stake, {}};
        }
        case ObjectPrefix::stake_unbonding: {
            QUERN_TRY(const auto unbonding, types::decode_record<types::StakeUnbonding>(*value));
            return Holdings{sum_of(unbonding.entries), {}};
        }
        case ObjectPrefix::evidence_commitment: {
            QUERN_TRY(const auto commitment, types::decode_record<types::EvidenceCommitment>(*value));
            return Holdings{commitment.deposit, {}};
        }
        case ObjectPrefix::role_bond: {
            QUERN_TRY(const auto bond, types::decode_record<types::RoleBond>(*value));
            if (bond.locked > bond.bonded) return fail("invariant.bond_locks", to_hex(bond.address));
            return Holdings{bond.bonded + sum_of(bond.unbonding), Uint256() - bond.locked};
        }
        case ObjectPrefix::task: {
            QUERN_TRY(const auto task, types::decode_record<types::Task>(*value));
            Uint256 locks;
            for (const auto& seat : task.seats) locks += seat.locked;
            return Holdings{task.escrow, locks};
        }
        case ObjectPrefix::claim: {
            QUERN_TRY(const auto claim, types::decode_record<types::Claim>(*value));
            return Holdings{{}, claim.locked};
        }
        case ObjectPrefix::report: {
            QUERN_TRY(const auto report, types::decode_record<types::VerifierReport>(*value));
            return Holdings{{}, report.locked};
        }
        case ObjectPrefix::challenge: {
            QUERN_TRY(const auto challenge, types::decode_record<types::ChallengeCommitment>(*value));
            return Holdings{challenge.deposit, challenge.stake};
        }
        case ObjectPrefix::dispute: {
            QUERN_TRY(const auto dispute, types::decode_record<types::Dispute>(*value));
            const bool own_lock = dispute.rival_role == types::Role::whistleblower && dispute.closed_at == 0;
            return Holdings{dispute.deposit, own_lock ? dispute.rival_locked : Uint256()};
        }
        case ObjectPrefix::beacon:
        case ObjectPrefix::epoch:
        case ObjectPrefix::validator_rank:
        case ObjectPrefix::stake_delegation:
        case ObjectPrefix::conviction:
        case ObjectPrefix::proof:
            break;
    }
    return Holdings();
}

}  // namespace

Status check_holdings(const state::Overlay& state) {
    Holdings difference;
    for (const auto& [address, account] : state.changed_accounts()) {
        const auto before = state.account_before(address);
        difference.money += account.balance - (before ? before->balance : Uint256());
    }
    for (const auto& [key, value] : state.changed_native()) {
        QUERN_TRY(const Holdings after, holdings_of(key, value));
        QUERN_TRY(const Holdings before, holdings_of(key, state.base().native(key)));
        difference.money += after.money - before.money;
        difference.locks += after.locks - before.locks;
    }
    if (!difference.money.is_zero())
        return fail("invariant.supply", "difference " + difference.money.to_hex_quantity());
    if (!difference.locks.is_zero())
        return fail("invariant.lock_sum", "difference " + difference.locks.to_hex_quantity());
    return {};
}

}  // namespace quern::chain::exec::invariants
