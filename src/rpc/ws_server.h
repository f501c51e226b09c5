// The node's WebSocket side: the methods of the HTTP port over a connection that stays, and subscriptions. Connections
// come from a port of its own and from the HTTP port's upgrades. One thread
// moves bytes, a few others answer, the event source's thread tells what happened; nothing that a client does (slow,
// large, many, never finished) takes more than the named limits. Start and stop belong to one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chain/api/events.h"
#include "rpc/dispatcher.h"

namespace quern::rpc {

inline constexpr std::uint16_t kDefaultWsPort = 8546;

struct WsOptions {
    std::string bind = "127.0.0.1";
    std::uint16_t port = kDefaultWsPort;                    // 0: any free one
    unsigned threads = 2;                                   // that answer; hosts take turns
    std::size_t max_connections = 128;                      // open and half open; see base/eviction.h for more
    std::size_t max_message_bytes = std::size_t{4} << 20;   // a request or batch; more closes with 1009
    std::size_t max_outgoing_bytes = std::size_t{8} << 20;  // that wait for a slow reader, and one answer; then 1008
    std::size_t max_waiting_requests = 1024;                // of a connection, which are answered in order ...
    std::size_t max_waiting_bytes = std::size_t{8} << 20;   // ... and their size; more closes with 1013
    std::size_t max_held_bytes = std::size_t{256} << 20;    // of all connections; one of the host with most is dropped
    std::size_t max_large_jobs = 5;                         // requests above kSmallRequest at a time (large_jobs.h)
    std::size_t max_subscriptions = 64;                     // of a connection ...
    std::size_t max_subscription_bytes = std::size_t{512} << 10;  // ... and what their filters take
    std::uint32_t call_ms = 5'000;                                // a request, batches whole; then its calls time out
    std::uint32_t handshake_ms = 5'000;
    std::uint32_t message_ms = 60'000;  // from a message's first byte to its last
    std::uint32_t ping_ms = 30'000;
    std::uint32_t pong_ms = 15'000;
    std::uint32_t close_ms = 2'000;
    std::vector<std::string> origins;  // allowed Origin headers; "*": every one. Others get 403
    std::shared_ptr<const Gate> gate;  // null: nobody is authenticated, no names but localhost
};

class WsServer {
public:
    // `events` outlives the server. Errors: rpc.bad_bind_address, rpc.cannot_listen.
    [[nodiscard]] static Expected<std::unique_ptr<WsServer>> start(const WsOptions& options, BeginJob rpc,
                                                                   chain::api::EventSource& events);
    ~WsServer();
    WsServer(const WsServer&) = delete;
    WsServer& operator=(const WsServer&) = delete;

    [[nodiscard]] std::uint16_t port() const;
    [[nodiscard]] std::size_t connections() const;    // open and half open
    [[nodiscard]] std::size_t subscriptions() const;  // of all connections
    [[nodiscard]] std::size_t held_bytes() const;     // kept for all connections
    // Takes over a connected socket that has sent this request for an upgrade. From any thread.
    void adopt(int socket, std::string received);
    // Closes all connections with 1001, waits for running calls. Also done on destruction.
    void stop();

private:
    WsServer();
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace quern::rpc
