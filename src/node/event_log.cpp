#include "node/event_log.h"

#include "base/log.h"
#include "chain/exec/handlers/events.h"
#include "chain/types/abi.h"

namespace quern::node {
namespace {

namespace types = chain::types;
namespace abi = chain::types::abi;
namespace events = chain::exec::events;

template <class Event>
struct EventVisitor {
    const types::Log& log;
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

// The event that `log` holds, when it is an Event.
template <types::Record Event>
std::optional<Event> read(const types::Log& log) {
    static const Hash32 signature = abi::signature_hash(abi::event_signature<Event>());
    if (log.topics.size() != 1 + Event::kIndexed || log.topics[0] != signature) return std::nullopt;
    Event event{};
    abi::detail::Reader reader(log.data, abi::detail::field_count<Event>() - Event::kIndexed);
    EventVisitor<Event> visitor{log, {reader, {}}};
    event.fields(visitor);
    if (!visitor.status) return std::nullopt;
    return event;
}

const char* name_of(types::DisputeWinner winner) {
    switch (winner) {
        case types::DisputeWinner::none:
            return "none";
        case types::DisputeWinner::defender:
            return "defender";
        case types::DisputeWinner::rival:
            return "rival";
        case types::DisputeWinner::neither:
            return "neither";
    }
    return "unknown";
}

void log_event(std::uint64_t block, const types::Log& entry) {
    using log::Category;
    if (const auto submitted = read<events::TaskSubmitted>(entry))
        log::info(Category::market, "task submitted task={} submitter={} block={}", submitted->task,
                  types::to_checksum_address(submitted->submitter), block);
    else if (const auto changed = read<events::TaskStateChanged>(entry))
        log::info(Category::market, "task state task={} from={} to={} reason={} block={}", changed->task,
                  types::to_string(changed->from), types::to_string(changed->to), changed->reason, block);
    else if (const auto assigned = read<events::SolverAssigned>(entry))
        log::info(Category::market, "task assigned task={} solver={} price={} block={}", assigned->task,
                  types::to_checksum_address(assigned->solver), assigned->price.to_decimal(), block);
    else if (const auto checkpoint = read<events::CheckpointPosted>(entry))
        log::info(Category::market, "checkpoint task={} step={} block={}", checkpoint->task, checkpoint->step, block);
    else if (const auto paid = read<events::Paid>(entry))
        log::info(Category::market, "paid task={} to={} amount={} reason={} block={}", paid->task,
                  types::to_checksum_address(paid->to), paid->amount.to_decimal(), paid->reason, block);
    else if (const auto opened = read<events::DisputeOpened>(entry))
        log::info(Category::dispute, "dispute opened dispute={} task={} target={} block={}", opened->dispute,
                  opened->task, opened->target, block);
    else if (const auto closed = read<events::DisputeClosed>(entry))
        log::info(Category::dispute, "dispute closed dispute={} task={} winner={} reason={} block={}", closed->dispute,
                  closed->task, name_of(closed->winner), closed->reason, block);
    else if (const auto slashed = read<events::Slashed>(entry))
        log::info(Category::market, "slashed account={} amount={} reason={} block={}",
                  types::to_checksum_address(slashed->account), slashed->amount.to_decimal(), slashed->reason, block);
}

}  // namespace

void log_market_events(std::uint64_t block, const std::vector<types::Receipt>& receipts) {
    for (const auto& receipt : receipts)
        for (const auto& entry : receipt.logs) log_event(block, entry);
}

}  // namespace quern::node
