// create_validator, delegate, undelegate, withdraw_stake: how stake comes to validators and goes from them.
#include <algorithm>

#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/handler.h"
#include "chain/exec/handlers/stake_pool.h"
#include "chain/market/shares.h"
#include "chain/types/validator_proof.h"

namespace quern::chain::exec::handlers {
namespace {

using types::NativeKind;

constexpr std::size_t kKeyBytes = 64;
constexpr std::size_t kProofBytes = 64;

Status check_amount(const Uint256& amount) {
    if (amount.is_zero()) return fail("stake.zero_amount");
    return {};
}

Expected<types::Address> address_of_key(const Bytes& public_key) {
    const auto key = FixedBytes<kKeyBytes>::from_view(public_key);
    if (!key) return fail("validator.bad_key", "expected 64 bytes");
    return types::address_of(crypto::PublicKey{*key});
}

// Whether an unbonding of this height goes into an entry that is there: those of one epoch mature together.
bool joins(const types::StakeUnbondingEntry& entry, const types::StakeUnbondingEntry& fresh) {
    return entry.matures_at == fresh.matures_at && entry.slashed == fresh.slashed;
}

types::StakeUnbondingEntry entry_of(const Context& context, const types::ValidatorObject& validator,
                                    const Uint256& amount) {
    return {amount, context.height / context.params.epoch_length, matures_at(context.params, context.height),
            validator.tombstoned};
}

// Takes the amount from the sender and gives it shares; the caller stores the validator.
Status deposit(Context& context, types::ValidatorObject& validator, const Uint256& amount) {
    QUERN_CHECK(take_from_account(context, context.sender, amount));
    QUERN_TRY(auto delegation, load_delegation(context, validator.address, context.sender));
    const Uint256 shares = market::shares_for(validator, amount);
    delegation.shares += shares;
    validator.shares += shares;
    validator.stake += amount;
    store_delegation(context, delegation);
    emit(context, types::KindGroup::staking, events::Delegated{validator.address, context.sender, amount});
    return {};
}

}  // namespace

Status Handler<NativeKind::create_validator>::check_form(const params::MarketParams&, const Payload& data) {
    if (data.public_key.size() != kKeyBytes) return fail("validator.bad_key", "expected 64 bytes");
    if (data.proof.size() != kProofBytes) return fail("validator.bad_proof", "expected 64 bytes");
    return check_amount(data.amount);
}

struct Handler<NativeKind::create_validator>::Prepared {
    types::Address address;
};

auto Handler<NativeKind::create_validator>::check_state(const Context& context, const Payload& data)
    -> Expected<Prepared> {
    if (data.amount < context.params.staking.min_validator_stake)
        return fail("stake.below_minimum", context.params.staking.min_validator_stake.to_decimal());
    QUERN_CHECK(check_balance(context, data.amount));
    QUERN_TRY(const auto address, address_of_key(data.public_key));
    QUERN_TRY(const auto existing, system::find_validator(context.state, address));
    if (existing) return fail("validator.exists", to_hex0x(address));
    QUERN_CHECK(types::check_validator_proof(context.params.chain_id, context.sender, data.public_key, data.proof));
    return Prepared{address};
}

Status Handler<NativeKind::create_validator>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    types::ValidatorObject validator;
    validator.address = prepared.address;
    validator.public_key = data.public_key;
    validator.owner = context.sender;
    emit(context, types::KindGroup::staking, events::ValidatorCreated{validator.address, validator.owner, data.amount});
    QUERN_CHECK(deposit(context, validator, data.amount));
    return store_validator(context, validator);
}

Status Handler<NativeKind::delegate>::check_form(const params::MarketParams&, const Payload& data) {
    return check_amount(data.amount);
}

struct Handler<NativeKind::delegate>::Prepared {
    types::ValidatorObject validator;
};

auto Handler<NativeKind::delegate>::check_state(const Context& context, const Payload& data) -> Expected<Prepared> {
    QUERN_CHECK(check_balance(context, data.amount));
    QUERN_TRY(auto validator, load_validator(context, data.validator));
    if (validator.tombstoned) return fail("validator.tombstoned", to_hex0x(data.validator));
    if (market::shares_for(validator, data.amount).is_zero())
        return fail("stake.too_small", "worth less than one share");
    return Prepared{std::move(validator)};
}

Status Handler<NativeKind::delegate>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& validator = prepared.validator;
    QUERN_CHECK(deposit(context, validator, data.amount));
    return store_validator(context, validator);
}

Status Handler<NativeKind::undelegate>::check_form(const params::MarketParams&, const Payload& data) {
    return check_amount(data.amount);
}

struct Handler<NativeKind::undelegate>::Prepared {
    types::ValidatorObject validator;
    types::StakeDelegation delegation;
    types::StakeUnbonding unbonding;
};

auto Handler<NativeKind::undelegate>::check_state(const Context& context, const Payload& data) -> Expected<Prepared> {
    QUERN_TRY(auto validator, load_validator(context, data.validator));
    QUERN_TRY(auto delegation, load_delegation(context, data.validator, context.sender));
    const Uint256 value = market::value_of(validator, delegation.shares);
    if (value < data.amount)
        return fail("stake.insufficient", "staked " + value.to_decimal() + ", asked " + data.amount.to_decimal());
    QUERN_TRY(auto unbonding, load_unbonding(context, data.validator, context.sender));
    const auto fresh = entry_of(context, validator, data.amount);
    const bool joined = std::any_of(unbonding.entries.begin(), unbonding.entries.end(),
                                    [&](const auto& entry) { return joins(entry, fresh); });
    if (!joined && unbonding.entries.size() >= context.params.staking.max_unbonding_entries)
        return fail("stake.too_many_unbondings", "withdraw first");
    return Prepared{std::move(validator), std::move(delegation), std::move(unbonding)};
}

Status Handler<NativeKind::undelegate>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    auto& [validator, delegation, unbonding] = prepared;
    const Uint256 shares = market::shares_to_take(validator, delegation.shares, data.amount);
    // With the last share goes what rounding had left in the pool.
    const Uint256 amount = shares == validator.shares ? validator.stake : data.amount;
    const auto left_shares = checked_sub(validator.shares, shares);
    const auto left_stake = checked_sub(validator.stake, amount);
    const auto kept = checked_sub(delegation.shares, shares);
    if (!left_shares || !left_stake || !kept) return fail("stake.insufficient");
    validator.shares = *left_shares;
    validator.stake = *left_stake;
    delegation.shares = *kept;
    store_delegation(context, delegation);
    QUERN_CHECK(store_validator(context, validator));

    const auto fresh = entry_of(context, validator, amount);
    const auto entry = std::find_if(unbonding.entries.begin(), unbonding.entries.end(),
                                    [&](const auto& other) { return joins(other, fresh); });
    if (entry != unbonding.entries.end())
        entry->amount += amount;
    else
        unbonding.entries.push_back(fresh);
    store_unbonding(context, unbonding);
    emit(context, types::KindGroup::staking,
         events::Undelegated{data.validator, context.sender, amount, fresh.matures_at});
    return {};
}

Status Handler<NativeKind::withdraw_stake>::check_form(const params::MarketParams&, const Payload&) { return {}; }

struct Handler<NativeKind::withdraw_stake>::Prepared {
    types::StakeUnbonding unbonding;
};

auto Handler<NativeKind::withdraw_stake>::check_state(const Context& context, const Payload& data)
    -> Expected<Prepared> {
    QUERN_TRY(auto unbonding, load_unbonding(context, data.validator, data.delegator));
    for (const auto& entry : unbonding.entries)
        if (entry.matures_at <= context.height) return Prepared{std::move(unbonding)};
    return fail("stake.nothing_to_withdraw");
}

Status Handler<NativeKind::withdraw_stake>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    QUERN_TRY(const auto validator, load_validator(context, data.validator));
    auto& unbonding = prepared.unbonding;
    std::vector<types::StakeUnbondingEntry> waiting;
    Uint256 paid;
    Uint256 slashed;
    for (const auto& entry : unbonding.entries) {
        if (entry.matures_at > context.height) {
            waiting.push_back(entry);
            continue;
        }
        const Uint256 cut = market::is_liable(validator, entry)
                                ? market::slash_of(context.params.staking, validator, entry.amount)
                                : Uint256();
        slashed += cut;
        paid += entry.amount - cut;
    }
    unbonding.entries = std::move(waiting);
    store_unbonding(context, unbonding);
    pay_account(context, data.delegator, paid);
    QUERN_CHECK(distribute_slash(context, validator.reporter, slashed));
    emit(context, types::KindGroup::staking, events::StakeWithdrawn{data.validator, data.delegator, paid, slashed});
    return {};
}

QUERN_DEFINE_RUN(create_validator, data.amount)
QUERN_DEFINE_RUN(delegate, data.amount)
QUERN_DEFINE_RUN(undelegate, kNothing)
QUERN_DEFINE_RUN(withdraw_stake, kNothing)

}  // namespace quern::chain::exec::handlers
