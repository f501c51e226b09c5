// Explains market objects to RPC: task prices from the escrow equation, dispute games in readable fields. Used by the
// RPC methods through chain/api. Immutable after construction; thread-safe.
#pragma once

#include "chain/api/market_guide.h"
#include "chain/params/params.h"

namespace quern::node {

class CoreMarketGuide final : public chain::api::MarketGuide {
public:
    explicit CoreMarketGuide(chain::params::MarketParams params) : params_(std::move(params)) {}

    [[nodiscard]] Expected<chain::api::TaskEstimate> estimate_task(
        const chain::types::TaskSubmitPayload& spec) const override;
    [[nodiscard]] std::uint64_t retention_end(const chain::types::Task& task) const override;
    [[nodiscard]] Expected<json::Value> describe_game(BytesView game) const override;
    [[nodiscard]] std::string op_name(std::uint32_t op) const override;

private:
    chain::params::MarketParams params_;
};

}  // namespace quern::node
