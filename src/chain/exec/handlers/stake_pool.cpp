#include "chain/exec/handlers/stake_pool.h"

#include "chain/consensus/sdbft/epoch.h"
#include "chain/market/shares.h"

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

std::uint64_t matures_at(const params::ChainParams& params, std::uint64_t height) {
    const consensus::sdbft::EpochHeights heights(params.epoch_length);
    return heights.last(heights.epoch_of(height) + 1) + params.staking.unbonding_blocks + 1;
}

Status distribute_slash(Context& context, const Address& reporter, const Uint256& amount) {
    if (amount.is_zero()) return {};
    const auto split = market::split_stake_slash(context.params, amount);
    pay_account(context, reporter, split.reporter);
    QUERN_TRY(auto globals, load_globals(context.state));
    globals.burned += split.burned;
    globals.treasury_vault += split.treasury;
    store_globals(context.state, globals);
    return {};
}

}  // namespace quern::chain::exec::handlers
