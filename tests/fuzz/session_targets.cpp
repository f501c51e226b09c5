// Whole sessions of the HTTP and WebSocket servers over real sockets: whatever a client sends before it stops talking,
// the server ends the connection soon, answers the next client, and keeps nothing.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "chain/api/events.h"
#include "fuzz/target.h"
#include "rpc/http_server.h"
#include "rpc/ws_server.h"

namespace quern::fuzz {
namespace {

constexpr int kPatienceSeconds = 10;

Seed text_seed(std::string name, std::string_view text) { return {std::move(name), to_bytes(as_bytes(text))}; }

// Says what it was asked.
class EchoJob final : public rpc::Job {
public:
    explicit EchoJob(std::string text) : text_(std::move(text)) {}
    bool run(std::chrono::milliseconds) override { return true; }
    std::optional<std::string> take_answer() override { return std::move(text_); }
    std::size_t held() const override { return text_.size(); }

private:
    std::string text_;
};

rpc::BeginJob echo() {
    return [](std::string text, const rpc::CallContext&) { return std::make_unique<EchoJob>(std::move(text)); };
}

class Silence final : public chain::api::EventSource {
public:
    void add(chain::api::EventListener&) override {}
    void remove(chain::api::EventListener&) override {}
};

class Socket {
public:
    explicit Socket(std::uint16_t port) : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        const timeval limit{kPatienceSeconds, 0};
        ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        QUERN_PROPERTY(::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    }
    ~Socket() { ::close(descriptor_); }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;

    // The server may have closed already.
    void send(std::string_view bytes) const { (void)::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
    void stop_sending() const { ::shutdown(descriptor_, SHUT_WR); }
    // Everything until the server closes, or until `end` has come.
    std::string receive(std::string_view end = {}) const {
        std::string all;
        char buffer[4096];
        for (;;) {
            const ssize_t got = ::recv(descriptor_, buffer, sizeof buffer, 0);
            QUERN_PROPERTY(got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK));  // it closes in time
            if (got <= 0) return all;
            all.append(buffer, static_cast<std::size_t>(got));
            if (!end.empty() && all.find(end) != std::string::npos) return all;
        }
    }

private:
    int descriptor_;
};

// --- HTTP ------------------------------------------------------------------------------------------------------------
bool run_http_session(BytesView input) {
    static const auto server = [] {
        rpc::HttpOptions options;
        options.port = 0;
        options.max_body_bytes = 10'000;
        rpc::HttpHooks hooks;
        hooks.rpc = echo();
        return std::move(*rpc::HttpServer::start(options, std::move(hooks)));
    }();
    const Socket socket(server->port());
    socket.send(as_text(input));
    socket.stop_sending();
    const std::string answer = socket.receive();
    QUERN_PROPERTY(answer.empty() || answer.starts_with("HTTP/1.1 "));
    return answer.find(" 200 OK") != std::string::npos;
}

std::vector<Seed> seeds_http_session() {
    return {
        text_seed("pipelined",
                  "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
                  "GET /health HTTP/1.1\r\nHost: 127.0.0.1:8545\r\n\r\n"),
        text_seed("chunked",
                  "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
                  "OPTIONS / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        text_seed("content",
                  "PUT /content/"
                  "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20 HTTP/1.1\r\nHost: localhost\r\n"
                  "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello")};
}

// --- WebSocket -------------------------------------------------------------------------------------------------------
bool run_websocket_session(BytesView input) {
    static Silence silence;
    static const auto server = [] {
        rpc::WsOptions options;
        options.port = 0;
        options.max_message_bytes = 10'000;
        options.close_ms = 200;
        return std::move(*rpc::WsServer::start(options, echo(), silence));
    }();
    const Socket socket(server->port());
    socket.send(
        "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n");
    const std::string header = socket.receive("\r\n\r\n");
    QUERN_PROPERTY(header.starts_with("HTTP/1.1 101 "));
    socket.send(as_text(input));
    socket.stop_sending();
    return !socket.receive().empty();
}

std::string masked(unsigned first, std::string_view payload) {
    std::string frame{static_cast<char>(first), static_cast<char>(0x80U | payload.size()), 1, 2, 3, 4};
    for (std::size_t i = 0; i < payload.size(); ++i)
        frame += static_cast<char>(static_cast<unsigned char>(payload[i]) ^ (i % 4 + 1));
    return frame;
}

std::vector<Seed> seeds_websocket_session() {
    return {text_seed("ping_and_text", masked(0x89, "hello") + masked(0x81, R"({"jsonrpc":"2.0"})")),
            text_seed("fragments", masked(0x01, "[1,") + masked(0x89, "") + masked(0x80, "2]") + masked(0x8a, "x")),
            text_seed("close", masked(0x81, "\xc3\xa9") + masked(0x88, "\x03\xe8 bye"))};
}

}  // namespace

std::span<const Target> session_targets() {
    static const Target kTargets[] = {
        {"http_session", run_http_session, seeds_http_session, 2048},
        {"websocket_session", run_websocket_session, seeds_websocket_session, 512},
    };
    return kTargets;
}

}  // namespace quern::fuzz
