#include "chain/exec/invariants/invariants.h"
#include "compute/core/task_spec.h"

namespace quern::chain::exec::invariants {

Status check_escrow(const state::Overlay& state, const params::MarketParams& market) {
    for (const auto& [key, value] : state.changed_native()) {
        if (!value || key.empty() || key[0] != static_cast<std::uint8_t>(types::ObjectPrefix::task)) continue;
        QUERN_TRY(const auto task, types::decode_record<types::Task>(*value));
        const auto work = compute::core::task_work(task.spec, task.work_units);
        QUERN_TRY(const auto escrow,
                  compute::core::escrow_of(work, task.spec.price_cap, task.spec.tax, market.storage_deposit));
        const Uint256 expected = types::is_final(task.state) ? market.storage_deposit : escrow.total;
        if (task.escrow != expected)
            return fail("invariant.escrow", "task " + std::to_string(task.id) + " holds " + task.escrow.to_decimal() +
                                                ", expected " + expected.to_decimal());
    }
    return {};
}

}  // namespace quern::chain::exec::invariants
