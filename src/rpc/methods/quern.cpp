// quern_*: the chain's own view, without Ethereum's clothes.
#include "chain/types/abi.h"
#include "rpc/methods/backend.h"
#include "rpc/methods/eth_json.h"
#include "rpc/methods/market_json.h"

namespace quern::rpc::methods {
namespace {

namespace types = chain::types;

Result supply(const Backend& backend) {
    QUERN_RPC_TRY(const auto state, backend.chain->state({}));
    QUERN_RPC_TRY(const auto globals, read_object<types::Globals>(*state));
    if (!globals) return rpc_fail(kServerError, "chain.no_globals");
    const Uint256 existing = checked_sub(globals->minted, globals->burned).value_or(Uint256());
    return json::Value::object({{"block", state->block_number()},
                                {"minted", quantity(globals->minted)},
                                {"burned", quantity(globals->burned)},
                                {"existing", quantity(existing)},
                                {"jackpotVault", quantity(globals->jackpot_vault)},
                                {"treasuryVault", quantity(globals->treasury_vault)},
                                {"watchBonds", quantity(globals->watch_bonds)}});
}

Result market_time(const Backend& backend) {
    QUERN_RPC_TRY(const auto state, backend.chain->state({}));
    QUERN_RPC_TRY(const auto globals, read_object<types::Globals>(*state));
    if (!globals) return rpc_fail(kServerError, "chain.no_globals");
    return json::Value::object({{"block", state->block_number()}, {"marketMs", globals->market_ms}});
}

Result finalization(const Backend& backend, const Call& call) {
    const auto block = backend.chain->block(call.block(0));
    if (!block) return json::Value();
    const auto& consensus = block->block.header.consensus;
    return json::Value::object({{"number", quantity(block->block.header.number)},
                                {"hash", hex(block->hash)},
                                {"epoch", consensus.epoch},
                                {"view", consensus.view},
                                {"timestampMs", consensus.timestamp_ms},
                                {"nativeRoot", hex(consensus.native_root)},
                                {"beacon", hex(consensus.beacon)},
                                {"certificate", hex(block->finalization)}});
}

}  // namespace

Status add_quern_methods(Registry& registry, const Backend& backend) {
    QUERN_CHECK(registry.add({"quern_getTransaction",
                              "A transaction as it is: native ones with type 0x51, kind and payload by field names.",
                              {{"hash", Kind::hash, true, "the transaction's hash"}},
                              {"object or null", "the transaction; null when it is unknown"},
                              {},
                              {},
                              [backend](const Call& call) -> Result {
                                  const auto transaction = backend.chain->transaction(call.hash(0));
                                  if (!transaction) return json::Value();
                                  return native_transaction_json(*transaction,
                                                                 block_timestamp_of(*backend.chain, *transaction));
                              }}));
    QUERN_CHECK(
        registry.add({"quern_getFinalization",
                      "The certificate that made a block final, and the consensus fields of its header.",
                      {{"block", Kind::block, false, "latest when left out"}},
                      {"object or null", "the certificate as bytes; empty for genesis; null for an unknown block"},
                      {},
                      {},
                      [backend](const Call& call) -> Result { return finalization(backend, call); }}));
    QUERN_CHECK(registry.add(
        {"quern_nodeInfo",
         "What this node is and where else it listens.",
         {},
         {"object", "version; chainId; genesisHash; block; webSocketPort, null when the node has none"},
         {},
         {},
         [backend](const Call&) -> Result {
             const std::uint16_t port = backend.websocket_port ? backend.websocket_port() : std::uint16_t{0};
             return json::Value::object({{"version", backend.version},
                                         {"chainId", backend.chain->chain_id()},
                                         {"genesisHash", hex(backend.chain->genesis_hash())},
                                         {"block", backend.chain->head_number()},
                                         {"webSocketPort", port == 0 ? json::Value() : json::Value(port)}});
         }}));
    QUERN_CHECK(registry.add({"quern_params",
                              "The chain's parameters: limits, prices, percentages, deadlines.",
                              {},
                              {"object", "by name"},
                              {},
                              {},
                              [backend](const Call&) -> Result {
                                  QUERN_RPC_TRY(auto params, json::parse(backend.chain->params_json()));
                                  return params;
                              }}));
    QUERN_CHECK(
        registry.add({"quern_supply",
                      "Money that was minted, burned, and lies in the vaults, in grains.",
                      {},
                      {"object",
                       "minted, burned, existing (their difference), jackpotVault, treasuryVault; watchBonds: what all "
                       "whistleblowers have bonded"},
                      {},
                      {},
                      [backend](const Call&) -> Result { return supply(backend); }}));
    QUERN_CHECK(registry.add({"quern_marketTime",
                              "The newest block and its market time, which deadlines and clocks of tasks and disputes "
                              "are compared with.",
                              {},
                              {"object", "block; marketMs: milliseconds since genesis without halts of the chain"},
                              {},
                              {},
                              [backend](const Call&) -> Result { return market_time(backend); }}));
    return registry.add({"quern_abi",
                         "The Solidity interface of the native kinds, for calls to the reserved addresses.",
                         {},
                         {"array", "an ABI as compilers write it"},
                         {},
                         {},
                         [](const Call&) -> Result {
                             QUERN_RPC_TRY(auto abi, json::parse(types::abi::interface_json()));
                             return abi;
                         }});
}

}  // namespace quern::rpc::methods
