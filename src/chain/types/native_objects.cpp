#include "chain/types/native_objects.h"

namespace quern::chain::types {
namespace {

Bytes pair_key(ObjectPrefix prefix, const Address& first, const Address& second) {
    Bytes key = object_key(prefix, first);
    append(key, second);
    return key;
}

}  // namespace

Bytes object_key(ObjectPrefix prefix, BytesView id) {
    Bytes key;
    key.reserve(1 + id.size());
    key.push_back(static_cast<std::uint8_t>(prefix));
    append(key, id);
    return key;
}

Bytes object_key(ObjectPrefix prefix, std::uint64_t id) {
    std::array<std::uint8_t, 8> big_endian;
    for (std::size_t i = 0; i < 8; ++i) big_endian[i] = static_cast<std::uint8_t>(id >> (56 - 8 * i));
    return object_key(prefix, BytesView(big_endian));
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

Bytes KeyOf<ChallengeCommitment>::at(std::uint64_t task, const Address& challenger, const Hash32& commitment) {
    Bytes key = all(task);
    append(key, challenger);
    append(key, commitment);
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

const char* to_string(TaskState state) {
    switch (state) {
        case TaskState::open:
            return "open";
        case TaskState::assigned:
            return "assigned";
        case TaskState::training:
            return "training";
        case TaskState::proved:
            return "proved";
        case TaskState::custody:
            return "custody";
        case TaskState::committing:
            return "committing";
        case TaskState::revealing:
            return "revealing";
        case TaskState::challenge:
            return "challenge";
        case TaskState::disputed:
            return "disputed";
        case TaskState::settled:
            return "settled";
        case TaskState::cancelled:
            return "cancelled";
        case TaskState::expired:
            return "expired";
        case TaskState::failed:
            return "failed";
    }
    return "unknown";
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
