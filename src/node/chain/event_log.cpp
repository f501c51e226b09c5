#include "node/chain/event_log.h"

#include "base/log.h"
#include "chain/exec/handlers/events.h"
#include "chain/types/event_reader.h"

namespace quern::node {
namespace {

namespace types = chain::types;
namespace events = chain::exec::events;

void log_event(std::uint64_t block, const types::Log& entry) {
    using log::Category;
    if (const auto submitted = types::read_event<events::TaskSubmitted>(entry))
        log::info(Category::market, "task submitted task={} submitter={} block={}", submitted->task,
                  types::to_checksum_address(submitted->submitter), block);
    else if (const auto changed = types::read_event<events::TaskStateChanged>(entry))
        log::info(Category::market, "task state task={} from={} to={} reason={} block={}", changed->task,
                  types::to_string(changed->from), types::to_string(changed->to), changed->reason, block);
    else if (const auto moved = types::read_event<events::ClaimStateChanged>(entry))
        log::info(Category::market, "claim state task={} seat={} stretch={} round={} from={} to={} reason={} block={}",
                  moved->task, moved->seat, moved->stretch, moved->round, types::to_string(moved->from),
                  types::to_string(moved->to), moved->reason, block);
    else if (const auto assigned = types::read_event<events::SolverAssigned>(entry))
        log::info(Category::market, "task assigned task={} solver={} price={} block={}", assigned->task,
                  types::to_checksum_address(assigned->solver), assigned->price.to_decimal(), block);
    else if (const auto checkpoint = types::read_event<events::CheckpointPosted>(entry))
        log::info(Category::market, "checkpoint task={} step={} block={}", checkpoint->task, checkpoint->step, block);
    else if (const auto paid = types::read_event<events::Paid>(entry))
        log::info(Category::market, "paid task={} to={} amount={} reason={} block={}", paid->task,
                  types::to_checksum_address(paid->to), paid->amount.to_decimal(), paid->reason, block);
    else if (const auto opened = types::read_event<events::DisputeOpened>(entry))
        log::info(Category::dispute, "dispute opened dispute={} task={} stretch={} target={} block={}", opened->dispute,
                  opened->task, opened->stretch, opened->target, block);
    else if (const auto closed = types::read_event<events::DisputeClosed>(entry))
        log::info(Category::dispute, "dispute closed dispute={} task={} winner={} reason={} block={}", closed->dispute,
                  closed->task, types::to_string(closed->winner), closed->reason, block);
    else if (const auto slashed = types::read_event<events::Slashed>(entry))
        log::info(Category::market, "slashed account={} task={} amount={} reason={} block={}",
                  types::to_checksum_address(slashed->account), slashed->task, slashed->amount.to_decimal(),
                  slashed->reason, block);
}

}  // namespace

void log_market_events(std::uint64_t block, const std::vector<types::Receipt>& receipts) {
    for (const auto& receipt : receipts)
        for (const auto& entry : receipt.logs) log_event(block, entry);
}

}  // namespace quern::node
