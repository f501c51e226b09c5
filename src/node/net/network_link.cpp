#include "node/net/network_link.h"

#include "base/log.h"

namespace quern::node {

namespace sdbft = chain::consensus::sdbft;
namespace messages = p2p::messages;

namespace {
// Waiting transactions told to a peer that has just come.
constexpr std::size_t kMaxToldToNewPeer = 4096;
}  // namespace

void NetworkLink::peer_connected(const p2p::PeerInfo& peer) {
    parts_.peers.add(peer.address, peer.status, peer.fixed);
    parts_.sync.consider();
    // The relay remembers what it has told; a newcomer hears what was admitted before it came.
    (void)parts_.work.post(0, [this] {
        auto* const network = network_.load();
        if (network == nullptr) return;
        std::size_t told = 0;
        for (const auto& pooled : parts_.pool.all()) {
            if (++told > kMaxToldToNewPeer) return;
            network->announce_transaction(pooled->transaction.hash, pooled->transaction.encoded);
        }
    });
}

void NetworkLink::peer_disconnected(const Bytes20& peer, const Error& reason) {
    log::debug(log::Category::node, "peer left address={} reason={}", to_hex0x(peer), reason.to_string());
    if (const auto id = parts_.peers.remove(peer)) parts_.consensus.forget(*id);
}

void NetworkLink::peer_status(const Bytes20& peer, const messages::Status& status) {
    parts_.peers.set_status(peer, status);
    parts_.sync.consider();
}

void NetworkLink::receive(const Bytes20& from, Bytes message) {
    const auto id = parts_.peers.id_of(from);
    if (!id || parts_.consensus.receive(*id, std::move(message))) return;
    if (auto* const network = network_.load()) network->report(from, p2p::Offence::too_fast);
}

void NetworkLink::consensus(const Bytes20& from, Bytes envelope) { receive(from, std::move(envelope)); }

bool NetworkLink::wants_block(const Hash32&, std::uint64_t number) { return number > parts_.board.latest()->number(); }

void NetworkLink::block(const Bytes20& from, messages::BlockAnswer block) {
    if (block.certificate.empty()) return;  // nothing says that it is final
    auto certificate = chain::consensus::decode_certificate(block.certificate);
    if (!certificate) {
        if (auto* const network = network_.load()) network->report(from, p2p::Offence::malformed);
        return;
    }
    // The certificate makes consensus want the block, which comes next.
    receive(from, encode(sdbft::Message(sdbft::CertificateMessage{std::move(*certificate)})));
    receive(from, encode(sdbft::Message(sdbft::BlockAnswer{std::move(block.block)})));
}

void NetworkLink::serve(p2p::Responder responder, std::function<void(p2p::Responder&)> answer) {
    const bool queued = parts_.work.post(64, [responder, answer = std::move(answer)]() mutable { answer(responder); });
    if (!queued) responder.refuse(messages::RefusalCode::busy);
}

void NetworkLink::get_block(const Bytes20&, const messages::GetBlock& request, p2p::Responder responder) {
    serve(std::move(responder), [this, request](p2p::Responder& to) {
        if (const auto found = parts_.server.block(request.hash))
            to.answer(*found);
        else
            to.refuse(messages::RefusalCode::not_found);
    });
}

void NetworkLink::get_block_transactions(const Bytes20&, const messages::GetBlockTransactions& request,
                                         p2p::Responder responder) {
    serve(std::move(responder), [this, request](p2p::Responder& to) {
        if (const auto found = parts_.server.transactions(request))
            to.answer(*found);
        else
            to.refuse(messages::RefusalCode::not_found);
    });
}

void NetworkLink::get_certificate(const Bytes20&, const messages::GetCertificate& request, p2p::Responder responder) {
    serve(std::move(responder), [this, request](p2p::Responder& to) {
        if (auto found = parts_.server.certificate(request))
            to.answer(messages::CertificateAnswer{std::move(*found)});
        else
            to.refuse(messages::RefusalCode::not_found);
    });
}

void NetworkLink::get_range(const Bytes20&, const messages::GetRange& request, p2p::Responder responder) {
    serve(std::move(responder), [this, request](p2p::Responder& to) {
        const auto found = parts_.server.range(request);
        if (found.blocks.empty())
            to.refuse(messages::RefusalCode::not_found);
        else
            to.answer(found);
    });
}

}  // namespace quern::node
