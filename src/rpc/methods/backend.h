// What the methods answer from, and the table of all of them. The node builds a Backend, calls make_registry once and
// gives a Dispatcher over it to the HTTP server. Thread-safety: as the interfaces behind it, which are all thread-safe.
#pragma once

#include <functional>
#include <memory>

#include "chain/api/chain_reader.h"
#include "chain/api/content_gateway.h"
#include "chain/api/ledger.h"
#include "chain/api/market_guide.h"
#include "chain/api/network_status.h"
#include "chain/api/simulator.h"
#include "chain/api/tx_submitter.h"
#include "rpc/registry.h"

namespace quern::rpc::methods {

// None of the pointers owns; all must outlive the registry. None is null, save in the table that quern-rpcdoc prints.
struct Backend {
    const chain::api::ChainReader* chain = nullptr;
    chain::api::TxSubmitter* submitter = nullptr;
    const chain::api::Simulator* simulator = nullptr;
    const chain::api::MarketGuide* market = nullptr;
    const chain::api::Ledger* ledger = nullptr;
    chain::api::NetworkStatus* network = nullptr;
    chain::api::ContentGateway* content = nullptr;
    std::string version;                 // "0.1.0"
    std::function<void()> request_stop;  // admin_stop; must return at once
    // The WebSocket port, 0 when it is not served; null as 0.
    std::function<std::uint16_t()> websocket_port;
};

// All methods. An error is a mistake in a declaration.
[[nodiscard]] Expected<std::unique_ptr<Registry>> make_registry(const Backend& backend);

// One per file of this folder; the registry of groups is make_registry's list.
[[nodiscard]] Status add_admin_methods(Registry& registry, const Backend& backend);
[[nodiscard]] Status add_block_methods(Registry& registry, const Backend& backend);
[[nodiscard]] Status add_dispute_methods(Registry& registry, const Backend& backend);
[[nodiscard]] Status add_execution_methods(Registry& registry, const Backend& backend);
[[nodiscard]] Status add_fee_methods(Registry& registry, const Backend& backend);
[[nodiscard]] Status add_history_methods(Registry& registry, const Backend& backend);
[[nodiscard]] Status add_log_methods(Registry& registry, const Backend& backend);
[[nodiscard]] Status add_consensus_methods(Registry& registry, const Backend& backend);
[[nodiscard]] Status add_network_methods(Registry& registry, const Backend& backend);
[[nodiscard]] Status add_quern_methods(Registry& registry, const Backend& backend);
[[nodiscard]] Status add_rpc_methods(Registry& registry, const Backend& backend);
[[nodiscard]] Status add_simulate_methods(Registry& registry, const Backend& backend);
[[nodiscard]] Status add_stake_methods(Registry& registry, const Backend& backend);
[[nodiscard]] Status add_statement_methods(Registry& registry, const Backend& backend);
[[nodiscard]] Status add_state_methods(Registry& registry, const Backend& backend);
[[nodiscard]] Status add_subscribe_methods(Registry& registry, const Backend& backend);
[[nodiscard]] Status add_task_methods(Registry& registry, const Backend& backend);
[[nodiscard]] Status add_transaction_methods(Registry& registry, const Backend& backend);

// The text of GET /, and the object of GET /health.
[[nodiscard]] std::string home_text(const Backend& backend);
[[nodiscard]] json::Value health_report(const Backend& backend);

}  // namespace quern::rpc::methods
