#include "node/serve/market_changes.h"

#include "chain/exec/handlers/events.h"
#include "chain/types/event_reader.h"
#include "chain/types/json_codec.h"
#include "compute/core/profiling.h"

namespace quern::node {
namespace {

namespace types = chain::types;
namespace events = chain::exec::events;
using chain::api::MarketChange;
using Topic = MarketChange::Topic;

class Collector {
public:
    explicit Collector(const chain::api::StateView* after) : after_(after) {}

    void log(const types::Log& log, const Hash32& transaction) {
        transaction_ = transaction;
        // The market's events; others (stakes, what is bonded) change no task.
        (void)(task<events::TaskSubmitted>(log, "submitted") || task<events::TaskStateChanged>(log, "state") ||
               task<events::ClaimStateChanged>(log, "claim") || task<events::BidPlaced>(log, "bid") ||
               task<events::BidDisplaced>(log, "displaced") || task<events::SolverAssigned>(log, "assigned") ||
               task<events::CheckpointPosted>(log, "checkpoint") || task<events::Paid>(log, "paid") ||
               task<events::Slashed>(log, "slashed") || task<events::BondLocked>(log, "locked") ||
               task<events::BondReleased>(log, "unlocked") || task<events::VerifierDrawn>(log, "drawn") ||
               task<events::CustodianDrawn>(log, "custodian") || task<events::CustodyReceived>(log, "custody") ||
               task<events::ProfilerDrawn>(log, "profiler") || task<events::ProfileCommitted>(log, "profiled") ||
               task<events::ProfileRevealed>(log, "profile") || task<events::LimitsFound>(log, "limits") ||
               task<events::ReportCommitted>(log, "committed") || task<events::ReportRevealed>(log, "revealed") ||
               task<events::WatchSealed>(log, "sealed") || task<events::ReportOpened>(log, "told") ||
               task<events::ErrorFound>(log, "found") || task<events::TaskDeleted>(log, "deleted") ||
               dispute<events::ChallengeCommitted>(log, "challenged") ||
               dispute<events::ChallengeReleased>(log, "released") || dispute<events::DisputeOpened>(log, "opened") ||
               dispute<events::DisputeMoved>(log, "moved") || dispute<events::DisputeClosed>(log, "closed") ||
               task<events::DataChallenged>(log, "asked") || task<events::DataAnswered>(log, "answered"));
    }

    std::vector<MarketChange> take() { return std::move(changes_); }

private:
    template <class Record>
    [[nodiscard]] std::optional<Record> object(types::ObjectPrefix prefix, std::uint64_t id) const {
        if (after_ == nullptr) return std::nullopt;
        const auto bytes = after_->native(types::object_key(prefix, id));
        auto record = bytes ? types::decode_record<Record>(*bytes) : fail("object.absent");
        if (!record) return std::nullopt;
        return std::move(*record);
    }

    template <class Event>
    bool task(const types::Log& log, std::string_view kind) {
        const auto event = types::read_event<Event>(log);
        if (!event) return false;
        auto& change = add(Topic::task, kind, types::to_json(*event));
        change.task = event->task;
        if constexpr (std::is_same_v<Event, events::TaskStateChanged>) {
            change.state = event->to;
            change.fields.erase("to");
            change.fields.set("from", types::to_string(event->from));
        } else if constexpr (std::is_same_v<Event, events::TaskSubmitted>) {
            const auto submitted = object<types::Task>(types::ObjectPrefix::task, event->task);
            const bool is_profiled = submitted && compute::core::is_profiled(submitted->spec);
            change.state = is_profiled ? types::TaskState::profiling : types::TaskState::open;
        } else if constexpr (!std::is_same_v<Event, events::TaskDeleted>) {
            change.state = state_of(event->task);
        }
        if constexpr (std::is_same_v<Event, events::ClaimStateChanged>) {
            change.fields.set("from", types::to_string(event->from));
            change.fields.set("to", types::to_string(event->to));
        }
        return true;
    }

    template <class Event>
    bool dispute(const types::Log& log, std::string_view kind) {
        const auto event = types::read_event<Event>(log);
        if (!event) return false;
        auto& change = add(Topic::dispute, kind, types::to_json(*event));
        if constexpr (requires { event->dispute; }) change.dispute = event->dispute;
        if constexpr (requires { event->task; })
            change.task = event->task;
        else if (const auto found = object<types::Dispute>(types::ObjectPrefix::dispute, event->dispute))
            change.task = found->claim.task;
        if constexpr (std::is_same_v<Event, events::DisputeClosed>)
            change.fields.set("winner", types::to_string(event->winner));
        if (change.task) change.state = state_of(*change.task);
        return true;
    }

    MarketChange& add(Topic topic, std::string_view kind, json::Value fields) {
        fields.erase("task");
        fields.erase("dispute");
        changes_.push_back({topic, kind, {}, {}, {}, transaction_, std::move(fields)});
        return changes_.back();
    }

    [[nodiscard]] std::optional<types::TaskState> state_of(std::uint64_t id) const {
        const auto found = object<types::Task>(types::ObjectPrefix::task, id);
        if (!found) return std::nullopt;
        return found->state;
    }

    const chain::api::StateView* after_;
    Hash32 transaction_;
    std::vector<MarketChange> changes_;
};

}  // namespace

std::vector<MarketChange> market_changes(const types::Block& block, const std::vector<types::Receipt>& receipts,
                                         const chain::api::StateView* after) {
    Collector collector(after);
    for (std::size_t i = 0; i < receipts.size(); ++i) {
        if (receipts[i].logs.empty()) continue;
        const Hash32 hash = i < block.transactions.size() ? types::transaction_hash(block.transactions[i]) : Hash32();
        for (const auto& log : receipts[i].logs) collector.log(log, hash);
    }
    return collector.take();
}

}  // namespace quern::node
