// eth_call and eth_estimateGas.
#include "chain/types/abi.h"
#include "rpc/methods/backend.h"

namespace quern::rpc::methods {
namespace {

using chain::api::SimulatedCall;
using chain::api::SimulationResult;

constexpr Parameter kTransaction{"transaction", Kind::object, true,
                                 "from, to, gas, gasPrice or maxFeePerGas, value, input (or data), accessList"};
constexpr Parameter kBlock{"block", Kind::block, false, "on whose state; latest when left out"};
constexpr ErrorInfo kErrors[] = {
    {kExecutionReverted, "execution reverted; data holds the revert data"},
    {kServerError, "insufficient funds for transfer"},
    {kServerError, "contract creation is not active yet"},
};

constexpr std::size_t kMaxAccessEntries = 4'096;

Expected<std::vector<chain::types::AccessListEntry>> read_access_list(const json::Value& value) {
    std::vector<chain::types::AccessListEntry> list;
    QUERN_TRY(const auto items, value.as_array());
    std::size_t count = 0;
    for (const json::Value& item : items) {
        chain::types::AccessListEntry entry;
        QUERN_TRY(const json::Value* address, item.get("address"));
        QUERN_TRY(entry.address, read_address(*address));
        if (const json::Value* keys = item.find("storageKeys"))
            for (const json::Value& key : keys->items()) {
                QUERN_TRY(const Hash32 slot, read_hash(key));
                entry.storage_keys.push_back(slot);
            }
        count += 1 + entry.storage_keys.size();
        if (count > kMaxAccessEntries) return fail("value.too_many", "entries");
        list.push_back(std::move(entry));
    }
    return list;
}

tl::expected<SimulatedCall, RpcError> read_call(const json::Value& object, std::uint64_t chain_id) {
    const auto member = [&](std::string_view name) -> const json::Value* {
        const json::Value* value = object.find(name);
        return value == nullptr || value->is_null() ? nullptr : value;
    };
    const auto bad = [](std::string_view name, const Error& error) {
        return rpc_fail(kInvalidParams, "invalid argument 0: " + std::string(name) + ": " + error.detail);
    };
    SimulatedCall call;
    if (const auto* value = member("from")) {
        const auto address = read_address(*value);
        if (!address) return bad("from", address.error());
        call.from = *address;
    }
    if (const auto* value = member("to")) {
        const auto address = read_address(*value);
        if (!address) return bad("to", address.error());
        call.to = *address;
    }
    if (const auto* value = member("gas")) {
        const auto gas = read_quantity64(*value);
        if (!gas) return bad("gas", gas.error());
        call.gas = *gas;
    }
    if (const auto* value = member("value")) {
        const auto amount = read_quantity(*value);
        if (!amount) return bad("value", amount.error());
        call.value = *amount;
    }
    if (member("gasPrice") != nullptr &&
        (member("maxFeePerGas") != nullptr || member("maxPriorityFeePerGas") != nullptr))
        return rpc_fail(kInvalidParams, "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified");
    for (const std::string_view name : {"gasPrice", "maxFeePerGas"}) {
        if (const auto* value = member(name)) {
            const auto price = read_quantity(*value);
            if (!price) return bad(name, price.error());
            call.gas_price = *price;
        }
    }
    if (const auto* value = member("chainId")) {
        const auto id = read_quantity(*value);
        if (!id) return bad("chainId", id.error());
        if (*id != Uint256(chain_id))
            return rpc_fail(kInvalidParams, "chainId does not match node's (have=" + id->to_decimal() +
                                                ", want=" + std::to_string(chain_id) + ")");
    }
    if (const auto* value = member("accessList")) {
        auto list = read_access_list(*value);
        if (!list) return bad("accessList", list.error());
        call.access_list = std::move(*list);
    }
    std::optional<Bytes> data;
    for (const std::string_view name : {"data", "input"}) {
        if (const auto* value = member(name)) {
            auto bytes = read_data(*value);
            if (!bytes) return bad(name, bytes.error());
            if (data && *data != *bytes)
                return rpc_fail(kInvalidParams,
                                "both \"data\" and \"input\" are set and not equal. Please use \"input\" to pass "
                                "transaction call data");
            data = std::move(*bytes);
        }
    }
    if (data) call.data = std::move(*data);
    if (!call.to && call.data.empty()) return rpc_fail(kInvalidParams, "contract creation without any data provided");
    return call;
}

tl::unexpected<RpcError> failure(const SimulationResult& result) {
    const bool reverted = !result.output.empty() || result.failure.starts_with("execution reverted");
    if (!reverted) return rpc_fail(kServerError, result.failure.empty() ? "execution failed" : result.failure);
    std::string message = "execution reverted";
    if (const auto reason = chain::types::abi::decode_error(result.output)) message += ": " + *reason;
    return rpc_fail(kExecutionReverted, std::move(message), hex(result.output));
}

}  // namespace

Status add_execution_methods(Registry& registry, const Backend& backend) {
    const auto* chain = backend.chain;
    const auto* simulator = backend.simulator;
    QUERN_CHECK(registry.add({"eth_call",
                              "Executes a call on a state and throws its changes away.",
                              {kTransaction, kBlock},
                              {"data", "what the call returned"},
                              {std::begin(kErrors), std::end(kErrors)},
                              {},
                              [chain, simulator](const Call& call) -> Result {
                                  const auto request = read_call(call.value(0), chain->chain_id());
                                  if (!request) return tl::unexpected<RpcError>(request.error());
                                  QUERN_RPC_TRY(const auto result, simulator->call(*request, call.block(1)));
                                  if (!result.success) return failure(result);
                                  return hex(result.output);
                              }}));
    return registry.add({"eth_estimateGas",
                         "The least gas limit with which a transaction succeeds.",
                         {kTransaction, kBlock},
                         {"quantity", "gas"},
                         {std::begin(kErrors), std::end(kErrors)},
                         {{R"([{"from":"0x407d73d8a49eeb85d32cf465507dd71d507100c1",)"
                           R"("to":"0x85f43d8a49eeb85d32cf465507dd71d507100c1d","value":"0x1"}])",
                           R"("0x5208")"}},
                         [chain, simulator](const Call& call) -> Result {
                             const auto request = read_call(call.value(0), chain->chain_id());
                             if (!request) return tl::unexpected<RpcError>(request.error());
                             const auto gas = simulator->estimate_gas(*request, call.block(1));
                             if (gas) return quantity(*gas);
                             // The call itself tells why, with revert data where there is some.
                             const auto result = simulator->call(*request, call.block(1));
                             if (result && !result->success && !result->output.empty()) return failure(*result);
                             return rpc_fail(gas.error());
                         }});
}

}  // namespace quern::rpc::methods
