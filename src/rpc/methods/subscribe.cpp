// eth_subscribe, eth_unsubscribe, quern_subscribe, quern_unsubscribe: over WebSocket alone.
#include <algorithm>
#include <limits>

#include "rpc/methods/backend.h"
#include "rpc/methods/eth_json.h"
#include "rpc/methods/log_filter.h"
#include "rpc/methods/state_filter.h"
#include "rpc/subscription.h"

namespace quern::rpc::methods {
namespace {

namespace types = chain::types;
using chain::api::BlockEvent;
using chain::api::MarketChange;

constexpr std::string_view kEth = "eth";
constexpr std::string_view kQuern = "quern";
constexpr std::size_t kMaxStates = 16;

// A subscription that hears of blocks only.
class OfBlocks : public Subscription {
public:
    void on_transaction(const types::RecoveredTransaction&, TextCache&, const Emit&) final {}
};

class NewHeads final : public OfBlocks {
public:
    std::string_view group() const override { return kEth; }
    void on_block(const BlockEvent& event, TextCache& texts, const Emit& emit) override {
        emit(texts.get("newHeads", [&] { return header_json(*event.view); }));
    }
};

struct LogRange {
    LogFilter filter;
    std::uint64_t from = 0;
    std::uint64_t to = std::numeric_limits<std::uint64_t>::max();
};

class Logs final : public OfBlocks {
public:
    explicit Logs(LogRange range) : range_(std::move(range)) {}
    std::string_view group() const override { return kEth; }
    std::size_t bytes() const override { return range_.filter.bytes(); }
    void on_block(const BlockEvent& event, TextCache& texts, const Emit& emit) override {
        const std::uint64_t number = event.view->block.header.number;
        if (number < range_.from || number > range_.to) return;
        visit_logs(*event.view, event.receipts, range_.filter, [&](const types::Log& log, const LogPlace& place) {
            emit(texts.get("log/" + std::to_string(place.log_index), [&] { return log_json(log, place); }));
            return true;
        });
    }

private:
    const LogRange range_;
};

class PendingTransactions final : public Subscription {
public:
    explicit PendingTransactions(bool full) : full_(full) {}
    std::string_view group() const override { return kEth; }
    void on_block(const BlockEvent&, TextCache&, const Emit&) override {}
    void on_transaction(const types::RecoveredTransaction& transaction, TextCache& texts, const Emit& emit) override {
        if (full_)
            emit(texts.get("full", [&] { return transaction_json({transaction, std::nullopt, 0, 0, {}}, 0); }));
        else
            emit(texts.get("hash", [&] { return json::Value(hex(transaction.hash)); }));
    }

private:
    const bool full_;
};

template <class T>
json::Value or_null(const std::optional<T>& value) {
    return value ? json::Value(*value) : json::Value();
}

json::Value change_json(const BlockEvent& event, const MarketChange& change) {
    json::Value object = json::Value::object({{"kind", change.kind}, {"taskId", or_null(change.task)}});
    if (change.topic == MarketChange::Topic::dispute) object.set("disputeId", or_null(change.dispute));
    object.set("state", change.state ? json::Value(types::to_string(*change.state)) : json::Value());
    object.set("block", event.view->block.header.number);
    object.set("blockHash", hex(event.view->hash));
    object.set("transactionHash", change.transaction.is_zero() ? json::Value() : json::Value(hex(change.transaction)));
    for (const json::Member& member : change.fields.members()) object.set(member.key, member.value);
    return object;
}

struct ChangeFilter {
    std::optional<std::uint64_t> task;
    std::optional<std::uint64_t> dispute;
    std::vector<StateFilter> states;  // empty: any
};

class MarketChanges final : public OfBlocks {
public:
    MarketChanges(MarketChange::Topic topic, ChangeFilter filter) : topic_(topic), filter_(std::move(filter)) {}
    std::string_view group() const override { return kQuern; }
    void on_block(const BlockEvent& event, TextCache& texts, const Emit& emit) override {
        for (std::size_t i = 0; i < event.changes.size(); ++i)
            if (wants(event.changes[i]))
                emit(texts.get("change/" + std::to_string(i), [&] { return change_json(event, event.changes[i]); }));
    }

private:
    [[nodiscard]] bool wants(const MarketChange& change) const {
        if (change.topic != topic_) return false;
        if (filter_.task && change.task != filter_.task) return false;
        if (filter_.dispute && change.dispute != filter_.dispute) return false;
        if (filter_.states.empty()) return true;
        return change.state && std::any_of(filter_.states.begin(), filter_.states.end(),
                                           [&](const StateFilter& state) { return state.admits(*change.state); });
    }

    const MarketChange::Topic topic_;
    const ChangeFilter filter_;
};

class FinalityReports final : public OfBlocks {
public:
    std::string_view group() const override { return kQuern; }
    void on_block(const BlockEvent& event, TextCache& texts, const Emit& emit) override {
        emit(texts.get("finality", [&] {
            const auto& header = event.view->block.header;
            const auto& finality = event.finality;
            const auto amount = [](const std::optional<Uint256>& value) {
                return value ? json::Value(quantity(*value)) : json::Value();
            };
            return json::Value::object({{"number", header.number},
                                        {"hash", hex(event.view->hash)},
                                        {"epoch", header.consensus.epoch},
                                        {"view", header.consensus.view},
                                        {"timestampMs", header.consensus.timestamp_ms},
                                        {"signers", finality.signers},
                                        {"weight", amount(finality.weight)},
                                        {"totalWeight", amount(finality.total_weight)},
                                        {"finalityMs", or_null(finality.milliseconds)}});
        }));
    }
};

using Made = tl::expected<std::unique_ptr<Subscription>, RpcError>;

// The bounds of a logs subscription: blocks that come, at most limited by fromBlock and toBlock.
tl::expected<LogRange, RpcError> read_range(const json::Value& object) {
    LogRange range;
    if (const json::Value* hash = object.find("blockHash"); hash != nullptr && !hash->is_null())
        return rpc_fail(kInvalidParams, "invalid argument 1: blockHash has no meaning in a subscription");
    auto filter = read_log_filter(object);
    if (!filter) return rpc_fail(kInvalidParams, "invalid argument 1: " + filter.error().to_string());
    range.filter = std::move(*filter);
    for (const bool first : {true, false}) {
        const json::Value* value = object.find(first ? "fromBlock" : "toBlock");
        if (value == nullptr || value->is_null()) continue;
        const auto block = read_block(*value);
        if (!block) return rpc_fail(kInvalidParams, "invalid argument 1: " + block.error().detail);
        if (*value == json::Value("pending")) return rpc_fail(kInvalidParams, "pending logs are not supported");
        using Kind = chain::api::BlockSelector::Kind;
        if (block->kind == Kind::hash || (block->kind == Kind::earliest && !first))
            return rpc_fail(kInvalidParams, "invalid block range params");
        if (block->kind == Kind::number) (first ? range.from : range.to) = block->number;
    }
    if (range.from > range.to) return rpc_fail(kInvalidParams, "invalid block range params");
    return range;
}

Made make_eth(const Call& call) {
    const std::string_view name = call.text(0);
    if (name == "newHeads") {
        if (call.has(1)) return rpc_fail(kInvalidParams, "too many arguments, want at most 1");
        return std::make_unique<NewHeads>();
    }
    if (name == "logs") {
        if (!call.has(1)) return std::make_unique<Logs>(LogRange{});
        if (!call.value(1).is_object()) return rpc_fail(kInvalidParams, "invalid argument 1: expected an object");
        auto range = read_range(call.value(1));
        if (!range) return tl::unexpected<RpcError>(range.error());
        return std::make_unique<Logs>(std::move(*range));
    }
    if (name == "newPendingTransactions") {
        if (call.has(1) && !call.value(1).is_bool())
            return rpc_fail(kInvalidParams, "invalid argument 1: expected a boolean");
        return std::make_unique<PendingTransactions>(call.boolean_or(1, false));
    }
    constexpr std::size_t kShown = 64;
    return rpc_fail(kMethodNotFound,
                    "no \"" + std::string(name.substr(0, kShown)) + "\" subscription in eth namespace");
}

tl::expected<ChangeFilter, RpcError> read_change_filter(const Call& call, MarketChange::Topic topic) {
    ChangeFilter filter;
    if (!call.has(1)) return filter;
    const auto number = [](const json::Value& value) -> tl::expected<std::uint64_t, RpcError> {
        const auto read = read_number(value);
        if (!read) return rpc_fail(kInvalidParams, "invalid argument 1: " + read.error().to_string());
        return *read;
    };
    for (const json::Member& member : call.value(1).members()) {
        if (member.value.is_null()) continue;
        if (member.key == "task") {
            const auto task = number(member.value);
            if (!task) return tl::unexpected<RpcError>(task.error());
            filter.task = *task;
        } else if (member.key == "dispute" && topic == MarketChange::Topic::dispute) {
            const auto dispute = number(member.value);
            if (!dispute) return tl::unexpected<RpcError>(dispute.error());
            filter.dispute = *dispute;
        } else if (member.key == "states" && topic == MarketChange::Topic::task) {
            if (!member.value.is_array() || member.value.size() == 0 || member.value.size() > kMaxStates)
                return rpc_fail(kInvalidParams, "invalid argument 1: states must be a list of 1 to " +
                                                    std::to_string(kMaxStates) + " states");
            for (const json::Value& item : member.value.items()) {
                const auto state = read_state_filter(item);
                if (!state) return rpc_fail(kInvalidParams, "invalid argument 1: unknown state " + item.dump());
                filter.states.push_back(*state);
            }
        } else {
            return rpc_fail(kInvalidParams, "invalid argument 1: unknown member \"" + member.key + "\"");
        }
    }
    return filter;
}

Made make_quern(const Call& call) {
    const std::string_view name = call.text(0);
    if (name == "tasks" || name == "disputes") {
        const auto topic = name == "tasks" ? MarketChange::Topic::task : MarketChange::Topic::dispute;
        auto filter = read_change_filter(call, topic);
        if (!filter) return tl::unexpected<RpcError>(filter.error());
        return std::make_unique<MarketChanges>(topic, std::move(*filter));
    }
    if (name == "finality") {
        if (call.has(1)) return rpc_fail(kInvalidParams, "too many arguments, want at most 1");
        return std::make_unique<FinalityReports>();
    }
    constexpr std::size_t kShown = 64;
    return rpc_fail(kMethodNotFound,
                    "no \"" + std::string(name.substr(0, kShown)) + "\" subscription in quern namespace");
}

tl::unexpected<RpcError> not_here() {
    return rpc_fail(kMethodNotFound, "notifications not supported: subscriptions need a WebSocket connection");
}

Result subscribe(const Call& call, Made (*make)(const Call&)) {
    SubscriptionHost* host = call.context().subscriptions;
    if (host == nullptr) return not_here();
    auto made = make(call);
    if (!made) return tl::unexpected<RpcError>(made.error());
    auto id = host->subscribe(std::move(*made));
    if (!id) return rpc_fail(kLimitExceeded, id.error().to_string());
    return json::Value(std::move(*id));
}

Result unsubscribe(const Call& call, std::string_view group) {
    SubscriptionHost* host = call.context().subscriptions;
    if (host == nullptr) return not_here();
    if (!host->unsubscribe(group, call.text(0))) return rpc_fail(kServerError, "subscription not found");
    return json::Value(true);
}

}  // namespace

Status add_subscribe_methods(Registry& registry, const Backend&) {
    const ErrorInfo no_notifications{kMethodNotFound,
                                     "notifications not supported: subscriptions need a WebSocket connection"};
    const ErrorInfo too_many{kLimitExceeded, "subscription.too_many, subscription.too_large"};
    const ErrorInfo not_found{kServerError, "subscription not found"};
    const Example unsubscription{R"(["0x9cef478923ff08bf67fde6c64013158d"])", "true"};
    const std::string_view id_text = "the subscription's id, by which its notifications are known";
    QUERN_CHECK(registry.add(
        {"eth_subscribe",
         "Subscribes this WebSocket connection: notifications eth_subscription with subscription (the id) and result.",
         {{"name", Kind::string, true, "newHeads, logs or newPendingTransactions"},
          {"options", Kind::any, false,
           "for logs: an object with address and topics as in eth_getLogs (fromBlock and toBlock only narrow the "
           "blocks "
           "to come); for newPendingTransactions: true for whole transactions instead of hashes"}},
         {"string", id_text},
         {no_notifications, too_many},
         {{R"(["newHeads"])", R"("0x9cef478923ff08bf67fde6c64013158d")"},
          {R"(["logs",{"address":"0x0000000000000000000000000000000000005103"}])",
           R"("0x4a8a4c0517381924f9838102c5a4dcb7")"}},
         [](const Call& call) -> Result { return subscribe(call, make_eth); }}));
    QUERN_CHECK(registry.add({"eth_unsubscribe",
                              "Ends a subscription of this connection; nothing of it comes after the answer.",
                              {{"id", Kind::string, true, "what eth_subscribe gave"}},
                              {"boolean", "true"},
                              {no_notifications, not_found},
                              {unsubscription},
                              [](const Call& call) -> Result { return unsubscribe(call, kEth); }}));
    QUERN_CHECK(registry.add(
        {"quern_subscribe",
         "Subscribes this WebSocket connection to the chain's own events: notifications quern_subscription with "
         "subscription (the id) and result. tasks, disputes: kind, taskId, disputeId, state, block, blockHash, "
         "transactionHash (null: the block's own work) and the event's fields. finality: number, hash, epoch, view, "
         "timestampMs, signers, weight, totalWeight, finalityMs (from the block's timestamp to this node's commit).",
         {{"name", Kind::string, true, "tasks, disputes or finality"},
          {"filter", Kind::object, false,
           "tasks: task (an id), states (a list as task_list's state takes them); disputes: task, dispute"}},
         {"string", id_text},
         {no_notifications, too_many},
         {{R"(["tasks",{"states":["open","settled"]}])", R"("0x9cef478923ff08bf67fde6c64013158d")"},
          {R"(["finality"])", R"("0x4a8a4c0517381924f9838102c5a4dcb7")"}},
         [](const Call& call) -> Result { return subscribe(call, make_quern); }}));
    return registry.add({"quern_unsubscribe",
                         "Ends a subscription of this connection; nothing of it comes after the answer.",
                         {{"id", Kind::string, true, "what quern_subscribe gave"}},
                         {"boolean", "true"},
                         {no_notifications, not_found},
                         {unsubscription},
                         [](const Call& call) -> Result { return unsubscribe(call, kQuern); }});
}

}  // namespace quern::rpc::methods
