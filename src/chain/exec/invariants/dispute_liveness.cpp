#include "chain/exec/invariants/invariants.h"

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
        QUERN_TRY(const auto dispute, state.load<types::Dispute>(types::object_key(types::ObjectPrefix::dispute, id)));
        if (dispute && dispute->closed_at == 0) ++open;
    }
    if (open != task.open_disputes) return fail("invariant.open_disputes", name());
    return {};
}

}  // namespace

Status check_dispute_liveness(const state::Overlay& state, const params::MarketParams& market, std::uint64_t height) {
    // A state lasts two windows of the task at most; a game two clocks, each with a window in it.
    const std::uint64_t latest = height + 2 * market.max_deadline_blocks + 2 * market.dispute_clock_blocks +
                                 market.min_deadline_blocks + params::kBeaconDelay;
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

Status check_all(const state::Overlay& state, const params::ChainParams& params, std::uint64_t height) {
    const auto named = [](Status status) -> Status {
        if (!status) return fail(kInvariantBroken, status.error().to_string());
        return {};
    };
    QUERN_CHECK(named(check_supply(state)));
    QUERN_CHECK(named(check_bonds(state)));
    QUERN_CHECK(named(check_stakes(state, params.staking)));
    QUERN_CHECK(named(check_escrow(state, params.market)));
    return named(check_dispute_liveness(state, params.market, height));
}

}  // namespace quern::chain::exec::invariants
