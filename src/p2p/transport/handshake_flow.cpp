#include "p2p/transport/handshake_flow.h"

#include "crypto/aead.h"

namespace quern::p2p::transport {
namespace {

constexpr std::size_t kCookieBytes = 16;
constexpr std::size_t kFirstBytes = 32;
constexpr std::size_t kSecondBytes = 32 + 48 + kNetCertBytes + crypto::kAeadTagSize;
constexpr std::size_t kThirdBytes = 48 + kNetCertBytes + 1 + crypto::kAeadTagSize;
static_assert(kSecondBytes == kMaxHandshakeBody && kThirdBytes <= kMaxHandshakeBody);

enum HandshakeKind : std::uint8_t { kFirst = 1, kSecond = 2, kThird = 3, kCookie = 4, kFirstWithCookie = 5 };

std::size_t length_of(std::uint8_t kind) {
    switch (kind) {
        case kFirst:
            return kFirstBytes;
        case kSecond:
            return kSecondBytes;
        case kThird:
            return kThirdBytes;
        case kCookie:
            return kCookieBytes;
        case kFirstWithCookie:
            return kCookieBytes + kFirstBytes;
        default:
            return 0;
    }
}

Bytes framed(std::uint8_t kind, BytesView body) {
    Bytes bytes;
    bytes.reserve(kHandshakeHeader + body.size());
    bytes.push_back(kind);
    bytes.push_back(static_cast<std::uint8_t>(body.size() >> 8));
    bytes.push_back(static_cast<std::uint8_t>(body.size()));
    append(bytes, body);
    return bytes;
}

std::unique_ptr<Handshake> make_noise(const HandshakeContext& context, Handshake::Role role) {
    return std::make_unique<Handshake>(role, context.identity.prologue, context.identity.static_key,
                                       KeyPair::generate(context.rng));
}

}  // namespace

HandshakeFlow::HandshakeFlow(const HandshakeContext& context, std::string host)
    : context_(context), host_(std::move(host)) {}

HandshakeFlow::HandshakeFlow(const HandshakeContext& context, ConnectionKind kind, const Bytes20& expected)
    : context_(context), kind_(kind), expected_(expected) {}

Expected<Bytes> HandshakeFlow::start() {
    noise_ = make_noise(context_, Handshake::Role::initiator);
    QUERN_TRY(first_message_, noise_->write({}));
    return framed(kFirst, first_message_);
}

Expected<Bytes> HandshakeFlow::take(BytesView bytes, std::uint64_t now_seconds) {
    if (failed_ || done_ || bytes.size() != wanted() || (is_initiator() && !noise_))
        return fail("handshake.out_of_turn", "nothing more is taken");
    auto answer = body_ == 0 ? take_header(bytes) : take_body(bytes, now_seconds);
    failed_ = !answer;
    return answer;
}

Expected<SessionKeys> HandshakeFlow::split() {
    if (!done_) return fail("noise.unfinished");
    return noise_->split();
}

Expected<Bytes> HandshakeFlow::take_header(BytesView header) {
    const std::size_t size = std::size_t{header[1]} << 8 | header[2];
    if (length_of(header[0]) == 0) return fail("handshake.unknown_kind", std::to_string(header[0]));
    if (size != length_of(header[0])) return fail("handshake.wrong_length", std::to_string(size));
    next_kind_ = header[0];
    body_ = size;
    return Bytes{};
}

Expected<Bytes> HandshakeFlow::take_body(BytesView body, std::uint64_t now_seconds) {
    body_ = 0;
    if (!is_initiator()) {
        if (!noise_ && (next_kind_ == kFirst || next_kind_ == kFirstWithCookie)) return first(next_kind_, body);
        if (noise_ && next_kind_ == kThird) return third(body, now_seconds);
    } else if (next_kind_ == kSecond) {
        return second(body, now_seconds);
    } else if (next_kind_ == kCookie && !std::exchange(challenged_, true)) {
        Bytes again = to_bytes(body);
        append(again, first_message_);
        return framed(kFirstWithCookie, again);
    }
    return fail("handshake.out_of_turn", "kind " + std::to_string(next_kind_));
}

Expected<Bytes> HandshakeFlow::first(std::uint8_t kind, BytesView body) {
    const BytesView message = body.last(kFirstBytes);
    if (kind == kFirstWithCookie) {
        if (!context_.guard.cookie_fits(host_, message, body.first(kCookieBytes))) return fail("handshake.bad_cookie");
    } else {
        const auto challenge = context_.guard.challenge(host_, message);
        if (challenge.refused) return busy("handshake.refused", "too many from there");
        if (challenge.cookie && std::exchange(challenged_, true))
            return fail("handshake.out_of_turn", "asked for a cookie");
        if (challenge.cookie) return framed(kCookie, *challenge.cookie);
    }
    noise_ = make_noise(context_, Handshake::Role::responder);
    QUERN_CHECK(noise_->read(message));
    QUERN_TRY(const Bytes answer, noise_->write(context_.identity.net_cert));
    return framed(kSecond, answer);
}

Status HandshakeFlow::know_peer(BytesView certificate, std::uint64_t now_seconds) {
    QUERN_TRY(peer_, context_.certificates.verify(certificate, context_.identity.chain_id, noise_->remote_static(),
                                                  now_seconds));
    peer_certificate_ = to_bytes(certificate);
    return {};
}

Expected<Bytes> HandshakeFlow::second(BytesView message, std::uint64_t now_seconds) {
    QUERN_TRY(const Bytes payload, noise_->read(message));
    QUERN_CHECK(know_peer(payload, now_seconds));
    if (peer_.address != *expected_)
        return fail("handshake.wrong_peer", "it is " + to_hex0x(peer_.address) + ", not " + to_hex0x(*expected_));
    if (peer_.address == context_.identity.address) return fail("handshake.self", "the peer has this node's own key");
    Bytes mine = context_.identity.net_cert;
    mine.push_back(static_cast<std::uint8_t>(kind_));
    QUERN_TRY(const Bytes answer, noise_->write(mine));
    done_ = true;
    return framed(kThird, answer);
}

Expected<Bytes> HandshakeFlow::third(BytesView message, std::uint64_t now_seconds) {
    QUERN_TRY(const Bytes payload, noise_->read(message));
    const std::uint8_t kind = payload.back();
    if (kind != 1 && kind != 2) return fail("handshake.unknown_purpose", std::to_string(kind));
    QUERN_CHECK(know_peer(BytesView(payload).first(kNetCertBytes), now_seconds));
    if (peer_.address == context_.identity.address) return fail("handshake.self", "the peer has this node's own key");
    kind_ = static_cast<ConnectionKind>(kind);
    done_ = true;
    return Bytes{};
}

}  // namespace quern::p2p::transport
