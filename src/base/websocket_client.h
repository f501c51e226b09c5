// A WebSocket client (RFC 6455) for text messages: connects, sends, receives, each with a time limit. Used by workers
// to hear of new blocks, and by tests. Boost.Beast is behind it, as behind the HTTP client, and stays in
// websocket_client.cpp. A client belongs to one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/http_client.h"

namespace quern {
inline namespace base {
namespace websocket {

// "ws://host[:port][/path]". Errors: as http::parse_url.
[[nodiscard]] Expected<http::Url> parse_url(std::string_view text);

struct ClientOptions {
    std::uint64_t connect_timeout_ms = 5'000;  // name, TCP and handshake, each
    std::uint64_t idle_timeout_ms = 60'000;    // a silent server is asked with pings, then given up
    std::uint64_t write_timeout_ms = 10'000;
    std::size_t max_message_bytes = std::size_t{8} << 20;
};

class Client {
public:
    // Errors: websocket.connect_failed, websocket.refused (another answer than an upgrade).
    [[nodiscard]] static Expected<std::unique_ptr<Client>> connect(const http::Url& url, ClientOptions options = {});
    // Closes without waiting for the server's part.
    ~Client();
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    // Errors: websocket.closed, websocket.timeout. After an error only a new connection helps.
    [[nodiscard]] Status send(const std::string& text);
    // The next message; nullopt when none came within the time. Errors: websocket.closed (the detail has the code and
    // reason that the server gave, if any), websocket.too_large, websocket.malformed.
    [[nodiscard]] Expected<std::optional<std::string>> receive(std::uint64_t timeout_ms);

private:
    Client();
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace websocket
}  // namespace base
}  // namespace quern
