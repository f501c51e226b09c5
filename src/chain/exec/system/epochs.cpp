#include "chain/exec/system/epochs.h"

#include "chain/consensus/sdbft/epoch.h"
#include "chain/exec/system/validators.h"

namespace quern::chain::exec::system {
namespace {

Bytes epoch_key(std::uint64_t epoch) { return types::key_of<types::EpochObject>(epoch); }

Status set_seed(state::Overlay& state, std::uint64_t epoch, const Hash32& beacon) {
    QUERN_TRY(auto object, state.load<types::EpochObject>(epoch));
    if (!object) return {};  // a state without a genesis' committees, as tests of execution alone use
    object->seed = beacon;
    state.store(epoch_key(epoch), *object);
    return {};
}

// Convictions that no later one is added to.
Status forget_convictions(state::Overlay& state, std::uint64_t window, std::uint64_t height) {
    for (const auto& [key, value] :
         state.native_range(types::prefix_of<types::Conviction>(), {}, params::kMaxForgottenConvictions)) {
        const auto conviction = types::decode_record<types::Conviction>(value);
        if (!conviction) return fault("state.corrupt_object", conviction.error().to_string());
        if (conviction->height + window >= height) break;
        state.erase_native(key);
    }
    return {};
}

Status freeze_committee(const params::ChainParams& params, state::Overlay& state, std::uint64_t epoch) {
    types::EpochObject next;
    QUERN_TRY(next.members, strongest_validators(params.staking, state));
    if (next.members.empty()) {
        // A chain must have a committee: those who have it now go on rather than nobody.
        QUERN_TRY(const auto previous, state.load<types::EpochObject>(epoch - 1));
        if (!previous) return {};
        next.members = previous->members;
    }
    state.store(epoch_key(epoch), next);
    return {};
}

}  // namespace

Status end_block(const params::ChainParams& params, state::Overlay& state, std::uint64_t height, const Hash32& beacon) {
    const consensus::sdbft::EpochHeights heights(params.epoch_length);
    const std::uint64_t epoch = heights.epoch_of(height);
    if (height == heights.seed_height(epoch)) QUERN_CHECK(set_seed(state, epoch + 1, beacon));
    if (!heights.is_last(height)) return {};
    QUERN_CHECK(freeze_committee(params, state, epoch + 2));
    // The newest epoch whose last block lies more than the evidence window back.
    const std::uint64_t kept = params.staking.unbonding_blocks / params.epoch_length;
    if (epoch > kept) {
        const Bytes old = epoch_key(epoch - kept - 1);
        if (state.native(old)) state.erase_native(old);
    }
    return forget_convictions(state, params.staking.unbonding_blocks, height);
}

}  // namespace quern::chain::exec::system
