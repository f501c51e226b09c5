// The bytes of a connection before its records: which handshake message may come now and of what length, what answers
// it, cookies, and whose key the other side has proven. Pure; connection.h feeds it from a socket, fuzzers and benches
// from memory. An object belongs to one thread at a time.
//
// Messages travel as  kind (1) || length (2, big endian) || body :
//   1  -> Noise message 1                      32 bytes
//   2  <- Noise message 2, payload NetCert     214
//   3  -> Noise message 3, payload NetCert || connection kind (1: 1 control, 2 bulk)    183
//   4  <- cookie (16), instead of 2, when the node is under load
//   5  -> cookie (16) || Noise message 1       48
// Any other kind or length ends the handshake before a byte of the body is read.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "p2p/transport/net_cert.h"
#include "p2p/transport/noise.h"

namespace quern::p2p::transport {

inline constexpr std::size_t kHandshakeHeader = 3;
inline constexpr std::size_t kMaxHandshakeBody = 214;

enum class ConnectionKind : std::uint8_t { control = 1, bulk = 2 };

// Who this node is in a handshake.
struct Identity {
    KeyPair static_key;
    Bytes net_cert;
    Bytes20 address;
    std::uint64_t chain_id = 0;
    Bytes prologue;  // genesis hash || protocol version
};

class CookieGuard {
public:
    virtual ~CookieGuard() = default;
    struct Challenge {
        std::optional<FixedBytes<16>> cookie;  // sent instead, when there is one
        bool refused = false;
    };
    // A responder is about to do public-key work for `host`.
    [[nodiscard]] virtual Challenge challenge(const std::string& host, BytesView message) = 0;
    // Whether the cookie is good and the work may be done.
    [[nodiscard]] virtual bool cookie_fits(const std::string& host, BytesView message, BytesView cookie) = 0;
};

// What a flow works with; all of it outlives the flow.
struct HandshakeContext {
    const Identity& identity;
    NetCertCache& certificates;
    Rng& rng;
    CookieGuard& guard;
};

class HandshakeFlow {
public:
    // A responder, for a stranger at this host.
    HandshakeFlow(const HandshakeContext& context, std::string host);
    // An initiator, for a peer that must prove to be `expected`.
    HandshakeFlow(const HandshakeContext& context, ConnectionKind kind, const Bytes20& expected);

    // The initiator's first bytes. Errors: noise.*.
    [[nodiscard]] Expected<Bytes> start();
    // How many bytes take() needs next, at most kMaxHandshakeBody.
    [[nodiscard]] std::size_t wanted() const { return body_ != 0 ? body_ : kHandshakeHeader; }
    // Takes exactly wanted() bytes; returns what must be sent, if anything. After an error the flow takes nothing more.
    // Errors: handshake.unknown_kind, handshake.wrong_length, handshake.out_of_turn, handshake.bad_cookie,
    // handshake.wrong_peer, handshake.unknown_purpose, handshake.self, noise.*, net_cert.*; busy handshake.refused.
    [[nodiscard]] Expected<Bytes> take(BytesView bytes, std::uint64_t now_seconds);

    // For the initiator: once what take() returned last has been sent.
    [[nodiscard]] bool is_done() const { return done_; }
    [[nodiscard]] bool is_initiator() const { return expected_.has_value(); }
    // Valid when it is done.
    [[nodiscard]] ConnectionKind kind() const { return kind_; }
    [[nodiscard]] const VerifiedPeer& peer() const { return peer_; }
    [[nodiscard]] const Bytes& peer_certificate() const { return peer_certificate_; }
    [[nodiscard]] const Hash32& session_id() const { return noise_->handshake_hash(); }
    [[nodiscard]] Expected<SessionKeys> split();  // once; error noise.unfinished

private:
    [[nodiscard]] Expected<Bytes> take_header(BytesView header);
    [[nodiscard]] Expected<Bytes> take_body(BytesView body, std::uint64_t now_seconds);
    [[nodiscard]] Expected<Bytes> first(std::uint8_t kind, BytesView body);
    [[nodiscard]] Expected<Bytes> second(BytesView message, std::uint64_t now_seconds);
    [[nodiscard]] Expected<Bytes> third(BytesView message, std::uint64_t now_seconds);
    [[nodiscard]] Status know_peer(BytesView certificate, std::uint64_t now_seconds);

    HandshakeContext context_;
    std::string host_;
    ConnectionKind kind_ = ConnectionKind::control;
    std::optional<Bytes20> expected_;
    std::unique_ptr<Handshake> noise_;
    Bytes first_message_;  // the initiator's, repeated with a cookie
    std::uint8_t next_kind_ = 0;
    std::size_t body_ = 0;  // 0: a header comes next
    bool challenged_ = false;
    bool failed_ = false;
    bool done_ = false;
    VerifiedPeer peer_;
    Bytes peer_certificate_;
};

}  // namespace quern::p2p::transport
