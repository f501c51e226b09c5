#include "bench/counting_relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "bench/harness.h"

namespace quern::bench {
namespace {

constexpr int kLookMs = 50;  // at most so long until a stop is seen
constexpr std::size_t kPiece = 64U << 10;

sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
}

// False: the connection has ended.
bool pass(int from, int to, std::atomic<std::uint64_t>& count) {
    std::array<char, kPiece> piece;
    const ssize_t got = ::recv(from, piece.data(), piece.size(), 0);
    if (got <= 0) return false;
    count += static_cast<std::uint64_t>(got);
    for (ssize_t at = 0; at < got;) {
        const ssize_t sent = ::send(to, piece.data() + at, static_cast<std::size_t>(got - at), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        at += sent;
    }
    return true;
}

}  // namespace

CountingRelay::CountingRelay(std::uint16_t to) : to_(to), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    if (::bind(listener_, reinterpret_cast<const sockaddr*>(&address), length) != 0 || ::listen(listener_, 16) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
        give_up("no port for a relay");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { accept_all(); });
}

CountingRelay::~CountingRelay() {
    stop_ = true;
    thread_.join();
    ::close(listener_);
}

void CountingRelay::accept_all() {
    while (!stop_) {
        pollfd watched{listener_, POLLIN, 0};
        if (::poll(&watched, 1, kLookMs) <= 0) continue;
        const int near = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (near >= 0) connections_.emplace_back([this, near] { relay(near); });
    }
    for (std::thread& each : connections_) each.join();
}

void CountingRelay::relay(int near) const {
    const int far = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(to_);
    bool open = ::connect(far, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    const int on = 1;
    for (const int side : {near, far}) ::setsockopt(side, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    while (open && !stop_) {
        std::array<pollfd, 2> watched = {pollfd{near, POLLIN, 0}, pollfd{far, POLLIN, 0}};
        if (::poll(watched.data(), watched.size(), kLookMs) <= 0) continue;
        if (watched[0].revents != 0) open = pass(near, far, asked_);
        if (open && watched[1].revents != 0) open = pass(far, near, answered_);
    }
    ::close(far);
    ::close(near);
}

}  // namespace quern::bench
