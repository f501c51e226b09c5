// What this key signs, and what it must never sign: whoever has signed a vote signs none that is not above it. Own
// votes come back from the journal, from the chain's tip, and, where the operator says so, from what others have heard.
#include "chain/consensus/sdbft/core.h"

namespace quern::chain::consensus::sdbft {

static_assert(VoteType::propose < VoteType::notarize && VoteType::notarize < VoteType::nullify &&
              VoteType::nullify < VoteType::finalize);

bool Core::may_sign() const {
    return signer_ != nullptr && index_ < epoch_.committee.members().size() && refuses_because_.empty() && !listening();
}

const Core::Own* Core::find_own(std::uint64_t view) const {
    const auto found = own_.find({epoch_.epoch, view});
    return found == own_.end() ? nullptr : &found->second;
}

bool Core::has_signed(VoteType type, std::uint64_t view) const {
    const Own* own = find_own(view);
    return own != nullptr && own->of(type).has_value();
}

bool Core::can_nullify() const {
    return may_sign() && !has_signed(VoteType::nullify, view_) && !has_signed(VoteType::finalize, view_) &&
           above_floor({VoteType::nullify, epoch_.epoch, view_, {}});
}

bool Core::above_floor(const Vote& vote) const {
    if (!newest_own_ || config_.hooks.lifts_floor()) return true;
    const Vote& newest = newest_own_->vote;
    return position_of(vote) > position_of(newest) && !is_slashable_pair(vote, newest);
}

std::optional<VoteMessage> Core::sign(const Vote& vote) {
    // Whoever calls has looked already. Should that ever be wrong, a node that stops loses less than one that is
    // slashed.
    bool contradicts = !above_floor(vote);
    if (const Own* own = find_own(vote.view); own != nullptr && !config_.hooks.lifts_floor())
        for (const auto& signed_before : own->by_type)
            contradicts = contradicts || (signed_before && is_slashable_pair(vote, signed_before->vote.vote));
    if (contradicts || signer_ == nullptr) {
        halt({"sdbft.contradiction", describe(VoteMessage{vote, index_, {}}), ErrorKind::local_fault});
        return std::nullopt;
    }
    const OwnVote own_vote{vote, signer_->sign(vote_digest(config_.chain, vote))};
    own(vote.view).of(vote.type) = Own::Signed{own_vote, next_sequence_};
    blank_ = false;
    adopting_ = false;
    newest_own_ = own_vote;
    return VoteMessage{vote, index_, own_vote.signature};
}

void Core::cast(VoteType type, std::uint64_t view, const Hash32& hash, std::vector<Record> records) {
    const auto message = sign({type, epoch_.epoch, view, hash});
    if (!message) return;
    records.push_back(record_of(OwnVote{message->vote, message->signature}));
    persist(std::move(records), {encode(Message(*message))}, {*message});
}

void Core::nullify() {
    if (can_nullify()) cast(VoteType::nullify, view_, {});
}

void Core::remember_own(const OwnVote& vote) {
    if (!newest_own_ || position_of(vote.vote) > position_of(newest_own_->vote)) newest_own_ = vote;
}

void Core::adopt(const OwnVote& vote) {
    auto& slot = own_[{vote.vote.epoch, vote.vote.view}].of(vote.vote.type);
    if (slot) return;
    slot = Own::Signed{vote, next_sequence_};
    remember_own(vote);
    persist({record_of(vote)});
}

void Core::check_own_key(const OwnVote& heard, std::size_t member) {
    if (member != index_ || signer_ == nullptr || !detect_other_signer_) return;
    const Vote& vote = heard.vote;
    if (adopting_) return adopt(heard);
    if (blank_) refuses_because_ = "sdbft.no_journal";
    if (vote.view < view_ || !refuses_because_.empty()) return;
    // Of epochs before that of its newest vote the journal keeps nothing: a node whose database is older than its
    // journal meets them again on its way.
    if (newest_own_ && vote.epoch < newest_own_->vote.epoch) return;
    const Own* own = find_own(vote.view);
    if (own == nullptr || !own->of(vote.type) || own->of(vote.type)->vote.vote.hash != vote.hash)
        refuses_because_ = "sdbft.other_signer";
}

std::optional<OwnVote> Core::own_vote_in(BytesView encoded_certificate) const {
    if (signer_ == nullptr || encoded_certificate.empty()) return std::nullopt;
    const auto certificate = decode_certificate(encoded_certificate);
    if (!certificate) return std::nullopt;
    const Committee* committee = certificate->epoch == epoch_.epoch                              ? &epoch_.committee
                                 : certificate->epoch + 1 == epoch_.epoch && previous_committee_ ? &*previous_committee_
                                                                                                 : nullptr;
    if (committee == nullptr) return std::nullopt;
    const auto signers = signers_of(*certificate, *committee);
    if (!signers) return std::nullopt;
    // The certificate may be anybody's: only the signature itself proves something.
    const crypto::PublicKey key = signer_->public_key();
    const std::size_t own_index = committee->index_of(key);
    for (const auto& [member, signature] : *signers)
        if (member == own_index && scheme_.verify(vote_digest(config_.chain, certificate->vote()), signature, key))
            return OwnVote{certificate->vote(), signature};
    return std::nullopt;
}

void Core::look_for_own_signature(BytesView encoded_certificate) {
    if (!blank_ && !adopting_) return;
    const auto found = own_vote_in(encoded_certificate);
    if (!found) return;
    if (adopting_)
        adopt(*found);
    else
        refuses_because_ = "sdbft.no_journal";
}

void Core::compare_journal_with_tip() {
    if (!detect_other_signer_) return;
    const auto found = own_vote_in(tip_certificate_);
    if (!found || (newest_own_ && position_of(newest_own_->vote) >= position_of(found->vote))) return;
    // What others hold was in the journal before it left: this journal is older than the chain's store, and what
    // else it has lost nobody knows.
    if (adopting_)
        adopt(*found);
    else
        refuses_because_ = "sdbft.no_journal";
}

// What was signed before a restart counts here as it does with the others: without it a quorum that needs this
// member's vote would form everywhere but here, and nowhere if all had restarted.
void Core::count_own_votes() {
    if (index_ >= epoch_.committee.members().size()) return;
    std::vector<OwnVote> votes;
    for (const auto& [position, own] : own_)
        if (position.first == epoch_.epoch && position.second >= last_final_view_)
            for (const auto& vote : own.by_type)
                if (vote) votes.push_back(vote->vote);
    for (const auto& vote : votes)
        if (!halted_ && vote.vote.epoch == epoch_.epoch) count_vote(vote.vote, index_, vote.signature);
}

}  // namespace quern::chain::consensus::sdbft
