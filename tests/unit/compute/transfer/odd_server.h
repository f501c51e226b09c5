// An HTTP server on this machine that answers as a test says, however wrong: one connection after the other, each with
// one request. Its threads end with it.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace quern::compute::transfer::test {

class OddServer {
public:
    class Connection {
    public:
        Connection(int socket, const std::atomic<bool>& stop) : socket_(socket), stop_(stop) {}
        // False: nobody listens any more.
        bool send(std::string_view text) const {
            while (!text.empty() && !stop_) {
                const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
                if (sent <= 0) return false;
                text.remove_prefix(static_cast<std::size_t>(sent));
            }
            return !stop_;
        }
        std::string receive(std::size_t most) const {
            std::string text(most, 0);
            pollfd wait{socket_, POLLIN, 0};
            while (::poll(&wait, 1, 20) == 0)
                if (stop_) return {};
            const ssize_t got = ::recv(socket_, text.data(), most, 0);
            text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
            return text;
        }
        bool stopped() const { return stop_; }

    private:
        int socket_;
        const std::atomic<bool>& stop_;
    };
    // Given the request up to the empty line, with what already followed it.
    using Answer = std::function<void(const std::string& request, const Connection& connection)>;

    explicit OddServer(Answer answer) : answer_(std::move(answer)), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof(address);
        EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), size), 0);
        EXPECT_EQ(::listen(listener_, 16), 0);
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
        port_ = ntohs(address.sin_port);
        thread_ = std::thread([this] { run(); });
    }
    ~OddServer() {
        stop_ = true;
        thread_.join();
        ::close(listener_);
    }
    OddServer(const OddServer&) = delete;
    OddServer& operator=(const OddServer&) = delete;

    [[nodiscard]] std::string url(const std::string& path) const {
        return "http://127.0.0.1:" + std::to_string(port_) + path;
    }
    [[nodiscard]] std::vector<std::string> requests() {
        const MutexLock lock(mutex_);
        return requests_;
    }

private:
    void run() {
        pollfd wait{listener_, POLLIN, 0};
        while (!stop_) {
            if (::poll(&wait, 1, 20) <= 0) continue;
            const int socket = ::accept(listener_, nullptr, nullptr);
            if (socket < 0) continue;
            const Connection connection(socket, stop_);
            std::string request;
            while (request.find("\r\n\r\n") == std::string::npos) {
                const std::string more = connection.receive(4096);
                if (more.empty()) break;
                request += more;
            }
            {
                const MutexLock lock(mutex_);
                requests_.push_back(request);
            }
            answer_(request, connection);
            ::close(socket);
        }
    }

    Answer answer_;
    int listener_;
    std::uint16_t port_ = 0;
    std::atomic<bool> stop_{false};
    Mutex mutex_;
    std::vector<std::string> requests_ QUERN_GUARDED_BY(mutex_);
    std::thread thread_;
};

// Where the request's range begins; 0: it has none.
inline std::size_t range_of(const std::string& request) {
    const std::size_t at = request.find("Range: bytes=");
    return at == std::string::npos ? 0 : std::stoul(request.substr(at + 13));
}
inline std::string head(unsigned status, std::size_t length, const std::string& more = {}) {
    return "HTTP/1.1 " + std::to_string(status) + " x\r\nContent-Length: " + std::to_string(length) + "\r\n" + more +
           "Connection: close\r\n\r\n";
}
inline std::string part_head(std::size_t first, std::size_t total) {
    return head(206, total - first,
                "Content-Range: bytes " + std::to_string(first) + "-" + std::to_string(total - 1) + "/" +
                    std::to_string(total) + "\r\n");
}
// As a server should, of this content.
inline void answer_well(const std::string& content, const std::string& request,
                        const OddServer::Connection& connection) {
    const std::size_t first = range_of(request);
    connection.send((first == 0 ? head(200, content.size()) : part_head(first, content.size())) +
                    content.substr(first));
}

}  // namespace quern::compute::transfer::test
