#include "rpc/websocket/transport.h"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "base/eviction.h"
#include "rpc/websocket/connection.h"

namespace quern::rpc::websocket {
namespace {

constexpr std::chrono::milliseconds kAcceptPause{100};  // after accept failed, e.g. for want of descriptors
constexpr std::chrono::milliseconds kStopLook{5};

// A socket between two owners: closed unless somebody takes it.
class PassedSocket {
public:
    explicit PassedSocket(int descriptor) : descriptor_(descriptor) {}
    PassedSocket(PassedSocket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    PassedSocket(const PassedSocket&) = delete;
    PassedSocket& operator=(const PassedSocket&) = delete;
    PassedSocket& operator=(PassedSocket&&) = delete;
    ~PassedSocket() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }
    [[nodiscard]] int get() const { return descriptor_; }
    void release() { descriptor_ = -1; }

private:
    int descriptor_;
};

}  // namespace

struct Transport::Impl final : Host {
    using ConnectionPtr = std::shared_ptr<Connection>;

    Impl(const TransportOptions& transport_options, Handler& transport_handler)
        : settings(transport_options), told(transport_handler), acceptor(io), accept_pause(io), ping_timer(io) {}

    const TransportOptions settings;
    Handler& told;
    asio::io_context io{1};
    tcp::acceptor acceptor;
    asio::steady_timer accept_pause;
    asio::steady_timer ping_timer;
    std::uint16_t bound_port = 0;
    std::atomic<std::size_t> live{0};
    std::atomic<std::ptrdiff_t> held{0};
    std::atomic<bool> evicting{false};
    std::atomic<bool> stop_begun{false};
    ConnectionId last_id = 0;                        // IO thread
    std::map<ConnectionId, ConnectionPtr> everyone;  // IO thread; half-open ones, too
    mutable Mutex mutex;
    std::map<ConnectionId, ConnectionPtr> open QUERN_GUARDED_BY(mutex);
    std::thread thread;

    const TransportOptions& options() const override { return settings; }
    Handler& handler() override { return told; }
    bool stopping() const override { return stop_begun; }
    void opened(const ConnectionPtr& connection) override {
        const MutexLock lock(mutex);
        open.emplace(connection->id(), connection);
    }
    void ended(Connection& connection) override {
        // Its own operations keep it until they have ended, too.
        if (everyone.erase(connection.id()) != 0) --live;
        const MutexLock lock(mutex);
        open.erase(connection.id());
    }
    void held_more(std::ptrdiff_t bytes) override {
        if ((held += bytes) <= static_cast<std::ptrdiff_t>(settings.max_held_bytes) || evicting.exchange(true)) return;
        asio::post(io, [this] { evict(); });
    }
    void evict() {
        evicting = false;
        while (held > static_cast<std::ptrdiff_t>(settings.max_held_bytes)) {
            std::vector<Holder> holders;
            std::vector<ConnectionPtr> same_order;
            for (const auto& [id, connection] : everyone) {
                const auto bytes = std::max<std::ptrdiff_t>(connection->held(), 0);
                holders.push_back({connection->client_host(), static_cast<std::size_t>(bytes)});
                same_order.push_back(connection);
            }
            const auto heaviest = choose_heaviest(holders);
            if (!heaviest) return;
            same_order[*heaviest]->drop(kTryAgainLater, "the memory for clients is used up");
        }
    }

    ConnectionPtr find(ConnectionId id) const {
        const MutexLock lock(mutex);
        const auto found = open.find(id);
        return found == open.end() ? nullptr : found->second;
    }

    Status listen() {
        error_code code;
        const auto address = asio::ip::make_address(settings.bind, code);
        if (code) return fail("rpc.bad_bind_address", settings.bind);
        const tcp::endpoint endpoint(address, settings.port);
        acceptor.open(endpoint.protocol(), code);
        if (!code) acceptor.set_option(asio::socket_base::reuse_address(true), code);
        if (!code) acceptor.bind(endpoint, code);
        if (!code) acceptor.listen(asio::socket_base::max_listen_connections, code);
        if (code)
            return fail("rpc.cannot_listen",
                        settings.bind + ":" + std::to_string(settings.port) + ": " + code.message());
        bound_port = acceptor.local_endpoint(code).port();
        return {};
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
            begin(std::move(socket), {});
            accept();
        });
    }

    void begin(tcp::socket socket, std::string received) {
        auto connection = std::make_shared<Connection>(io, *this, ++last_id, std::move(socket), std::move(received));
        if (everyone.size() >= settings.max_connections && !make_room(connection->client_host())) return;
        everyone.emplace(connection->id(), connection);
        ++live;
        connection->start();
    }

    bool make_room(const std::string& newcomer) {
        std::vector<Occupant> occupants;
        std::vector<ConnectionPtr> same_order;
        for (const auto& [id, connection] : everyone) {
            occupants.push_back({connection->client_host(), !connection->is_open(), connection->since_ms()});
            same_order.push_back(connection);
        }
        const auto victim = choose_victim(occupants, newcomer);
        if (!victim) return false;
        same_order[*victim]->drop(kTryAgainLater, "the place was needed");
        return true;
    }

    void adopt(PassedSocket& passed, std::string received) {
        if (stop_begun) return;
        sockaddr_storage address{};
        socklen_t size = sizeof(address);
        ::getsockname(passed.get(), reinterpret_cast<sockaddr*>(&address), &size);
        tcp::socket socket(io);
        error_code code;
        socket.assign(address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), passed.get(), code);
        if (code) return;
        passed.release();
        begin(std::move(socket), std::move(received));
    }

    void ping_all() {
        ping_timer.expires_after(std::chrono::milliseconds(settings.ping_ms));
        ping_timer.async_wait([this](error_code stopped) {
            if (stopped) return;
            for (const auto& [id, connection] : everyone) connection->ping();
            ping_all();
        });
    }

    void begin_stop() {
        if (stop_begun.exchange(true)) return;
        asio::post(io, [this] {
            error_code ignored;
            acceptor.close(ignored);
            accept_pause.cancel();
            ping_timer.cancel();
            const auto all = everyone;
            for (const auto& [id, connection] : all) {
                if (connection->is_open())
                    connection->begin_close(kGoingAway, "the node is stopping");
                else
                    connection->drop(0, {});
            }
        });
    }

    void stop() {
        if (!thread.joinable()) return;
        begin_stop();
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(settings.close_ms);
        while (std::chrono::steady_clock::now() < deadline && live != 0) std::this_thread::sleep_for(kStopLook);
        // Clients that did not do their part of closing must not wait until this object is destroyed.
        asio::post(io, [this] {
            const auto all = everyone;
            for (const auto& [id, connection] : all) connection->drop(kGoingAway, "the node is stopping");
            io.stop();
        });
        thread.join();
    }
};

Transport::Transport() = default;
Transport::~Transport() {
    if (impl_) stop();
}

Expected<std::unique_ptr<Transport>> Transport::start(const TransportOptions& options, Handler& handler) {
    std::unique_ptr<Transport> transport(new Transport());
    transport->impl_ = std::make_unique<Impl>(options, handler);
    Impl& impl = *transport->impl_;
    QUERN_CHECK(impl.listen());
    impl.accept();
    impl.ping_all();
    impl.thread = std::thread([&impl] { impl.io.run(); });
    return transport;
}

std::uint16_t Transport::port() const { return impl_->bound_port; }
std::size_t Transport::connections() const { return impl_->live; }
std::size_t Transport::held_bytes() const { return static_cast<std::size_t>(std::max<std::ptrdiff_t>(impl_->held, 0)); }
void Transport::begin_stop() { impl_->begin_stop(); }
void Transport::stop() { impl_->stop(); }

void Transport::adopt(int socket, std::string received) {
    asio::post(impl_->io, [impl = impl_.get(), passed = PassedSocket(socket), bytes = std::move(received)]() mutable {
        impl->adopt(passed, std::move(bytes));
    });
}

bool Transport::send(ConnectionId id, std::string text) {
    const auto connection = impl_->find(id);
    return connection && connection->send(std::move(text));
}

std::size_t Transport::waiting_bytes(ConnectionId id) const {
    const auto connection = impl_->find(id);
    return connection ? connection->waiting() : 0;
}

void Transport::hold(ConnectionId id, std::ptrdiff_t bytes) {
    if (const auto connection = impl_->find(id)) connection->hold_more(bytes);
}

void Transport::close(ConnectionId id, std::uint16_t code, std::string reason) {
    if (const auto connection = impl_->find(id)) connection->begin_close(code, std::move(reason));
}

void Transport::run_after(std::uint32_t milliseconds, std::function<void()> task) {
    auto timer = std::make_shared<asio::steady_timer>(impl_->io, std::chrono::milliseconds(milliseconds));
    timer->async_wait([timer, run = std::move(task)](error_code stopped) {
        if (!stopped) run();
    });
}

}  // namespace quern::rpc::websocket
