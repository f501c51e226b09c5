#include "chain/exec/system/market_time.h"

#include "chain/market/delays.h"

namespace quern::chain::exec::system {

Expected<std::uint64_t> advance_market_time(const params::ChainParams& params, state::Overlay& state,
                                            std::uint64_t elapsed_ms) {
    QUERN_TRY(const auto stored, state.load<types::Globals>());
    auto globals = stored.value_or(types::Globals{});
    const std::uint64_t step = market::market_step(params.max_idle_ms, elapsed_ms);
    if (step == 0) return globals.market_ms;
    globals.market_ms += step;
    state.store(types::key_of<types::Globals>(), globals);
    return globals.market_ms;
}

}  // namespace quern::chain::exec::system
