#include "base/http_client.h"

#include <algorithm>
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <chrono>
#include <limits>

namespace quern {
inline namespace base {
namespace http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace wire = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kPieceBytes = 64U << 10;
constexpr std::size_t kMaxBuffered = 1U << 20;    // read and not taken yet: a chunk may say anything beside its size
constexpr std::size_t kMaxErrorBody = 64U << 10;  // kept of a refusal's text when the success would be streamed

Error error_from(error_code code, std::string_view otherwise, std::string_view what) {
    std::string detail = std::string(what) + ": " + code.message();
    if (code == beast::error::timeout) return {"http.timeout", std::string(what)};
    if (code == wire::error::end_of_stream || code == wire::error::partial_message || code == asio::error::eof ||
        code == asio::error::connection_reset || code == asio::error::broken_pipe)
        return {"http.closed", std::move(detail)};
    if (code == wire::error::header_limit) return {"http.header_too_large", std::move(detail)};
    if (code == wire::error::body_limit) return {"http.body_too_large", std::move(detail)};
    if (code.category() == wire::make_error_code(wire::error::end_of_stream).category())
        return {"http.malformed", std::move(detail)};
    return {otherwise, std::move(detail)};
}

bool equal_no_case(std::string_view a, std::string_view b) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (lower(a[i]) != lower(b[i])) return false;
    return true;
}

bool has_line_break(std::string_view text) { return text.find_first_of("\r\n", 0, 2) != std::string_view::npos; }

}  // namespace

Expected<Url> parse_url(std::string_view text) {
    constexpr std::string_view kScheme = "http://";
    if (!text.starts_with(kScheme)) return fail("http.unsupported_scheme", "only http:// is supported");
    text.remove_prefix(kScheme.size());
    Url url;
    const std::size_t slash = text.find('/');
    if (slash != std::string_view::npos) url.target = std::string(text.substr(slash));
    std::string_view authority = text.substr(0, slash);
    std::string_view port;
    if (authority.starts_with('[')) {
        const std::size_t end = authority.find(']');
        if (end == std::string_view::npos) return fail("http.bad_url", "unclosed [");
        url.host = std::string(authority.substr(1, end - 1));
        authority.remove_prefix(end + 1);
        if (!authority.empty() && authority[0] != ':') return fail("http.bad_url", "text after ]");
        if (!authority.empty()) port = authority.substr(1);
    } else {
        const std::size_t colon = authority.find(':');
        url.host = std::string(authority.substr(0, colon));
        if (colon != std::string_view::npos) port = authority.substr(colon + 1);
        if (colon != std::string_view::npos && port.empty()) return fail("http.bad_url", "empty port");
    }
    if (url.host.empty()) return fail("http.bad_url", "no host");
    for (const char c : url.host)
        if (c <= ' ' || c == '@' || c == 0x7f) return fail("http.bad_url", "bad character in the host");
    if (!port.empty()) {
        const auto [stop, code] = std::from_chars(port.data(), port.data() + port.size(), url.port);
        if (code != std::errc() || stop != port.data() + port.size() || url.port == 0)
            return fail("http.bad_url", "bad port");
    }
    return url;
}

std::string_view Response::header(std::string_view name) const {
    for (const Header& header : headers)
        if (equal_no_case(header.name, name)) return header.value;
    return {};
}

struct Client::Impl {
    Impl(std::string host_name, std::uint16_t port_number, ClientOptions client_options)
        : host(std::move(host_name)), port(port_number), options(client_options) {}

    std::string host;
    std::uint16_t port;
    ClientOptions options;
    asio::io_context io{1};
    std::unique_ptr<beast::tcp_stream> stream;
    beast::flat_buffer buffer{kMaxBuffered};
    bool answer_began = false;  // a byte of the answer came: the request may have had its effect
    std::chrono::steady_clock::time_point connected_at;
    std::uint64_t moved = 0;  // bytes of bodies, in this call, both ways

    // Runs the one operation that was started until it completes; its own expiry bounds it.
    void wait() {
        io.restart();
        io.run();
    }
    // The next wait: as long as one may take, and no longer than the call.
    void arm() {
        using std::chrono::milliseconds;
        const std::uint64_t rate = std::max<std::uint64_t>(options.least_bytes_per_second / 1000, 1);
        const auto end = connected_at + milliseconds(options.call_timeout_ms) + milliseconds(moved / rate);
        stream->expires_at(std::min(std::chrono::steady_clock::now() + milliseconds(options.io_timeout_ms), end));
    }

    void begin_call() {
        connected_at = std::chrono::steady_clock::now();
        moved = 0;
    }

    void close() {
        if (stream) {
            error_code ignored;
            stream->socket().shutdown(tcp::socket::shutdown_both, ignored);
            stream.reset();
        }
        buffer.clear();
    }

    Status connect() {
        close();
        error_code code = asio::error::operation_aborted;
        tcp::resolver::results_type endpoints;
        tcp::resolver resolver(io);
        resolver.async_resolve(host, std::to_string(port), [&](error_code ec, tcp::resolver::results_type results) {
            code = ec;
            endpoints = std::move(results);
        });
        wait();
        if (code) return fail("http.resolve_failed", host + ": " + code.message());
        stream = std::make_unique<beast::tcp_stream>(io);
        stream->expires_after(std::chrono::milliseconds(options.connect_timeout_ms));
        stream->async_connect(endpoints, [&](error_code ec, const tcp::endpoint&) { code = ec; });
        wait();
        if (code) {
            stream.reset();
            if (code == beast::error::timeout) return fail("http.timeout", "connecting to " + host);
            return fail("http.connect_failed", host + ":" + std::to_string(port) + ": " + code.message());
        }
        error_code ignored;
        stream->socket().set_option(tcp::no_delay(true), ignored);
        return {};
    }

    template <class Fields>
    Expected<Response> begin_response(const Fields& message) {
        Response response;
        response.status = message.result_int();
        for (const auto& field : message)
            response.headers.push_back({std::string(field.name_string()), std::string(field.value())});
        return response;
    }

    template <class Body>
    Status fill(wire::request<Body>& message, const Request& request) {
        if (has_line_break(request.target) || has_line_break(request.method) || request.target.empty())
            return fail("http.bad_url", "line break or nothing in the target");
        message.version(11);
        message.method_string(request.method);
        message.target(request.target);
        message.set(wire::field::host, host + ":" + std::to_string(port));
        message.set(wire::field::user_agent, "quern");
        for (const Header& header : request.headers) {
            if (has_line_break(header.name) || has_line_break(header.value))
                return fail("http.bad_url", "line break in a header");
            message.set(header.name, header.value);
        }
        message.keep_alive(true);
        return {};
    }

    template <class Serializer>
    Status write_header(Serializer& serializer) {
        error_code code;
        arm();
        wire::async_write_header(*stream, serializer, [&](error_code ec, std::size_t) { code = ec; });
        wait();
        if (code) return fail(error_from(code, "http.write_failed", "sending the request"));
        return {};
    }

    template <class Parser>
    Status read_header(Parser& parser) {
        error_code code;
        parser.header_limit(options.max_header_bytes);
        parser.body_limit(std::numeric_limits<std::uint64_t>::max());
        arm();
        wire::async_read_header(*stream, buffer, parser, [&](error_code ec, std::size_t) { code = ec; });
        wait();
        answer_began = answer_began || parser.got_some() || buffer.size() != 0;
        if (code) return fail(error_from(code, "http.closed", "reading the answer"));
        return {};
    }

    // The rest of a response whose header was read; pieces go to `sink`.
    Status read_body(wire::response_parser<wire::buffer_body>& parser, const Sink& sink) {
        std::array<std::uint8_t, kPieceBytes> piece;  // NOLINT: filled before it is read
        while (!parser.is_done()) {
            auto& body = parser.get().body();
            body.data = piece.data();
            body.size = piece.size();
            body.more = true;
            error_code code;
            arm();
            wire::async_read(*stream, buffer, parser, [&](error_code ec, std::size_t) { code = ec; });
            wait();
            const std::size_t got = piece.size() - body.size;
            if (code == wire::error::need_buffer) code = {};
            if (code) return fail(error_from(code, "http.closed", "reading the answer's body"));
            moved += got;
            if (got != 0) QUERN_CHECK(sink(BytesView(piece.data(), got)));
        }
        return {};
    }

    // Reads the final response; `sink` (when given) takes the body of a success.
    Expected<Response> read_response(bool is_head, const Sink* sink, std::uint64_t max_answer = 0) {
        wire::response_parser<wire::buffer_body> parser;
        parser.skip(is_head);
        QUERN_CHECK(read_header(parser));
        QUERN_TRY(Response response, begin_response(parser.get()));
        const bool streamed = sink != nullptr && response.ok();
        const std::uint64_t in_memory = max_answer == 0 ? options.max_body_bytes : max_answer;
        const std::uint64_t limit = sink != nullptr && !streamed ? kMaxErrorBody : in_memory;
        if (!streamed && !is_head && parser.content_length() && *parser.content_length() > limit)
            return fail("http.body_too_large", std::to_string(*parser.content_length()) + " bytes");
        const Sink collect = [&](BytesView piece) -> Status {
            if (piece.size() > limit - response.body.size()) return fail("http.body_too_large");
            response.body.append(as_text(piece));
            return {};
        };
        QUERN_CHECK(read_body(parser, streamed ? *sink : collect));
        if (!parser.get().keep_alive()) close();
        return response;
    }

    Expected<Response> send_once(const Request& request, const Sink* sink) {
        wire::request<wire::string_body> message;
        QUERN_CHECK(fill(message, request));
        message.body() = request.body;
        message.prepare_payload();
        error_code code;
        arm();
        wire::async_write(*stream, message, [&](error_code ec, std::size_t) { code = ec; });
        wait();
        if (code) return fail(error_from(code, "http.write_failed", "sending the request"));
        moved += request.body.size();
        return read_response(request.method == "HEAD", sink, request.max_answer_bytes);
    }

    // Runs `once` on the kept connection, and again on a new one if the kept one turned out to be closed.
    template <class Once>
    Expected<Response> with_connection(const Once& once) {
        const bool reused = stream != nullptr;
        if (!reused) QUERN_CHECK(connect());
        answer_began = false;
        begin_call();
        Expected<Response> response = once();
        const bool was_stale = reused && !response && !answer_began &&
                               (response.error().name == "http.closed" || response.error().name == "http.write_failed");
        if (was_stale) {
            QUERN_CHECK(connect());
            begin_call();
            response = once();
        }
        if (!response) close();
        return response;
    }

    Expected<Response> upload_once(const Request& request, std::uint64_t size, const Source& source) {
        wire::request<wire::buffer_body> message;
        QUERN_CHECK(fill(message, request));
        message.set(wire::field::expect, "100-continue");
        message.content_length(size);
        wire::request_serializer<wire::buffer_body> serializer(message);
        message.body().data = nullptr;
        message.body().more = true;
        QUERN_CHECK(write_header(serializer));
        {
            wire::response_parser<wire::buffer_body> parser;
            QUERN_CHECK(read_header(parser));
            if (parser.get().result() != wire::status::continue_) {
                QUERN_TRY(Response response, begin_response(parser.get()));
                QUERN_CHECK(read_body(parser, [&](BytesView piece) -> Status {
                    if (response.body.size() + piece.size() > kMaxErrorBody) return fail("http.body_too_large");
                    response.body.append(as_text(piece));
                    return {};
                }));
                close();  // the announced body was not sent: the connection cannot be used again
                return response;
            }
        }
        std::array<std::uint8_t, kPieceBytes> piece;  // NOLINT: filled before it is read
        std::uint64_t left = size;
        while (left != 0) {
            const std::size_t wanted = left < piece.size() ? static_cast<std::size_t>(left) : piece.size();
            QUERN_TRY(const std::size_t got, source(std::span<std::uint8_t>(piece.data(), wanted)));
            if (got == 0 || got > wanted) return fail("http.short_source", std::to_string(left) + " bytes are missing");
            left -= got;
            moved += got;
            message.body().data = piece.data();
            message.body().size = got;
            message.body().more = left != 0;
            error_code code;
            arm();
            wire::async_write(*stream, serializer, [&](error_code ec, std::size_t) { code = ec; });
            wait();
            if (code == wire::error::need_buffer) code = {};
            if (code) {
                // A server that gives up in the middle says why before it closes.
                auto response = read_response(false, nullptr);
                close();
                if (response) return response;
                return fail(error_from(code, "http.write_failed", "sending the body"));
            }
        }
        return read_response(false, nullptr);
    }
};

Client::Client(std::string host, std::uint16_t port, ClientOptions options)
    : impl_(std::make_unique<Impl>(std::move(host), port, options)) {}
Client::~Client() = default;
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;

Expected<Response> Client::send(const Request& request) {
    return impl_->with_connection([&] { return impl_->send_once(request, nullptr); });
}

Expected<Response> Client::download(const Request& request, const Sink& sink) {
    return impl_->with_connection([&] { return impl_->send_once(request, &sink); });
}

Expected<Response> Client::upload(const Request& request, std::uint64_t size, const Source& source) {
    return impl_->with_connection([&] { return impl_->upload_once(request, size, source); });
}

void Client::close() { impl_->close(); }

}  // namespace http
}  // namespace base
}  // namespace quern
