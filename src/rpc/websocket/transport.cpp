#include "rpc/websocket/transport.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>
#include <websocketpp/concurrency/none.hpp>
#include <websocketpp/config/asio_no_tls.hpp>
#include <websocketpp/logger/stub.hpp>
#include <websocketpp/server.hpp>

namespace quern::rpc::websocket {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kMaxReason = 123;                 // bytes of a close frame's text
constexpr std::size_t kHandedOver = 256U << 10;         // bytes given to WebSocket++ at a time
constexpr int kSocketSendBuffer = 512 << 10;            // asked of the kernel, which would grow to megabytes by itself
constexpr std::chrono::milliseconds kDrainLook{2};      // WebSocket++ does not say when a write is done
constexpr std::chrono::milliseconds kAcceptPause{100};  // after accept failed, e.g. for want of descriptors
constexpr std::chrono::milliseconds kStopLook{5};

// Keeps count of the connection objects that live, whatever way they end.
struct CountedConnection {
    std::shared_ptr<void> slot;
    ConnectionId id = 0;
    bool awaits_pong = false;
};

// One IO thread runs everything: no locks, no strands. No log: what matters is told to the handler.
struct Config : websocketpp::config::asio {
    using type = Config;
    using base = websocketpp::config::asio;
    using concurrency_type = websocketpp::concurrency::none;
    using alog_type = websocketpp::log::stub;
    using elog_type = websocketpp::log::stub;
    using connection_base = CountedConnection;
    static const bool enable_multithreading = false;
    static const std::size_t max_http_body_size = 1024;  // an upgrade has no body

    struct transport_config : base::transport_config {
        using concurrency_type = type::concurrency_type;
        using alog_type = type::alog_type;
        using elog_type = type::elog_type;
        using request_type = type::request_type;
        using response_type = type::response_type;
        using socket_type = websocketpp::transport::asio::basic_socket::endpoint;
        static const bool enable_multithreading = false;
    };
    using transport_type = websocketpp::transport::asio::endpoint<transport_config>;
};

using Server = websocketpp::server<Config>;
using ConnectionPtr = Server::connection_ptr;

// What waits for one connection. WebSocket++ is handed little at a time and keeps the rest of the queue here, where
// its size is known exactly: its own count forgets what it is writing.
struct Outgoing {
    Outgoing(ConnectionPtr connection, asio::io_context& io) : con(std::move(connection)), drain(io) {}
    const ConnectionPtr con;
    asio::steady_timer drain;  // IO thread
    bool drain_armed = false;  // IO thread
    std::mutex mutex;          // guards what follows
    std::deque<std::string> queue;
    std::size_t bytes = 0;
    bool flush_posted = false;
    bool closing = false;
};
using OutgoingPtr = std::shared_ptr<Outgoing>;

}  // namespace

struct Transport::Impl {
    Impl(const TransportOptions& transport_options, Handler& transport_handler)
        : options(transport_options), handler(transport_handler), acceptor(io), accept_pause(io), ping_timer(io) {}

    const TransportOptions options;
    Handler& handler;
    asio::io_context io{1};
    tcp::acceptor acceptor;
    asio::steady_timer accept_pause;
    asio::steady_timer ping_timer;
    Server server;
    std::uint16_t bound_port = 0;
    std::shared_ptr<std::atomic<std::size_t>> live = std::make_shared<std::atomic<std::size_t>>(0);
    ConnectionId last_id = 0;  // IO thread
    mutable std::mutex mutex;  // guards connections
    std::map<ConnectionId, OutgoingPtr> connections;
    std::atomic<bool> stopping{false};
    std::thread thread;

    bool listen(std::string& error) {
        error_code code;
        const auto address = asio::ip::make_address(options.bind, code);
        if (code) {
            error = "not an address: " + options.bind;
            return false;
        }
        const tcp::endpoint endpoint(address, options.port);
        acceptor.open(endpoint.protocol(), code);
        if (!code) acceptor.set_option(asio::socket_base::reuse_address(true), code);
        if (!code) acceptor.bind(endpoint, code);
        if (!code) acceptor.listen(asio::socket_base::max_listen_connections, code);
        if (code) {
            error = options.bind + ":" + std::to_string(options.port) + ": " + code.message();
            return false;
        }
        bound_port = acceptor.local_endpoint(code).port();
        return true;
    }

    void set_up() {
        server.init_asio(&io);
        server.set_user_agent("quern");
        server.set_open_handshake_timeout(static_cast<long>(options.handshake_ms));
        server.set_close_handshake_timeout(static_cast<long>(options.close_ms));
        server.set_pong_timeout(static_cast<long>(options.pong_ms));
        server.set_max_message_size(options.max_message_bytes);
        server.set_validate_handler([this](websocketpp::connection_hdl handle) { return validate(handle); });
        server.set_open_handler([this](websocketpp::connection_hdl handle) { opened(handle); });
        server.set_close_handler([this](websocketpp::connection_hdl handle) { closed(handle); });
        server.set_message_handler(
            [this](websocketpp::connection_hdl handle, Server::message_ptr message) { received(handle, message); });
        server.set_pong_handler([this](websocketpp::connection_hdl handle, const std::string&) {
            if (const auto con = find(handle)) con->awaits_pong = false;
        });
        server.set_pong_timeout_handler([this](websocketpp::connection_hdl handle, const std::string&) {
            if (const auto con = find(handle)) close(con->id, kPolicyViolation, "no pong in time");
        });
    }

    ConnectionPtr find(const websocketpp::connection_hdl& handle) {
        websocketpp::lib::error_code code;
        return server.get_con_from_hdl(handle, code);
    }

    OutgoingPtr find(ConnectionId id) const {
        const std::lock_guard lock(mutex);
        const auto found = connections.find(id);
        return found == connections.end() ? nullptr : found->second;
    }

    void accept() {
        acceptor.async_accept([this](error_code code, tcp::socket socket) {
            if (code == asio::error::operation_aborted || !acceptor.is_open()) return;
            if (code) {
                accept_pause.expires_after(kAcceptPause);
                accept_pause.async_wait([this](error_code stopped) {
                    if (!stopped) accept();
                });
                return;
            }
            if (*live < options.max_connections)
                begin(std::move(socket));
            else
                socket.close(code);
            accept();
        });
    }

    void begin(tcp::socket socket) {
        error_code ignored;
        socket.set_option(tcp::no_delay(true), ignored);
        socket.set_option(asio::socket_base::send_buffer_size(kSocketSendBuffer), ignored);
        const ConnectionPtr con = server.get_connection();
        if (!con) return;
        ++*live;
        con->slot = std::shared_ptr<void>(nullptr, [count = live](void*) { --*count; });
        con->id = ++last_id;
        con->get_raw_socket() = std::move(socket);
        con->start();
    }

    static Handshake handshake_of(const ConnectionPtr& con) {
        return {con->get_request_header("Origin"), con->get_request_header("Authorization"),
                con->get_remote_endpoint()};
    }

    bool validate(const websocketpp::connection_hdl& handle) {
        const auto con = find(handle);
        if (!con) return false;
        // WebSocket++ also speaks drafts, which have neither ping nor close codes.
        if (con->get_request_header("Sec-WebSocket-Version") != "13") {
            con->set_status(websocketpp::http::status_code::upgrade_required);
            con->append_header("Sec-WebSocket-Version", "13");
            return false;
        }
        if (stopping) {
            con->set_status(websocketpp::http::status_code::service_unavailable);
            return false;
        }
        if (handler.admit(handshake_of(con))) return true;
        con->set_status(websocketpp::http::status_code::forbidden);
        return false;
    }

    void opened(const websocketpp::connection_hdl& handle) {
        const auto con = find(handle);
        if (!con) return;
        {
            const std::lock_guard lock(mutex);
            connections.emplace(con->id, std::make_shared<Outgoing>(con, io));
        }
        handler.opened(con->id, handshake_of(con));
        if (stopping) close(con->id, kGoingAway, "the node is stopping");
    }

    void closed(const websocketpp::connection_hdl& handle) {
        const auto con = find(handle);
        if (!con) return;
        OutgoingPtr gone;
        {
            const std::lock_guard lock(mutex);
            const auto found = connections.find(con->id);
            if (found == connections.end()) return;
            gone = std::move(found->second);
            connections.erase(found);
        }
        {
            const std::lock_guard lock(gone->mutex);
            gone->closing = true;
            gone->queue.clear();
            gone->bytes = 0;
        }
        gone->drain.cancel();
        const bool by_client = con->get_local_close_code() == websocketpp::close::status::abnormal_close ||
                               con->get_local_close_code() == websocketpp::close::status::blank;
        handler.closed(con->id, by_client ? con->get_remote_close_code() : con->get_local_close_code(),
                       by_client ? con->get_remote_close_reason() : con->get_local_close_reason());
    }

    void received(const websocketpp::connection_hdl& handle, const Server::message_ptr& message) {
        const auto con = find(handle);
        if (!con) return;
        if (message->get_opcode() != websocketpp::frame::opcode::text)
            return close(con->id, kUnsupportedData, "text messages only");
        handler.received(con->id, std::move(message->get_raw_payload()));
    }

    bool send(ConnectionId id, std::string text) {
        const auto out = find(id);
        if (!out) return false;
        bool too_slow = false;
        bool post = false;
        {
            const std::lock_guard lock(out->mutex);
            if (out->closing) return false;
            if (out->bytes >= options.max_outgoing_bytes) {
                too_slow = true;
            } else {
                out->bytes += text.size();
                out->queue.push_back(std::move(text));
                post = !std::exchange(out->flush_posted, true);
            }
        }
        if (too_slow) {
            close(id, kPolicyViolation, "too slow: messages wait unread");
            return false;
        }
        if (post) asio::post(io, [this, out] { flush(out); });
        return true;
    }

    // IO thread. Hands over the next messages when WebSocket++ has nothing left but what it is writing.
    void flush(const OutgoingPtr& out) {
        std::unique_lock lock(out->mutex);
        out->flush_posted = false;
        std::size_t handed = 0;
        while (!out->closing && !out->queue.empty() && handed < kHandedOver && out->con->get_buffered_amount() == 0) {
            // Messages of one round go as one write.
            do {
                const std::string text = std::move(out->queue.front());
                out->queue.pop_front();
                out->bytes -= text.size();
                handed += text.size();
                lock.unlock();
                // An error means that the connection is closing, of which closed() tells.
                (void)out->con->send(text, websocketpp::frame::opcode::text);
                lock.lock();
            } while (!out->closing && !out->queue.empty() && handed < kHandedOver);
        }
        if (out->closing || out->queue.empty() || std::exchange(out->drain_armed, true)) return;
        lock.unlock();
        out->drain.expires_after(kDrainLook);
        out->drain.async_wait([this, out](error_code stopped) {
            out->drain_armed = false;
            if (!stopped) flush(out);
        });
    }

    void close(ConnectionId id, std::uint16_t code, std::string reason) {
        const auto out = find(id);
        if (!out) return;
        {
            const std::lock_guard lock(out->mutex);
            if (std::exchange(out->closing, true)) return;
            out->queue.clear();
            out->bytes = 0;
        }
        if (reason.size() > kMaxReason) reason.resize(kMaxReason);
        asio::post(io, [out, code, text = std::move(reason)] {
            websocketpp::lib::error_code ignored;
            out->con->close(code, text, ignored);
        });
    }

    void ping_all() {
        ping_timer.expires_after(std::chrono::milliseconds(options.ping_ms));
        ping_timer.async_wait([this](error_code stopped) {
            if (stopped) return;
            for (const auto& out : all()) {
                // Another ping would start the wait for the pong anew.
                if (std::exchange(out->con->awaits_pong, true)) continue;
                websocketpp::lib::error_code ignored;
                out->con->ping("", ignored);
            }
            ping_all();
        });
    }

    std::vector<OutgoingPtr> all() const {
        const std::lock_guard lock(mutex);
        std::vector<OutgoingPtr> list;
        list.reserve(connections.size());
        for (const auto& [id, out] : connections) list.push_back(out);
        return list;
    }

    void run() {
        for (;;) {
            try {
                io.run();
                return;
            } catch (const std::exception&) {
                // WebSocket++ throws where a connection changed state meanwhile: that connection's matter.
            }
        }
    }

    void begin_stop() {
        if (stopping.exchange(true)) return;
        asio::post(io, [this] {
            error_code ignored;
            acceptor.close(ignored);
            accept_pause.cancel();
            ping_timer.cancel();
            for (const auto& out : all()) close(out->con->id, kGoingAway, "the node is stopping");
        });
    }

    void stop() {
        if (!thread.joinable()) return;
        begin_stop();
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(options.close_ms);
        while (std::chrono::steady_clock::now() < deadline) {
            {
                const std::lock_guard lock(mutex);
                if (connections.empty()) break;
            }
            std::this_thread::sleep_for(kStopLook);
        }
        io.stop();
        thread.join();
        // Clients that did not do their part of closing must not wait until this object is destroyed.
        for (const auto& out : all()) {
            error_code ignored;
            out->con->get_raw_socket().close(ignored);
        }
    }
};

Transport::Transport() = default;
Transport::~Transport() {
    if (!impl_) return;
    stop();
    // Connections and their pending operations refer to each other until both are dropped.
    const std::lock_guard lock(impl_->mutex);
    impl_->connections.clear();
}

std::unique_ptr<Transport> Transport::start(const TransportOptions& options, Handler& handler, std::string& error) {
    std::unique_ptr<Transport> transport(new Transport());
    transport->impl_ = std::make_unique<Impl>(options, handler);
    Impl& impl = *transport->impl_;
    if (!impl.listen(error)) return nullptr;
    impl.set_up();
    impl.accept();
    impl.ping_all();
    impl.thread = std::thread([&impl] { impl.run(); });
    return transport;
}

std::uint16_t Transport::port() const { return impl_->bound_port; }
std::size_t Transport::connections() const { return *impl_->live; }
bool Transport::send(ConnectionId id, std::string text) { return impl_->send(id, std::move(text)); }
void Transport::close(ConnectionId id, std::uint16_t code, std::string reason) {
    impl_->close(id, code, std::move(reason));
}
void Transport::begin_stop() { impl_->begin_stop(); }
void Transport::stop() { impl_->stop(); }

std::size_t Transport::waiting_bytes(ConnectionId id) const {
    const auto out = impl_->find(id);
    if (!out) return 0;
    const std::lock_guard lock(out->mutex);
    return out->bytes;
}

void Transport::run_after(std::uint32_t milliseconds, std::function<void()> task) {
    auto timer = std::make_shared<asio::steady_timer>(impl_->io, std::chrono::milliseconds(milliseconds));
    timer->async_wait([timer, run = std::move(task)](error_code stopped) {
        if (!stopped) run();
    });
}

}  // namespace quern::rpc::websocket
