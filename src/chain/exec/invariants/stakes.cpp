#include <map>

#include "chain/exec/invariants/invariants.h"

namespace quern::chain::exec::invariants {
namespace {

using types::ObjectPrefix;

struct Balance {  // of one validator: what its delegations and its record gained in shares
    Uint256 delegated;
    Uint256 counted;
};
using Balances = std::map<types::Address, Balance>;

// Sums wrap modulo 2^256, which is exact for differences.
Status add(Balances& balances, BytesView key, const std::optional<Bytes>& value, bool after) {
    if (!value) return {};
    const auto move = [after](Uint256& sum, const Uint256& shares) { sum = after ? sum + shares : sum - shares; };
    if (key[0] == static_cast<std::uint8_t>(ObjectPrefix::stake_delegation)) {
        QUERN_TRY(const auto delegation, types::decode_record<types::StakeDelegation>(*value));
        move(balances[delegation.validator].delegated, delegation.shares);
    } else if (key[0] == static_cast<std::uint8_t>(ObjectPrefix::validator)) {
        QUERN_TRY(const auto validator, types::decode_record<types::ValidatorObject>(*value));
        move(balances[validator.address].counted, validator.shares);
    }
    return {};
}

Status check_validator(const state::Overlay& state, const params::StakingParams& staking,
                       const types::ValidatorObject& validator) {
    if (validator.shares.is_zero() && !validator.stake.is_zero())
        return fail("invariant.stake_shares", to_hex(validator.address) + " holds what belongs to nobody");
    const bool ranked = !validator.tombstoned && validator.stake >= staking.min_validator_stake;
    if (state.native(types::rank_key(validator.stake, validator.address)).has_value() != ranked)
        return fail("invariant.stake_rank", to_hex(validator.address));
    return {};
}

// A rank that was written must be its validator's present one: none is left behind.
Status check_rank(const state::Overlay& state, BytesView key, BytesView value) {
    QUERN_TRY(const auto entry, types::decode_record<types::CommitteeEntry>(value));
    QUERN_TRY(const auto validator, state.load<types::ValidatorObject>(types::Address::copy_of(key.last(20))));
    if (!validator || validator->tombstoned || validator->stake != entry.weight ||
        validator->public_key != entry.public_key)
        return fail("invariant.stake_rank", to_hex(key));
    return {};
}

}  // namespace

Status check_stakes(const state::Overlay& state, const params::StakingParams& staking) {
    Balances balances;
    for (const auto& [key, value] : state.changed_native()) {
        if (key.empty()) continue;
        QUERN_CHECK(add(balances, key, value, true));
        QUERN_CHECK(add(balances, key, state.base().native(key), false));
        if (!value) continue;
        if (key[0] == static_cast<std::uint8_t>(ObjectPrefix::validator)) {
            QUERN_TRY(const auto validator, types::decode_record<types::ValidatorObject>(*value));
            QUERN_CHECK(check_validator(state, staking, validator));
        } else if (key[0] == static_cast<std::uint8_t>(ObjectPrefix::validator_rank)) {
            QUERN_CHECK(check_rank(state, key, *value));
        }
    }
    for (const auto& [address, balance] : balances)
        if (balance.delegated != balance.counted) return fail("invariant.stake_shares", to_hex(address));
    return {};
}

}  // namespace quern::chain::exec::invariants
