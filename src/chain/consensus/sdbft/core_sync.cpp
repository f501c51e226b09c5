// Finality, the change of epochs, and catching up (rules 6, 8, 9).
#include "chain/consensus/sdbft/core.h"

namespace quern::chain::consensus::sdbft {

void Core::on_finalized(const Certificate& certificate) {
    if (certificate.view > last_final_view_) {
        last_final_view_ = certificate.view;
        pacemaker_.finalized_view(certificate.view);
        final_ = certificate;
        while (!views_.empty() && views_.begin()->first + config_.limits.kept_final_views < last_final_view_)
            views_.erase(views_.begin());
        const std::uint64_t needed = std::min(view_, last_final_view_);
        own_.erase(own_.begin(), own_.lower_bound({epoch_.epoch, needed}));
    } else if (!final_ && certificate.view == last_final_view_) {
        final_ = certificate;
    }
    if (!restoring_) try_commit();
}

void Core::try_commit() {
    if (!started_ || !final_ || committing_ || halted_) return;
    if (range_final_ && !blocks_.contains(range_final_->hash)) range_final_.reset();
    const Certificate& target = range_final_ ? *range_final_ : *final_;
    BlockEntry* lowest = nullptr;
    for (Hash32 at = target.hash; at != tip_.hash;) {
        const auto found = blocks_.find(at);
        if (found == blocks_.end()) {
            // On the way down from `lowest`, whose parent is missing.
            if (lowest != nullptr && lowest->info.number > tip_.number + config_.limits.range_distance)
                ask_range(answering_);
            // The finalization of the tip itself, or of a block below it, may arrive late.
            if (lowest == nullptr && target.view <= tip_.view && !is_epoch_base(tip_)) return;
            return want_block(at);
        }
        lowest = &found->second;
        if (lowest->info.number <= tip_.number)
            return halt({"sdbft.fork", "block " + to_hex0x(lowest->info.hash) + " and block " + to_hex0x(tip_.hash) +
                                           " are both final"});
        at = lowest->info.parent;
        if (lowest->info.number == tip_.number + 1 && at != tip_.hash)
            return halt({"sdbft.fork", "block " + to_hex0x(lowest->info.hash) + " is final and does not extend " +
                                           to_hex0x(tip_.hash)});
    }
    if (lowest == nullptr) return;
    committing_ = lowest->info.hash;
    std::optional<Certificate> certificate;
    if (target.hash == lowest->info.hash) certificate = target;
    actions_.push_back(action::Commit{lowest->info.hash, *lowest->bytes, std::move(certificate)});
}

void Core::on_committed(const event::Committed& committed) {
    if (!committing_ || *committing_ != committed.tip.hash) return;
    ensure(committed.tip.number == tip_.number + 1, "blocks are committed one after another");
    committing_.reset();
    tip_ = committed.tip;
    tip_certificate_ = range_final_ && range_final_->hash == tip_.hash ? encode(*range_final_)
                       : final_ && final_->hash == tip_.hash           ? encode(*final_)
                                                                       : Bytes{};
    // What is final is in the chain's store; what was proposed up to its view and is no ancestor never can be.
    std::erase_if(blocks_, [this](const auto& entry) {
        return entry.second.info.number <= tip_.number || entry.second.info.view <= tip_.view;
    });
    wanted_.clear();
    wrong_bodies_.clear();
    wanted_retry_at_.reset();
    if (tip_.number == heights_.seed_height(epoch_.epoch) && next_epoch_) {
        next_epoch_->seed = tip_.beacon;
        next_masters_known_ = true;
    }
    if (heights_.is_last(tip_.number)) {
        if (!committed.next_epoch || committed.next_epoch->epoch != epoch_.epoch + 1)
            return halt({"sdbft.no_next_epoch", std::to_string(tip_.number)});
        if (committed.next_epoch->committee.hash() != epoch_.next_committee_hash)
            return halt({"sdbft.wrong_committee", "epoch " + std::to_string(epoch_.epoch + 1)});
        switch_epoch(*committed.next_epoch);
    } else {
        try_commit();
        advance();
    }
    if (halted_) return;
    tidy_journal(true);
    if (!committing_ && more_at_ && tip_.number >= more_at_->second) {
        ask_range(more_at_->first);
        more_at_.reset();
    }
}

void Core::switch_epoch(EpochSetup next) {
    previous_committee_ = std::move(epoch_.committee);
    epoch_ = std::move(next);
    base_certificate_ = tip_certificate_;
    // What was kept was verified for this committee and these masters, or is forgotten.
    if (!next_epoch_ || next_epoch_->committee.hash() != epoch_.committee.hash()) held_.clear();
    if (!next_epoch_ || next_epoch_->seed != epoch_.seed) forget_held_proposals();
    next_epoch_.reset();
    foresee_next_epoch();
    heard_before_ = std::exchange(heard_, {});
    const bool was_member = previous_committee_ && index_ < previous_committee_->members().size();
    index_ = signer_ != nullptr ? epoch_.committee.index_of(signer_->public_key()) : epoch_.committee.members().size();
    views_.clear();
    blocks_.clear();
    own_.erase(own_.begin(), own_.lower_bound({epoch_.epoch, 0}));
    own_proposal_.reset();
    last_final_view_ = 0;
    const auto opener = final_;
    final_.reset();
    range_final_.reset();
    certificates_asked_.reset();
    range_asked_at_.reset();
    pacemaker_.new_epoch();
    // Votes of this epoch are there already when the chain's store was put back behind the journal.
    const bool signed_in_it = newest_own_ && newest_own_->vote.epoch == epoch_.epoch;
    told_ = false;
    ask_votes_at_.reset();
    // Another life of the key may have signed as a member while this one was none, and nobody could say so then.
    if (!was_member)
        start_listening();
    else
        ask_for_own_votes();
    enter_view(signed_in_it ? newest_own_->vote.view : 1, opener ? &*opener : nullptr);
    count_own_votes();
    replay_held();
}

void Core::want_block(const Hash32& hash) {
    if (restoring_ || hash == tip_.hash || wanted_.contains(hash)) return;
    if (wanted_.size() >= config_.limits.wanted_blocks && config_.hooks.checks(PlantedBug::unlimited_wanted)) return;
    wanted_.insert(hash);
    if (answering_) actions_.push_back(action::AskBlock{hash, answering_});
    // Its proposal may be on the way: ask a little later.
    if (!wanted_retry_at_)
        wanted_retry_at_ = now_.monotonic_ms + std::max<std::uint64_t>(1, config_.delta_ms / (answering_ ? 1 : 4));
}

void Core::retry_wanted() {
    wanted_retry_at_.reset();
    if (wanted_.empty()) return;
    for (const auto& hash : wanted_) actions_.push_back(action::AskBlock{hash, std::nullopt});
    wanted_retry_at_ = now_.monotonic_ms + std::max<std::uint64_t>(1, 2 * config_.delta_ms);
}

void Core::ask_certificates(std::uint64_t first, std::uint64_t last) {
    if (certificates_asked_ && certificates_asked_->first == last &&
        now_.monotonic_ms < certificates_asked_->second + config_.delta_ms)
        return;
    certificates_asked_ = {last, now_.monotonic_ms};
    if (config_.hooks.checks(PlantedBug::unlimited_query))
        first = std::max(first, last - std::min<std::uint64_t>(last, config_.limits.certificates_per_query - 1));
    send_any(CertificateQuery{epoch_.epoch, first, last});
}

void Core::on_certificate_query(PeerId peer, const CertificateQuery& query) {
    if (query.last_view < query.first_view ||
        query.last_view - query.first_view >= config_.limits.certificates_per_query)
        return misbehaved(peer, Wrong::form, {"message.too_many", "certificates"});
    // A question has a few bytes, its answer up to 600 KB. Who is behind asks one after the other.
    if (!certificates_given_.take(peer, now_.monotonic_ms, config_.delta_ms)) return;
    for (auto it = views_.lower_bound(query.first_view); it != views_.end() && it->first <= query.last_view; ++it)
        for (const auto* certificate : {&it->second.notarization, &it->second.nullification, &it->second.finalization})
            if (*certificate) send_to(peer, CertificateMessage{**certificate});
    if (opener_ && query.last_view + 1 < view_) send_to(peer, CertificateMessage{*opener_});
}

void Core::on_block_answer(PeerId peer, const BlockAnswer& answer) {
    // What nobody asked for is not decoded.
    const auto head = read_head(answer.block);
    if (!head) return misbehaved(peer, Wrong::form, head.error());
    if (!wanted_.contains(head->hash)) return;
    const auto info = read_block(answer.block);
    if (!info) return misbehaved(peer, Wrong::form, info.error());
    const Inserted inserted = insert_block(*info, answer.block, true);
    if (inserted == Inserted::wrong_body) return on_wrong_body(peer, info->hash);
    if (inserted != Inserted::there) return;
    answering_ = peer;
    try_commit();
    advance();
    answering_.reset();
}

// The hash covers the header alone. A block that was put together from short ids may have got another's transaction,
// which is nobody's fault: its giver is asked for the whole block, and that must be right.
void Core::on_wrong_body(PeerId peer, const Hash32& hash) {
    const auto known = wrong_bodies_.find({peer, hash});
    if (known != wrong_bodies_.end()) return misbehaved(peer, Wrong::block, {"sdbft.bad_block", to_hex0x(hash)});
    if (wrong_bodies_.size() >= config_.limits.wrong_bodies) return;
    wrong_bodies_.insert({peer, hash});
    actions_.push_back(action::AskBlock{hash, peer});
}

void Core::on_range_answer(PeerId peer, const RangeAnswer& answer) {
    if (answer.blocks.empty() || answer.certificate.epoch != epoch_.epoch ||
        answer.certificate.type != VoteType::finalize)
        return;
    std::vector<BlockHead> heads;
    Hash32 parent = tip_.hash;
    for (const auto& bytes : answer.blocks) {
        auto head = read_head(bytes);
        if (!head) return misbehaved(peer, Wrong::form, head.error());
        if (heads.empty() && head->number != tip_.number + 1) return;  // asked for before the tip moved
        if (head->parent != parent || head->epoch != epoch_.epoch)
            return misbehaved(peer, Wrong::block, {"sdbft.bad_range", "blocks do not follow each other"});
        parent = head->hash;
        heads.push_back(*head);
    }
    if (parent != answer.certificate.hash)
        return misbehaved(peer, Wrong::block, {"sdbft.bad_range", "another block's certificate"});
    const auto checked = check_certificate(answer.certificate, epoch_.committee, config_.chain, scheme_);
    if (!checked && config_.hooks.checks(PlantedBug::unsigned_range))
        return misbehaved(peer, Wrong::consensus, checked.error());
    make_room_for(heads);
    for (const auto& bytes : answer.blocks) {
        const auto info = read_block(bytes);
        if (!info) return misbehaved(peer, Wrong::form, info.error());
        if (insert_block(*info, bytes, true, true) != Inserted::there)
            return misbehaved(peer, Wrong::block, {"sdbft.bad_block", to_hex0x(info->hash)});
    }
    // What it claims of its tip is its word alone: the range that it gave earns it one more question.
    const std::uint64_t last = heads.back().number;
    more_at_.reset();
    if (answer.tip_height > last) more_at_ = {peer, last};
    range_asked_at_.reset();
    answering_ = peer;
    // One that is older than those of the newest views is worth keeping too.
    if (!accept(answer.certificate, peer, true)) actions_.push_back(action::Keep{answer.certificate});
    if (!halted_ && answer.certificate.epoch == epoch_.epoch) {
        range_final_ = answer.certificate;
        if (!final_) final_ = answer.certificate;
        try_commit();
    }
    answering_.reset();
}

void Core::help(PeerId peer, bool older_epoch) {
    if (!helped_.take(peer, now_.monotonic_ms, config_.delta_ms)) return;
    // To a node in the epoch before, the certificate that closed it; to others, a sign of how far the chain is.
    if (older_epoch && !base_certificate_.empty()) {
        if (const auto certificate = decode_certificate(base_certificate_))
            send_to(peer, CertificateMessage{*certificate});
    }
    if (opener_) send_to(peer, CertificateMessage{*opener_});
    if (!older_epoch && final_ && (!opener_ || *opener_ != *final_)) send_to(peer, CertificateMessage{*final_});
}

void Core::ask_range(std::optional<PeerId> peer) {
    if (range_asked_at_ && now_.monotonic_ms < *range_asked_at_ + config_.delta_ms) return;
    range_asked_at_ = now_.monotonic_ms;
    actions_.push_back(action::AskRange{tip_.number + 1, peer});
}

}  // namespace quern::chain::consensus::sdbft
