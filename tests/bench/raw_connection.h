// A keep-alive HTTP connection for load: sends requests that are written out already and looks only for errors in the
// answers, so that it costs little beside the server on the same machine. One thread each.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "bench/harness.h"

namespace quern::bench {

class RawConnection {
public:
    explicit RawConnection(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(port);
        const int on = 1;
        ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
            give_up("cannot connect to a node");
    }
    ~RawConnection() { ::close(socket_); }
    RawConnection(const RawConnection&) = delete;
    RawConnection& operator=(const RawConnection&) = delete;

    // The answer's body.
    std::string_view ask(std::string_view request) {
        while (!request.empty()) {
            const ssize_t sent = ::send(socket_, request.data(), request.size(), MSG_NOSIGNAL);
            if (sent <= 0) give_up("a node closed the connection");
            request.remove_prefix(static_cast<std::size_t>(sent));
        }
        answer_.clear();
        std::size_t body = 0;
        std::size_t length = 0;
        while (body == 0 || answer_.size() < body + length) {
            const std::size_t before = answer_.size();
            answer_.resize(before + kPiece);
            const ssize_t got = ::recv(socket_, answer_.data() + before, kPiece, 0);
            if (got <= 0) give_up("a node closed the connection");
            answer_.resize(before + static_cast<std::size_t>(got));
            if (body != 0) continue;
            const std::size_t end = answer_.find("\r\n\r\n");
            if (end == std::string::npos) continue;
            body = end + 4;
            length = content_length(std::string_view(answer_).substr(0, end));
        }
        const std::string_view text = std::string_view(answer_).substr(body);
        if (const std::size_t error = text.find("\"error\""); error != std::string_view::npos)
            give_up("a call was refused: " + std::string(text.substr(error, 200)));
        return text;
    }

private:
    static constexpr std::size_t kPiece = 1U << 16;
    static std::size_t content_length(std::string_view head) {
        std::string lower(head);
        std::transform(lower.begin(), lower.end(), lower.begin(),
                       [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        const std::size_t at = lower.find("content-length:");
        if (at == std::string::npos) give_up("an answer without a length");
        return std::stoull(lower.substr(at + 15));
    }
    int socket_;
    std::string answer_;
};

// A POST of this JSON with its header.
inline std::string http_request(const std::string& body) {
    return "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace quern::bench
