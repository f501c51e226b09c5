// A WebSocket client that does what it should not: frames byte by byte over a plain socket, for tests of servers.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>

namespace quern::rpc::testing {

struct Frame {
    unsigned opcode = 0;
    std::string payload;
    // Of a close frame; 1005: none.
    [[nodiscard]] unsigned close_code() const {
        if (payload.size() < 2) return 1005;
        return static_cast<unsigned>(static_cast<unsigned char>(payload[0])) << 8 |
               static_cast<unsigned char>(payload[1]);
    }
};

constexpr unsigned kText = 1;
constexpr unsigned kBinary = 2;
constexpr unsigned kClose = 8;
constexpr unsigned kPing = 9;
constexpr unsigned kPong = 10;

// Whether a server can listen at "::".
inline bool has_ipv6() {
    const int descriptor = ::socket(AF_INET6, SOCK_STREAM, 0);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    const bool bound = ::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    ::close(descriptor);
    return bound;
}

class RawSocket {
public:
    // As one of the machine's own addresses, 127.0.0.`host`.
    explicit RawSocket(std::uint16_t port, int receive_buffer = 0, std::uint32_t host = 1)
        : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
        if (receive_buffer > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
        timeval limit{10, 0};
        ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl((127U << 24) + host);
        if (::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    }
    ~RawSocket() { ::close(socket_); }
    RawSocket(const RawSocket&) = delete;
    RawSocket& operator=(const RawSocket&) = delete;

    [[nodiscard]] bool connected() const { return connected_; }

    bool send(const std::string& bytes) const {
        std::size_t sent = 0;
        while (sent < bytes.size()) {
            const auto n = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
            if (n <= 0) return false;
            sent += static_cast<std::size_t>(n);
        }
        return true;
    }

    // The answer's header; empty when the server closed.
    std::string upgrade(const std::string& more_headers = {}, const std::string& version = "13") {
        send(
            "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: " +
            version + "\r\n" + more_headers + "\r\n");
        return read_header();
    }
    std::string read_header() {
        while (received_.find("\r\n\r\n") == std::string::npos)
            if (!fill()) return {};
        const std::size_t end = received_.find("\r\n\r\n") + 4;
        std::string header = received_.substr(0, end);
        received_.erase(0, end);
        return header;
    }

    static std::string frame(unsigned opcode, const std::string& payload, bool final = true, bool masked = true) {
        std::string bytes(1, static_cast<char>((final ? 0x80U : 0U) | opcode));
        const auto mask_bit = masked ? 0x80U : 0U;
        if (payload.size() < 126) {
            bytes += static_cast<char>(mask_bit | payload.size());
        } else if (payload.size() < 65536) {
            bytes += static_cast<char>(mask_bit | 126);
            bytes += static_cast<char>(payload.size() >> 8 & 0xff);
            bytes += static_cast<char>(payload.size() & 0xff);
        } else {
            bytes += static_cast<char>(mask_bit | 127);
            for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(payload.size() >> shift & 0xff);
        }
        if (!masked) return bytes + payload;
        constexpr unsigned char kMask[4] = {0x11, 0x22, 0x33, 0x44};
        bytes.append(reinterpret_cast<const char*>(kMask), 4);
        for (std::size_t i = 0; i < payload.size(); ++i)
            bytes += static_cast<char>(static_cast<unsigned char>(payload[i]) ^ kMask[i % 4]);
        return bytes;
    }
    bool send_text(const std::string& text) const { return send(frame(kText, text)); }

    // The next frame; nullopt when the server closed the socket or said nothing for 10 seconds.
    std::optional<Frame> read() {
        if (!want(2)) return std::nullopt;
        Frame frame;
        frame.opcode = static_cast<unsigned char>(received_[0]) & 15U;
        std::size_t size = static_cast<unsigned char>(received_[1]) & 127U;
        std::size_t header = 2;
        const auto length = [&](std::size_t bytes) {
            if (!want(2 + bytes)) return false;
            size = 0;
            for (std::size_t i = 0; i < bytes; ++i) size = size << 8 | static_cast<unsigned char>(received_[2 + i]);
            header += bytes;
            return true;
        };
        if (size == 126 && !length(2)) return std::nullopt;
        if (size == 127 && !length(8)) return std::nullopt;
        if (!want(header + size)) return std::nullopt;
        frame.payload = received_.substr(header, size);
        received_.erase(0, header + size);
        return frame;
    }
    // The next text message, pings aside; "closed" and the code otherwise.
    std::string text() {
        for (;;) {
            const auto next = read();
            if (!next) return "gone";
            if (next->opcode == kText) return next->payload;
            if (next->opcode == kClose) return "closed " + std::to_string(next->close_code());
        }
    }
    // As text(), and does what a client does about pings.
    std::string text_answering_pings() {
        for (;;) {
            const auto next = read();
            if (!next) return "gone";
            if (next->opcode == kText) return next->payload;
            if (next->opcode == kPing) send(frame(kPong, next->payload));
        }
    }
    // Reads until the close frame and gives its code; 0 when the socket ended without one.
    unsigned close_code() {
        for (;;) {
            const auto next = read();
            if (!next) return 0;
            if (next->opcode == kClose) return next->close_code();
        }
    }
    // Whether the server closed the socket by now or within the time.
    bool closed_within(int milliseconds) {
        timeval limit{milliseconds / 1000, milliseconds % 1000 * 1000};
        ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        char byte = 0;
        for (;;) {
            const auto n = ::recv(socket_, &byte, 1, 0);
            if (n == 0) return true;
            if (n < 0) return errno != EAGAIN && errno != EWOULDBLOCK;
        }
    }

private:
    bool fill() {
        char buffer[16384];
        const auto n = ::recv(socket_, buffer, sizeof(buffer), 0);
        if (n <= 0) return false;
        received_.append(buffer, static_cast<std::size_t>(n));
        return true;
    }
    bool want(std::size_t size) {
        while (received_.size() < size)
            if (!fill()) return false;
        return true;
    }

    int socket_;
    bool connected_ = false;
    std::string received_;
};

}  // namespace quern::rpc::testing
