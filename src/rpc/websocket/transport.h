// WebSocket connections (RFC 6455) as text messages in and out, with limits on everything that a client could make
// grow: per connection, per host, and for all together. Boost.Beast is behind it and stays in transport.cpp and
// connection.*. Used by rpc/ws_server; connections come from its own port, or from the HTTP port when a request asks
// for an upgrade. The handler is called from the one IO thread; the methods of a Transport may be called from any
// thread, start() and stop() from one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/expected.h"

namespace quern::rpc::websocket {

using ConnectionId = std::uint64_t;

// RFC 6455, section 7.4.1.
inline constexpr std::uint16_t kGoingAway = 1001;
inline constexpr std::uint16_t kUnsupportedData = 1003;
inline constexpr std::uint16_t kPolicyViolation = 1008;
inline constexpr std::uint16_t kTryAgainLater = 1013;

struct TransportOptions {
    std::string bind = "127.0.0.1";
    std::uint16_t port = 0;                                // 0: any free one
    std::size_t max_connections = 128;                     // open and half open; see base/eviction.h for what is beyond
    std::size_t max_message_bytes = std::size_t{4} << 20;  // incoming, all fragments together; more closes with 1009
    std::size_t max_outgoing_bytes = std::size_t{8} << 20;  // that wait for a reader; more closes with 1008
    std::size_t max_held_bytes = std::size_t{256} << 20;    // of all connections; one of the host with most goes
    std::uint32_t handshake_ms = 5'000;                     // from the TCP connection to the upgrade
    std::uint32_t message_ms = 60'000;                      // from a message's first byte to its last
    std::uint32_t ping_ms = 30'000;                         // between pings; a pong must come ...
    std::uint32_t pong_ms = 15'000;                         // ... within this time
    std::uint32_t close_ms = 2'000;                         // for the client's part of closing
    std::uint32_t unauthorized_ms = 0;                      // an answer to wrong credentials waits so long
};

struct Handshake {
    std::string origin;         // empty: no browser
    std::string host;           // the Host header
    std::string authorization;  // the header's value
    std::string remote;         // "address:port", for the log
    std::string client;         // host_of() of the address
};

class Handler {
public:
    virtual ~Handler() = default;
    // 101: welcome; another HTTP status refuses.
    [[nodiscard]] virtual unsigned admit(const Handshake& handshake) = 0;
    virtual void opened(ConnectionId id, const Handshake& handshake) = 0;
    // One text message, valid UTF-8.
    virtual void received(ConnectionId id, std::string text) = 0;
    // Once for each opened connection; the code and reason are the client's, or ours when we closed.
    virtual void closed(ConnectionId id, std::uint16_t code, const std::string& reason) = 0;
};

class Transport {
public:
    // `handler` outlives the transport. Errors: rpc.bad_bind_address, rpc.cannot_listen.
    [[nodiscard]] static Expected<std::unique_ptr<Transport>> start(const TransportOptions& options, Handler& handler);
    ~Transport();
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;

    [[nodiscard]] std::uint16_t port() const;
    [[nodiscard]] std::size_t connections() const;  // open and half open
    // Bytes that are kept for clients: messages on their way in and out, and what hold() adds.
    [[nodiscard]] std::size_t held_bytes() const;

    // Takes over a connected TCP socket whose client has sent `received`, a request's header that asks for an upgrade.
    void adopt(int socket, std::string received);
    // Queues a text message. False when the connection is gone, closing, or too slow, in which case it is being closed.
    // One message is taken whatever its size while less than max_outgoing_bytes waits.
    bool send(ConnectionId id, std::string text);
    // Bytes that wait to be handed to the socket; 0 for unknown connections.
    [[nodiscard]] std::size_t waiting_bytes(ConnectionId id) const;
    // What the handler keeps for this connection counts against max_held_bytes, too: adds to it, or takes off.
    void hold(ConnectionId id, std::ptrdiff_t bytes);
    // Drops what waits and closes with this code and reason (at most 123 bytes).
    void close(ConnectionId id, std::uint16_t code, std::string reason);
    // Runs `task` on the IO thread after this time, unless the transport is stopped before.
    void run_after(std::uint32_t milliseconds, std::function<void()> task);

    // No new connections; the open ones are closed with 1001.
    void begin_stop();
    // begin_stop, waits for the closing handshakes (close_ms at most), ends the IO thread. Also done on destruction.
    void stop();

private:
    Transport();
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace quern::rpc::websocket
