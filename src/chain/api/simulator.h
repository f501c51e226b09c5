// Calls against a state that are not committed: eth_call, eth_estimateGas. Thread-safe.
#pragma once

#include "chain/api/chain_reader.h"

namespace quern::chain::api {

struct SimulatedCall {
    types::Address from;
    std::optional<types::Address> to;
    Uint256 value;
    Bytes data;
    std::optional<std::uint64_t> gas;
    Uint256 gas_price;
    std::vector<types::AccessListEntry> access_list;
    // For estimates of native transactions: kind and payload instead of data.
    std::optional<std::uint8_t> native_kind;
};
struct SimulationResult {
    bool success = false;
    std::uint64_t gas_used = 0;
    Bytes output;
    std::string failure;
};

class Simulator {
public:
    virtual ~Simulator() = default;
    [[nodiscard]] virtual Expected<SimulationResult> call(const SimulatedCall& call, const BlockSelector& at) const = 0;
    // The least gas limit with which the call succeeds; errors name the failure ("execution reverted", ...).
    [[nodiscard]] virtual Expected<std::uint64_t> estimate_gas(const SimulatedCall& call,
                                                               const BlockSelector& at) const = 0;
};

}  // namespace quern::chain::api
