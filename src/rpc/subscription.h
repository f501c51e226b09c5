// Subscriptions of a connection that can be told things (WebSocket): what a subscription is, and the connection as the
// eth_subscribe family of methods sees it. A Subscription is called by one thread at a time; a SubscriptionHost is
// thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "chain/api/events.h"

namespace quern::rpc {

// The JSON texts of one event, made once however many subscriptions want them.
class TextCache {
public:
    // `make` gives a json::Value.
    template <class Make>
    const std::string& get(std::string_view key, Make&& make) {
        auto found = texts_.find(key);
        if (found == texts_.end()) found = texts_.emplace(std::string(key), make().dump()).first;
        return found->second;
    }

private:
    std::map<std::string, std::string, std::less<>> texts_;
};

// Takes the JSON text of one notification's result.
using Emit = std::function<void(const std::string&)>;

class Subscription {
public:
    virtual ~Subscription() = default;
    // "eth" or "quern": its notifications are of the method <group>_subscription.
    [[nodiscard]] virtual std::string_view group() const = 0;
    // What its filter takes in memory.
    [[nodiscard]] virtual std::size_t bytes() const { return 0; }
    virtual void on_block(const chain::api::BlockEvent& event, TextCache& texts, const Emit& emit) = 0;
    virtual void on_transaction(const chain::types::RecoveredTransaction& transaction, TextCache& texts,
                                const Emit& emit) = 0;
};

class SubscriptionHost {
public:
    virtual ~SubscriptionHost() = default;
    // The subscription's id; its notifications begin after the running call was answered. Error:
    // subscription.too_many, subscription.too_large.
    [[nodiscard]] virtual Expected<std::string> subscribe(std::unique_ptr<Subscription> subscription) = 0;
    // False when there is none of this id and group. After true no notification follows.
    [[nodiscard]] virtual bool unsubscribe(std::string_view group, std::string_view id) = 0;
};

}  // namespace quern::rpc
