#include "rpc/http_server.h"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <set>
#include <thread>

#include "base/log.h"
#include "rpc/auth.h"
#include "rpc/http_session.h"

namespace quern::rpc {
namespace {

constexpr std::chrono::milliseconds kAcceptPause{100};  // after accept failed, e.g. for want of descriptors

}  // namespace

struct HttpServer::Impl final : SessionHost {
    Impl(HttpOptions server_options, HttpHooks server_hooks)
        : settings(std::move(server_options)),
          callbacks(std::move(server_hooks)),
          acceptor(io),
          pause(io),
          workers(settings.threads == 0 ? 1 : settings.threads) {
        if (!settings.cookie.empty()) authorization = basic_authorization(settings.cookie);
    }

    HttpOptions settings;
    HttpHooks callbacks;
    std::string authorization;
    std::uint16_t bound_port = 0;
    std::atomic<std::size_t> live{0};
    std::atomic<std::size_t> queued{0};
    asio::io_context io{1};
    tcp::acceptor acceptor;
    asio::steady_timer pause;
    std::set<std::weak_ptr<HttpSession>, std::owner_less<std::weak_ptr<HttpSession>>> sessions;  // IO thread only
    asio::thread_pool workers;  // destroyed before the io_context that its tasks refer to
    std::thread io_thread;

    const HttpOptions& options() const override { return settings; }
    const HttpHooks& hooks() const override { return callbacks; }
    void session_ended() override { --live; }

    bool is_authorized(std::string_view header) const override {
        return !authorization.empty() && equal_secrets(header, authorization);
    }

    bool enqueue(bool admitted, std::function<void()> work, std::function<void()> done) override {
        if (queued.fetch_add(1) >= settings.max_queued && !admitted) {
            --queued;
            return false;
        }
        asio::post(workers, [this, work = std::move(work), done = std::move(done)]() mutable {
            work();
            --queued;
            asio::post(io, std::move(done));
        });
        return true;
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
                log::warning(log::Category::rpc, "cannot accept error={}", code.message());
                pause.expires_after(kAcceptPause);
                pause.async_wait([this](error_code stopped) {
                    if (!stopped) accept();
                });
                return;
            }
            if (live >= settings.max_connections) {
                error_code ignored;
                socket.close(ignored);
            } else {
                ++live;
                auto session = std::make_shared<HttpSession>(std::move(socket), *this);
                std::erase_if(sessions, [](const auto& other) { return other.expired(); });
                sessions.insert(session);
                session->start();
            }
            accept();
        });
    }

    void stop() {
        if (!io_thread.joinable()) return;
        asio::post(io, [this] {
            error_code ignored;
            acceptor.close(ignored);
            pause.cancel();
            for (const auto& entry : sessions)
                if (const auto session = entry.lock()) session->close();
        });
        workers.join();  // running calls end; their answers find closed connections
        asio::post(io, [this] { io.stop(); });
        io_thread.join();
    }
};

HttpServer::HttpServer() = default;

HttpServer::~HttpServer() { stop(); }

Expected<std::unique_ptr<HttpServer>> HttpServer::start(HttpOptions options, HttpHooks hooks) {
    std::unique_ptr<HttpServer> server(new HttpServer());
    server->impl_ = std::make_unique<Impl>(std::move(options), std::move(hooks));
    QUERN_CHECK(server->impl_->listen());
    Impl& impl = *server->impl_;
    impl.accept();
    impl.io_thread = std::thread([&impl] { impl.io.run(); });
    log::info(log::Category::rpc, "listening address={} port={} threads={}", impl.settings.bind, impl.bound_port,
              impl.settings.threads);
    return server;
}

std::uint16_t HttpServer::port() const { return impl_->bound_port; }
std::size_t HttpServer::connections() const { return impl_->live; }
void HttpServer::stop() { impl_->stop(); }

}  // namespace quern::rpc
