#include "chain/exec/system/epoch_reader.h"

namespace quern::chain::exec::system {

namespace {

Expected<types::EpochObject> read_epoch(const state::StateReader& state, std::uint64_t epoch) {
    const auto bytes = state.native(types::key_of<types::EpochObject>(epoch));
    if (!bytes) return fail("epoch.unknown", std::to_string(epoch));
    auto object = types::decode_record<types::EpochObject>(*bytes);
    if (!object) return fault("state.corrupt_object", object.error().to_string());
    return object;
}

}  // namespace

Expected<consensus::Committee> committee_of_epoch(const state::StateReader& state, std::uint64_t epoch) {
    QUERN_TRY(const auto object, read_epoch(state, epoch));
    return consensus::Committee::from_entries(object.members);
}

Expected<consensus::sdbft::EpochSetup> read_epoch_setup(const state::StateReader& state, std::uint64_t epoch) {
    QUERN_TRY(const auto object, read_epoch(state, epoch));
    QUERN_TRY(auto committee, consensus::Committee::from_entries(object.members));
    QUERN_TRY(auto next, committee_of_epoch(state, epoch + 1));
    const Hash32 next_hash = next.hash();
    return consensus::sdbft::EpochSetup{epoch, std::move(committee), next_hash, object.seed, std::move(next)};
}

}  // namespace quern::chain::exec::system
