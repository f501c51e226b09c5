// evidence: two votes that no honest validator signs both. Convicts their signer: its pool is slashed, and it is never
// in a committee again. Stake that is unbonding is cut when it is withdrawn, so that no number of delegators can make a
// conviction too expensive to execute. evidence_commit: who has shown some blocks before that it had the evidence is
// paid for it, so that a proposer who sees it in the mempool gains nothing by sending the same.
#include "chain/consensus/sdbft/evidence.h"

#include "chain/consensus/sdbft/epoch.h"
#include "chain/exec/handlers/events.h"
#include "chain/exec/handlers/handler.h"
#include "chain/exec/handlers/stake_pool.h"
#include "chain/market/shares.h"
#include "chain/market/storage.h"

namespace quern::chain::exec::handlers {
namespace {

using consensus::sdbft::Evidence;
using types::NativeKind;

struct Offence {
    types::ValidatorObject validator;
    std::uint64_t epoch = 0;
    Uint256 share;  // of the epoch's weight, in 1 / params::kShareUnit
};

// The convict and its share of the committee, without looking at signatures. Errors: evidence.unknown_epoch,
// evidence.too_old, evidence.not_in_committee, evidence.already_convicted.
Expected<Offence> find_offence(const Context& context, const Evidence& evidence) {
    Offence offence;
    offence.epoch = evidence.first.epoch;
    QUERN_TRY(const auto epoch, context.state.load<types::EpochObject>(offence.epoch));
    if (!epoch) return fail("evidence.unknown_epoch", std::to_string(offence.epoch));
    const consensus::sdbft::EpochHeights heights(context.params.epoch_length);
    if (context.height > heights.last(offence.epoch) + context.params.staking.unbonding_blocks)
        return fail("evidence.too_old", std::to_string(offence.epoch));
    Uint256 total;
    Uint256 weight;
    for (const auto& member : epoch->members) {
        total += member.weight;
        if (equal(member.public_key, evidence.signer.bytes.view())) weight = member.weight;
    }
    if (weight.is_zero()) return fail("evidence.not_in_committee", std::to_string(offence.epoch));
    QUERN_TRY(offence.validator, load_validator(context, types::address_of(evidence.signer)));
    if (offence.validator.tombstoned) return fail("evidence.already_convicted", to_hex0x(offence.validator.address));
    offence.share = market::share_of(weight, total);
    return offence;
}

// What follows from the share of the weight that was convicted within the window, this one included.
Expected<Uint256> correlation_of(const Context& context, const Offence& offence) {
    const std::uint64_t window = context.params.staking.unbonding_blocks;
    const std::uint64_t since = context.height > window ? context.height - window : 0;
    Uint256 share = offence.share;
    for (const auto& [key, value] :
         context.state.native_range(types::prefix_of<types::Conviction>(), types::KeyOf<types::Conviction>::from(since),
                                    params::kMaxConvictions)) {
        const auto conviction = types::decode_record<types::Conviction>(value);
        if (!conviction) return fault("state.corrupt_object", conviction.error().to_string());
        share += conviction->share;
    }
    return market::correlation_of(share);
}

// The sender's commitment, if it is to this very evidence.
Expected<std::optional<types::EvidenceCommitment>> commitment_to(const Context& context, BytesView evidence) {
    QUERN_TRY(auto stored, context.state.load<types::EvidenceCommitment>(context.sender));
    if (stored && stored->commitment != consensus::sdbft::evidence_commitment(context.sender, evidence)) stored.reset();
    return stored;
}

void erase(Context& context, const types::EvidenceCommitment& commitment) {
    context.state.erase_native(types::key_of<types::EvidenceCommitment>(commitment.reporter));
    pay_account(context, commitment.reporter, commitment.deposit);
    emit(context, types::KindGroup::staking, events::EvidenceReleased{commitment.reporter, commitment.deposit});
}

}  // namespace

Status Handler<NativeKind::evidence>::check_form(const params::MarketParams&, const Payload& data) {
    if (data.evidence.size() > params::kMaxEvidenceBytes) return fail("evidence.too_large");
    QUERN_TRY(const auto evidence, consensus::sdbft::decode_evidence(data.evidence));
    if (!consensus::sdbft::is_slashable_pair(evidence.first, evidence.second)) return fail("evidence.not_slashable");
    return {};
}

struct Handler<NativeKind::evidence>::Prepared {
    Offence offence;
    std::optional<types::EvidenceCommitment> commitment;
};

auto Handler<NativeKind::evidence>::check_state(const Context& context, const Payload& data) -> Expected<Prepared> {
    QUERN_TRY(const auto evidence, consensus::sdbft::decode_evidence(data.evidence));
    QUERN_TRY(auto offence, find_offence(context, evidence));
    QUERN_CHECK(consensus::sdbft::check_evidence(evidence, {context.params.genesis_hash, context.params.chain_id},
                                                 consensus::sdbft::EcdsaScheme()));
    QUERN_TRY(auto commitment, commitment_to(context, data.evidence));
    return Prepared{std::move(offence), std::move(commitment)};
}

Status Handler<NativeKind::evidence>::apply(Context& context, const Payload&, Prepared&& prepared) {
    auto& offence = prepared.offence;
    auto& validator = offence.validator;
    QUERN_TRY(validator.correlation, correlation_of(context, offence));
    validator.tombstoned = true;
    validator.convicted_epoch = offence.epoch;
    validator.convicted_at = context.height;
    if (const auto& commitment = prepared.commitment) {
        if (context.height >= commitment->height + params::kEvidenceCommitBlocks) validator.reporter = context.sender;
        erase(context, *commitment);
    }
    const Uint256 slashed = market::slash_of(context.params.staking, validator, validator.stake);
    validator.stake -= slashed;
    QUERN_CHECK(store_validator(context, validator));
    QUERN_CHECK(distribute_slash(context, validator.reporter, slashed));

    context.state.store(types::key_of<types::Conviction>(context.height, validator.address),
                        types::Conviction{validator.address, offence.epoch, context.height, offence.share});
    emit(context, types::KindGroup::staking,
         events::ValidatorConvicted{validator.address, validator.reporter, offence.epoch, slashed});
    return {};
}

// --- evidence_commit -------------------------------------------------------------------------------------------------

Status Handler<NativeKind::evidence_commit>::check_form(const params::MarketParams&, const Payload&) { return {}; }

struct Handler<NativeKind::evidence_commit>::Prepared {
    std::optional<types::EvidenceCommitment> former;
};

auto Handler<NativeKind::evidence_commit>::check_state(const Context& context, const Payload& data)
    -> Expected<Prepared> {
    QUERN_TRY(auto former, context.state.load<types::EvidenceCommitment>(context.sender));
    if (data.commitment.is_zero() && !former) return fail("evidence.no_commitment", to_hex0x(context.sender));
    return Prepared{std::move(former)};
}

Status Handler<NativeKind::evidence_commit>::apply(Context& context, const Payload& data, Prepared&& prepared) {
    const auto& former = prepared.former;
    if (data.commitment.is_zero()) {
        erase(context, *former);
        return {};
    }
    const Uint256 deposit = former ? former->deposit : market::evidence_deposit(context.market());
    if (!former) QUERN_CHECK(take_from_account(context, context.sender, deposit));
    context.state.store(types::key_of<types::EvidenceCommitment>(context.sender),
                        types::EvidenceCommitment{context.sender, data.commitment, context.height, deposit});
    emit(context, types::KindGroup::staking,
         events::EvidenceCommitted{context.sender, data.commitment, former ? Uint256() : deposit});
    return {};
}

QUERN_DEFINE_RUN(evidence, kNothing)
QUERN_DEFINE_RUN(evidence_commit, data.commitment.is_zero() ? kNothing : market::evidence_deposit(market))

}  // namespace quern::chain::exec::handlers
