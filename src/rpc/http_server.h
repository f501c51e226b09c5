// The node's HTTP/1.1 server on the RPC port: POST / is JSON-RPC, /content/<id> the content store, GET / a line of
// text, GET /health a JSON object; a request for an upgrade goes to the WebSocket server. One thread moves bytes, a few
// others answer; nothing that a client does (slow, large, many) takes more than the named limits. Boost.Beast is behind
// it and stays in the .cpp files. Start and stop belong to one thread; the hooks are called from the answering threads,
// but for `upgrade`.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "chain/api/content_gateway.h"
#include "rpc/dispatcher.h"
#include "rpc/gate.h"
#include "rpc/upload_places.h"

namespace quern::rpc {

struct HttpOptions {
    std::string bind = "127.0.0.1";
    std::uint16_t port = 8545;          // 0: any free one
    unsigned threads = 2;               // that answer; hosts take turns
    std::size_t max_connections = 256;  // see base/eviction.h for what is beyond
    std::size_t max_queued = 128;    // requests that wait for a thread; of hosts with their part of them more get 503
    std::size_t max_large_jobs = 5;  // JSON-RPC requests above kSmallRequest that are parsed at a time (large_jobs.h)
    // Requests' bodies and answers of all connections; the largest of the host that holds most goes when there is more.
    std::size_t max_held_bytes = std::size_t{512} << 20;
    std::uint32_t max_header_bytes = 16U << 10;
    std::uint64_t max_body_bytes = 8ULL << 20;      // of a JSON-RPC request; more gets 413
    std::uint64_t max_content_bytes = 16ULL << 30;  // of an upload, besides the store's own quota
    UploadLimits uploads;                           // of contents
    std::uint64_t idle_ms = 60'000;                 // a connection may wait this long for the next request's header
    std::uint64_t body_ms = 30'000;                 // a JSON-RPC body must be there by then
    std::uint64_t call_ms = 5'000;                  // a JSON-RPC request, batches whole; then its calls time out
    std::uint64_t piece_ms = 30'000;                // each kContentPiece of a download
    std::uint64_t write_ms = 60'000;                // a response must be taken by then
    std::vector<std::string> cors_origins;          // allowed Origin headers; "*": every one. Others get 403
    std::shared_ptr<const Gate> gate;               // null: nobody is authenticated, no names but localhost
};
inline constexpr std::size_t kContentPiece = 256U << 10;
// Of one connection, read and not taken yet. What a chunk says beside its size has no other limit.
inline constexpr std::size_t kMaxBuffered = 2 * kContentPiece;

struct HttpHooks {
    BeginJob rpc;                                   // JSON-RPC
    std::function<std::string()> home;              // GET /
    std::function<json::Value()> health;            // GET /health; a member "ok" that is false gives status 503
    chain::api::ContentGateway* content = nullptr;  // null: no content store here
    // Takes over a connected socket that has sent this header, asking for a WebSocket. Called from the IO thread;
    // empty: no WebSocket here.
    std::function<void(int socket, std::string received)> upgrade;
};

class HttpServer {
public:
    // Errors: rpc.bad_bind_address, rpc.cannot_listen (the detail says why, e.g. "Address already in use").
    [[nodiscard]] static Expected<std::unique_ptr<HttpServer>> start(HttpOptions options, HttpHooks hooks);
    ~HttpServer();
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;

    [[nodiscard]] std::uint16_t port() const;
    [[nodiscard]] std::size_t connections() const;
    [[nodiscard]] std::size_t held_bytes() const;  // of requests and answers
    // Closes the port and all connections, cancels running calls and waits for them. Also done on destruction.
    void stop();

private:
    HttpServer();
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace quern::rpc
