// Messages of the next epoch that come early: before this node has committed the block that closes its epoch. The next
// committee is known an epoch ahead, so nothing is kept that a member, or a quorum of them, has not signed; each member
// has a share of its own. When the epoch begins they are taken as if they came then, without verifying them again.
#include "chain/consensus/sdbft/core.h"

namespace quern::chain::consensus::sdbft {

void Core::foresee_next_epoch() {
    next_masters_known_ = false;
    if (!epoch_.next_committee || epoch_.next_committee->hash() != epoch_.next_committee_hash) return;
    next_epoch_ = EpochSetup{epoch_.epoch + 1, *epoch_.next_committee, {}, {}};
    if (tip_.number != 0 && tip_.number == heights_.seed_height(epoch_.epoch)) {
        next_epoch_->seed = tip_.beacon;
        next_masters_known_ = true;
    }
}

void Core::hold_for_next_epoch(PeerId peer, const Message& message, const Bytes& bytes) {
    if (!next_epoch_) return;
    const auto& members = next_epoch_->committee.members();
    const auto& limits = config_.limits;
    if (const auto* vote = std::get_if<VoteMessage>(&message)) {
        if (vote->vote.epoch != next_epoch_->epoch || vote->vote.view == 0 || vote->vote.view > 1 + limits.future_views)
            return;
        if (vote->member >= members.size())
            return misbehaved(peer, Wrong::consensus, {"sdbft.unknown_member", std::to_string(vote->member)});
        const EarlyKey key{vote->vote.view, static_cast<std::uint8_t>(vote->vote.type)};
        if (is_held(vote->member, key)) return;
        if (config_.hooks.checks(PlantedBug::unsigned_vote) &&
            !scheme_.verify(vote_digest(config_.chain, vote->vote), vote->signature, members[vote->member].key))
            return misbehaved(peer, Wrong::consensus, {"sdbft.bad_signature", describe(message)});
        hold(vote->member, key, peer, bytes);
    } else if (const auto* propose = std::get_if<ProposeMessage>(&message)) {
        if (propose->epoch != next_epoch_->epoch || !next_masters_known_ || propose->view == 0 ||
            propose->view > 1 + limits.future_proposals)
            return;
        const std::size_t master = master_of(*next_epoch_, propose->view);
        const EarlyKey key{propose->view, static_cast<std::uint8_t>(VoteType::propose)};
        if (is_held(master, key)) return;
        const auto head = read_head(propose->block);
        if (!head) return misbehaved(peer, Wrong::form, head.error());
        const Vote vote{VoteType::propose, propose->epoch, propose->view, head->hash};
        if (config_.hooks.checks(PlantedBug::unsigned_proposal) &&
            !scheme_.verify(vote_digest(config_.chain, vote), propose->signature, members[master].key))
            return misbehaved(peer, Wrong::consensus, {"sdbft.bad_signature", describe(message)});
        hold(master, key, peer, bytes);
    } else if (const auto* own = std::get_if<CertificateMessage>(&message)) {
        const Certificate& certificate = own->certificate;
        if (certificate.epoch != next_epoch_->epoch || certificate.view == 0 || certificate.type == VoteType::propose)
            return;
        // The newest tells most: it moves this node to where the others are.
        if (held_certificate_ && held_certificate_->second.view >= certificate.view) return;
        const auto checked = check_certificate(certificate, next_epoch_->committee, config_.chain, scheme_);
        if (!checked && config_.hooks.checks(PlantedBug::unsigned_certificate))
            return misbehaved(peer, Wrong::consensus, checked.error());
        held_certificate_ = {peer, certificate};
    }
}

bool Core::is_held(std::size_t member, const EarlyKey& key) const {
    const auto known = held_.find(member);
    return known != held_.end() && known->second.messages.contains(key);
}

void Core::hold(std::size_t member, const EarlyKey& key, PeerId peer, const Bytes& bytes) {
    const bool limited = config_.hooks.checks(PlantedBug::unlimited_pending);
    if (limited && !held_.contains(member) && held_.size() >= config_.limits.pending_peers) return;
    if (limited && bytes.size() > config_.limits.pending_bytes) return;
    Held& held = held_[member];
    held.bytes += bytes.size();
    held.messages.emplace(key, Early{peer, bytes});
    // Of what one member sent, the earliest views are of use first.
    while (limited &&
           (held.messages.size() > config_.limits.pending_messages || held.bytes > config_.limits.pending_bytes)) {
        const auto last = std::prev(held.messages.end());
        held.bytes -= last->second.bytes.size();
        held.messages.erase(last);
    }
}

void Core::forget_held_proposals() {
    for (auto& entry : held_) {
        Held& held = entry.second;
        std::erase_if(held.messages, [&held](const auto& early) {
            if (early.first.second != static_cast<std::uint8_t>(VoteType::propose)) return false;
            held.bytes -= early.second.bytes.size();
            return true;
        });
    }
}

void Core::replay_held() {
    const auto held = std::exchange(held_, {});
    const auto certificate = std::exchange(held_certificate_, std::nullopt);
    const std::uint64_t epoch = epoch_.epoch;
    for (const auto& entry : held)
        for (const auto& early : entry.second.messages) {
            if (halted_ || epoch_.epoch != epoch) return;
            auto message = decode_message(early.second.bytes);
            if (!message) continue;
            verified_ = true;
            if (const auto* vote = std::get_if<VoteMessage>(&*message))
                on_vote(early.second.peer, *vote);
            else if (const auto* propose = std::get_if<ProposeMessage>(&*message))
                on_propose(early.second.peer, *propose);
            verified_ = false;
        }
    if (certificate && !halted_ && epoch_.epoch == epoch) (void)accept(certificate->second, certificate->first, true);
}

}  // namespace quern::chain::consensus::sdbft
