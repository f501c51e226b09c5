#include "node/net/network_link.h"

#include "base/log.h"

namespace quern::node {

namespace sdbft = chain::consensus::sdbft;
namespace messages = p2p::messages;

namespace {
// Waiting transactions told to a peer that has just come; whoever comes and goes must not cost much.
constexpr std::size_t kMaxToldToNewPeer = 4096;
constexpr std::size_t kMaxBytesToldToNewPeer = 4U << 20;

constexpr std::size_t kAnswerOverhead = 64;

// What an answer holds while it waits to leave.
std::size_t size_of(const messages::BlockAnswer& answer) {
    return answer.block.size() + answer.certificate.size() + kAnswerOverhead;
}
std::size_t size_of(const messages::BlockTransactions& answer) {
    std::size_t bytes = kAnswerOverhead;
    for (const auto& encoded : answer.encoded) bytes += encoded.size() + 4;
    return bytes;
}
std::size_t size_of(const messages::Range& answer) {
    std::size_t bytes = 0;
    for (const auto& block : answer.blocks) bytes += size_of(block);
    return bytes;
}
}  // namespace

void NetworkLink::peer_connected(const p2p::PeerInfo& peer) {
    parts_.peers.add(peer.address);
    parts_.sync.peer_joined(peer.address, peer.status, peer.fixed);
    parts_.status_heard(peer.address, peer.status);
    // The relay remembers what it has told; a newcomer hears what was admitted before it came.
    parts_.work.post_for(peer.address, [this](bool in_time) {
        if (!in_time) return;
        std::vector<p2p::Network::Announcement> announcements;
        for (const auto& pooled : parts_.pool.latest(kMaxToldToNewPeer, kMaxBytesToldToNewPeer))
            announcements.push_back({pooled->transaction.hash, {pooled, &pooled->transaction.encoded}});
        parts_.network.announce_transactions(std::move(announcements));
    });
}

void NetworkLink::peer_disconnected(const Bytes20& peer, const Error& reason) {
    log::debug(log::Category::node, "peer left address={} reason={}", to_hex0x(peer), reason.to_string());
    parts_.sync.peer_left(peer);
    parts_.work.forget(peer);
    if (const auto id = parts_.peers.remove(peer)) parts_.consensus.forget(*id);
}

void NetworkLink::peer_status(const Bytes20& peer, const messages::Status& status) {
    parts_.sync.peer_said(peer, status);
    parts_.status_heard(peer, status);
}

void NetworkLink::receive(const Bytes20& from, Bytes message) {
    const auto id = parts_.peers.id_of(from);
    if (!id || parts_.consensus.receive(*id, std::move(message), !parts_.peers.is_member(from))) return;
    parts_.network.report(from, p2p::Offence::too_fast);
}

void NetworkLink::consensus(const Bytes20& from, Bytes envelope) { receive(from, std::move(envelope)); }

bool NetworkLink::wants_block(const Hash32&, std::uint64_t number) { return number > parts_.board.latest()->number(); }

void NetworkLink::block(const Bytes20& from, messages::BlockAnswer block) {
    if (block.certificate.empty()) return;  // nothing says that it is final
    auto certificate = chain::consensus::decode_certificate(block.certificate);
    if (!certificate) {
        parts_.network.report(from, p2p::Offence::malformed);
        return;
    }
    // The certificate makes consensus want the block, which comes next.
    receive(from, encode(sdbft::Message(sdbft::CertificateMessage{std::move(*certificate)})));
    receive(from, encode(sdbft::Message(sdbft::BlockAnswer{std::move(block.block)})));
}

void NetworkLink::serve(const Bytes20& from, p2p::Responder responder, std::function<void(p2p::Responder&)> answer) {
    parts_.work.post_for(from, [responder, answer = std::move(answer)](bool in_time) mutable {
        if (in_time)
            answer(responder);
        else
            responder.refuse(messages::RefusalCode::busy);
    });
}

template <class Answer>
void NetworkLink::serve_large(const Bytes20& from, p2p::Responder responder, std::size_t most,
                              std::function<std::optional<Answer>()> read) {
    serve(from, std::move(responder), [this, from, most, read = std::move(read)](p2p::Responder& to) {
        const auto place = AnswerBudget::reserve(parts_.answers, from, most);
        if (!place) return to.refuse(messages::RefusalCode::busy);
        const auto found = read();
        if (!found) return to.refuse(messages::RefusalCode::not_found);
        place->shrink(size_of(*found));
        to.hold(place);
        to.answer(*found);
    });
}

void NetworkLink::get_block(const Bytes20& from, const messages::GetBlock& request, p2p::Responder responder) {
    serve_large<messages::BlockAnswer>(from, std::move(responder), messages::kMaxBlockMessage,
                                       [this, request] { return parts_.server.block(request.hash); });
}

void NetworkLink::get_block_transactions(const Bytes20& from, const messages::GetBlockTransactions& request,
                                         p2p::Responder responder) {
    serve_large<messages::BlockTransactions>(from, std::move(responder), messages::kMaxBlockMessage,
                                             [this, request] { return parts_.server.transactions(request); });
}

void NetworkLink::get_certificate(const Bytes20& from, const messages::GetCertificate& request,
                                  p2p::Responder responder) {
    serve(from, std::move(responder), [this, request](p2p::Responder& to) {
        if (auto found = parts_.server.certificates(request); !found.empty())
            to.answer(messages::CertificateAnswer{std::move(found)});
        else
            to.refuse(messages::RefusalCode::not_found);
    });
}

void NetworkLink::get_range(const Bytes20& from, const messages::GetRange& request, p2p::Responder responder) {
    serve_large<messages::Range>(from, std::move(responder), messages::kMaxRangeMessage,
                                 [this, request]() -> std::optional<messages::Range> {
                                     auto found = parts_.server.range(request);
                                     return found.blocks.empty() ? std::nullopt : std::optional(std::move(found));
                                 });
}

}  // namespace quern::node
