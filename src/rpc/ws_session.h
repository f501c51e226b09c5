// One WebSocket connection of JSON-RPC: requests that wait, answered one after the other, and subscriptions. Private
// to ws_server.cpp and ws_session.cpp. Thread-safe.
#pragma once

#include <atomic>
#include <deque>

#include "base/mutex.h"
#include "rpc/subscription.h"
#include "rpc/websocket/transport.h"
#include "rpc/ws_server.h"

namespace quern::rpc {

// The text of one that tells of `result`, in no more memory than it has bytes: thousands may wait for slow readers, and
// bytes are what is counted.
[[nodiscard]] std::string notification(std::string_view group, std::string_view id, std::string_view result);

class WsSession final : public SubscriptionHost, public std::enable_shared_from_this<WsSession> {
public:
    struct Parts {  // all outlive the session
        const WsOptions& options;
        websocket::Transport& transport;
        const BeginJob& rpc;
        std::function<void(std::function<void()>)> post;  // to an answering thread
        const std::atomic<bool>& stopping;
        // Calls `begin` at once, or when one of the large requests was answered, which end_large() says; or `refuse`.
        std::function<void(WsSession&, std::function<void()> begin, std::function<void()> refuse)> begin_large;
        std::function<void()> end_large;
        std::function<void(const WsSession&)> forget_large;  // drops what waits to begin
        std::atomic<std::size_t>& subscriptions;             // of all sessions
    };
    WsSession(const Parts& parts, websocket::ConnectionId id, const Caller& caller)
        : parts_(parts), id_(id), caller_(caller) {}

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
        std::size_t bytes = 0;
        std::vector<std::string> held;
    };

    // One request on its way to its answer.
    struct Running {
        Running(std::chrono::milliseconds limit, const std::atomic<bool>& stopping) : deadline(limit, &stopping) {}
        CallDeadline deadline;
        std::unique_ptr<Job> job;  // refers to `deadline`
        std::size_t request = 0;   // bytes
        std::size_t held = 0;      // bytes of the request, and of the answer so far
    };

    void answer_next() QUERN_EXCLUDES(mutex_);
    void begin(std::string request) QUERN_EXCLUDES(mutex_);
    void run(const std::shared_ptr<Running>& running) QUERN_EXCLUDES(mutex_);
    void go_on();
    void activate() QUERN_EXCLUDES(mutex_);
    // `call` is given each subscription with its emitter.
    template <class Call>
    void tell(Call&& call) QUERN_EXCLUDES(mutex_);
    void notify(const std::string& id, std::string_view group, const std::string& result) QUERN_EXCLUDES(mutex_);
    void hold(std::size_t bytes) { parts_.transport.hold(id_, static_cast<std::ptrdiff_t>(bytes)); }
    void let_go(std::size_t bytes) { parts_.transport.hold(id_, -static_cast<std::ptrdiff_t>(bytes)); }

    const Parts parts_;
    const websocket::ConnectionId id_;
    const Caller caller_;

    mutable Mutex mutex_;
    std::deque<std::string> waiting_ QUERN_GUARDED_BY(mutex_);
    std::size_t waiting_bytes_ QUERN_GUARDED_BY(mutex_) = 0;
    std::size_t held_bytes_ QUERN_GUARDED_BY(mutex_) = 0;
    std::size_t subscription_bytes_ QUERN_GUARDED_BY(mutex_) = 0;
    bool answering_ QUERN_GUARDED_BY(mutex_) = false;
    bool ended_ QUERN_GUARDED_BY(mutex_) = false;
    std::shared_ptr<Running> running_ QUERN_GUARDED_BY(mutex_);
    std::map<std::string, Entry, std::less<>> subscriptions_ QUERN_GUARDED_BY(mutex_);
};

}  // namespace quern::rpc
