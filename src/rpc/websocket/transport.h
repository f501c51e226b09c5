// WebSocket connections (RFC 6455) as text messages in and out, with limits on everything that a client could make
// grow. WebSocket++ is behind it and stays in transport.cpp: it does not compile as C++20, so this folder is C++17 and
// this header uses the standard library alone. Used by rpc/ws_server. The handler is called from the one IO thread;
// the methods of a Transport may be called from any thread, start() and stop() from one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace quern::rpc::websocket {

using ConnectionId = std::uint64_t;

// RFC 6455, section 7.4.1.
inline constexpr std::uint16_t kGoingAway = 1001;
inline constexpr std::uint16_t kUnsupportedData = 1003;
inline constexpr std::uint16_t kPolicyViolation = 1008;
inline constexpr std::uint16_t kTryAgainLater = 1013;

struct TransportOptions {
    std::string bind = "127.0.0.1";
    std::uint16_t port = 0;                                 // 0: any free one
    std::size_t max_connections = 128;                      // open and half open; more are closed at once
    std::size_t max_message_bytes = std::size_t{4} << 20;   // incoming, all fragments together; more closes with 1009
    std::size_t max_outgoing_bytes = std::size_t{8} << 20;  // that wait for a reader; more closes with 1008
    std::uint32_t handshake_ms = 5'000;                     // from the TCP connection to the upgrade
    std::uint32_t ping_ms = 30'000;                         // between pings; a pong must come ...
    std::uint32_t pong_ms = 15'000;                         // ... within this time
    std::uint32_t close_ms = 2'000;                         // for the client's part of closing
};

struct Handshake {
    std::string origin;         // empty: no browser
    std::string authorization;  // the header's value
    std::string remote;         // "address:port", for the log
};

class Handler {
public:
    virtual ~Handler() = default;
    // False: refused with status 403.
    [[nodiscard]] virtual bool admit(const Handshake& handshake) = 0;
    virtual void opened(ConnectionId id, const Handshake& handshake) = 0;
    // One text message, valid UTF-8.
    virtual void received(ConnectionId id, std::string text) = 0;
    // Once for each opened connection; the code and reason are the client's, or ours when we closed.
    virtual void closed(ConnectionId id, std::uint16_t code, const std::string& reason) = 0;
};

class Transport {
public:
    // Null when the port cannot be had; `error` then says why. `handler` outlives the transport.
    [[nodiscard]] static std::unique_ptr<Transport> start(const TransportOptions& options, Handler& handler,
                                                          std::string& error);
    ~Transport();
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;

    [[nodiscard]] std::uint16_t port() const;
    [[nodiscard]] std::size_t connections() const;  // open and half open

    // Queues a text message. False when the connection is gone, closing, or too slow, in which case it is being closed.
    // One message is taken whatever its size while less than max_outgoing_bytes waits.
    bool send(ConnectionId id, std::string text);
    // Bytes that wait to be handed to the socket; 0 for unknown connections.
    [[nodiscard]] std::size_t waiting_bytes(ConnectionId id) const;
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
