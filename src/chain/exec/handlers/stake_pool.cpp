#include "chain/exec/handlers/stake_pool.h"

#include <algorithm>

#include "chain/consensus/sdbft/epoch.h"

namespace quern::chain::exec::handlers {
namespace {

using types::Address;
using types::ObjectPrefix;

Bytes pair_key(ObjectPrefix prefix, const Address& validator, const Address& delegator) {
    Bytes id = to_bytes(validator.view());
    append(id, delegator);
    return types::object_key(prefix, id);
}

}  // namespace

Expected<types::ValidatorObject> load_validator(const Context& context, const Address& address) {
    QUERN_TRY(auto validator, system::find_validator(context.state, address));
    if (!validator) return fail("validator.unknown", to_hex0x(address));
    return std::move(*validator);
}

Status store_validator(Context& context, const types::ValidatorObject& validator) {
    return system::store_validator(context.params.staking, context.state, validator);
}

Bytes delegation_key(const Address& validator, const Address& delegator) {
    return pair_key(ObjectPrefix::stake_delegation, validator, delegator);
}

Bytes unbonding_key(const Address& validator, const Address& delegator) {
    return pair_key(ObjectPrefix::stake_unbonding, validator, delegator);
}

Expected<types::StakeDelegation> load_delegation(const Context& context, const Address& validator,
                                                 const Address& delegator) {
    QUERN_TRY(auto stored, context.state.load<types::StakeDelegation>(delegation_key(validator, delegator)));
    return stored.value_or(types::StakeDelegation{validator, delegator, {}});
}

void store_delegation(Context& context, const types::StakeDelegation& delegation) {
    Bytes key = delegation_key(delegation.validator, delegation.delegator);
    if (delegation.shares.is_zero())
        context.state.erase_native(key);
    else
        context.state.store(std::move(key), delegation);
}

Expected<types::StakeUnbonding> load_unbonding(const Context& context, const Address& validator,
                                               const Address& delegator) {
    QUERN_TRY(auto stored, context.state.load<types::StakeUnbonding>(unbonding_key(validator, delegator)));
    return stored.value_or(types::StakeUnbonding{validator, delegator, {}});
}

void store_unbonding(Context& context, const types::StakeUnbonding& unbonding) {
    Bytes key = unbonding_key(unbonding.validator, unbonding.delegator);
    if (unbonding.entries.empty())
        context.state.erase_native(key);
    else
        context.state.store(std::move(key), unbonding);
}

Uint256 value_of(const types::ValidatorObject& validator, const Uint256& shares) {
    if (validator.shares.is_zero()) return {};
    return mul_div(shares, validator.stake, validator.shares).value_or(Uint256());
}

Uint256 shares_for(const types::ValidatorObject& validator, const Uint256& amount) {
    if (validator.shares.is_zero()) return amount;
    if (validator.stake.is_zero()) return {};  // all was slashed: old shares are worth nothing, new ones have no price
    return mul_div(amount, validator.shares, validator.stake).value_or(Uint256());
}

Uint256 shares_to_take(const types::ValidatorObject& validator, const Uint256& owned, const Uint256& amount) {
    const Uint256 down = mul_div(amount, validator.shares, validator.stake).value_or(owned);
    const Uint256 up = value_of(validator, down) < amount ? down + Uint256(1) : down;
    const Uint256 taken = std::min(up, owned);
    const types::ValidatorObject rest = [&] {
        auto after = validator;
        after.shares -= taken;
        after.stake -= amount;
        return after;
    }();
    return value_of(rest, owned - taken).is_zero() ? owned : taken;
}

std::uint64_t matures_at(const params::ChainParams& params, std::uint64_t height) {
    const consensus::sdbft::EpochHeights heights(params.epoch_length);
    return heights.last(heights.epoch_of(height) + 1) + params.staking.unbonding_blocks + 1;
}

Uint256 slash_of(const params::StakingParams& staking, const types::ValidatorObject& validator, const Uint256& amount) {
    const Uint256 first = mul_div(amount, staking.double_sign_slash_per_mille, 1'000).value_or(amount);
    return first + mul_div(amount - first, validator.correlation, kShareUnit).value_or(amount - first);
}

bool is_liable(const types::ValidatorObject& validator, const types::StakeUnbondingEntry& entry) {
    return validator.tombstoned && !entry.slashed && entry.epoch + 1 >= validator.convicted_epoch;
}

Status distribute_slash(Context& context, const Address& reporter, const Uint256& amount) {
    if (amount.is_zero()) return {};
    const Uint256 reward = percent_of(amount, context.params.staking.reporter_percent);
    const Uint256 burned = percent_of(amount, context.market().burn_percent);
    pay_account(context, reporter, reward);
    QUERN_TRY(auto globals, load_globals(context.state));
    globals.burned += burned;
    globals.treasury_vault += amount - reward - burned;
    store_globals(context.state, globals);
    return {};
}

}  // namespace quern::chain::exec::handlers
