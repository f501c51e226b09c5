#include "chain/market/escrow.h"
#include "chain/exec/invariants/invariants.h"

namespace quern::chain::exec::invariants {

Status check_escrow(const state::Overlay& state) {
    for (const auto& [key, value] : state.changed_native()) {
        if (!value || key.empty() || key[0] != static_cast<std::uint8_t>(types::ObjectPrefix::task)) continue;
        QUERN_TRY(const auto task, types::decode_record<types::Task>(*value));
        const Uint256 expected =
            types::is_final(task.state) ? task.deposit + market::held_after(task) : market::escrow_left(task);
        // A question is about a held share, and both come with the settlement.
        const bool owes = task.state == types::TaskState::settled && !task.held.is_zero();
        if (task.asked.size() > 1 || (!owes && !(task.held.is_zero() && task.asked.empty())))
            return fail("invariant.held", "task " + std::to_string(task.id));
        if (task.escrow != expected)
            return fail("invariant.escrow", "task " + std::to_string(task.id) + " holds " + task.escrow.to_decimal() +
                                                ", expected " + expected.to_decimal());
    }
    return {};
}

}  // namespace quern::chain::exec::invariants
