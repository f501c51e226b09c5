#include <map>
#include <utility>

#include "chain/exec/invariants/invariants.h"
#include "chain/market/bonds.h"

namespace quern::chain::exec::invariants {
namespace {

using types::ObjectPrefix;
using types::Role;

// Claims on the locked part of each bond. Sums wrap modulo 2^256, which is exact for those that must be zero: a bond
// counts its locked part as a negative claim.
using Locks = std::map<std::pair<types::Role, types::Address>, Uint256>;

// What one native object holds. Globals count what was minted as negative money, and what watchers are drawn by as
// negative bonds of whistleblowers.
struct Holdings {
    Uint256 money;
    Locks locks;
    Uint256 watching = {};
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
            return Holdings{globals.burned + globals.jackpot_vault + globals.treasury_vault - globals.minted,
                            {},
                            Uint256() - globals.watch_bonds};
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
            const Uint256 whole = market::whole_bond(bond);
            if (bond.locked > whole) return fail("invariant.bond_locks", to_hex(bond.address));
            return Holdings{whole,
                            {{{bond.role, bond.address}, Uint256() - bond.locked}},
                            bond.role == Role::whistleblower ? bond.bonded : Uint256()};
        }
        case ObjectPrefix::task: {
            QUERN_TRY(const auto task, types::decode_record<types::Task>(*value));
            Holdings held{task.escrow, {}};
            for (const auto& seat : task.seats) held.locks[{Role::solver, seat.solver}] += seat.locked;
            for (const auto& each : task.profiling.profilers) held.locks[{Role::verifier, each.address}] += each.locked;
            for (const auto& bid : task.bids) held.locks[{Role::solver, bid.bidder}] += bid.deposit;
            return held;
        }
        case ObjectPrefix::claim: {
            QUERN_TRY(const auto claim, types::decode_record<types::Claim>(*value));
            return Holdings{{}, {{{Role::solver, claim.solver}, claim.locked}}};
        }
        case ObjectPrefix::report: {
            QUERN_TRY(const auto report, types::decode_record<types::VerifierReport>(*value));
            return Holdings{{}, {{{Role::verifier, report.verifier}, report.locked}}};
        }
        case ObjectPrefix::custody: {
            QUERN_TRY(const auto custody, types::decode_record<types::Custody>(*value));
            Holdings held;
            for (const auto& custodian : custody.custodians)
                if (custodian.receipt == 0) held.locks[{Role::custodian, custodian.address}] += custody.lock;
            return held;
        }
        case ObjectPrefix::challenge: {
            QUERN_TRY(const auto challenge, types::decode_record<types::ChallengeCommitment>(*value));
            return Holdings{challenge.deposit, {{{challenge.role, challenge.challenger}, challenge.stake}}};
        }
        case ObjectPrefix::dispute: {
            QUERN_TRY(const auto dispute, types::decode_record<types::Dispute>(*value));
            Holdings held{dispute.deposit, {}};
            if (types::has_own_stake(dispute) && dispute.closed_at == 0)
                held.locks[{dispute.rival_role, dispute.rival}] = dispute.rival_locked;
            return held;
        }
        case ObjectPrefix::watch: {
            QUERN_TRY(const auto watch, types::decode_record<types::Watch>(*value));
            return Holdings{watch.deposit, {}};
        }
        case ObjectPrefix::beacon:
        case ObjectPrefix::epoch:
        case ObjectPrefix::validator_rank:
        case ObjectPrefix::draw_node:
        case ObjectPrefix::draw_table:
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
        difference.watching += after.watching - before.watching;
        for (const auto& [bond, amount] : after.locks) difference.locks[bond] += amount;
        for (const auto& [bond, amount] : before.locks) difference.locks[bond] -= amount;
    }
    if (!difference.money.is_zero())
        return fail("invariant.supply", "difference " + difference.money.to_hex_quantity());
    if (!difference.watching.is_zero())
        return fail("invariant.watch_bonds", "difference " + difference.watching.to_hex_quantity());
    for (const auto& [bond, amount] : difference.locks)
        if (!amount.is_zero())
            return fail("invariant.lock_sum", std::string(types::to_string(bond.first)) + " " + to_hex(bond.second) +
                                                  ", difference " + amount.to_hex_quantity());
    return {};
}

}  // namespace quern::chain::exec::invariants
