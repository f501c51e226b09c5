// Proposals, the blocks behind them, and the chain of views that a proposal rests on (rules 1, 2, 9, 10).
#include "chain/consensus/beacon.h"
#include "chain/consensus/sdbft/core.h"

namespace quern::chain::consensus::sdbft {

void Core::on_propose(PeerId peer, const ProposeMessage& message) {
    const std::uint64_t view = message.view;
    if (view == 0 || view + config_.limits.kept_final_views < last_final_view_ ||
        view > view_ + config_.limits.future_proposals)
        return;
    // The body is decoded when its master has signed for it, and not again: it may cost far more than to send it.
    const auto head = read_head(message.block);
    if (!head) return misbehaved(peer, Wrong::form, head.error());
    const std::size_t master = master_of(epoch_, view);
    const Vote vote{VoteType::propose, epoch_.epoch, view, head->hash};
    ViewState& state = view_state(view);
    const auto* known = state.votes.of(VoteType::propose, master);
    const bool again = known != nullptr && known->hash == head->hash;
    if (!again) {
        if (known != nullptr && state.convicted.contains(master) && !config_.hooks.has(PlantedBug::notarize_twice))
            return;
        if (!verified_ && config_.hooks.checks(PlantedBug::unsigned_proposal) &&
            !scheme_.verify(vote_digest(config_.chain, vote), message.signature,
                            epoch_.committee.members()[master].key))
            return misbehaved(peer, Wrong::consensus, {"sdbft.bad_signature", describe(Message(message))});
        check_own_key({vote, message.signature}, master);
        count_vote(vote, master, message.signature);
    }
    for (const auto& certificate : message.nullifications) (void)accept(certificate, peer);
    if (message.justification) (void)accept(*message.justification, peer);
    if (halted_ || message.epoch != epoch_.epoch || (again && is_of_no_use(head->hash, view))) return;
    const auto kept = blocks_.find(head->hash);
    const auto info = kept != blocks_.end() ? Expected<BlockInfo>(kept->second.info) : read_block(message.block);
    if (!info) return misbehaved(peer, Wrong::form, info.error());
    if (!message.justification && !info->parent_certificate.empty()) {
        if (const auto certificate = decode_certificate(info->parent_certificate)) (void)accept(*certificate, peer);
    }
    if (halted_ || message.epoch != epoch_.epoch) return;

    const auto& hooks = config_.hooks;
    const bool wanted = wanted_.contains(info->hash);
    if (view < view_ && !wanted) return;
    // Late, and no fault: its height is final here. (In this view or a later one it would have to extend the tip.)
    if (view < view_ && info->number <= tip_.number && hooks.checks(PlantedBug::blames_the_late)) return;
    auto& proposal = view_state(view).proposal;
    if (hooks.has(PlantedBug::notarize_twice) && proposal && proposal->hash != info->hash) proposal.reset();
    // One block a view: what else its master signs convicts it and is not kept, nor is what was refused already.
    if (!wanted && proposal && (proposal->hash != info->hash || proposal->rejected)) return;
    std::optional<std::uint64_t> parent_view;
    if (!wanted) {
        const auto checked = check_alone(*info, view);
        if (!checked) return misbehaved(peer, Wrong::block, checked.error());
        parent_view = *checked;
    }
    const Inserted inserted = insert_block(*info, message.block, wanted);
    if (inserted == Inserted::no_room) return;
    if (inserted != Inserted::there) return misbehaved(peer, Wrong::block, {"sdbft.bad_block", to_hex0x(info->hash)});
    ViewState& current = view_state(view);
    if (!current.proposal) current.proposal = Proposal{info->hash, std::nullopt, parent_view, false, peer};
    if (current.proposal->hash == info->hash && message.justification && message.justification->hash == info->hash &&
        message.justification->type != VoteType::nullify && message.justification->view < view)
        current.proposal->notarized_in = message.justification->view;
    if (wanted) try_commit();
    advance();
}

// A proposal that came before and whose block was not kept, or went, and is not missed.
bool Core::is_of_no_use(const Hash32& hash, std::uint64_t view) const {
    if (blocks_.contains(hash) || wanted_.contains(hash)) return false;
    const ViewState* state = find_view(view);
    return view < view_ ||
           (state != nullptr && state->proposal && (state->proposal->hash != hash || state->proposal->rejected));
}

Core::Inserted Core::insert_block(const BlockInfo& info, const Bytes& bytes, bool certified, bool final_range) {
    if (info.number <= tip_.number) return Inserted::final_height;
    if (const auto known = blocks_.find(info.hash); known != blocks_.end()) {
        known->second.certified = known->second.certified || certified;
        wanted_.erase(info.hash);
        return Inserted::there;
    }
    const auto& hooks = config_.hooks;
    // Proposals always find room (tidy_blocks); what a quorum has signed is bounded too.
    if (certified && !final_range && hooks.checks(PlantedBug::unlimited_blocks) &&
        blocks_.size() >= 2 * config_.limits.blocks_kept)
        return Inserted::no_room;
    if (hooks.checks(PlantedBug::wrong_body_certificate) &&
        info.parent_certificate_hash != certificate_hash(info.parent_certificate))
        return Inserted::wrong_body;
    if (hooks.checks(PlantedBug::wrong_body) && body_matches_ && !body_matches_(bytes)) return Inserted::wrong_body;
    look_for_own_signature(info.parent_certificate);
    wanted_.erase(info.hash);
    BlockEntry entry{info, std::make_shared<const Bytes>(bytes)};
    entry.certified = certified || is_certified(info.hash);
    blocks_.emplace(info.hash, std::move(entry));
    return Inserted::there;
}

// For a range that is final: what others can give again goes first.
void Core::make_room_for(const std::vector<BlockHead>& range) {
    if (blocks_.size() + range.size() <= 2 * config_.limits.blocks_kept) return;
    std::set<Hash32> coming;
    for (const auto& head : range) coming.insert(head.hash);
    std::erase_if(blocks_,
                  [&coming](const auto& entry) { return !entry.second.voted && !coming.contains(entry.first); });
}

bool Core::is_certified(const Hash32& hash) const {
    return std::any_of(views_.begin(), views_.end(), [&hash](const auto& entry) {
        const ViewState& state = entry.second;
        return (state.notarization && state.notarization->hash == hash) ||
               (state.finalization && state.finalization->hash == hash);
    });
}

// What nobody but its proposer stands for goes when its view is over. What this node voted for must stay, because a
// quorum may have done the same; except that when its view is nullified nobody needs it, and then the oldest of the
// master that holds most goes first.
void Core::tidy_blocks() {
    if (!config_.hooks.checks(PlantedBug::unlimited_blocks)) return;
    const auto& limits = config_.limits;
    std::size_t count = 0;
    std::size_t bytes = 0;
    for (auto at = blocks_.begin(); at != blocks_.end();) {
        const BlockEntry& entry = at->second;
        const bool over = entry.info.view < view_ &&
                          (nullified(entry.info.view) || entry.info.view + limits.future_proposals < view_);
        if (over && !entry.certified && !entry.voted) {
            at = blocks_.erase(at);
            continue;
        }
        if (!entry.certified) {
            ++count;
            bytes += entry.bytes->size();
        }
        ++at;
    }
    if (count <= limits.blocks_kept && bytes <= limits.block_bytes) return;
    struct Share {
        std::size_t bytes = 0;
        std::map<std::uint64_t, Hash32> by_view;
    };
    std::map<std::size_t, Share> shares;  // by master
    for (const auto& [hash, entry] : blocks_) {
        if (entry.certified || entry.info.view >= view_ || !nullified(entry.info.view)) continue;
        Share& share = shares[master_of(epoch_, entry.info.view)];
        share.bytes += entry.bytes->size();
        share.by_view.emplace(entry.info.view, hash);
    }
    while (count > limits.blocks_kept || bytes > limits.block_bytes) {
        const auto most = std::max_element(
            shares.begin(), shares.end(), [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; });
        if (most == shares.end() || most->second.by_view.empty()) return;
        const auto block = blocks_.find(most->second.by_view.begin()->second);
        const std::size_t size = block->second.bytes->size();
        --count;
        bytes -= size;
        most->second.bytes -= size;
        most->second.by_view.erase(most->second.by_view.begin());
        blocks_.erase(block);
    }
}

std::optional<Tip> Core::known_tip(const Hash32& hash) const {
    if (hash == tip_.hash) return tip_;
    const auto found = blocks_.find(hash);
    if (found == blocks_.end()) return std::nullopt;
    return tip_of(found->second.info);
}

bool Core::is_epoch_base(const Tip& tip) const {
    return tip.number == 0 || heights_.epoch_of(tip.number) < epoch_.epoch;
}

bool Core::ensure_valid(const Hash32& hash) {
    BlockEntry* lowest = nullptr;
    for (Hash32 at = hash; at != tip_.hash;) {
        const auto found = blocks_.find(at);
        if (found == blocks_.end()) {
            want_block(at);
            return false;
        }
        BlockEntry& entry = found->second;
        if (entry.validity == Validity::valid) break;
        if (entry.validity != Validity::unknown || entry.info.number <= tip_.number) return false;
        lowest = &entry;
        at = entry.info.parent;
    }
    if (lowest == nullptr) return true;
    lowest->validity = Validity::validating;
    actions_.push_back(action::Validate{lowest->info.hash, *lowest->bytes, lowest->info.parent, epoch_.epoch, view_});
    return false;
}

void Core::on_validated(const event::Validated& validated) {
    const auto found = blocks_.find(validated.hash);
    if (found == blocks_.end()) return;
    found->second.validity =
        validated.valid || config_.hooks.has(PlantedBug::invalid_block) ? Validity::valid : Validity::invalid;
    advance();
}

// Not looked at at once: there may be no room for it yet.
void Core::on_forgotten(const event::Forgotten& forgotten) {
    const auto found = blocks_.find(forgotten.hash);
    if (found != blocks_.end() && found->second.validity != Validity::invalid)
        found->second.validity = Validity::unknown;
}

void Core::advance() {
    if (restoring_ || !started_ || halted_) return;
    consider_proposal();
    try_propose();
}

void Core::consider_proposal() {
    const auto found = views_.find(view_);
    if (!may_sign() || found == views_.end() || !found->second.proposal || found->second.proposal->rejected) return;
    const Own* own = find_own(view_);
    const auto& hooks = config_.hooks;
    Proposal& proposal = *found->second.proposal;
    if (own != nullptr) {
        const auto& notarize = own->of(VoteType::notarize);
        if (notarize && !(hooks.has(PlantedBug::notarize_twice) && notarize->vote.vote.hash != proposal.hash)) return;
        if (own->of(VoteType::nullify) && !hooks.has(PlantedBug::notarize_after_nullify)) return;
    }
    if (!above_floor({VoteType::notarize, epoch_.epoch, view_, proposal.hash})) return;
    const auto block = blocks_.find(proposal.hash);
    if (block == blocks_.end()) return;
    const auto ready = proposal_ready(proposal, block->second);
    if (!ready) {
        proposal.rejected = true;
        if (!block->second.certified && !block->second.voted) blocks_.erase(block);
        return misbehaved(proposal.from, Wrong::block, ready.error());
    }
    if (!*ready) return;
    block->second.voted = true;
    cast(VoteType::notarize, view_, proposal.hash, {{RecordKind::block, *block->second.bytes}});
}

Expected<std::uint64_t> Core::check_alone(const BlockInfo& block, std::uint64_t view) {
    const auto& hooks = config_.hooks;
    QUERN_CHECK(check_header(block, epoch_, heights_, hooks));
    if (block.number <= tip_.number) return fail("proposal.old_parent", "height " + std::to_string(block.number));
    if (block.number == tip_.number + 1 && block.parent != tip_.hash && hooks.checks(PlantedBug::wrong_number))
        return fail("header.wrong_parent", to_hex0x(block.parent));
    if (block.view == view) return check_parent_certificate(block);
    const bool last = heights_.is_last(block.number) || hooks.has(PlantedBug::reproposal_of_any_block);
    if (!last || block.view > view) return fail("proposal.wrong_view", std::to_string(block.view));
    return 0;
}

Expected<bool> Core::proposal_ready(Proposal& proposal, const BlockEntry& entry) {
    const BlockInfo& block = entry.info;
    const auto& hooks = config_.hooks;
    if (!proposal.parent_view) {
        QUERN_TRY(proposal.parent_view, check_alone(block, view_));
    }
    std::uint64_t parent_view = *proposal.parent_view;
    const auto parent = known_tip(block.parent);
    if (block.view == view_) {
        if (parent_view < last_final_view_) return fail("proposal.old_parent", std::to_string(parent_view));
        if (parent && !is_epoch_base(*parent) && parent->view != parent_view &&
            hooks.checks(PlantedBug::wrong_parent_view))
            return fail("proposal.wrong_parent_view", std::to_string(parent->view));
    } else {
        if (hooks.checks(PlantedBug::unnotarized_reproposal)) {
            if (!proposal.notarized_in) return false;
            const Certificate* certificate = notarized(*proposal.notarized_in);
            if (certificate == nullptr || certificate->hash != block.hash) return false;
        }
        parent_view = proposal.notarized_in.value_or(view_ - 1);
    }
    if (!parent) {
        want_block(block.parent);
        return false;
    }
    if (!entry.checked) {
        QUERN_CHECK(check_proposed(block, *parent, epoch_, scheme_, hooks));
        blocks_.find(block.hash)->second.checked = true;
    }
    if (!nullified_between(parent_view, view_)) return false;
    if (block.timestamp_ms > now_.wall_ms + params::kMaxFutureMs && hooks.checks(PlantedBug::future_timestamp)) {
        reconsider_at_ = now_.monotonic_ms + (block.timestamp_ms - now_.wall_ms - params::kMaxFutureMs);
        return false;
    }
    // What is proposed again was in time once. Measured from this node's entry, so that neither the proposal's way nor
    // its execution makes an honest block late; nobody is blamed for a clock.
    const std::uint64_t lag =
        params::kMaxBlockIdles * config_.max_idle_ms + params::kMaxFutureMs + pacemaker_.entry_spread();
    if (block.view == view_ && block.timestamp_ms + lag < entered_wall_ms_) return false;
    if (entry.validity == Validity::invalid) return fail("proposal.invalid_block", to_hex0x(block.hash));
    return ensure_valid(block.hash);
}

Expected<std::uint64_t> Core::check_parent_certificate(const BlockInfo& block) const {
    const auto& hooks = config_.hooks;
    const BytesView bytes = block.parent_certificate;
    if (block.number == 1) {
        if (!bytes.empty() && hooks.checks(PlantedBug::genesis_certificate))
            return fail("proposal.bad_parent_certificate", "genesis has none");
        return 0;
    }
    QUERN_TRY(const auto certificate, decode_certificate(bytes));
    if (certificate.hash != block.parent && hooks.checks(PlantedBug::parent_of_another_block))
        return fail("proposal.bad_parent_certificate", "of another block");
    if (block.number == heights_.first(epoch_.epoch)) {
        // The first block of an epoch rests on a finalization, in any view, of the last one before.
        if (equal(bytes, base_certificate_) || hooks.has(PlantedBug::unclosed_epoch)) return 0;
        if (certificate.type != VoteType::finalize || certificate.epoch + 1 != epoch_.epoch || !previous_committee_)
            return fail("proposal.bad_parent_certificate", "the epoch before is not closed by it");
        if (hooks.has(PlantedBug::unsigned_epoch_end)) return 0;
        QUERN_CHECK(check_certificate(certificate, *previous_committee_, config_.chain, scheme_));
        return 0;
    }
    if (certificate.type != VoteType::notarize && certificate.type != VoteType::finalize &&
        hooks.checks(PlantedBug::parent_nullification))
        return fail("proposal.bad_parent_certificate", "type");
    if ((certificate.epoch != epoch_.epoch || certificate.view >= block.view) &&
        hooks.checks(PlantedBug::parent_of_another_epoch))
        return fail("proposal.bad_parent_certificate", "view");
    // That the block is notarized is not enough: these very signatures go into the chain.
    const Certificate* known = notarized(certificate.view);
    if ((known == nullptr || *known != certificate) && hooks.checks(PlantedBug::unsigned_parent))
        QUERN_CHECK(check_certificate(certificate, epoch_.committee, config_.chain, scheme_));
    return certificate.view;
}

bool Core::nullified_between(std::uint64_t from, std::uint64_t to) {
    if (config_.hooks.has(PlantedBug::skip_nullification_check)) return true;
    for (std::uint64_t view = to - 1; view > from; --view) {
        if (nullified(view)) continue;
        ask_certificates(from + 1, view);
        return false;
    }
    return true;
}

std::optional<Core::Parent> Core::find_parent() {
    for (std::uint64_t view = view_ - 1; view > 0; --view) {
        if (const Certificate* certificate = notarized(view)) {
            const auto tip = known_tip(certificate->hash);
            if (tip) return Parent{view, *tip, encode(*certificate), heights_.is_last(tip->number)};
            want_block(certificate->hash);
            // Nobody may have it any more: without it, what is older will do if the view is nullified as well.
            if (!nullified(view)) return std::nullopt;
        }
        const bool gap = !nullified(view) && !config_.hooks.has(PlantedBug::skip_nullification_check);
        if (gap || view <= last_final_view_) {
            ask_certificates(view, view);
            return std::nullopt;
        }
    }
    if (!is_epoch_base(tip_) || (tip_.number != 0 && base_certificate_.empty())) return std::nullopt;
    return Parent{0, tip_, base_certificate_, false};
}

void Core::try_propose() {
    if (!may_sign() || building_ || master_of(epoch_, view_) != index_) return;
    if (has_signed(VoteType::nullify, view_)) return;
    if (!has_signed(VoteType::propose, view_)) {
        // Of what is proposed only the hash is open: any hash is above the floor, or none.
        if (!above_floor({VoteType::propose, epoch_.epoch, view_, {}})) return;
    } else {
        // The planted bug: what was proposed before a restart is not looked at.
        const bool restarted = own(view_).of(VoteType::propose)->sequence == 0;
        if (!restarted || !config_.hooks.has(PlantedBug::propose_twice)) return;
    }
    const auto parent = find_parent();
    if (!parent || !ensure_valid(parent->tip.hash)) return;
    if (parent->last_of_epoch && !config_.hooks.has(PlantedBug::child_of_last_block)) {
        const auto block = blocks_.find(parent->tip.hash);
        const auto certificate = decode_certificate(parent->certificate);
        if (block == blocks_.end() || !certificate) return;
        return propose(parent->view, parent->tip.hash, Bytes(*block->second.bytes), *certificate);
    }
    // The parent's age by this clock, at most the pause: another clock's error shortens or lengthens it no further.
    const std::uint64_t pause = transactions_wait_ ? config_.min_block_ms : config_.max_idle_ms;
    const std::uint64_t age = entered_wall_ms_ - std::min(entered_wall_ms_, parent->tip.timestamp_ms);
    const std::uint64_t due = entered_ms_ + (pause - std::min(pause, age));
    if (now_.monotonic_ms < due) {
        propose_at_ = due;
        return;
    }
    const std::uint64_t timestamp = std::max(now_.wall_ms, parent->tip.timestamp_ms + 1);
    if (timestamp > now_.wall_ms + params::kMaxFutureMs) {
        propose_at_ = now_.monotonic_ms + (timestamp - now_.wall_ms - params::kMaxFutureMs);
        return;
    }
    auto vrf = signer_->vrf_prove(parent->tip.beacon);
    building_ = Building{view_, parent->view};
    actions_.push_back(action::Build{{parent->tip, epoch_.epoch, view_, timestamp,
                                      next_beacon(parent->tip.beacon, vrf.output), std::move(vrf.proof),
                                      parent->certificate, epoch_.committee.hash(), epoch_.next_committee_hash}});
}

void Core::on_built(const event::Built& built) {
    if (!building_ || building_->view != built.view) return;
    const std::uint64_t parent_view = building_->parent_view;
    building_.reset();
    if (built.view != view_ || has_signed(VoteType::nullify, view_) || !may_sign()) return;
    const auto info = read_block(built.block);
    if (!info || insert_block(*info, built.block, false) != Inserted::there) return;
    auto& entry = blocks_.find(info->hash)->second;
    entry.validity = Validity::valid;
    entry.checked = true;
    propose(parent_view, info->hash, built.block, std::nullopt);
}

void Core::propose(std::uint64_t parent_view, const Hash32& hash, const Bytes& block,
                   std::optional<Certificate> justification) {
    ProposeMessage message{epoch_.epoch, view_, block, std::move(justification), {}, {}};
    for (std::uint64_t view = view_ - 1; view > parent_view; --view) {
        if (message.nullifications.size() == config_.limits.nullifications_per_proposal &&
            config_.hooks.checks(PlantedBug::unlimited_nullifications))
            break;
        if (const ViewState* state = find_view(view); state != nullptr && state->nullification)
            message.nullifications.push_back(*state->nullification);
    }
    ViewState& state = view_state(view_);
    if (!state.proposal)
        state.proposal =
            Proposal{hash, message.justification ? std::optional(message.justification->view) : std::nullopt,
                     parent_view, false, 0};
    if (const auto own_block = blocks_.find(hash); own_block != blocks_.end()) own_block->second.voted = true;
    const auto proposal_vote = sign({VoteType::propose, epoch_.epoch, view_, hash});
    if (!proposal_vote) return;
    message.signature = proposal_vote->signature;
    const Bytes encoded = encode(Message(message));
    own_proposal_ = {view_, encoded};
    std::vector<Record> records = {record_of({proposal_vote->vote, proposal_vote->signature}),
                                   {RecordKind::own_proposal, encoded}};
    std::vector<Bytes> messages = {encoded};
    std::vector<VoteMessage> votes = {*proposal_vote};
    if (!has_signed(VoteType::notarize, view_)) {
        const auto vote = sign({VoteType::notarize, epoch_.epoch, view_, hash});
        if (!vote) return;
        records.push_back(record_of({vote->vote, vote->signature}));
        messages.push_back(encode(Message(*vote)));
        votes.push_back(*vote);
    }
    persist(std::move(records), std::move(messages), std::move(votes));
}

}  // namespace quern::chain::consensus::sdbft
