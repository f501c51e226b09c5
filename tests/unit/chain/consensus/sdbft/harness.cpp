#include "harness.h"

namespace quern::chain::consensus::sdbft {

Harness::Harness(bool master_of_first, bool members_change) : keys(sim::make_keys(4, false, false, 3)) {
    genesis.block = sim::make_genesis_block();
    genesis.epoch_length = kEpochLength;
    for (const auto& signer : keys.signers) {
        genesis.keys.push_back(signer->public_key());
        genesis.stake.push_back(10);
        genesis.floor.push_back(members_change ? 0 : 10);
        genesis.ceiling.push_back(10);
    }
    chain = std::make_unique<sim::LightChain>(genesis);
    world = std::make_unique<sim::LightChain>(genesis);
    identity = {genesis.tip().hash, 7878};
    epoch = chain->epoch_setup();
    resolve_members();
    me = master(1);
    // Neither master of the first views, so that the test can play them.
    if (!master_of_first)
        for (me = 0; me == master(1) || me == master(2) || me == master(3); ++me) {
        }
    restart(true);
    start();
}

void Harness::resolve_members() {
    const auto own = signer_of_member.empty() ? 0 : signer_of_member[me];
    signer_of_member.clear();
    for (const auto& member : epoch.committee.members())
        for (std::size_t i = 0; i < keys.signers.size(); ++i)
            if (keys.signers[i]->public_key() == member.key) {
                if (i == own) me = signer_of_member.size();
                signer_of_member.push_back(i);
            }
}

void Harness::restart(bool with_journal) {
    CoreSetup setup;
    setup.config.chain = identity;
    setup.config.epoch_length = kEpochLength;
    setup.config.delta_ms = delta_ms;
    setup.config.min_block_ms = 10;
    setup.config.max_idle_ms = max_idle_ms;
    setup.config.journal_rewrite_bytes = rewrite_bytes;
    setup.epoch = chain->epoch_setup();
    if (setup.epoch.epoch > 0) setup.previous_committee = chain->committee_of(setup.epoch.epoch - 1);
    setup.listen_ms = listen_ms;
    setup.config.limits = limits;
    setup.accept_missing_journal = accept_missing_journal;
    setup.tip = chain->tip();
    setup.tip_certificate = chain->tip_certificate();
    setup.journal_found = with_journal;
    if (with_journal) setup.records = journal;
    setup.body_matches = [this](BytesView block) { return chain->body_matches(block); };
    SeededRng power(1);
    (void)chain->crash(power);
    setup.address_of = [this](PeerId peer) -> std::optional<Bytes20> {
        if (peer >= signer_of_member.size()) return std::nullopt;
        return crypto::address20(keys.signers[signer_of_member[peer]]->public_key());
    };
    unsynced.clear();
    waiting.clear();
    core = *Core::make(std::move(setup), keys.signers[signer_of_member[me]].get(), *keys.scheme);
}

void Harness::step(const Event& first) {
    std::deque<Event> events = {first};
    while (!events.empty()) {
        const Event event = std::move(events.front());
        events.pop_front();
        for (auto& action : core->step(event, now)) {
            if (auto* send = std::get_if<action::Send>(&action)) {
                messages.push_back(*decode_message(send->message));
                if (send->target == action::Target::one) answers.emplace_back(send->peer, messages.back());
                if (const auto* query = std::get_if<VoteQuery>(&messages.back()); query != nullptr && members_answer)
                    for (const auto member : others())
                        events.push_back(event::Received{
                            member, encode(VoteAnswer{chain->epoch_setup().epoch, query->key, std::nullopt})});
            } else if (auto* range = std::get_if<action::AskRange>(&action)) {
                asked_ranges.push_back(*range);
            } else if (auto* block = std::get_if<action::AskBlock>(&action)) {
                asked_blocks.push_back(*block);
            } else if (auto* persist = std::get_if<action::Persist>(&action)) {
                if (persist->replace) {
                    ++rewrites;
                    journal.clear();
                }
                if (auto_sync) {
                    journal.insert(journal.end(), persist->records.begin(), persist->records.end());
                    events.push_back(event::Persisted{persist->sequence});
                } else {
                    waiting.push_back(persist->records);
                    unsynced.push_back(persist->sequence);
                }
            } else if (auto* build = std::get_if<action::Build>(&action)) {
                events.push_back(event::Built{build->request.view, *chain->build(build->request, {}, 77)});
            } else if (auto* validate = std::get_if<action::Validate>(&action)) {
                validated.push_back(validate->hash);
                events.push_back(
                    event::Validated{validate->hash, valid && chain->validate(validate->hash, validate->block)});
            } else if (auto* commit = std::get_if<action::Commit>(&action)) {
                auto next = chain->commit(commit->hash, commit->block, commit->certificate);
                event::Committed committed{chain->tip(), std::move(*next)};
                if (alter_committed) alter_committed(committed);
                events.push_back(std::move(committed));
            } else if (auto* serve = std::get_if<action::ServeBlock>(&action)) {
                if (serve->block) {
                    messages.push_back(BlockAnswer{*serve->block});
                    answers.emplace_back(serve->peer, messages.back());
                } else {
                    served_blocks.push_back(serve->hash);
                }
            } else if (auto* serve_range = std::get_if<action::ServeRange>(&action)) {
                served_ranges.push_back(serve_range->first_height);
            } else if (auto* keep = std::get_if<action::Keep>(&action)) {
                kept.push_back(keep->certificate);
            } else if (auto* convict = std::get_if<action::Convict>(&action)) {
                evidence.push_back(convict->evidence);
            } else if (auto* blame = std::get_if<action::Misbehaved>(&action)) {
                misbehaved.push_back(blame->error.name);
                wrongs.push_back(blame->wrong);
            } else if (auto* wake_at = std::get_if<action::WakeAt>(&action)) {
                wake = wake_at->monotonic_ms;
            } else if (auto* stop = std::get_if<action::Halt>(&action)) {
                halt = stop->error;
            }
        }
    }
}

void Harness::pass(std::uint64_t milliseconds) {
    const std::uint64_t end = now.monotonic_ms + milliseconds;
    while (wake && *wake <= end) {
        const std::uint64_t forward = *wake - std::min(*wake, now.monotonic_ms);
        now.monotonic_ms += forward;
        now.wall_ms += forward;
        wake.reset();
        step(event::TimePassed{});
    }
    now.wall_ms += end - now.monotonic_ms;
    now.monotonic_ms = end;
}

void Harness::sync() {
    while (!unsynced.empty()) {
        journal.insert(journal.end(), waiting.front().begin(), waiting.front().end());
        waiting.erase(waiting.begin());
        const std::uint64_t sequence = unsynced.front();
        unsynced.pop_front();
        step(event::Persisted{sequence});
    }
}

std::vector<std::size_t> Harness::others() const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < signer_of_member.size(); ++i)
        if (i != me) out.push_back(i);
    return out;
}

Signature Harness::signature(std::size_t member, const Vote& vote) const {
    return keys.signers[signer_of_member[member]]->sign(vote_digest(identity, vote));
}

VoteMessage Harness::vote(std::size_t member, VoteType type, std::uint64_t view, const Hash32& hash) const {
    const Vote vote{type, epoch.epoch, view, hash};
    return {vote, member, signature(member, vote)};
}

Certificate Harness::certificate(VoteType type, std::uint64_t view, const Hash32& hash) const {
    const Vote vote{type, epoch.epoch, view, hash};
    std::vector<std::pair<std::size_t, Signature>> signatures;
    for (const auto member : others()) signatures.emplace_back(member, signature(member, vote));
    return make_certificate(vote, epoch.committee, signatures);
}

Certificate Harness::certificate_with_me(VoteType type, std::uint64_t view, const Hash32& hash) const {
    const Vote vote{type, epoch.epoch, view, hash};
    std::vector<std::pair<std::size_t, Signature>> signatures;
    for (std::size_t member = 0; member < signer_of_member.size(); ++member)
        if (member != others()[0]) signatures.emplace_back(member, signature(member, vote));
    return make_certificate(vote, epoch.committee, signatures);
}

Harness::Made Harness::block(std::uint64_t view, const Tip& parent, const Bytes& parent_certificate, std::uint8_t mark,
                             std::uint64_t timestamp) {
    const auto vrf = keys.signers[signer_of_member[master(view)]]->vrf_prove(parent.beacon);
    const BlockRequest request{parent,
                               epoch.epoch,
                               view,
                               timestamp == 0 ? std::max(now.wall_ms, parent.timestamp_ms + 1) : timestamp,
                               next_beacon(parent.beacon, vrf.output),
                               vrf.proof,
                               parent_certificate,
                               epoch.committee.hash(),
                               epoch.next_committee_hash};
    Made made;
    made.bytes = *world->build(request, transactions, mark);
    made.tip = tip_of(*read_block(made.bytes));
    return made;
}

ProposeMessage Harness::proposal(std::uint64_t view, const Made& made, std::vector<Certificate> nullifications,
                                 std::optional<Certificate> justification) const {
    const Vote vote{VoteType::propose, epoch.epoch, view, made.tip.hash};
    return {epoch.epoch,
            view,
            made.bytes,
            std::move(justification),
            std::move(nullifications),
            signature(master(view), vote)};
}

void Harness::finalize(std::uint64_t view, const Made& made) {
    receive(master(view) == me ? others()[0] : master(view), proposal(view, made));
    receive(others()[0], CertificateMessage{certificate(VoteType::notarize, view, made.tip.hash)});
    receive(others()[0], CertificateMessage{certificate(VoteType::finalize, view, made.tip.hash)});
    if (world->tip().number + 1 == made.tip.number)
        (void)world->commit(made.tip.hash, made.bytes, certificate(VoteType::finalize, view, made.tip.hash));
    epoch = chain->epoch_setup();
}

std::size_t Harness::sent_votes(VoteType type, std::uint64_t view) const {
    std::size_t count = 0;
    for (const auto& m : sent<VoteMessage>()) count += m.vote.type == type && m.vote.view == view ? 1 : 0;
    return count;
}

std::optional<Hash32> Harness::voted(VoteType type, std::uint64_t view) const {
    for (const auto& m : sent<VoteMessage>())
        if (m.vote.type == type && m.vote.view == view) return m.vote.hash;
    return std::nullopt;
}

}  // namespace quern::chain::consensus::sdbft
