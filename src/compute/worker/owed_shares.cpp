#include "compute/worker/owed_shares.h"

#include <algorithm>

#include "base/fs.h"
#include "base/log.h"
#include "chain/types/abi.h"

namespace quern::compute::worker {
namespace {

using log::Category;

constexpr std::size_t kMaxFileBytes = 64 * kMaxOwed;

// Whether the tick costs less than it pays, as far as the node can tell.
bool pays(NodeView& node, const Address& solver, const Attempt& tick, const Uint256& held) {
    const auto call_data = chain::types::abi::encode_call(tick.kind, tick.payload);
    if (!call_data) return false;
    const auto target = chain::types::group_address(chain::types::group_of(tick.kind));
    const auto gas = node.estimate_gas(solver, target, *call_data);
    const auto price = node.gas_price();
    if (!gas || !price) return false;
    const auto cost = checked_mul(*price, Uint256(*gas));
    return cost && *cost < held;
}

}  // namespace

OwedShares::OwedShares(std::string file, const Address& solver) : file_(std::move(file)), solver_(solver) {
    if (!fs::exists(file_)) return;
    const auto load = [&]() -> Expected<Saved> {
        QUERN_TRY(const Bytes bytes, fs::read_file(file_, kMaxFileBytes));
        return chain::types::decode_record<Saved>(bytes);
    };
    const auto saved = load();
    if (!saved) log::error(Category::solver, "held shares not read reason={}", saved.error().to_string());
    if (saved)
        for (const Saved::Entry& each : saved->tasks) tasks_[each.task] = {each.height, 0, 0};
}

void OwedShares::save() const {
    Saved saved;
    for (const auto& [id, known] : tasks_) saved.tasks.push_back({id, known.height});
    if (const Status done = fs::write_file_atomic(file_, chain::types::encode_record(saved), 0600); !done)
        log::error(Category::solver, "held shares not saved reason={}", done.error().to_string());
}

std::vector<Attempt> OwedShares::look(NodeView& node, const LiveTasks& live, std::uint64_t retention_ms) {
    const Head& head = live.head();
    bool changed = false;
    for (const auto& [id, each] : live.tasks()) {
        if (tasks_.size() >= kMaxOwed || !is_owed(each->task, solver_)) continue;
        changed = tasks_.try_emplace(id, Known{head.height, 0, 0}).second || changed;
    }
    // Those that wait longest come first: what costs more than it pays stays, and must not keep others from their turn.
    std::vector<std::pair<std::uint64_t, std::uint64_t>> turn;  // when it was to be asked for, task
    for (const auto& [id, known] : tasks_) {
        const bool waits = live.tasks().contains(id) || head.height < std::max(known.height, known.ask_at) ||
                           head.market_ms + 1 < known.due_ms;
        if (!waits) turn.emplace_back(known.ask_at, id);
    }
    const std::size_t asked = std::min(turn.size(), kMaxOwedAsked);
    std::partial_sort(turn.begin(), turn.begin() + static_cast<std::ptrdiff_t>(asked), turn.end());
    turn.resize(asked);
    std::vector<Attempt> ticks;
    for (const auto& [ask_at, id] : turn) {
        Known& known = tasks_.at(id);
        const auto task = node.task(id);
        known.ask_at = head.height + kOwedAgainBlocks;
        const bool is_over = task && (!*task || (chain::types::is_final((*task)->state) &&
                                                 ((*task)->held.is_zero() || !is_owed(**task, solver_))));
        if (is_over) {
            tasks_.erase(id);
            changed = true;
            continue;
        }
        if (!task || !chain::types::is_final((*task)->state)) continue;
        known.due_ms = (*task)->since + retention_ms;
        if (head.market_ms + 1 < known.due_ms) continue;
        const chain::types::TickPayload payload{chain::types::TickObject::task, id};
        Attempt tick{"tick/task/" + std::to_string(id) + "-held@" + std::to_string(known.due_ms),
                     chain::types::NativeKind::tick, chain::types::encode_record(payload), false};
        if (pays(node, solver_, tick, (*task)->held)) {
            known.ask_at = head.height + 1;
            ticks.push_back(std::move(tick));
        }
    }
    if (changed) save();
    return ticks;
}

}  // namespace quern::compute::worker
