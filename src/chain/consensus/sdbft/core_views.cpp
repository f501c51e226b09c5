// Votes, certificates and the passage from view to view (rules 3 to 5 and 8).
#include "chain/consensus/sdbft/core.h"

namespace quern::chain::consensus::sdbft {

Core::ViewState& Core::view_state(std::uint64_t view) {
    return views_.try_emplace(view, epoch_.epoch, view).first->second;
}

const Core::ViewState* Core::find_view(std::uint64_t view) const {
    const auto found = views_.find(view);
    return found == views_.end() ? nullptr : &found->second;
}

bool Core::is_quorum(const ViewVotes::Tally& tally) const {
    if (config_.hooks.has(PlantedBug::quorum_by_members))
        return 3 * tally.members > 2 * epoch_.committee.members().size();
    if (config_.hooks.has(PlantedBug::weak_quorum_finalizes)) return epoch_.committee.is_weak_quorum(tally.weight);
    return epoch_.committee.is_quorum(tally.weight);
}

void Core::on_vote(PeerId peer, const VoteMessage& message) {
    const Vote& vote = message.vote;
    if (vote.view == 0 || vote.view > view_ + config_.limits.future_views) return;
    if (vote.view + config_.limits.kept_final_views < last_final_view_ ||
        vote.view + config_.limits.kept_vote_views < view_) {
        hear_late(peer, message);
        return help(peer, false);
    }
    const auto& members = epoch_.committee.members();
    if (message.member >= members.size())
        return misbehaved(peer, Wrong::consensus, {"sdbft.unknown_member", std::to_string(message.member)});
    ViewState& state = view_state(vote.view);
    const auto* known = state.votes.of(vote.type, message.member);
    const bool is_known = known != nullptr && known->hash == vote.hash;
    if (!is_known) {
        if (state.convicted.contains(message.member) && known != nullptr) return;
        if (!verified_ && config_.hooks.checks(PlantedBug::unsigned_vote) &&
            !scheme_.verify(vote_digest(config_.chain, vote), message.signature, members[message.member].key))
            return misbehaved(peer, Wrong::consensus, {"sdbft.bad_signature", describe(Message(message))});
        check_own_key({vote, message.signature}, message.member);
    }
    // Whoever repeats votes of a view that is long over needs what ended it.
    if (vote.view + 2 <= view_) help(peer, false);
    if (!is_known) count_vote(vote, message.member, message.signature);
}

void Core::count_vote(const Vote& vote, std::size_t member, const Signature& signature) {
    ViewState& state = view_state(vote.view);
    hear(vote, member, signature);
    if (auto evidence = state.votes.add(epoch_.committee, vote, member, signature))
        if (state.convicted.insert(member).second) actions_.push_back(action::Convict{std::move(*evidence)});
    if (vote.type == VoteType::propose) return;
    const auto tally = state.votes.tally(epoch_.committee, vote.type, vote.hash);
    if (vote.type == VoteType::nullify && epoch_.committee.is_weak_quorum(tally.weight)) {
        if (vote.view == view_) nullify();
        if (vote.view + 1 == view_ && config_.hooks.has(PlantedBug::nullify_after_finalize) && may_sign() &&
            has_signed(VoteType::finalize, vote.view) && !has_signed(VoteType::nullify, vote.view))
            cast(VoteType::nullify, vote.view, {});
    }
    // The state may have moved on inside nullify(): look again.
    ViewState& now = view_state(vote.view);
    if (!now.certificate(vote.type) && is_quorum(tally))
        (void)accept(now.votes.certificate(epoch_.committee, vote.type, vote.hash), std::nullopt, true);
}

bool Core::accept(const Certificate& certificate, std::optional<PeerId> from, bool verified) {
    if (certificate.epoch != epoch_.epoch || certificate.view == 0 || certificate.type == VoteType::propose)
        return false;
    if (certificate.view + config_.limits.kept_final_views < last_final_view_) return false;
    const ViewState* before = find_view(certificate.view);
    if (before != nullptr) {
        auto& slot = const_cast<ViewState*>(before)->certificate(certificate.type);
        if (slot && slot->hash == certificate.hash) return true;
    }
    if (!verified && config_.hooks.checks(PlantedBug::unsigned_certificate)) {
        const auto checked = check_certificate(certificate, epoch_.committee, config_.chain, scheme_);
        const bool lenient = (config_.hooks.has(PlantedBug::quorum_by_members) ||
                              config_.hooks.has(PlantedBug::weak_quorum_finalizes)) &&
                             !checked && checked.error().name == "certificate.no_quorum";
        if (!checked && !lenient) {
            if (from) misbehaved(*from, Wrong::consensus, checked.error());
            return false;
        }
    }
    ViewState& state = view_state(certificate.view);
    if (const auto signers = signers_of(certificate, epoch_.committee)) {
        for (const auto& [member, signature] : *signers) {
            check_own_key({certificate.vote(), signature}, member);
            hear(certificate.vote(), member, signature);
            if (auto evidence = state.votes.add(epoch_.committee, certificate.vote(), member, signature))
                if (state.convicted.insert(member).second) actions_.push_back(action::Convict{std::move(*evidence)});
        }
    }
    if ((blank_ || adopting_) && listen_until_ms_ && from && listens_left_ > 0) {
        --listens_left_;
        listen_until_ms_ = now_.monotonic_ms + listen_ms_;
    }
    actions_.push_back(action::Keep{certificate});
    auto& slot = state.certificate(certificate.type);
    if (slot) return false;  // two quorums for two blocks of one view: a third of the weight has signed both
    slot = certificate;
    persist({{RecordKind::certificate, encode(certificate)}});
    send_all(CertificateMessage{certificate});
    apply(certificate, from);
    return true;
}

void Core::apply(const Certificate& certificate, std::optional<PeerId>) {
    const std::uint64_t view = certificate.view;
    if (!restoring_ && certificate.type == VoteType::notarize && view >= view_ && may_sign()) {
        const Own* own = find_own(view);
        const bool nullified_it =
            own != nullptr && own->of(VoteType::nullify) && !config_.hooks.has(PlantedBug::finalize_after_nullify);
        const bool notarized_other = own != nullptr && own->of(VoteType::notarize) &&
                                     own->of(VoteType::notarize)->vote.vote.hash != certificate.hash &&
                                     !config_.hooks.has(PlantedBug::finalize_after_sibling);
        const bool finalized_it = own != nullptr && own->of(VoteType::finalize);
        if (!nullified_it && !notarized_other && !finalized_it &&
            above_floor({VoteType::finalize, epoch_.epoch, view, certificate.hash}))
            cast(VoteType::finalize, view, certificate.hash);
    }
    if (certificate.type != VoteType::nullify) {
        if (const auto block = blocks_.find(certificate.hash); block != blocks_.end()) block->second.certified = true;
        if (!known_tip(certificate.hash)) want_block(certificate.hash);
    }
    if (certificate.type == VoteType::finalize ||
        (certificate.type == VoteType::notarize && config_.hooks.has(PlantedBug::commit_on_notarization)))
        on_finalized(certificate);
    // Committing may have closed the epoch.
    if (halted_ || certificate.epoch != epoch_.epoch) return;
    if (view >= view_)
        enter_view(view + 1, &certificate);
    else
        advance();
}

void Core::enter_view(std::uint64_t view, const Certificate* opener) {
    view_ = view;
    if (opener != nullptr) opener_ = *opener;
    building_.reset();
    propose_at_.reset();
    reconsider_at_.reset();
    for (auto& [old, state] : views_) {
        if (old + config_.limits.kept_vote_views >= view_) break;
        state.votes = ViewVotes(epoch_.epoch, old);
        state.proposal.reset();
    }
    if (!started_) return;
    tidy_blocks();
    tidy_journal(false);
    entered_ms_ = now_.monotonic_ms;
    entered_wall_ms_ = now_.wall_ms;
    pacemaker_.enter(view_, last_final_view_, now_.monotonic_ms);
    if (const ViewState* state = find_view(view_)) {
        const auto tally = state->votes.tally(epoch_.committee, VoteType::nullify, {});
        if (epoch_.committee.is_weak_quorum(tally.weight)) nullify();
    }
    advance();
}

const Certificate* Core::notarized(std::uint64_t view) const {
    const ViewState* state = find_view(view);
    if (state == nullptr) return nullptr;
    if (state->notarization) return &*state->notarization;
    return state->finalization ? &*state->finalization : nullptr;
}

bool Core::nullified(std::uint64_t view) const {
    const ViewState* state = find_view(view);
    return state != nullptr && state->nullification.has_value();
}

}  // namespace quern::chain::consensus::sdbft
