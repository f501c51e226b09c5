#include "chain/consensus/single_validator.h"

#include <algorithm>

namespace quern::chain::consensus {
namespace {
std::vector<Action> halt(Error error) { return {action::Halt{std::move(error)}}; }
}  // namespace

SingleValidator::SingleValidator(SingleValidatorSetup setup, crypto::PrivateKey key)
    : setup_(std::move(setup)), key_(std::move(key)), beacon_(key_) {}

Expected<SingleValidator> SingleValidator::make(SingleValidatorSetup setup, crypto::PrivateKey key) {
    const auto public_key = crypto::derive_public(key);
    SingleValidator engine(std::move(setup), std::move(key));
    const auto& members = engine.setup_.committee.members();
    engine.index_ = engine.setup_.committee.index_of(public_key);
    if (engine.index_ == members.size())
        return fail("consensus.not_a_validator",
                    "the key of " + to_hex0x(crypto::address20(public_key)) + " is not in the chain's committee");
    if (!engine.setup_.committee.is_quorum(members[engine.index_].weight))
        return fail("consensus.no_quorum_alone", "the committee needs more validators to agree");
    return engine;
}

std::vector<Action> SingleValidator::step(const Event& event, const Time& now) {
    if (const auto* wait = std::get_if<event::TransactionsWait>(&event)) transactions_wait_ = wait->waiting;
    switch (phase_) {
        case Phase::stopped:
            if (std::holds_alternative<event::Started>(event)) return start(now);
            break;
        case Phase::idle:
            return propose_or_wait(now);
        case Phase::building:
            if (const auto* built = std::get_if<event::Built>(&event)) return store(built->block);
            break;
        case Phase::storing:
            if (std::holds_alternative<event::Stored>(event)) return finalize();
            break;
        case Phase::validating:
            if (std::holds_alternative<event::Validated>(event)) return finalize();
            break;
        case Phase::committing:
            if (const auto* committed = std::get_if<event::Committed>(&event)) {
                setup_.tip = committed->tip;
                last_block_at_ = now.monotonic_ms;
                phase_ = Phase::idle;
                return propose_or_wait(now);
            }
            break;
    }
    return {};
}

std::vector<Action> SingleValidator::start(const Time& now) {
    last_block_at_ = now.monotonic_ms;
    const auto& tip = setup_.tip;
    const auto tip_position = std::pair(tip.epoch, tip.view);
    if (!setup_.last_signed) {
        if (tip.number != 0 && !setup_.accept_missing_journal)
            return halt({"consensus.no_safety_journal",
                         "the chain is at block " + std::to_string(tip.number) +
                             " but there is no record of what this key signed; see doc/operations.md"});
    } else if (setup_.last_signed->position() < tip_position && !setup_.accept_missing_journal) {
        return halt({"consensus.journal_behind", "the safety journal is older than the chain; see doc/operations.md"});
    } else if (setup_.last_signed->position() > tip_position) {
        // Signed, but not committed before the process ended: the same bytes again.
        if (setup_.last_signed->number != tip.number + 1)
            return halt({"consensus.journal_ahead", "block " + std::to_string(setup_.last_signed->number) +
                                                        " was signed, the chain ends at " +
                                                        std::to_string(tip.number)});
        proposal_ = setup_.last_signed;
        phase_ = Phase::validating;
        return {action::Validate{proposal_->block}};
    }
    phase_ = Phase::idle;
    return propose_or_wait(now);
}

std::vector<Action> SingleValidator::propose_or_wait(const Time& now) {
    const auto& params = setup_.params;
    const std::uint64_t due = last_block_at_ + (transactions_wait_ ? params.min_block_ms : params.max_idle_ms);
    if (now.monotonic_ms < due) return {action::WakeAt{due}};
    // Others accept a time up to kMaxFutureMs ahead of their clocks; a wall clock that jumped back further is waited
    // for.
    const std::uint64_t timestamp = std::max(now.wall_ms, setup_.tip.timestamp_ms + 1);
    if (timestamp > now.wall_ms + params::kMaxFutureMs)
        return {action::WakeAt{now.monotonic_ms + (timestamp - now.wall_ms - params::kMaxFutureMs)}};
    const Hash32 beacon = next_beacon(setup_.tip.beacon, beacon_.output(setup_.tip.beacon));
    request_ = BuildRequest{setup_.tip, epoch_of(params, setup_.tip.number + 1), next_view(params, setup_.tip),
                            timestamp, beacon};
    phase_ = Phase::building;
    return {action::Build{*request_}};
}

std::vector<Action> SingleValidator::store(const BuiltBlock& built) {
    proposal_ = SignedProposal{request_->epoch, request_->view, request_->parent.number + 1, built.hash, built.block};
    if (const auto allowed = check_may_sign(setup_.last_signed, *proposal_); !allowed) return halt(allowed.error());
    phase_ = Phase::storing;
    return {action::Store{*proposal_}};
}

std::vector<Action> SingleValidator::finalize() {
    setup_.last_signed = std::move(*proposal_);
    setup_.accept_missing_journal = false;
    const auto& signed_block = *setup_.last_signed;
    const Vote vote{VoteType::finalize, signed_block.epoch, signed_block.view, signed_block.hash};
    phase_ = Phase::committing;
    return {action::Commit{signed_block.block, signed_block.hash,
                           make_certificate(vote, setup_.committee, {{index_, sign_vote(setup_.chain, vote, key_)}})}};
}

}  // namespace quern::chain::consensus
