#include "base/websocket_client.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/websocket.hpp>
#include <chrono>

namespace quern {
inline namespace base {
namespace websocket {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace ws = boost::beast::websocket;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

}  // namespace

Expected<http::Url> parse_url(std::string_view text) {
    constexpr std::string_view kScheme = "ws://";
    if (!text.starts_with(kScheme)) return fail("http.unsupported_scheme", "only ws:// is supported");
    return http::parse_url("http://" + std::string(text.substr(kScheme.size())));
}

struct Client::Impl {
    explicit Impl(ClientOptions client_options) : options(client_options), stream(io) {}

    ClientOptions options;
    asio::io_context io{1};
    ws::stream<beast::tcp_stream> stream;
    beast::flat_buffer buffer;
    bool reading = false;  // an asynchronous read is under way, across calls of receive()
    std::optional<error_code> read_result;

    // Runs until `done`; false when it took too long, and the connection is of no use any more.
    template <class Done>
    bool run(std::uint64_t timeout_ms, Done&& done) {
        const auto deadline = std::chrono::steady_clock::now() + milliseconds(timeout_ms);
        io.restart();
        while (!done())
            if (io.run_one_until(deadline) == 0) return done();
        return true;
    }

    Error closed(error_code code) const {
        if (code == ws::error::message_too_big || code == ws::error::buffer_overflow)
            return {"websocket.too_large", code.message()};
        // The server may be gone before our part of closing reached it: then only the reason says that it closed.
        if (const auto& reason = stream.reason(); code == ws::error::closed || reason.code != ws::close_code::none)
            return {"websocket.closed",
                    std::to_string(reason.code) + " " + std::string(reason.reason.data(), reason.reason.size())};
        if (code.category() == ws::make_error_code(ws::error::bad_opcode).category())
            return {"websocket.malformed", code.message()};
        return {"websocket.closed", code.message()};
    }

    Status connect(const http::Url& url) {
        const std::string name = url.host + ":" + std::to_string(url.port);
        const auto failed = [&](const char* what, const std::string& why) {
            return fail("websocket.connect_failed", name + ": " + what + ": " + why);
        };
        std::optional<error_code> result;
        const auto ready = [&] { return result.has_value(); };
        tcp::resolver resolver(io);
        tcp::resolver::results_type endpoints;
        resolver.async_resolve(url.host, std::to_string(url.port),
                               [&](error_code code, tcp::resolver::results_type results) {
                                   result = code;
                                   endpoints = std::move(results);
                               });
        if (!run(options.connect_timeout_ms, ready)) {
            resolver.cancel();
            run(options.connect_timeout_ms, ready);
            return failed("resolving", "timeout");
        }
        if (*result) return failed("resolving", result->message());
        // The streams' own expiries end these operations, so that none outlives its handler's variables.
        const auto settle = [&] {
            io.restart();
            io.run();
        };
        auto& socket = beast::get_lowest_layer(stream);
        socket.expires_after(milliseconds(options.connect_timeout_ms));
        socket.async_connect(endpoints, [&](error_code code, const tcp::endpoint&) { result = code; });
        settle();
        if (*result) return failed("connecting", result->message());
        socket.expires_never();
        ws::stream_base::timeout timeouts;
        timeouts.handshake_timeout = milliseconds(options.connect_timeout_ms);
        timeouts.idle_timeout = milliseconds(options.idle_timeout_ms);
        timeouts.keep_alive_pings = true;
        stream.set_option(timeouts);
        stream.read_message_max(options.max_message_bytes);
        ws::response_type response;
        result.reset();
        stream.async_handshake(response, name, url.target, [&](error_code code) { result = code; });
        while (!result) {
            io.restart();
            io.run_one();
        }
        if (*result == ws::error::upgrade_declined)
            return fail("websocket.refused", name + ": status " + std::to_string(response.result_int()));
        if (*result) return failed("handshake", result->message());
        return {};
    }
};

Client::Client() = default;

Client::~Client() {
    if (!impl_) return;
    error_code ignored;
    beast::get_lowest_layer(impl_->stream).socket().close(ignored);
}

Expected<std::unique_ptr<Client>> Client::connect(const http::Url& url, ClientOptions options) {
    std::unique_ptr<Client> client(new Client());
    client->impl_ = std::make_unique<Impl>(options);
    QUERN_CHECK(client->impl_->connect(url));
    return client;
}

Status Client::send(const std::string& text) {
    auto& impl = *impl_;
    const auto result = std::make_shared<std::optional<error_code>>();
    const auto kept = std::make_shared<std::string>(text);
    impl.stream.text(true);
    impl.stream.async_write(asio::buffer(*kept), [result, kept](error_code code, std::size_t) { *result = code; });
    if (!impl.run(impl.options.write_timeout_ms, [&] { return result->has_value(); })) return fail("websocket.timeout");
    if (**result) return fail(impl.closed(**result));
    return {};
}

Expected<std::optional<std::string>> Client::receive(std::uint64_t timeout_ms) {
    auto& impl = *impl_;
    if (!impl.reading && !impl.read_result) {
        impl.reading = true;
        impl.stream.async_read(impl.buffer, [&impl](error_code code, std::size_t) {
            impl.reading = false;
            impl.read_result = code;
        });
    }
    if (!impl.run(timeout_ms, [&] { return impl.read_result.has_value(); })) return std::optional<std::string>();
    const error_code code = *impl.read_result;
    if (code) return fail(impl.closed(code));  // kept: the connection stays closed
    impl.read_result.reset();
    std::string text = beast::buffers_to_string(impl.buffer.data());
    impl.buffer.clear();
    return std::optional<std::string>(std::move(text));
}

}  // namespace websocket
}  // namespace base
}  // namespace quern
