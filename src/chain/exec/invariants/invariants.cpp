#include "chain/exec/invariants/invariants.h"

namespace quern::chain::exec::invariants {

Status check_all(const state::Overlay& state, const params::ChainParams& params, std::uint64_t height) {
    const auto named = [](Status status) -> Status {
        if (!status) return fail(kInvariantBroken, status.error().to_string());
        return {};
    };
    QUERN_CHECK(named(check_holdings(state)));
    QUERN_CHECK(named(check_stakes(state, params.staking)));
    QUERN_CHECK(named(check_escrow(state, params.market)));
    return named(check_dispute_liveness(state, params.market, height));
}

}  // namespace quern::chain::exec::invariants
