#include "chain/consensus/sdbft/core.h"

namespace quern::chain::consensus::sdbft {

Core::Core(CoreSetup setup, const Signer* signer, const Scheme& scheme)
    : config_(setup.config),
      heights_(setup.config.epoch_length),
      signer_(signer),
      scheme_(scheme),
      epoch_(std::move(setup.epoch)),
      previous_committee_(std::move(setup.previous_committee)),
      detect_other_signer_(setup.detect_other_signer),
      listen_ms_(setup.listen_ms),
      listens_left_(setup.config.limits.blank_start_certificates),
      address_of_(std::move(setup.address_of)),
      body_matches_(std::move(setup.body_matches)),
      pacemaker_(setup.config.delta_ms, setup.config.max_idle_ms),
      tip_(setup.tip),
      tip_certificate_(std::move(setup.tip_certificate)),
      helped_(setup.config.limits.peers_helped, 1),
      certificates_given_(kMaxPeersAnswered, kCertificateAnswers) {
    index_ = signer_ != nullptr ? epoch_.committee.index_of(signer_->public_key()) : epoch_.committee.members().size();
    if (signer_ != nullptr && !setup.journal_found && tip_.number != 0 && !setup.accept_missing_journal)
        refuses_because_ = "sdbft.no_journal";
    blank_ = signer_ != nullptr && detect_other_signer_ && !setup.accept_missing_journal;
    adopting_ = signer_ != nullptr && detect_other_signer_ && setup.accept_missing_journal;
}

Expected<std::unique_ptr<Core>> Core::make(CoreSetup setup, const Signer* signer, const Scheme& scheme) {
    if (EpochHeights(setup.config.epoch_length).epoch_of(setup.tip.number + 1) != setup.epoch.epoch)
        return fail("sdbft.wrong_epoch", "the tip's successor is not in epoch " + std::to_string(setup.epoch.epoch));
    auto records = std::move(setup.records);
    std::unique_ptr<Core> core(new Core(std::move(setup), signer, scheme));
    core->foresee_next_epoch();
    QUERN_CHECK(core->restore(std::move(records)));
    return core;
}

Status Core::restore(std::vector<Record> records) {
    restoring_ = true;
    for (const auto& record : records) journal_bytes_ += record.payload.size() + kJournalFrameBytes;
    for (const auto& record : records)
        if (record.kind == RecordKind::own_vote) blank_ = false;
    view_ = 1;
    if (is_epoch_base(tip_)) {
        base_certificate_ = tip_certificate_;
    } else {
        last_final_view_ = tip_.view;
        view_ = tip_.view + 1;  // that view is over, whether its certificate is here or not
    }
    if (!tip_certificate_.empty()) {
        QUERN_TRY(const auto certificate, decode_certificate(tip_certificate_));
        hear_signers(certificate);
        if (certificate.epoch != epoch_.epoch) {
            opener_ = certificate;
        } else if (certificate.type != VoteType::propose) {
            view_state(certificate.view).certificate(certificate.type) = certificate;
            apply(certificate, std::nullopt);
        }
    }
    for (auto& record : records) {
        switch (record.kind) {
            case RecordKind::own_vote: {
                QUERN_TRY(const auto vote, decode_own_vote(record.payload));
                if (vote.vote.epoch >= epoch_.epoch) QUERN_CHECK(check_own_signature(vote));
                remember_own(vote);
                if (vote.vote.epoch < epoch_.epoch || config_.hooks.has(PlantedBug::forget_votes)) break;
                auto& slot = own_[{vote.vote.epoch, vote.vote.view}].of(vote.vote.type);
                if (!slot) slot = Own::Signed{vote, 0};
                break;
            }
            case RecordKind::own_proposal: {
                QUERN_TRY(const auto message, decode_message(record.payload));
                const auto* propose = std::get_if<ProposeMessage>(&message);
                if (propose == nullptr) return fail("journal.bad_record", "not a proposal");
                QUERN_TRY(const auto info, read_block(propose->block));
                if (propose->epoch < epoch_.epoch) break;
                auto& slot = own_[{propose->epoch, propose->view}].of(VoteType::propose);
                const Vote vote{VoteType::propose, propose->epoch, propose->view, info.hash};
                QUERN_CHECK(check_own_signature({vote, propose->signature}));
                if (!slot) slot = Own::Signed{{vote, propose->signature}, 0};
                remember_own({vote, propose->signature});
                if (propose->epoch != epoch_.epoch) break;
                own_proposal_ = {propose->view, record.payload};
                restore_block(info, propose->block);
                break;
            }
            case RecordKind::block: {
                QUERN_TRY(const auto info, read_block(record.payload));
                restore_block(info, record.payload);
                break;
            }
            case RecordKind::certificate: {
                QUERN_TRY(const auto certificate, decode_certificate(record.payload));
                hear_signers(certificate);
                if (certificate.epoch != epoch_.epoch || certificate.view < last_final_view_) break;
                auto& slot = view_state(certificate.view).certificate(certificate.type);
                if (slot) break;
                slot = certificate;
                apply(certificate, std::nullopt);
                break;
            }
        }
    }
    if (newest_own_) QUERN_CHECK(check_own_signature(*newest_own_));
    // Planted bugs about own votes would be hidden by what others remember.
    const bool hides_bugs = config_.hooks.lifts_floor() || config_.hooks.has(PlantedBug::send_before_sync);
    comparing_ = signer_ != nullptr && detect_other_signer_ && newest_own_ && !blank_ && !adopting_ && !hides_bugs;
    // Nothing was signed before what opened its view was durable, so this changes a view only if the file was cut or
    // the chain's store was put back behind it.
    if (newest_own_ && newest_own_->vote.epoch == epoch_.epoch) view_ = std::max(view_, newest_own_->vote.view);
    restoring_ = false;
    return {};
}

// Another key's journal says nothing of what this one has signed, and must not pass for its own.
Status Core::check_own_signature(const OwnVote& vote) const {
    if (signer_ == nullptr ||
        scheme_.verify(vote_digest(config_.chain, vote.vote), vote.signature, signer_->public_key()))
        return {};
    return fail("journal.other_key",
                "a vote in the journal is not this validator key's for this chain. Put the key's own journal in its "
                "place, or move this one away: then what is said of missing journals holds");
}

// The journal holds the blocks that this node voted for.
void Core::restore_block(const BlockInfo& info, const Bytes& bytes) {
    if (info.epoch != epoch_.epoch || insert_block(info, bytes, false) != Inserted::there) return;
    blocks_.find(info.hash)->second.voted = true;
}

std::vector<Action> Core::step(const Event& event, const Time& now) {
    actions_.clear();
    now_ = now;
    if (halted_) return {};
    if (!started_) {
        if (std::holds_alternative<event::Started>(event)) start();
    } else if (const auto* received = std::get_if<event::Received>(&event)) {
        receive(received->peer, received->message);
    } else if (const auto* ranged = std::get_if<event::Ranged>(&event)) {
        on_range_answer(ranged->peer, ranged->range);
    } else if (std::holds_alternative<event::TimePassed>(event)) {
        wake_at_.reset();
        tick();
    } else if (const auto* wait = std::get_if<event::TransactionsWait>(&event)) {
        transactions_wait_ = wait->waiting;
        advance();
    } else if (const auto* persisted = std::get_if<event::Persisted>(&event)) {
        on_persisted(persisted->sequence);
    } else if (const auto* built = std::get_if<event::Built>(&event)) {
        on_built(*built);
    } else if (const auto* failed = std::get_if<event::BuildFailed>(&event)) {
        if (building_ && building_->view == failed->view) building_.reset();
    } else if (const auto* validated = std::get_if<event::Validated>(&event)) {
        on_validated(*validated);
    } else if (const auto* forgotten = std::get_if<event::Forgotten>(&event)) {
        on_forgotten(*forgotten);
    } else if (const auto* committed = std::get_if<event::Committed>(&event)) {
        on_committed(*committed);
    }
    ensure(view_ > last_final_view_, "the current view is not final");
    ensure(durable_sequence_ < next_sequence_, "nothing is durable that was not written");
    if (halted_) return std::move(actions_);
    schedule();
    return std::move(actions_);
}

void Core::start() {
    started_ = true;
    entered_ms_ = now_.monotonic_ms;
    entered_wall_ms_ = now_.wall_ms;
    compare_journal_with_tip();
    start_listening();
    pacemaker_.enter(view_, last_final_view_, now_.monotonic_ms);
    count_own_votes();
    repeat();
    try_commit();
    advance();
}

void Core::tick() {
    const std::uint64_t now = now_.monotonic_ms;
    const ViewState* state = find_view(view_);
    const bool proposed = state != nullptr && state->proposal.has_value();
    if ((now >= pacemaker_.proposal_at() && !proposed) || now >= pacemaker_.advance_at()) nullify();
    if (now >= pacemaker_.repeat_at()) {
        if (!config_.hooks.has(PlantedBug::no_rebroadcast)) repeat();
        pacemaker_.repeated(now);
    }
    if (wanted_retry_at_ && now >= *wanted_retry_at_) retry_wanted();
    if (ask_votes_at_ && now >= *ask_votes_at_) ask_for_own_votes();
    if (propose_at_ && now >= *propose_at_) propose_at_.reset();
    if (reconsider_at_ && now >= *reconsider_at_) reconsider_at_.reset();
    advance();
}

void Core::repeat() {
    const auto repeat_vote = [this](const Own* own, VoteType type) {
        if (own == nullptr || !own->of(type) || own->of(type)->sequence > durable_sequence_) return;
        const auto& vote = own->of(type)->vote;
        send_all(VoteMessage{vote.vote, index_, vote.signature});
    };
    if (opener_) send_all(CertificateMessage{*opener_});
    const Own* own = find_own(view_);
    if (index_ < epoch_.committee.members().size()) {
        if (own_proposal_ && own_proposal_->first == view_ && own != nullptr && own->of(VoteType::propose) &&
            own->of(VoteType::propose)->sequence <= durable_sequence_)
            actions_.push_back(action::Send{action::Target::all, 0, own_proposal_->second});
        repeat_vote(own, VoteType::notarize);
        repeat_vote(own, VoteType::nullify);
        repeat_vote(own, VoteType::finalize);
        if (view_ > 1) repeat_vote(find_own(view_ - 1), VoteType::finalize);
    }
    certificates_asked_.reset();
    range_asked_at_.reset();
    ask_range(std::nullopt);
}

void Core::on_persisted(std::uint64_t sequence) {
    durable_sequence_ = std::max(durable_sequence_, sequence);
    while (!outbox_.empty() && outbox_.front().sequence <= durable_sequence_) {
        const Pending pending = std::move(outbox_.front());
        outbox_.pop_front();
        for (const auto& message : pending.messages) actions_.push_back(action::Send{action::Target::all, 0, message});
        for (const auto& vote : pending.votes)
            if (vote.vote.epoch == epoch_.epoch) count_vote(vote.vote, vote.member, vote.signature);
        if (halted_) return;
    }
}

std::uint64_t Core::persist(std::vector<Record> records, std::vector<Bytes> messages, std::vector<VoteMessage> votes,
                            bool replace) {
    const std::uint64_t sequence = next_sequence_++;
    if (replace) journal_bytes_ = 0;
    for (const auto& record : records) journal_bytes_ += record.payload.size() + kJournalFrameBytes;
    if (config_.hooks.has(PlantedBug::send_before_sync)) {
        for (auto& message : messages) actions_.push_back(action::Send{action::Target::all, 0, std::move(message)});
        messages.clear();
    }
    if (!messages.empty() || !votes.empty()) outbox_.push_back({sequence, std::move(messages), std::move(votes)});
    actions_.push_back(action::Persist{sequence, std::move(records), replace});
    return sequence;
}

// A commit leaves little that is needed. Without one, what is needed may itself be large: then the journal grows by as
// much again before it is rewritten.
void Core::tidy_journal(bool committed) {
    const std::size_t more = committed ? config_.journal_rewrite_bytes / 2 : journal_needed_bytes_;
    if (journal_bytes_ > std::max(config_.journal_rewrite_bytes, journal_needed_bytes_ + more)) rewrite_journal();
}

// Own votes, certificates and bodies that are still needed; what is final is in the chain's store.
void Core::rewrite_journal() {
    std::vector<Record> records;
    for (const auto& [view, state] : views_) {
        if (view < last_final_view_) continue;
        for (const auto* certificate : {&state.notarization, &state.nullification, &state.finalization})
            if (*certificate) records.push_back({RecordKind::certificate, encode(**certificate)});
    }
    for (const auto& entry : blocks_)
        if (entry.second.voted) records.push_back({RecordKind::block, *entry.second.bytes});
    if (own_proposal_ && own_proposal_->first >= view_)
        records.push_back({RecordKind::own_proposal, own_proposal_->second});
    for (const auto& entry : own_)
        for (const auto& vote : entry.second.by_type)
            if (vote) records.push_back(record_of(vote->vote));
    // At least one, so that the key does not look blank.
    if (newest_own_) records.push_back(record_of(*newest_own_));
    persist(std::move(records), {}, {}, true);
    journal_needed_bytes_ = journal_bytes_;
}

void Core::send_all(const Message& message) {
    actions_.push_back(action::Send{action::Target::all, 0, encode(message)});
}
void Core::send_to(PeerId peer, const Message& message) {
    actions_.push_back(action::Send{action::Target::one, peer, encode(message)});
}
void Core::send_any(const Message& message) {
    actions_.push_back(action::Send{action::Target::any, 0, encode(message)});
}

void Core::ensure(bool holds, std::string_view what) {
    if (!holds && !halted_) halt({"sdbft.invariant", std::string(what), ErrorKind::local_fault});
}

void Core::halt(Error error) {
    halted_ = true;
    actions_.push_back(action::Halt{std::move(error)});
}

void Core::misbehaved(PeerId peer, Wrong wrong, Error error) {
    actions_.push_back(action::Misbehaved{peer, wrong, std::move(error)});
}

void Core::schedule() {
    std::uint64_t next = pacemaker_.repeat_at();
    const auto consider = [&next](const std::optional<std::uint64_t>& at) {
        if (at && *at < next) next = *at;
    };
    if (can_nullify()) {
        const ViewState* state = find_view(view_);
        if (state == nullptr || !state->proposal) consider(pacemaker_.proposal_at());
        consider(pacemaker_.advance_at());
    }
    consider(propose_at_);
    consider(reconsider_at_);
    consider(wanted_retry_at_);
    if (listening()) consider(told_ ? listen_until_ms_ : ask_votes_at_);
    if (wake_at_ == next) return;
    wake_at_ = next;
    actions_.push_back(action::WakeAt{next});
}

void Core::receive(PeerId peer, const Bytes& bytes) {
    auto message = decode_message(bytes);
    if (!message) return misbehaved(peer, Wrong::form, message.error());
    std::optional<std::uint64_t> epoch;
    if (const auto* m = std::get_if<ProposeMessage>(&*message)) epoch = m->epoch;
    if (const auto* m = std::get_if<VoteMessage>(&*message)) epoch = m->vote.epoch;
    if (const auto* m = std::get_if<CertificateMessage>(&*message)) epoch = m->certificate.epoch;
    if (const auto* m = std::get_if<CertificateQuery>(&*message)) epoch = m->epoch;
    if (epoch && *epoch > epoch_.epoch) {
        hold_for_next_epoch(peer, *message, bytes);
        // Nothing of it is verified: it may be a reason to ask, but not whom.
        return ask_range(std::nullopt);
    }
    if (epoch && *epoch < epoch_.epoch) {
        if (const auto* vote = std::get_if<VoteMessage>(&*message)) hear_late(peer, *vote);
        const auto* stale = std::get_if<CertificateMessage>(&*message);
        if (stale == nullptr || !config_.hooks.has(PlantedBug::stale_epoch_certificates)) return help(peer, true);
        Certificate certificate = stale->certificate;
        certificate.epoch = epoch_.epoch;
        auto& slot = view_state(certificate.view).certificate(certificate.type);
        if (slot) return;
        slot = certificate;
        return apply(certificate, peer);
    }
    dispatch(peer, std::move(*message));
}

void Core::dispatch(PeerId peer, Message message) {
    if (const auto* m = std::get_if<ProposeMessage>(&message)) on_propose(peer, *m);
    if (const auto* m = std::get_if<VoteMessage>(&message)) on_vote(peer, *m);
    if (const auto* m = std::get_if<CertificateMessage>(&message)) (void)accept(m->certificate, peer);
    if (const auto* m = std::get_if<CertificateQuery>(&message)) on_certificate_query(peer, *m);
    if (const auto* m = std::get_if<BlockQuery>(&message)) {
        const auto found = blocks_.find(m->hash);
        actions_.push_back(action::ServeBlock{peer, m->hash, found != blocks_.end() ? found->second.bytes : nullptr});
    }
    if (const auto* m = std::get_if<BlockAnswer>(&message)) on_block_answer(peer, *m);
    if (const auto* m = std::get_if<RangeQuery>(&message))
        if (m->first_height <= tip_.number) actions_.push_back(action::ServeRange{peer, m->first_height});
    if (const auto* m = std::get_if<RangeAnswer>(&message)) on_range_answer(peer, *m);
    if (const auto* m = std::get_if<VoteQuery>(&message)) on_vote_query(peer, *m);
    if (const auto* m = std::get_if<VoteAnswer>(&message)) on_vote_answer(peer, *m);
}

Core::View Core::status() const {
    View view;
    view.epoch = epoch_.epoch;
    view.view = view_;
    view.last_finalized_view = last_final_view_;
    view.backoff_steps = pacemaker_.steps();
    view.tip = tip_;
    view.master = master_of(epoch_, view_);
    view.blocks_kept = blocks_.size();
    for (const auto& entry : blocks_) view.block_bytes += entry.second.bytes->size();
    view.views_kept = views_.size();
    view.wanted_blocks = wanted_.size();
    view.pending_peers = held_.size();
    for (const auto& entry : held_) {
        view.pending_messages += entry.second.messages.size();
        view.pending_bytes += entry.second.bytes;
    }
    view.peers_helped = helped_.size();
    view.signs = may_sign();
    view.refuses_because = refuses_because_;
    return view;
}

}  // namespace quern::chain::consensus::sdbft
