// Reads a native change's event (chain/exec/handlers/events.h) back out of its log. Pure; thread-safe.
#pragma once

#include <optional>

#include "chain/types/abi.h"
#include "chain/types/receipt.h"

namespace quern::chain::types {
namespace detail {

template <class Event>
struct EventVisitor {
    const Log& log;
    abi::detail::DecodeVisitor rest;  // the fields that are no topics
    std::size_t index = 0;
    Status status{};
    template <class T>
    void operator()(const char* name, T& value) {
        if (!status) return;
        if (index++ < Event::kIndexed) {
            if constexpr (!abi::detail::kIsDynamic<T>) status = abi::detail::word_to(log.topics[index], value);
            return;
        }
        rest(name, value);
        status = rest.status;
    }
};

}  // namespace detail

// The event that `log` holds, when it is an Event.
template <Record Event>
[[nodiscard]] std::optional<Event> read_event(const Log& log) {
    static const Hash32 signature = abi::signature_hash(abi::event_signature<Event>());
    if (log.topics.size() != 1 + Event::kIndexed || log.topics[0] != signature) return std::nullopt;
    Event event{};
    abi::detail::Reader reader(log.data, abi::detail::field_count<Event>() - Event::kIndexed);
    detail::EventVisitor<Event> visitor{log, {reader, {}}};
    event.fields(visitor);
    if (!visitor.status) return std::nullopt;
    return event;
}

}  // namespace quern::chain::types
