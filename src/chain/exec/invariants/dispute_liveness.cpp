#include "chain/exec/invariants/invariants.h"
#include "chain/market/delays.h"

namespace quern::chain::exec::invariants {
namespace {

Status check_task(const state::Overlay& state, const types::Task& task, std::uint64_t latest) {
    const auto name = [&] { return "task " + std::to_string(task.id) + " " + types::to_string(task.state); };
    if (types::is_final(task.state)) {
        if (task.deadline != 0 || task.open_disputes != 0) return fail("invariant.no_exit", name());
        return {};
    }
    if (task.deadline == 0 || task.deadline > latest) return fail("invariant.no_exit", name());
    std::uint32_t open = 0;
    for (const std::uint64_t id : task.disputes) {
        QUERN_TRY(const auto dispute, state.load<types::Dispute>(id));
        if (dispute && dispute->closed_at == 0) ++open;
    }
    if (open != task.open_disputes) return fail("invariant.open_disputes", name());
    return {};
}

}  // namespace

Status check_dispute_liveness(const state::Overlay& state, const params::MarketParams& params,
                              std::uint64_t market_ms) {
    const std::uint64_t latest = market::latest_deadline(params, market_ms);
    for (const auto& [key, value] : state.changed_native()) {
        if (!value || key.empty()) continue;
        if (key[0] == static_cast<std::uint8_t>(types::ObjectPrefix::task)) {
            QUERN_TRY(const auto task, types::decode_record<types::Task>(*value));
            QUERN_CHECK(check_task(state, task, latest));
        } else if (key[0] == static_cast<std::uint8_t>(types::ObjectPrefix::dispute)) {
            QUERN_TRY(const auto dispute, types::decode_record<types::Dispute>(*value));
            const bool open = dispute.closed_at == 0;
            if (open != (dispute.deadline != 0) || dispute.deadline > latest)
                return fail("invariant.no_exit", "dispute " + std::to_string(dispute.id));
        }
    }
    return {};
}

}  // namespace quern::chain::exec::invariants
