// A blocking HTTP/1.1 client: keep-alive, time-outs on every wait, size limits, streamed bodies both ways. Used by
// quern-cli, the workers and tests; knows nothing of JSON-RPC or content ids. Boost.Beast is behind it and stays in
// http_client.cpp. A Client belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/expected.h"

namespace quern {
inline namespace base {
namespace http {

struct Url {
    std::string host;
    std::uint16_t port = 80;
    std::string target = "/";  // path and query
};
// "http://host[:port][/path]"; the host may be an IPv6 address in brackets. Errors: http.bad_url,
// http.unsupported_scheme.
[[nodiscard]] Expected<Url> parse_url(std::string_view text);

struct Header {
    std::string name;
    std::string value;
};

struct Request {
    std::string method = "GET";
    std::string target = "/";
    std::vector<Header> headers;  // Host, Content-Length and Connection are set by the client
    std::string body;
    std::uint64_t max_answer_bytes = 0;  // of a response kept in memory; 0: the client's max_body_bytes
};

struct Response {
    unsigned status = 0;
    std::vector<Header> headers;
    std::string body;

    [[nodiscard]] bool ok() const { return status >= 200 && status < 300; }
    // Value of the first header with this name (any case); empty when there is none.
    [[nodiscard]] std::string_view header(std::string_view name) const;
};

struct ClientOptions {
    std::uint64_t connect_timeout_ms = 5'000;
    std::uint64_t io_timeout_ms = 60'000;  // one wait: sending a piece, the answer's header, a piece of its body
    // A whole call, from when it is connected, and so much more as its bodies take at the least speed: whoever sends a
    // byte now and then keeps nobody waiting.
    std::uint64_t call_timeout_ms = 60'000;
    std::uint64_t least_bytes_per_second = 64U << 10;
    std::uint32_t max_header_bytes = 16U << 10;
    std::uint64_t max_body_bytes = 64ULL << 20;  // of a response kept in memory; streamed ones have no limit here
};

// Bytes of a streamed response, in order; an error stops the transfer and is returned.
using Sink = std::function<Status(BytesView)>;
// Fills the buffer with the next bytes of a streamed request and says how many; 0 before the announced size is an
// error.
using Source = std::function<Expected<std::size_t>(std::span<std::uint8_t>)>;

// Errors of all calls: http.resolve_failed, http.connect_failed, http.timeout, http.closed (by the other side),
// http.write_failed, http.malformed, http.header_too_large, http.body_too_large. Any status code is a success of the
// call. After an error the connection is closed; the next call makes a new one. A kept connection that the other side
// closed meanwhile is replaced once without the caller noticing.
class Client {
public:
    Client(std::string host, std::uint16_t port, ClientOptions options = {});
    ~Client();
    Client(Client&&) noexcept;
    Client& operator=(Client&&) noexcept;

    [[nodiscard]] Expected<Response> send(const Request& request);
    // A success's body goes to `sink` in pieces; another status has its body in the response.
    [[nodiscard]] Expected<Response> download(const Request& request, const Sink& sink);
    // Sends exactly `size` bytes from `source` after the server agreed (Expect: 100-continue), so that a refusal comes
    // back as its status before anything was sent. Also http.short_source.
    [[nodiscard]] Expected<Response> upload(const Request& request, std::uint64_t size, const Source& source);
    void close();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace http
}  // namespace base
}  // namespace quern
