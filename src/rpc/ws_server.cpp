#include "rpc/ws_server.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include "base/log.h"
#include "base/mutex.h"
#include "base/thread_priority.h"
#include "base/turns.h"
#include "rpc/large_jobs.h"
#include "rpc/ws_session.h"

namespace quern::rpc {

namespace asio = boost::asio;
using chain::api::BlockEvent;

struct WsServer::Impl final : websocket::Handler, chain::api::EventListener {
    using SessionPtr = std::shared_ptr<WsSession>;

    Impl(const WsOptions& server_options, BeginJob server_rpc, chain::api::EventSource& event_source)
        : options(server_options),
          rpc(std::move(server_rpc)),
          events(event_source),
          large_jobs(options.max_large_jobs, options.max_connections),
          workers(options.threads == 0 ? 1 : options.threads) {
        if (!options.gate) options.gate = *Gate::make({});
    }

    WsOptions options;
    const BeginJob rpc;
    chain::api::EventSource& events;
    std::unique_ptr<websocket::Transport> transport;
    mutable Mutex mutex;
    std::map<websocket::ConnectionId, SessionPtr> sessions QUERN_GUARDED_BY(mutex);
    Mutex large_mutex;
    LargeJobs large_jobs QUERN_GUARDED_BY(large_mutex);  // one of a session at most waits
    Mutex turns_mutex;
    Turns<std::function<void()>> turns QUERN_GUARDED_BY(turns_mutex);  // of a session one at most
    asio::thread_pool workers;
    std::atomic<bool> stopped{false};
    std::atomic<std::size_t> subscribed{0};  // subscriptions of all sessions

    Status listen() {
        websocket::TransportOptions transport_options;
        transport_options.bind = options.bind;
        transport_options.port = options.port;
        transport_options.max_connections = options.max_connections;
        transport_options.max_message_bytes = options.max_message_bytes;
        transport_options.max_outgoing_bytes = options.max_outgoing_bytes;
        transport_options.handshake_ms = options.handshake_ms;
        transport_options.max_held_bytes = options.max_held_bytes;
        transport_options.message_ms = options.message_ms;
        transport_options.ping_ms = options.ping_ms;
        transport_options.pong_ms = options.pong_ms;
        transport_options.close_ms = options.close_ms;
        transport_options.unauthorized_ms = kRefusedCredentialsMs;
        // Until `transport` is set no session can be made: opened() waits for the lock.
        const MutexLock lock(mutex);
        QUERN_TRY(transport, websocket::Transport::start(transport_options, *this));
        return {};
    }

    unsigned admit(const websocket::Handshake& handshake) override {
        constexpr unsigned kWelcome = 101;
        constexpr unsigned kUnauthorized = 401;
        constexpr unsigned kForbidden = 403;
        const bool good_origin =
            handshake.origin.empty() ||
            std::any_of(options.origins.begin(), options.origins.end(),
                        [&](const std::string& entry) { return entry == "*" || entry == handshake.origin; });
        if (!good_origin || !options.gate->admits_host(handshake.host)) return kForbidden;
        return options.gate->identify(handshake.authorization) ? kWelcome : kUnauthorized;
    }

    void opened(websocket::ConnectionId id, const websocket::Handshake& handshake) override {
        const auto caller = options.gate->identify(handshake.authorization);
        log::debug(log::Category::rpc, "websocket opened connection={} remote={}", id, handshake.remote);
        const std::string& host = handshake.client;
        const MutexLock lock(mutex);
        const WsSession::Parts parts{
            options,
            *transport,
            rpc,
            [this, host](std::function<void()> work) { post(host, std::move(work)); },
            stopped,
            [this, host](WsSession& session, std::function<void()> begin, std::function<void()> refuse) {
                begin_large({host, std::move(begin), std::move(refuse), &session});
            },
            [this, host] { end_large(host); },
            [this, host](const WsSession& session) { forget_large(host, session); },
            subscribed};
        sessions.emplace(id, std::make_shared<WsSession>(parts, id, caller.value_or(Caller{})));
    }

    void post(const std::string& host, std::function<void()> work) QUERN_EXCLUDES(turns_mutex) {
        {
            const MutexLock lock(turns_mutex);
            turns.add(host, std::move(work));
        }
        asio::post(workers, [this] { answer(); });
    }
    // On an answering thread, once for each work that was posted.
    void answer() QUERN_EXCLUDES(turns_mutex) {
        stand_back();
        std::optional<std::function<void()>> work;
        {
            const MutexLock lock(turns_mutex);
            work = turns.next();
        }
        if (work) (*work)();
    }

    void begin_large(LargeJobs::Request request) QUERN_EXCLUDES(large_mutex) {
        std::function<void()> next;
        {
            const MutexLock lock(large_mutex);
            next = large_jobs.ask(std::move(request));
        }
        if (next) next();
    }
    void end_large(const std::string& host) QUERN_EXCLUDES(large_mutex) {
        std::function<void()> next;
        {
            const MutexLock lock(large_mutex);
            next = large_jobs.ended(host);
        }
        if (next) next();
    }

    void forget_large(const std::string& host, const WsSession& session) QUERN_EXCLUDES(large_mutex) {
        std::list<LargeJobs::Request> dropped;
        const MutexLock lock(large_mutex);
        dropped = large_jobs.forget(host, &session);
    }

    void received(websocket::ConnectionId id, std::string text) override {
        if (const auto session = find(id)) session->received(std::move(text));
    }

    void closed(websocket::ConnectionId id, std::uint16_t code, const std::string& reason) override {
        log::debug(log::Category::rpc, "websocket closed connection={} code={} reason={}", id, code, reason);
        SessionPtr session;
        {
            const MutexLock lock(mutex);
            const auto found = sessions.find(id);
            if (found == sessions.end()) return;
            session = std::move(found->second);
            sessions.erase(found);
        }
        session->end();
    }

    SessionPtr find(websocket::ConnectionId id) const {
        const MutexLock lock(mutex);
        const auto found = sessions.find(id);
        return found == sessions.end() ? nullptr : found->second;
    }

    std::vector<SessionPtr> all() const {
        const MutexLock lock(mutex);
        std::vector<SessionPtr> list;
        list.reserve(sessions.size());
        for (const auto& [id, session] : sessions) list.push_back(session);
        return list;
    }

    bool listens() const override { return subscribed != 0; }

    void on_block(const BlockEvent& event) override {
        TextCache texts;
        for (const auto& session : all()) {
            if (stopped) return;
            session->on_block(event, texts);
        }
    }

    void on_transaction(const chain::types::RecoveredTransaction& transaction) override {
        TextCache texts;
        for (const auto& session : all()) {
            if (stopped) return;
            session->on_transaction(transaction, texts);
        }
    }

    void stop() {
        if (!transport || stopped.exchange(true)) return;
        events.remove(*this);
        transport->begin_stop();
        transport->stop();
        for (const auto& session : all()) session->end();  // those that did not finish closing
        workers.join();
        const MutexLock lock(mutex);
        sessions.clear();
    }
};

WsServer::WsServer() = default;
WsServer::~WsServer() { stop(); }

Expected<std::unique_ptr<WsServer>> WsServer::start(const WsOptions& options, BeginJob rpc,
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
std::size_t WsServer::held_bytes() const { return impl_->transport->held_bytes(); }
void WsServer::adopt(int socket, std::string received) { impl_->transport->adopt(socket, std::move(received)); }
void WsServer::stop() { impl_->stop(); }

}  // namespace quern::rpc
