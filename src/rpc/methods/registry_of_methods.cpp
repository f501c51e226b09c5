// The list of method groups.
#include "rpc/methods/backend.h"
#include "rpc/values.h"

namespace quern::rpc::methods {

Expected<std::unique_ptr<Registry>> make_registry(const Backend& backend) {
    auto registry = std::make_unique<Registry>();
    for (const auto add :
         {add_admin_methods, add_block_methods, add_consensus_methods, add_dispute_methods, add_execution_methods,
          add_fee_methods, add_history_methods, add_log_methods, add_network_methods, add_quern_methods,
          add_rpc_methods, add_simulate_methods, add_stake_methods, add_statement_methods, add_state_methods,
          add_subscribe_methods, add_task_methods, add_transaction_methods})
        QUERN_CHECK(add(*registry, backend));
    return registry;
}

std::string home_text(const Backend& backend) {
    return "Quern node " + backend.version + ", chain " + std::to_string(backend.chain->chain_id()) + ", block " +
           std::to_string(backend.chain->head_number()) +
           ".\nJSON-RPC 2.0 by POST to this address; the method help lists what there is.\n";
}

json::Value health_report(const Backend& backend) {
    return json::Value::object({{"ok", true},
                                {"version", backend.version},
                                {"chainId", backend.chain->chain_id()},
                                {"block", backend.chain->head_number()}});
}

}  // namespace quern::rpc::methods
