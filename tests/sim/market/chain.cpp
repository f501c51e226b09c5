#include "sim/market/chain.h"

namespace quern::sim::market {

MarketChain::MarketChain(const Settings& settings) : seed_(settings.seed) {
    params = settings.chain;
    block_ms = params::kMaxBlockIdles * params.max_idle_ms;
}

void MarketChain::begin() {
    ++height;
    auto context = exec::test::block_context(height);
    context.timestamp_ms = height * block_ms;
    context.elapsed_ms = block_ms;
    context.gas_limit = params.block_gas_limit;
    context.base_fee = params.min_base_fee;
    context.beacon = crypto::sha256(as_bytes("beacon " + std::to_string(seed_) + " " + std::to_string(height)));
    execution = std::make_unique<exec::BlockExecution>(params, state(), context);
    execution->begin();
}

exec::Result MarketChain::send(const types::Address& from, NativeKind kind, const Bytes& payload) {
    auto tx = exec::test::native(state().account_or_empty(from).nonce, kind, payload);
    tx.max_priority_fee_per_gas = 0;
    tx.max_fee_per_gas = params.min_base_fee;
    tx.gas_limit = 16'000'000;
    return send_transaction(from, tx);
}

void MarketChain::give(const types::Address& to, const Uint256& amount) { exec::test::give(state(), to, amount); }

Uint256 MarketChain::balance(const types::Address& of) const { return exec::test::balance(state(), of); }

const std::vector<Hash32>& MarketChain::shown(const Hash32& result_root) const {
    static const std::vector<Hash32> none;
    const auto found = probes.find(result_root);
    return found == probes.end() ? none : found->second;
}

bool MarketChain::is_due(std::uint64_t task) const {
    const auto live = shared_live(task);
    if (types::is_final(live->task.state))
        return market_ms() >= live->task.since + chain::market::in_ms(params.market.retention_s);
    const bool runs = live->task.state == TaskState::running;
    const auto anchor = runs ? chain::market::draw_anchor(live->claim, custody(live->claim.id))
                             : chain::market::draw_anchor(live->task);
    if (anchor && height < chain::market::draw_height(*anchor)) return false;
    return market_ms() >= deadline(task);
}

}  // namespace quern::sim::market
