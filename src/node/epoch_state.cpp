#include "node/epoch_state.h"

namespace quern::node {

namespace types = chain::types;
namespace consensus = chain::consensus;

Expected<consensus::Committee> committee_of_epoch(const chain::state::StateReader& state, std::uint64_t) {
    std::vector<types::ValidatorObject> validators;
    for (const auto& [key, value] :
         state.native_range(types::object_key(types::ObjectPrefix::validator), {}, consensus::kMaxCommittee)) {
        QUERN_TRY(auto validator, types::decode_record<types::ValidatorObject>(value));
        validators.push_back(std::move(validator));
    }
    return consensus::Committee::from_validators(validators);
}

Expected<consensus::sdbft::EpochSetup> read_epoch_setup(const chain::state::StateReader& state, std::uint64_t epoch) {
    QUERN_TRY(auto committee, committee_of_epoch(state, epoch));
    QUERN_TRY(const auto next, committee_of_epoch(state, epoch + 1));
    return consensus::sdbft::EpochSetup{epoch, std::move(committee), next.hash(), Hash32{}};
}

}  // namespace quern::node
