#include "node/chain/market_events.h"

#include <bit>

#include "chain/types/event_reader.h"
#include "chain/types/json_codec.h"
#include "compute/core/dispute_game.h"

namespace quern::node {
namespace {

namespace types = chain::types;
namespace core = compute::core;

template <class Event, class Any>
bool take(const types::Log& log, std::optional<Any>& found) {
    auto event = types::read_event<Event>(log);
    if (event) found = std::move(*event);
    return event.has_value();
}

template <class... Events>
std::optional<std::variant<Events...>> read_any(const types::Log& log, const std::variant<Events...>*) {
    std::optional<std::variant<Events...>> found;
    (void)(take<Events>(log, found) || ...);
    return found;
}

// Numbers that stand for something, by its name.
template <class Event>
void name_fields(const Event& event, json::Value& fields) {
    if constexpr (requires { types::to_string(event.from); }) {
        fields.set("from", types::to_string(event.from));
        fields.set("to", types::to_string(event.to));
    }
    if constexpr (requires { event.role; }) fields.set("role", types::to_string(event.role));
    if constexpr (requires { event.choice; }) fields.set("choice", types::to_string(event.choice));
    if constexpr (requires { event.winner; }) fields.set("winner", types::to_string(event.winner));
    if constexpr (requires { event.phase; }) {
        const bool known = event.phase >= static_cast<std::uint8_t>(core::Phase::history) &&
                           event.phase <= static_cast<std::uint8_t>(core::Phase::decided);
        if (known) fields.set("phase", core::to_string(static_cast<core::Phase>(event.phase)));
    }
    // What is long is looked up where it lies; how much it is says enough.
    if constexpr (requires { event.post; }) {
        fields.erase("post");
        fields.set("bytes", event.post.size());
    }
    if constexpr (requires { event.probes; }) fields.set("probes", event.probes.size());
    if constexpr (requires { event.loss; })
        fields.set("lossValue", static_cast<double>(std::bit_cast<float>(event.loss)));
}

// What an event or a payload names; a tick names one or the other.
template <class Record>
std::optional<std::uint64_t> task_in(const Record& record) {
    if constexpr (std::is_same_v<Record, types::TickPayload>) {
        if (record.object == types::TickObject::task) return record.id;
    } else if constexpr (requires { record.task; }) {
        return record.task;
    }
    return std::nullopt;
}
template <class Record>
std::optional<std::uint64_t> dispute_in(const Record& record) {
    if constexpr (std::is_same_v<Record, types::TickPayload>) {
        if (record.object == types::TickObject::dispute) return record.id;
    } else if constexpr (requires { record.dispute; }) {
        return record.dispute;
    }
    return std::nullopt;
}

template <class Name>
std::optional<std::uint64_t> named_by(const types::abi::NativeCall& call, Name&& name) {
    return types::visit_kind(call.kind, [&](auto, auto tag) -> std::optional<std::uint64_t> {
        using Payload = typename decltype(tag)::Payload;
        const auto record = types::decode_record<Payload>(call.payload);
        return record ? name(*record) : std::nullopt;
    });
}

}  // namespace

std::optional<MarketEvent> read_market_event(const types::Log& log) {
    if (!types::group_at(log.address)) return std::nullopt;
    return read_any(log, static_cast<const MarketEvent*>(nullptr));
}

std::optional<std::uint64_t> task_of(const MarketEvent& event) {
    return std::visit([](const auto& each) { return task_in(each); }, event);
}

std::optional<std::uint64_t> dispute_of(const MarketEvent& event) {
    return std::visit([](const auto& each) { return dispute_in(each); }, event);
}

std::optional<types::Address> account_of(const MarketEvent& event) {
    return std::visit(
        [](const auto& each) -> std::optional<types::Address> {
            using Event = std::remove_cvref_t<decltype(each)>;
            if constexpr (std::is_same_v<Event, events::Paid>) return each.to;
            if constexpr (std::is_same_v<Event, events::Slashed> || std::is_same_v<Event, events::BondChanged>)
                return each.account;
            if constexpr (std::is_same_v<Event, events::TaskSubmitted>) return each.submitter;
            if constexpr (std::is_same_v<Event, events::ChallengeCommitted>) return each.challenger;
            if constexpr (std::is_same_v<Event, events::DataChallenged>) return each.submitter;
            if constexpr (std::is_same_v<Event, events::WatchSealed>) return each.watcher;
            if constexpr (requires { each.delegator; }) return each.delegator;
            if constexpr (std::is_same_v<Event, events::EvidenceRewarded> ||
                          std::is_same_v<Event, events::EvidenceCommitted> ||
                          std::is_same_v<Event, events::EvidenceReleased>)
                return each.reporter;
            return std::nullopt;
        },
        event);
}

chain::api::ToldEvent tell(const MarketEvent& event) {
    return std::visit(
        [&](const auto& each) {
            using Event = std::remove_cvref_t<decltype(each)>;
            json::Value fields = types::to_json(each);
            fields.erase("task");
            fields.erase("dispute");
            name_fields(each, fields);
            return chain::api::ToldEvent{Event::kEvent, task_of(event), dispute_of(event), std::move(fields)};
        },
        event);
}

bool is_native_call(const types::Transaction& tx) {
    return tx.type == types::TxType::native || (tx.to && types::group_at(*tx.to));
}

std::optional<types::abi::NativeCall> native_call_of(const types::Transaction& tx) {
    if (tx.type == types::TxType::native) {
        if (types::find_kind(tx.native_kind) == nullptr) return std::nullopt;
        return types::abi::NativeCall{static_cast<types::NativeKind>(tx.native_kind), tx.data};
    }
    const auto group = tx.to ? types::group_at(*tx.to) : std::nullopt;
    if (!group) return std::nullopt;
    auto call = types::abi::decode_call(*group, tx.data);
    if (!call) return std::nullopt;
    return std::move(*call);
}

std::optional<std::uint64_t> task_named_by(const types::abi::NativeCall& call) {
    return named_by(call, [](const auto& payload) { return task_in(payload); });
}

std::optional<std::uint64_t> dispute_named_by(const types::abi::NativeCall& call) {
    return named_by(call, [](const auto& payload) { return dispute_in(payload); });
}

}  // namespace quern::node
