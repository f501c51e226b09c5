#include "chain/exec/invariants/invariants.h"

namespace quern::chain::exec::invariants {

Status check_all(const state::Overlay& state, const params::ChainParams& params) {
    const auto named = [](Status status) -> Status {
        if (!status) return fail(kInvariantBroken, status.error().to_string());
        return {};
    };
    QUERN_CHECK(named(check_holdings(state)));
    QUERN_CHECK(named(check_stakes(state, params.staking)));
    QUERN_CHECK(named(check_escrow(state)));
    QUERN_CHECK(named(check_reports(state)));
    QUERN_CHECK(named(check_draw_tables(state)));
    QUERN_TRY(const auto globals, state.load<types::Globals>());
    QUERN_CHECK(named(check_dispute_liveness(state, params.market, globals ? globals->market_ms : 0)));
    return named(check_games(state));
}

}  // namespace quern::chain::exec::invariants
