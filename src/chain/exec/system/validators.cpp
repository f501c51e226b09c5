#include "chain/exec/system/validators.h"

namespace quern::chain::exec::system {
namespace {

Bytes rank_key(const types::ValidatorObject& validator) { return types::rank_key(validator.stake, validator.address); }

bool is_eligible(const params::StakingParams& staking, const types::ValidatorObject& validator) {
    return !validator.tombstoned && validator.stake >= staking.min_validator_stake;
}

}  // namespace

Expected<std::optional<types::ValidatorObject>> find_validator(const state::Overlay& state,
                                                               const types::Address& address) {
    return state.load<types::ValidatorObject>(address);
}

Status store_validator(const params::StakingParams& staking, state::Overlay& state,
                       const types::ValidatorObject& validator) {
    QUERN_TRY(const auto before, find_validator(state, validator.address));
    const bool was_ranked = before && is_eligible(staking, *before);
    const bool is_ranked = is_eligible(staking, validator);
    if (was_ranked && (!is_ranked || before->stake != validator.stake)) state.erase_native(rank_key(*before));
    if (is_ranked) state.store(rank_key(validator), types::CommitteeEntry{validator.public_key, validator.stake});
    state.store(types::key_of<types::ValidatorObject>(validator.address), validator);
    return {};
}

Expected<std::vector<types::CommitteeEntry>> strongest_validators(const params::StakingParams& staking,
                                                                  const state::StateReader& state) {
    std::map<types::Address, types::CommitteeEntry> by_address;
    for (const auto& [key, value] :
         state.native_range(types::object_key(types::ObjectPrefix::validator_rank), {}, staking.max_validators)) {
        auto entry = types::decode_record<types::CommitteeEntry>(value);
        if (!entry || key.size() != 1 + 32 + 20) return fault("state.corrupt_object", "validator rank");
        by_address[types::Address::copy_of(BytesView(key).last(20))] = std::move(*entry);
    }
    std::vector<types::CommitteeEntry> members;
    members.reserve(by_address.size());
    for (auto& [address, entry] : by_address) members.push_back(std::move(entry));
    return members;
}

}  // namespace quern::chain::exec::system
