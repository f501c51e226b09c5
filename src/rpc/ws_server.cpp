#include "rpc/ws_server.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include "base/log.h"
#include "rpc/auth.h"
#include "rpc/ws_session.h"

namespace quern::rpc {

namespace asio = boost::asio;
using chain::api::BlockEvent;

struct WsServer::Impl final : websocket::Handler, chain::api::EventListener {
    using SessionPtr = std::shared_ptr<WsSession>;

    Impl(const WsOptions& server_options, Rpc server_rpc, chain::api::EventSource& event_source)
        : options(server_options),
          rpc(std::move(server_rpc)),
          events(event_source),
          workers(options.threads == 0 ? 1 : options.threads) {
        if (!options.cookie.empty()) authorization = basic_authorization(options.cookie);
    }

    const WsOptions options;
    const Rpc rpc;
    chain::api::EventSource& events;
    std::string authorization;
    std::unique_ptr<websocket::Transport> transport;
    mutable std::mutex mutex;  // guards sessions
    std::map<websocket::ConnectionId, SessionPtr> sessions;
    asio::thread_pool workers;
    bool stopped = false;

    Status listen() {
        websocket::TransportOptions transport_options;
        transport_options.bind = options.bind;
        transport_options.port = options.port;
        transport_options.max_connections = options.max_connections;
        transport_options.max_message_bytes = options.max_message_bytes;
        transport_options.max_outgoing_bytes = options.max_outgoing_bytes;
        transport_options.handshake_ms = options.handshake_ms;
        transport_options.ping_ms = options.ping_ms;
        transport_options.pong_ms = options.pong_ms;
        transport_options.close_ms = options.close_ms;
        std::string error;
        // Until `transport` is set no session can be made: opened() waits for the lock.
        const std::lock_guard lock(mutex);
        transport = websocket::Transport::start(transport_options, *this, error);
        if (!transport)
            return fail(error.starts_with("not an address") ? "rpc.bad_bind_address" : "rpc.cannot_listen", error);
        return {};
    }

    bool admit(const websocket::Handshake& handshake) override {
        return handshake.origin.empty() ||
               std::any_of(options.origins.begin(), options.origins.end(),
                           [&](const std::string& entry) { return entry == "*" || entry == handshake.origin; });
    }

    void opened(websocket::ConnectionId id, const websocket::Handshake& handshake) override {
        const bool authenticated = !authorization.empty() && equal_secrets(handshake.authorization, authorization);
        log::debug(log::Category::rpc, "websocket opened connection={} remote={}", id, handshake.remote);
        const std::lock_guard lock(mutex);
        const WsSession::Parts parts{options, *transport, rpc,
                                     [this](std::function<void()> work) { asio::post(workers, std::move(work)); }};
        sessions.emplace(id, std::make_shared<WsSession>(parts, id, authenticated));
    }

    void received(websocket::ConnectionId id, std::string text) override {
        if (const auto session = find(id)) session->received(std::move(text));
    }

    void closed(websocket::ConnectionId id, std::uint16_t code, const std::string& reason) override {
        log::debug(log::Category::rpc, "websocket closed connection={} code={} reason={}", id, code, reason);
        SessionPtr session;
        {
            const std::lock_guard lock(mutex);
            const auto found = sessions.find(id);
            if (found == sessions.end()) return;
            session = std::move(found->second);
            sessions.erase(found);
        }
        session->end();
    }

    SessionPtr find(websocket::ConnectionId id) const {
        const std::lock_guard lock(mutex);
        const auto found = sessions.find(id);
        return found == sessions.end() ? nullptr : found->second;
    }

    std::vector<SessionPtr> all() const {
        const std::lock_guard lock(mutex);
        std::vector<SessionPtr> list;
        list.reserve(sessions.size());
        for (const auto& [id, session] : sessions) list.push_back(session);
        return list;
    }

    void on_block(const BlockEvent& event) override {
        TextCache texts;
        for (const auto& session : all()) session->on_block(event, texts);
    }

    void on_transaction(const chain::types::RecoveredTransaction& transaction) override {
        TextCache texts;
        for (const auto& session : all()) session->on_transaction(transaction, texts);
    }

    void stop() {
        if (!transport || std::exchange(stopped, true)) return;
        events.remove(*this);
        transport->begin_stop();
        transport->stop();
        for (const auto& session : all()) session->end();  // those that did not finish closing
        workers.join();
        const std::lock_guard lock(mutex);
        sessions.clear();
    }
};

WsServer::WsServer() = default;
WsServer::~WsServer() { stop(); }

Expected<std::unique_ptr<WsServer>> WsServer::start(const WsOptions& options, Rpc rpc,
                                                    chain::api::EventSource& events) {
    std::unique_ptr<WsServer> server(new WsServer());
    server->impl_ = std::make_unique<Impl>(options, std::move(rpc), events);
    QUERN_CHECK(server->impl_->listen());
    events.add(*server->impl_);
    log::info(log::Category::rpc, "listening for WebSocket address={} port={} threads={}", options.bind, server->port(),
              options.threads);
    return server;
}

std::uint16_t WsServer::port() const { return impl_->transport->port(); }
std::size_t WsServer::connections() const { return impl_->transport->connections(); }
std::size_t WsServer::subscriptions() const {
    std::size_t count = 0;
    for (const auto& session : impl_->all()) count += session->subscriptions();
    return count;
}
void WsServer::stop() { impl_->stop(); }

}  // namespace quern::rpc
