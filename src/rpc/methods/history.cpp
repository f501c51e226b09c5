// task_history: what happened to a task.
#include "rpc/methods/backend.h"
#include "rpc/methods/ledger_json.h"
#include "rpc/methods/market_json.h"

namespace quern::rpc::methods {
namespace {

namespace types = chain::types;
namespace api = chain::api;

constexpr std::uint64_t kDefaultEvents = 100;
constexpr std::uint64_t kMaxEvents = 1'000;

Result history(const Backend& backend, const Call& call) {
    const std::uint64_t task = call.number(0);
    const std::uint64_t limit = std::min(call.number_or(2, kDefaultEvents), kMaxEvents);
    if (limit == 0) return rpc_fail(kInvalidParams, "a page holds 1 item at least");
    QUERN_RPC_TRY(const auto state, backend.chain->state({}));
    QUERN_RPC_TRY(const auto globals, read_object<types::Globals>(*state));
    if (task == 0 || !globals || task >= globals->next_task)
        return rpc_fail(kServerError, "task.unknown: " + std::to_string(task));
    QUERN_RPC_TRY(const std::uint64_t since, backend.ledger->since());
    const auto page =
        backend.ledger->task_history(task, call.number_or(1, 0), limit, [&] { return call.is_cancelled(); });
    if (!page) return page.error().name == api::kLedgerCancelled ? timed_out() : rpc_fail(page.error());
    json::Array events;
    for (const api::Happening& happening : page->items) {
        json::Value event = place_json(happening.place);
        set_event(event, happening.event);
        event.erase("task");
        events.push_back(std::move(event));
    }
    return json::Value::object({{"task", task},
                                {"since", since},
                                {"events", std::move(events)},
                                {"next", page->next ? json::Value(*page->next) : json::Value()}});
}

}  // namespace

Status add_history_methods(Registry& registry, const Backend& backend) {
    return registry.add(
        {"task_history",
         "All that happened to a task, in order, a page at a time: each event that is about it or one of its disputes, "
         "with names for states, roles and reasons.",
         {{"task", Kind::number, true, "the task's id"},
          {"start", Kind::number, false, "the block with which the page begins; 0 when left out"},
          {"limit", Kind::number, false,
           "events in the page, 100 when left out, at most 1,000; those of a block are never parted"}},
         {"object",
          "events: block, timestamp (seconds), transaction, from (who sent it), kind (of the native transaction, as "
          "task_bid or tick; null when it is none), event (as in the table of events of market.md), dispute (null when "
          "it names none), fields: the event's others by name. since: the first block that this node's index knows; "
          "what happened before is not told, which a database older than the index lacks. next: the block with which "
          "the next page begins, null at the end"},
         {{kServerError, "task.unknown: there was no such task"},
          {kInvalidParams, "a page holds 1 item at least"},
          {kTimedOut, "request timed out"}},
         {},
         [backend](const Call& call) -> Result { return history(backend, call); }});
}

}  // namespace quern::rpc::methods
