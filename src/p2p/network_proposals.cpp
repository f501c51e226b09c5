// Proposals as short ids: to whom they go, what is missing of them, and the whole when something is wrong.
#include "p2p/network_impl.h"

namespace quern::p2p {

using messages::RefusalCode;
using Part = gossip::SentProposals::Part;

// --- Sending ---------------------------------------------------------------------------------------------------------

void Network::Impl::send_proposal(const std::shared_ptr<const Bytes>& envelope, std::size_t begin, std::size_t end) {
    std::vector<Peer*> receivers;
    std::uint64_t round_trip = 0;
    for (auto& [address, peer] : peers) {
        if (!committee.contains(address) || !peer.session.has_hello()) continue;
        receivers.push_back(&peer);
        round_trip = std::max(round_trip, peer.control->least_rtt_us() / 1000);
    }
    const std::size_t saved = end - std::min(begin, end);
    if (saved * receivers.size() < options.compact_proposal_bytes || receivers.empty() ||
        !proposal_rate.try_take(1, now_us()))
        return send_consensus(envelope);
    auto cut = gossip::cut_proposal(envelope, begin, end);
    if (!cut) return send_consensus(envelope);
    tell_relay();
    const std::uint64_t now = now_ms();
    const std::uint64_t spread = std::min(kSpreadMs + 3 * round_trip / 2, kMaxSpreadMs);
    const auto compact =
        gossip::make_compact(*cut, [&](const Hash32& hash) { return relay.is_spread(hash, spread, now); });
    const auto body = std::make_shared<const Bytes>(encode(compact));
    if (body->size() > envelope->size() / 2 || body->size() > messages::kMaxCompactProposal)
        return send_consensus(envelope);
    log::debug(kLog, "proposal as short ids bytes={} whole={} transactions={} inside={} members={}", body->size(),
               envelope->size(), compact.transaction_count(), compact.prefilled.size(), receivers.size());
    sent_proposals.keep(std::move(*cut));
    ++proposals.sent;
    for (Peer* peer : receivers) (void)send(*peer, Type::proposal, peer->session.next_stream(), body);
}

void Network::Impl::serve_proposal_transactions(Peer& peer, std::uint32_t stream,
                                                const messages::GetProposalTransactions& asked) {
    const auto* proposal = sent_proposals.take(asked.digest, peer.address, Part::transactions);
    if (proposal == nullptr) return refuse(peer.address, stream, RefusalCode::not_found);
    messages::ProposalTransactions out{asked.digest, {}};
    for (const auto index : asked.indexes) {
        if (index >= proposal->transactions.size()) {
            penalize(peer.address, Offence::malformed, "a place that the proposal does not have");
            return refuse(peer.address, stream, RefusalCode::malformed);
        }
        out.encoded.push_back(to_bytes(proposal->transactions[index]));
    }
    answer(peer.address, stream, Type::proposal_transactions, encode(out));
}

void Network::Impl::serve_proposal(Peer& peer, const Hash32& digest) {
    if (const auto* proposal = sent_proposals.take(digest, peer.address, Part::whole))
        (void)send(peer, Type::consensus, peer.session.next_stream(), proposal->bytes);
}

// --- Receiving -------------------------------------------------------------------------------------------------------

void Network::Impl::handle_proposal(Peer& peer, BytesView body) {
    auto compact = messages::decode_compact_proposal(body);
    if (!compact) return penalize(peer.address, Offence::malformed, "proposal " + compact.error().to_string());
    if (peer.proposals.contains(compact->digest)) return;
    tell_relay();
    using Known = gossip::ProposalAssembly::Known;
    const auto assembly = std::make_shared<gossip::ProposalAssembly>(
        std::move(*compact), [this](const messages::ShortId& id) -> std::optional<Known> {
            if (const auto* here = relay.find_here(id)) return Known{here->hash, here->encoded};
            auto pooled = handler->find_transaction(id);
            if (!pooled) return std::nullopt;
            const Hash32 hash = chain::types::transaction_hash(*pooled);
            return Known{hash, std::make_shared<const Bytes>(std::move(*pooled))};
        });
    auto missing = assembly->missing();
    log::debug(kLog, "proposal from={} transactions={} missing={}", to_hex0x(peer.address),
               assembly->transaction_count(), missing.size());
    if (missing.empty()) return hand_over(peer.address, *assembly);
    // Most of it would come one by one; and what waits here is bounded for each and for all.
    if (missing.size() > assembly->transaction_count() / 2 || assembly->is_too_large() ||
        peer.proposals.size() >= kMaxProposalsPerPeer || proposals_waiting >= kMaxProposals ||
        proposals.assembled_bytes + assembly->held_bytes() > kMaxProposalBytes)
        return ask_proposal(peer.address, assembly->digest());
    ask_proposal_transactions(peer, assembly, std::move(missing));
}

void Network::Impl::ask_proposal_transactions(Peer& peer, const std::shared_ptr<gossip::ProposalAssembly>& assembly,
                                              std::vector<std::uint64_t> missing) {
    const std::size_t held = assembly->held_bytes();
    ++proposals_waiting;
    proposals.assembled_bytes += held;
    peer.proposals.insert(assembly->digest());
    ++proposals.asked;
    proposals.missing += missing.size();
    const std::uint64_t patience =
        kProposalAnswerMs + 2 * round_trip_ms(peer) + missing.size() / kProposalTransactionsPerMs;
    auto body = encode(messages::GetProposalTransactions{assembly->digest(), std::move(missing)});
    request(peer.address, Type::get_proposal_transactions, std::move(body), patience,
            [this, address = peer.address, held, assembly](const Expected<Bytes>& answer) {
                --proposals_waiting;
                proposals.assembled_bytes -= held;
                if (const auto from = peers.find(address); from != peers.end())
                    from->second.proposals.erase(assembly->digest());
                if (!stopping) filled(address, *assembly, answer);
            });
}

// Its proposer has all of it, so what it gives wrongly is its own doing; but not what it does not give in time.
void Network::Impl::filled(const Bytes20& address, gossip::ProposalAssembly& assembly, const Expected<Bytes>& answer) {
    if (!answer) return ask_proposal(address, assembly.digest());
    auto given = messages::decode_proposal_transactions(*answer);
    quern::Status right = given ? quern::Status{} : fail(given.error());
    if (given && given->digest != assembly.digest()) right = fail("compact_proposal.another");
    if (right) right = assembly.fill(std::move(given->encoded));
    if (right) return hand_over(address, assembly);
    penalize(address, Offence::malformed, "proposal_transactions " + right.error().to_string());
    ask_proposal(address, assembly.digest());
}

// What is the proposer's byte for byte, consensus judges as if it had come whole. What is not holds another transaction
// with one's short id and check, which to an honest proposer happens by no chance that counts, so it costs little; or a
// digest of nothing, and then who does it ten times a second is left.
void Network::Impl::hand_over(const Bytes20& address, const gossip::ProposalAssembly& assembly) {
    auto proposal = assembly.finish();
    if (!proposal) {
        penalize(address, Offence::useless, proposal.error().to_string());
        return ask_proposal(address, assembly.digest());
    }
    ++proposals.rebuilt;
    manager.delivered(address);
    handler->consensus(address, std::move(*proposal));
}

// It comes as a message of consensus: nothing here waits for it.
void Network::Impl::ask_proposal(const Bytes20& address, const Hash32& digest) {
    const auto at = peers.find(address);
    if (at == peers.end() || !at->second.session.has_hello()) return;
    ++proposals.asked_whole;
    (void)send(at->second, Type::get_proposal, encode(messages::GetProposal{digest}));
}

}  // namespace quern::p2p
