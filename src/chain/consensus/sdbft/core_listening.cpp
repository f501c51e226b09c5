// What others have heard of this key: a key without records asks the members before it signs, and every node remembers
// each member's newest vote to be able to tell.
#include "chain/consensus/sdbft/core.h"

namespace quern::chain::consensus::sdbft {

bool Core::listening() const {
    if (comparing_) return !started_ || !told_;
    if (!blank_ && !adopting_) return false;
    return !started_ || !told_ || !listen_until_ms_ || now_.monotonic_ms < *listen_until_ms_;
}

void Core::start_listening() {
    answered_.clear();
    told_ = false;
    listen_until_ms_.reset();
    ask_votes_at_.reset();
    ask_for_own_votes();
}

void Core::ask_for_own_votes() {
    if (!asks()) return;
    weigh_answers();
    if (told_ || !refuses_because_.empty() || index_ >= epoch_.committee.members().size()) return ask_votes_at_.reset();
    if (ask_votes_at_ && now_.monotonic_ms < *ask_votes_at_) return;
    ask_votes_at_ = now_.monotonic_ms + std::max<std::uint64_t>(1, config_.delta_ms);
    send_all(VoteQuery{signer_->public_key()});
}

// Whatever this key signed that had an effect is in a certificate, whose signers share an honest member with those who
// answer. One who is in an earlier epoch than this node does not know yet what was signed in this one, and one who is
// two epochs further does not know any more: a node that is so far behind has nothing to sign.
void Core::weigh_answers() {
    if (told_ || index_ >= epoch_.committee.members().size()) return;
    Uint256 weight;
    const auto& members = epoch_.committee.members();
    for (std::size_t i = 0; i < members.size(); ++i) {
        const auto found = answered_.find(members[i].key);
        const bool knows = found != answered_.end() && found->second >= epoch_.epoch &&
                           found->second <= epoch_.epoch + kVoteEpochsRemembered - 1;
        if (i == index_ || knows) weight += members[i].weight;
    }
    told_ = epoch_.committee.is_quorum(weight) || config_.hooks.has(PlantedBug::asks_nobody);
    if (told_ && comparing_) comparing_ = false;  // its votes are not under way: its journal has them
    if (told_ && !listen_until_ms_) listen_until_ms_ = now_.monotonic_ms + listen_ms_;
}

void Core::on_vote_query(PeerId peer, const VoteQuery& query) {
    VoteAnswer answer{epoch_.epoch, query.key, std::nullopt};
    const auto look_up = [&](const Committee& committee, const std::vector<std::optional<OwnVote>>& heard) {
        const std::size_t member = committee.index_of(query.key);
        if (!answer.newest && member < heard.size() && heard[member])
            answer.newest = VoteAnswer::Signed{heard[member]->vote, heard[member]->signature};
    };
    look_up(epoch_.committee, heard_);
    if (previous_committee_) look_up(*previous_committee_, heard_before_);
    send_to(peer, answer);
}

void Core::on_vote_answer(PeerId peer, const VoteAnswer& answer) {
    if (signer_ == nullptr || !asks() || !refuses_because_.empty() || answer.key != signer_->public_key() ||
        config_.hooks.has(PlantedBug::asks_nobody))
        return;
    if (answer.newest) {
        const auto& [vote, signature] = *answer.newest;
        if (!scheme_.verify(vote_digest(config_.chain, vote), signature, answer.key))
            return misbehaved(peer, Wrong::consensus, {"sdbft.bad_signature", describe(Message(answer))});
        hear_of_own({vote, signature});
        if (!refuses_because_.empty()) return;
    }
    const auto address = address_of_ ? address_of_(peer) : std::nullopt;
    if (!address) return;
    for (const auto& member : epoch_.committee.members()) {
        if (crypto::address20(member.key) != *address) continue;
        auto& epoch = answered_[member.key];
        epoch = std::max(epoch, answer.epoch);
        break;
    }
    ask_for_own_votes();
    advance();
}

void Core::hear_of_own(const OwnVote& vote) {
    if (adopting_) return adopt(vote);
    if (blank_) {
        refuses_because_ = "sdbft.no_journal";
        return;
    }
    const Vote& newest = newest_own_->vote;
    if (position_of(vote.vote) > position_of(newest) || is_slashable_pair(vote.vote, newest))
        refuses_because_ = "sdbft.other_signer";
}

bool Core::is_news(const Vote& vote, std::size_t member) const {
    const auto& heard = vote.epoch == epoch_.epoch ? heard_ : heard_before_;
    return member >= heard.size() || !heard[member] || position_of(vote) > position_of(heard[member]->vote);
}

void Core::hear(const Vote& vote, std::size_t member, const Signature& signature) {
    if (!is_news(vote, member)) return;
    auto& heard = vote.epoch == epoch_.epoch ? heard_ : heard_before_;
    if (heard.size() <= member) heard.resize(member + 1);
    heard[member] = OwnVote{vote, signature};
}

void Core::hear_signers(const Certificate& certificate) {
    const bool now = certificate.epoch == epoch_.epoch;
    if (!now && (certificate.epoch + 1 != epoch_.epoch || !previous_committee_)) return;
    const auto signers = signers_of(certificate, now ? epoch_.committee : *previous_committee_);
    if (!signers) return;
    for (const auto& [member, signature] : *signers) hear(certificate.vote(), member, signature);
}

void Core::hear_late(PeerId peer, const VoteMessage& message) {
    const Vote& vote = message.vote;
    const bool now = vote.epoch == epoch_.epoch;
    if (!now && (vote.epoch + 1 != epoch_.epoch || !previous_committee_)) return;
    const auto& members = (now ? epoch_.committee : *previous_committee_).members();
    if (message.member >= members.size() || !is_news(vote, message.member)) return;
    if (config_.hooks.checks(PlantedBug::unsigned_vote) &&
        !scheme_.verify(vote_digest(config_.chain, vote), message.signature, members[message.member].key))
        return misbehaved(peer, Wrong::consensus, {"sdbft.bad_signature", describe(Message(message))});
    hear(vote, message.member, message.signature);
}

}  // namespace quern::chain::consensus::sdbft
