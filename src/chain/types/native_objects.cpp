#include "chain/types/native_objects.h"

#include <algorithm>
#include <utility>

#include "base/big_endian.h"

namespace quern::chain::types {
namespace {

// First and last.
constexpr std::pair<std::uint8_t, std::uint8_t> kReservedPrefixes[] = {
    {0x35, 0x35},  // bids
    {0x37, 0x3f},  // rounds, keys, vouchers, as those below
    {0x51, 0x51},  // splits
    {0x53, 0x5f},
};

Bytes pair_key(ObjectPrefix prefix, const Address& first, const Address& second) {
    Bytes key = object_key(prefix, first);
    append(key, second);
    return key;
}

Bytes claim_key(ObjectPrefix prefix, const ClaimId& id) {
    Bytes key = object_key(prefix, id.task);
    append_big_endian(key, id.seat, 2);
    append_big_endian(key, id.stretch, 4);
    append_big_endian(key, id.round, 4);
    return key;
}

}  // namespace

Expected<ObjectPrefix> prefix_of_key(BytesView key) {
    const std::uint8_t number = key.empty() ? 0 : key[0];
    switch (const auto prefix = static_cast<ObjectPrefix>(number)) {
        case ObjectPrefix::globals:
        case ObjectPrefix::beacon:
        case ObjectPrefix::epoch:
        case ObjectPrefix::validator:
        case ObjectPrefix::validator_rank:
        case ObjectPrefix::stake_delegation:
        case ObjectPrefix::stake_unbonding:
        case ObjectPrefix::conviction:
        case ObjectPrefix::evidence_commitment:
        case ObjectPrefix::role_bond:
        case ObjectPrefix::draw_node:
        case ObjectPrefix::draw_table:
        case ObjectPrefix::task:
        case ObjectPrefix::challenge:
        case ObjectPrefix::claim:
        case ObjectPrefix::report:
        case ObjectPrefix::proof:
        case ObjectPrefix::custody:
        case ObjectPrefix::dispute:
        case ObjectPrefix::watch:
            return prefix;
    }
    for (const auto& [first, last] : kReservedPrefixes)
        if (number >= first && number <= last) return fail("object.reserved_prefix", std::to_string(number));
    return fail("object.unknown_prefix", std::to_string(number));
}

Bytes object_key(ObjectPrefix prefix, BytesView id) {
    Bytes key;
    key.reserve(1 + id.size());
    key.push_back(static_cast<std::uint8_t>(prefix));
    append(key, id);
    return key;
}

Bytes object_key(ObjectPrefix prefix, std::uint64_t id) {
    Bytes key = object_key(prefix);
    append_big_endian(key, id, 8);
    return key;
}

Bytes KeyOf<StakeDelegation>::at(const Address& validator, const Address& delegator) {
    return pair_key(kPrefix, validator, delegator);
}

Bytes KeyOf<StakeUnbonding>::at(const Address& validator, const Address& delegator) {
    return pair_key(kPrefix, validator, delegator);
}

Bytes KeyOf<Conviction>::at(std::uint64_t height, const Address& validator) {
    Bytes key = from(height);
    append(key, validator);
    return key;
}

Bytes KeyOf<RoleBond>::at(Role role, const Address& address) {
    Bytes key = all(role);
    append(key, address);
    return key;
}

Bytes KeyOf<DrawNode>::at(Role role, std::uint8_t level, std::uint32_t index) {
    Bytes key = object_key(kPrefix, Bytes{static_cast<std::uint8_t>(role), level});
    append_big_endian(key, index, 4);
    return key;
}

Bytes KeyOf<Claim>::at(const ClaimId& id) { return claim_key(kPrefix, id); }

Bytes KeyOf<VerifierReport>::at(const ClaimId& claim, std::uint8_t place) {
    Bytes key = claim_key(kPrefix, claim);
    append_big_endian(key, place, 1);
    return key;
}

Bytes KeyOf<Custody>::at(const ClaimId& claim) { return claim_key(kPrefix, claim); }

Bytes KeyOf<ProofRecord>::at(std::uint64_t task, std::uint16_t seat) {
    Bytes key = object_key(kPrefix, task);
    append_big_endian(key, seat, 2);
    return key;
}

Bytes KeyOf<ChallengeCommitment>::all(const ClaimId& claim) { return claim_key(kPrefix, claim); }

Bytes KeyOf<ChallengeCommitment>::at(const ClaimId& claim, const Address& challenger, const Hash32& commitment) {
    Bytes key = all(claim);
    append(key, challenger);
    append(key, commitment);
    return key;
}

Bytes KeyOf<Watch>::all(const ClaimId& claim) { return claim_key(kPrefix, claim); }

Bytes KeyOf<Watch>::all(const ClaimId& claim, std::uint64_t draw, std::uint8_t report) {
    Bytes key = all(claim);
    append_big_endian(key, draw, 8);
    append_big_endian(key, report, 1);
    return key;
}

Bytes KeyOf<Watch>::at(const ClaimId& claim, std::uint64_t draw, std::uint8_t report, const Address& watcher) {
    Bytes key = all(claim, draw, report);
    append(key, watcher);
    return key;
}

Bytes rank_key(const Uint256& stake, const Address& validator) {
    Bytes key = object_key(ObjectPrefix::validator_rank, (~Uint256() - stake).to_be32());
    append(key, validator);
    return key;
}

const char* to_string(DisputeWinner winner) {
    switch (winner) {
        case DisputeWinner::none:
            return "none";
        case DisputeWinner::defender:
            return "defender";
        case DisputeWinner::rival:
            return "rival";
        case DisputeWinner::neither:
            return "neither";
    }
    return "unknown";
}

const char* to_string(ReportChoice choice) {
    switch (choice) {
        case ReportChoice::sealed:
            return "sealed";
        case ReportChoice::truth:
            return "truth";
        case ReportChoice::forced:
            return "forced";
    }
    return "unknown";
}

const char* to_string(TaskState state) {
    switch (state) {
        case TaskState::open:
            return "open";
        case TaskState::assigned:
            return "assigned";
        case TaskState::running:
            return "running";
        case TaskState::settled:
            return "settled";
        case TaskState::failed:
            return "failed";
        case TaskState::expired:
            return "expired";
        case TaskState::cancelled:
            return "cancelled";
        case TaskState::profiling:
            return "profiling";
    }
    return "unknown";
}

const char* to_string(ClaimState state) {
    switch (state) {
        case ClaimState::none:
            return "none";
        case ClaimState::working:
            return "working";
        case ClaimState::proved:
            return "proved";
        case ClaimState::custody:
            return "custody";
        case ClaimState::committing:
            return "committing";
        case ClaimState::revealing:
            return "revealing";
        case ClaimState::challenge:
            return "challenge";
        case ClaimState::disputed:
            return "disputed";
        case ClaimState::opening:
            return "opening";
        case ClaimState::jackpots:
            return "jackpots";
        case ClaimState::settled:
            return "settled";
        case ClaimState::voided:
            return "void";
    }
    return "unknown";
}

std::vector<ClaimId> unsettled_claims(const Task& task) {
    std::vector<ClaimId> claims;
    if (task.seats.empty()) return claims;
    for (std::uint32_t stretch = task.settled; stretch < task.seats[0].stretches; ++stretch) {
        if (claims.size() == kMaxUnsettled) break;
        claims.push_back({task.id, 0, stretch, task.round});
    }
    return claims;
}

std::optional<ClaimId> present_claim(const Task& task) {
    if (const auto claims = unsettled_claims(task); !claims.empty()) return claims.front();
    if (task.state != TaskState::settled || task.settled == 0) return std::nullopt;
    return ClaimId{task.id, 0, task.settled - 1, task.round};
}

std::optional<ClaimId> next_claim(const Task& task) {
    const auto claims = unsettled_claims(task);
    return claims.size() < 2 ? std::nullopt : std::optional(claims[1]);
}

const char* to_string(Role role) {
    switch (role) {
        case Role::solver:
            return "solver";
        case Role::verifier:
            return "verifier";
        case Role::whistleblower:
            return "whistleblower";
        case Role::custodian:
            return "custodian";
        case Role::relay:
            return "relay";
    }
    return "unknown";
}

std::optional<Role> role_named(std::string_view name) {
    for (const Role role : kRoles)
        if (name == to_string(role)) return role;
    return std::nullopt;
}

}  // namespace quern::chain::types
