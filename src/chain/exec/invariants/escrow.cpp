#include "chain/market/escrow.h"
#include "chain/exec/invariants/invariants.h"

namespace quern::chain::exec::invariants {

Status check_escrow(const state::Overlay& state) {
    for (const auto& [key, value] : state.changed_native()) {
        if (!value || key.empty() || key[0] != static_cast<std::uint8_t>(types::ObjectPrefix::task)) continue;
        QUERN_TRY(const auto task, types::decode_record<types::Task>(*value));
        const Uint256 expected = types::is_final(task.state) ? task.deposit : market::escrow_left(task);
        if (task.escrow != expected)
            return fail("invariant.escrow", "task " + std::to_string(task.id) + " holds " + task.escrow.to_decimal() +
                                                ", expected " + expected.to_decimal());
    }
    return {};
}

}  // namespace quern::chain::exec::invariants
