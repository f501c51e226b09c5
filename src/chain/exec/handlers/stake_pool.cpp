#include "chain/exec/handlers/stake_pool.h"

#include "chain/consensus/sdbft/epoch.h"
#include "chain/exec/handlers/events.h"
#include "chain/market/shares.h"

namespace quern::chain::exec::handlers {
using types::Address;

Expected<types::ValidatorObject> load_validator(const Context& context, const Address& address) {
    QUERN_TRY(auto validator, system::find_validator(context.state, address));
    if (!validator) return fail("validator.unknown", to_hex0x(address));
    return std::move(*validator);
}

Status store_validator(Context& context, const types::ValidatorObject& validator) {
    return system::store_validator(context.params.staking, context.state, validator);
}

Expected<types::StakeDelegation> load_delegation(const Context& context, const Address& validator,
                                                 const Address& delegator) {
    QUERN_TRY(auto stored, context.state.load<types::StakeDelegation>(validator, delegator));
    return stored.value_or(types::StakeDelegation{validator, delegator, {}});
}

void store_delegation(Context& context, const types::StakeDelegation& delegation) {
    Bytes key = types::key_of<types::StakeDelegation>(delegation.validator, delegation.delegator);
    if (delegation.shares.is_zero())
        context.state.erase_native(key);
    else
        context.state.store(std::move(key), delegation);
}

Expected<types::StakeUnbonding> load_unbonding(const Context& context, const Address& validator,
                                               const Address& delegator) {
    QUERN_TRY(auto stored, context.state.load<types::StakeUnbonding>(validator, delegator));
    return stored.value_or(types::StakeUnbonding{validator, delegator, {}});
}

void store_unbonding(Context& context, const types::StakeUnbonding& unbonding) {
    Bytes key = types::key_of<types::StakeUnbonding>(unbonding.validator, unbonding.delegator);
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
    QUERN_TRY(auto globals, load_globals(context.state));
    if (reporter.is_zero()) {
        globals.treasury_vault += split.reporter;
    } else if (!split.reporter.is_zero()) {
        pay_account(context, reporter, split.reporter);
        emit(context, types::KindGroup::staking, events::EvidenceRewarded{reporter, split.reporter});
    }
    globals.burned += split.burned;
    globals.treasury_vault += split.treasury;
    store_globals(context.state, globals);
    return {};
}

}  // namespace quern::chain::exec::handlers
