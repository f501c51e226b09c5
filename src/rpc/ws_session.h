// One WebSocket connection of JSON-RPC: requests that wait, answered one after the other, and subscriptions. Private
// to ws_server.cpp and ws_session.cpp. Thread-safe.
#pragma once

#include <deque>
#include <mutex>

#include "rpc/subscription.h"
#include "rpc/websocket/transport.h"
#include "rpc/ws_server.h"

namespace quern::rpc {

class WsSession final : public SubscriptionHost, public std::enable_shared_from_this<WsSession> {
public:
    struct Parts {  // all outlive the session
        const WsOptions& options;
        websocket::Transport& transport;
        const WsServer::Rpc& rpc;
        std::function<void(std::function<void()>)> post;  // to an answering thread
    };
    WsSession(const Parts& parts, websocket::ConnectionId id, bool authenticated)
        : parts_(parts), id_(id), authenticated_(authenticated) {}

    void received(std::string text);
    void on_block(const chain::api::BlockEvent& event, TextCache& texts);
    void on_transaction(const chain::types::RecoveredTransaction& transaction, TextCache& texts);
    // The connection is gone: what waits is dropped.
    void end();
    [[nodiscard]] std::size_t subscriptions() const;

    [[nodiscard]] Expected<std::string> subscribe(std::unique_ptr<Subscription> subscription) override;
    [[nodiscard]] bool unsubscribe(std::string_view group, std::string_view id) override;

private:
    struct Entry {
        std::shared_ptr<Subscription> subscription;
        // The client does not know the id yet: what happens meanwhile waits for the answer.
        bool fresh = true;
        std::vector<std::string> held;
    };

    void answer_next();
    void go_on();
    void activate();
    // `call` is given each subscription with its emitter.
    template <class Call>
    void tell(Call&& call);
    void notify(const std::string& id, std::string_view group, const std::string& result);

    const Parts parts_;
    const websocket::ConnectionId id_;
    const bool authenticated_;

    mutable std::mutex mutex_;  // guards what follows
    std::deque<std::string> waiting_;
    std::size_t waiting_bytes_ = 0;
    std::size_t held_bytes_ = 0;
    bool answering_ = false;
    bool ended_ = false;
    std::map<std::string, Entry, std::less<>> subscriptions_;
};

}  // namespace quern::rpc
