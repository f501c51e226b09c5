// One encrypted TCP connection, from the first handshake byte to the last record: handshake with time limits, records
// in and out, priorities, pacing, pings. Used by network.cpp alone (it includes Boost.Asio). All members are called on
// the network thread, and the host's too.
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "p2p/transport/frames.h"
#include "p2p/transport/handshake_flow.h"
#include "p2p/transport/message_assembler.h"
#include "p2p/transport/send_queue.h"
#include "p2p/transport/token_bucket.h"

namespace quern::p2p::transport {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using error_code = boost::system::error_code;

inline constexpr std::uint64_t kHandshakeLimitMs = 5'000;  // from accept or connect to the last handshake message
inline constexpr std::uint64_t kPingIntervalMs = 450;
inline constexpr std::uint64_t kSilenceLimitMs = 15'000;  // nothing received for so long: the peer is gone
inline constexpr std::uint64_t kStallLimitMs = 20'000;    // one write pending for so long: the peer does not read
inline constexpr std::uint64_t kGoodbyeLimitMs = 1'000;
inline constexpr int kNotSentLowWater = 16 << 10;        // TCP_NOTSENT_LOWAT
inline constexpr std::size_t kControlBatch = 16U << 10;  // bytes of records handed to the kernel at once
inline constexpr std::size_t kBulkBatch = 64U << 10;
inline constexpr std::uint64_t kPingsPerSecond = 5;
inline constexpr std::uint64_t kPingBurst = 20;
inline constexpr unsigned kMaxOpenPings = 8;  // of ours without an answer

// Types below 8 belong to the connection itself.
inline constexpr std::uint8_t kPingType = 1;
inline constexpr std::uint8_t kPongType = 2;
inline constexpr std::uint8_t kGoodbyeType = 3;
inline constexpr std::uint8_t kFirstMessageType = 8;

class Connection;

// Who can have caused a connection's end.
enum class Blame : std::uint8_t {
    nobody,
    path,  // bytes that nobody has signed: the peer or whoever sits on the line to it
    peer,  // the peer's key stands behind it
};

class ConnectionHost : public CookieGuard {
public:
    // A message begins: how much of it is taken, if anything. Errors end the connection, to the peer's blame.
    [[nodiscard]] virtual Expected<Admission> admit_message(Connection& connection, std::uint8_t type,
                                                            std::uint32_t stream) = 0;
    // The handshake is done; an error refuses the peer.
    [[nodiscard]] virtual Status opened(Connection& connection) = 0;
    virtual void message(Connection& connection, WholeMessage message) = 0;
    virtual void closed(Connection& connection, const Error& reason, Blame blame) = 0;
};

// What connections of a node share.
struct ConnectionShared {
    ConnectionHost& host;
    const Identity& identity;
    const Clock& clock;
    Rng& rng;
    NetCertCache& certificates;
    MemoryLedger& unfinished;
    TokenBucket& bulk_pace;
    std::uint64_t& bulk_sent;
    std::uint64_t unfinished_ms = kUnfinishedMs;
};

class Connection : public std::enable_shared_from_this<Connection> {
public:
    enum class State : std::uint8_t { handshake, open, closing, closed };

    // An accepted socket.
    Connection(tcp::socket socket, const ConnectionShared& shared);
    // A connected socket to a peer that must prove to be `expected`.
    Connection(tcp::socket socket, const ConnectionShared& shared, ConnectionKind kind, const Bytes20& expected);

    void start();
    // Queues a message; error send_queue.full, connection.not_open.
    Status send(TrafficClass traffic, std::uint8_t type, std::uint32_t stream, std::shared_ptr<const Bytes> body);
    // Says goodbye after what is queued as urgent, then closes. The host hears closed() with `reason`.
    void close(Error reason);
    // At once, without a word.
    void abort(Error reason);
    // Lets go of what waits and is not urgent; for a peer that is about to be left.
    void forget_queued() { queue_.clear_shared(); }
    // A static peer or a member of the committee: it has a part of the node's memory that strangers cannot take.
    void set_fixed(bool fixed) { assembler_.set_fixed(fixed); }

    [[nodiscard]] State state() const { return state_; }
    [[nodiscard]] bool is_outbound() const { return expected_.has_value(); }
    [[nodiscard]] const std::optional<Bytes20>& expected() const { return expected_; }  // whom it dialled
    [[nodiscard]] ConnectionKind kind() const { return kind_; }
    [[nodiscard]] const VerifiedPeer& peer() const { return peer_; }
    [[nodiscard]] const Bytes& peer_certificate() const { return peer_certificate_; }
    [[nodiscard]] const std::string& remote_host() const { return remote_host_; }
    [[nodiscard]] std::uint16_t remote_port() const { return remote_port_; }
    [[nodiscard]] const Hash32& session_id() const { return session_id_; }
    [[nodiscard]] std::uint64_t rtt_us() const { return rtt_us_; }  // newest; 0 before the first pong
    [[nodiscard]] std::uint64_t least_rtt_us() const { return least_rtt_us_; }
    [[nodiscard]] std::uint64_t rtt_samples() const { return rtt_samples_; }
    [[nodiscard]] bool was_open() const { return writer_.has_value(); }
    [[nodiscard]] std::uint64_t bytes_in() const { return bytes_in_; }
    [[nodiscard]] std::uint64_t bytes_out() const { return bytes_out_; }
    [[nodiscard]] const SendQueue& queue() const { return queue_; }

private:
    void arm_timer();
    void on_timer();
    void read_handshake();
    void handle_handshake(BytesView bytes);
    void send_handshake(Bytes bytes, bool then_open);
    [[nodiscard]] Status become_open();
    void read_records();
    void on_bytes(std::size_t count);
    [[nodiscard]] Status handle_frame(const Frame& frame);
    void pump();
    void finish(const Error& reason, Blame blame = Blame::nobody);
    [[nodiscard]] std::uint64_t now_us() const;
    [[nodiscard]] std::size_t max_record() const {
        return kind_ == ConnectionKind::bulk ? kMaxBulkRecord : kMaxControlRecord;
    }

    tcp::socket socket_;
    asio::steady_timer timer_;
    asio::steady_timer pace_timer_;
    ConnectionShared shared_;
    State state_ = State::handshake;
    ConnectionKind kind_ = ConnectionKind::control;
    std::optional<Bytes20> expected_;
    std::string remote_host_;
    std::uint16_t remote_port_ = 0;

    std::optional<HandshakeFlow> handshake_;
    std::array<std::uint8_t, kMaxHandshakeBody> small_{};

    VerifiedPeer peer_;
    Bytes peer_certificate_;
    Hash32 session_id_;
    std::optional<FrameWriter> writer_;
    std::optional<FrameReader> reader_;
    MessageAssembler assembler_;
    SendQueue queue_;
    Bytes out_;
    bool writing_ = false;
    bool pacing_ = false;
    bool peer_said_goodbye_ = false;
    Error reason_{"connection.closed", {}};

    TokenBucket ping_rate_{kPingsPerSecond, kPingBurst};
    std::uint64_t started_ms_ = 0;
    std::uint64_t heard_ms_ = 0;
    std::uint64_t write_started_ms_ = 0;
    std::uint64_t closing_ms_ = 0;
    std::uint64_t ping_sent_ms_ = 0;
    std::deque<std::uint64_t> open_pings_;  // the stamps of ours without an answer, oldest first
    std::uint64_t rtt_us_ = 0;
    std::uint64_t least_rtt_us_ = 0;
    std::uint64_t rtt_samples_ = 0;
    std::uint64_t bytes_in_ = 0;
    std::uint64_t bytes_out_ = 0;
};

}  // namespace quern::p2p::transport
