// One WebSocket connection on Boost.Beast: handshake, messages in, a bounded queue of messages out, pings, closing.
// Private to this folder (it includes Boost). Everything runs on the transport's IO thread but send(), waiting(),
// hold_more(), held() and begin_close(), which any thread may call.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <deque>
#include <optional>

#include "base/mutex.h"
#include "rpc/websocket/transport.h"

namespace quern::rpc::websocket {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;

class Connection;

// What a connection needs of its transport. All on the IO thread but held_more().
class Host {
public:
    virtual ~Host() = default;
    [[nodiscard]] virtual const TransportOptions& options() const = 0;
    [[nodiscard]] virtual Handler& handler() = 0;
    [[nodiscard]] virtual bool stopping() const = 0;
    // The handshake is done: from now on the connection is known by its id.
    virtual void opened(const std::shared_ptr<Connection>& connection) = 0;
    // Once for each connection, opened or not.
    virtual void ended(Connection& connection) = 0;
    // Counts for all connections; evicts of the host that holds most when that is too much. Any thread.
    virtual void held_more(std::ptrdiff_t bytes) = 0;
};

class Connection : public std::enable_shared_from_this<Connection> {
public:
    Connection(asio::io_context& io, Host& host, ConnectionId id, tcp::socket socket, std::string received);
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    [[nodiscard]] ConnectionId id() const { return id_; }
    [[nodiscard]] const std::string& client_host() const { return client_host_; }
    [[nodiscard]] bool is_open() const { return state_ == State::open; }
    [[nodiscard]] std::uint64_t since_ms() const { return since_ms_; }

    void start();
    void ping();
    // Without the closing handshake; closed() is told.
    void drop(std::uint16_t code, const std::string& reason);

    bool send(std::string text) QUERN_EXCLUDES(mutex_);
    [[nodiscard]] std::size_t waiting() const QUERN_EXCLUDES(mutex_);
    // On behalf of the handler, until the connection ends.
    void hold_more(std::ptrdiff_t bytes) QUERN_EXCLUDES(mutex_);
    [[nodiscard]] std::ptrdiff_t held() const { return held_; }
    // Drops what waits, then closes from the IO thread. The first reason counts.
    void begin_close(std::uint16_t code, std::string reason) QUERN_EXCLUDES(mutex_);

private:
    enum class State { handshake, open, closing, ended };
    using Parser = beast::http::request_parser<beast::http::empty_body>;
    using Answer = beast::http::response<beast::http::string_body>;

    void judge();
    void refuse(unsigned status, std::string_view text);
    void refused();
    void accept();
    void read();
    void got_bytes();
    void count_buffer();
    void read_failed(error_code code);
    void flush() QUERN_EXCLUDES(mutex_);
    void close_now(std::uint16_t code, const std::string& reason);
    void arm(std::uint32_t milliseconds, std::function<void(Connection&)> late);
    void end(std::uint16_t code, const std::string& reason) QUERN_EXCLUDES(mutex_);
    void hold(std::ptrdiff_t bytes);
    // Forgets the queue; gives its bytes back.
    void drop_queue() QUERN_EXCLUDES(mutex_);

    asio::io_context& io_;
    Host& host_;
    const ConnectionId id_;
    std::string client_host_;
    Handshake handshake_;
    // No compression: a small message must not become a large one.
    beast::websocket::stream<tcp::socket, false> stream_;
    beast::flat_buffer buffer_;
    std::optional<Parser> parser_;
    std::optional<Answer> refusal_;
    asio::steady_timer deadline_;  // of the handshake, of closing
    asio::steady_timer pong_deadline_;
    asio::steady_timer message_deadline_;
    State state_ = State::handshake;
    std::uint64_t since_ms_;
    std::size_t buffered_ = 0;  // buffer_'s memory, as counted in held_
    bool awaits_pong_ = false;
    bool pinging_ = false;
    bool in_message_ = false;
    std::string being_written_;
    std::size_t written_counts_ = 0;  // of being_written_, as counted in held_
    bool writing_ = false;
    std::uint16_t own_code_ = 0;
    std::string own_reason_;
    std::atomic<std::ptrdiff_t> held_{0};

    mutable Mutex mutex_;
    std::deque<std::string> queue_ QUERN_GUARDED_BY(mutex_);
    std::size_t queued_bytes_ QUERN_GUARDED_BY(mutex_) = 0;
    std::ptrdiff_t handler_holds_ QUERN_GUARDED_BY(mutex_) = 0;
    bool released_ QUERN_GUARDED_BY(mutex_) = false;  // what the handler held
    bool flush_posted_ QUERN_GUARDED_BY(mutex_) = false;
    bool closing_ QUERN_GUARDED_BY(mutex_) = true;  // not open yet, or not any more: nothing is queued
};

// Milliseconds of a clock that only goes forward.
[[nodiscard]] std::uint64_t steady_ms();

}  // namespace quern::rpc::websocket
