// stake_*: validators and role bonds.
#include "chain/market/shares.h"
#include "rpc/methods/backend.h"
#include "rpc/methods/market_json.h"

namespace quern::rpc::methods {
namespace {

namespace types = chain::types;

// All objects under a prefix, at most kMaxScan, as `show` makes them; keys are of any form.
template <types::Record T, class Show>
Expected<json::Array> all_under(const chain::api::StateView& state, const Bytes& prefix, Show&& show) {
    json::Array result;
    Bytes start;
    while (result.size() < kMaxScan) {
        const auto page = state.native_range(prefix, start, kScanPage);
        for (const auto& [key, value] : page) {
            QUERN_TRY(const T record, types::decode_record<T>(value));
            result.push_back(show(record));
            start = key;
        }
        if (page.size() < kScanPage) break;
        start.push_back(0);  // the next key after the last one
    }
    return result;
}

Result validators(const Backend& backend) {
    QUERN_RPC_TRY(const auto state, backend.chain->state({}));
    Uint256 total;
    QUERN_RPC_TRY(auto list, all_under<types::ValidatorObject>(*state, types::prefix_of<types::ValidatorObject>(),
                                                               [&](const types::ValidatorObject& validator) {
                                                                   total += validator.stake;
                                                                   return types::to_json(validator);
                                                               }));
    return json::Value::object({{"validators", std::move(list)}, {"totalStake", quantity(total)}});
}

// The address filter of a call, if it has one.
std::optional<types::Address> filter_of(const Call& call) {
    return call.has(0) ? std::optional(call.address(0)) : std::nullopt;
}

Expected<std::optional<types::ValidatorObject>> validator_at(const chain::api::StateView& state,
                                                             const types::Address& address) {
    return read_object<types::ValidatorObject>(state, address);
}

Result validator(const Backend& backend, const Call& call) {
    QUERN_RPC_TRY(const auto state, backend.chain->state({}));
    QUERN_RPC_TRY(const auto record, validator_at(*state, call.address(0)));
    return record ? types::to_json(*record) : json::Value();
}

Result delegations(const Backend& backend, const Call& call) {
    QUERN_RPC_TRY(const auto state, backend.chain->state({}));
    const auto filter = filter_of(call);
    Status broken;
    QUERN_RPC_TRY(
        auto all,
        all_under<types::StakeDelegation>(
            *state, types::prefix_of<types::StakeDelegation>(), [&](const types::StakeDelegation& delegation) {
                if (filter && delegation.validator != *filter && delegation.delegator != *filter) return json::Value();
                const auto pool = validator_at(*state, delegation.validator);
                if (!pool) {
                    broken = fail(pool.error());
                    return json::Value();
                }
                json::Value object = types::to_json(delegation);
                object.set("value", quantity(*pool ? chain::market::value_of(**pool, delegation.shares) : Uint256()));
                return object;
            }));
    if (!broken) return rpc_fail(kServerError, broken.error().to_string());
    std::erase_if(all, [](const json::Value& item) { return item.is_null(); });
    return all;
}

Result unbondings(const Backend& backend, const Call& call) {
    QUERN_RPC_TRY(const auto state, backend.chain->state({}));
    const auto filter = filter_of(call);
    QUERN_RPC_TRY(auto all,
                  all_under<types::StakeUnbonding>(
                      *state, types::prefix_of<types::StakeUnbonding>(), [&](const types::StakeUnbonding& unbonding) {
                          if (filter && unbonding.validator != *filter && unbonding.delegator != *filter)
                              return json::Value();
                          return types::to_json(unbonding);
                      }));
    std::erase_if(all, [](const json::Value& item) { return item.is_null(); });
    return all;
}

Result epoch(const Backend& backend, const Call& call) {
    const auto head = backend.chain->block({});
    if (!head) return rpc_fail(kServerError, "chain.no_head");
    const std::uint64_t number = call.number_or(0, head->block.header.consensus.epoch);
    QUERN_RPC_TRY(const auto state, backend.chain->state({}));
    QUERN_RPC_TRY(const auto record, read_object<types::EpochObject>(*state, number));
    if (!record) return json::Value();
    Uint256 total;
    json::Array members;
    for (const auto& member : record->members) {
        const auto key = FixedBytes<64>::from_view(member.public_key);
        if (!key) return rpc_fail(kServerError, "state.corrupt_object");
        total += member.weight;
        json::Value object = types::to_json(member);
        object.set("address", types::to_checksum_address(types::address_of(crypto::PublicKey{*key})));
        members.push_back(std::move(object));
    }
    return json::Value::object({{"epoch", number},
                                {"seed", to_hex0x(record->seed)},
                                {"seeded", !record->seed.is_zero()},
                                {"totalWeight", quantity(total)},
                                {"members", std::move(members)}});
}

Result roles(const Backend& backend, const Call& call) {
    QUERN_RPC_TRY(const auto state, backend.chain->state({}));
    Bytes prefix = types::prefix_of<types::RoleBond>();
    std::optional<types::Address> address;
    if (call.has(0)) {
        if (const auto read = read_address(call.value(0))) {
            address = *read;
        } else if (const auto role = role_from(call.value(0))) {
            prefix.push_back(static_cast<std::uint8_t>(*role));
        } else {
            return rpc_fail(kInvalidParams, "invalid argument 0 (filter): neither an address nor a role");
        }
    }
    json::Array result;
    QUERN_RPC_TRY(auto all, all_under<types::RoleBond>(*state, prefix, [&](const types::RoleBond& bond) {
                      return !address || bond.address == *address ? role_bond_json(bond) : json::Value();
                  }));
    for (json::Value& bond : all)
        if (!bond.is_null()) result.push_back(std::move(bond));
    return result;
}

}  // namespace

Status add_stake_methods(Registry& registry, const Backend& backend) {
    QUERN_CHECK(registry.add({"stake_validators",
                              "The validators and their stakes.",
                              {},
                              {"object",
                               "validators: address, publicKey, stake, shares, owner, tombstoned and the conviction; "
                               "totalStake"},
                              {},
                              {},
                              [backend](const Call&) -> Result { return validators(backend); }}));
    QUERN_CHECK(registry.add({"stake_validator",
                              "One validator's pool of stake.",
                              {{"validator", Kind::address, true, "address of its key"}},
                              {"object", "as in stake_validators; null when there is none"},
                              {},
                              {},
                              [backend](const Call& call) -> Result { return validator(backend, call); }}));
    QUERN_CHECK(registry.add({"stake_delegations",
                              "Who has staked how much for whom.",
                              {{"filter", Kind::address, false, "a validator or a delegator"}},
                              {"array", "validator, delegator, shares, value: what the shares are worth now"},
                              {},
                              {},
                              [backend](const Call& call) -> Result { return delegations(backend, call); }}));
    QUERN_CHECK(
        registry.add({"stake_unbondings",
                      "Stake on its way out.",
                      {{"filter", Kind::address, false, "a validator or a delegator"}},
                      {"array",
                       "validator, delegator, entries: amount, epoch, maturesAt (height), slashed (it left after "
                       "a conviction of the validator and does not answer for it)"},
                      {},
                      {},
                      [backend](const Call& call) -> Result { return unbondings(backend, call); }}));
    QUERN_CHECK(
        registry.add({"stake_epoch",
                      "The committee of an epoch: the present one, the next two, or one of the evidence window.",
                      {{"epoch", Kind::number, false, "its number; the newest block's when left out"}},
                      {"object",
                       "epoch, seed (zero while seeded is false), totalWeight, members: publicKey, weight, "
                       "address; null when it is not known"},
                      {},
                      {},
                      [backend](const Call& call) -> Result { return epoch(backend, call); }}));
    return registry.add({"stake_roles",
                         "Bonds of solvers, verifiers, whistleblowers and custodians.",
                         {{"filter", Kind::any, false, "an address, or a role by name or number"}},
                         {"array",
                          "address, role, roleName, bonded, locked, free, unbonding, faults, games, capacity: "
                          "stepWork, speedClass, bandwidthClass, memoryMib as declared, 0 where nothing was"},
                         {},
                         {{R"(["solver"])", "[]"}},
                         [backend](const Call& call) -> Result { return roles(backend, call); }});
}

}  // namespace quern::rpc::methods
