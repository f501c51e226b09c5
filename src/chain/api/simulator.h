// Calls against a state that are not committed: eth_call, eth_estimateGas, task_simulate. Thread-safe.
#pragma once

#include "chain/api/chain_reader.h"
#include "chain/api/ledger.h"

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

// What a native transaction would do. Fees are not taken: what it would cost follows from gas_used.
struct NativeTrial {
    bool success = false;
    std::string failure;  // the error's name, as the receipt would begin with it; and its detail
    std::string detail;
    std::uint64_t gas_used = 0;
    std::vector<ToldEvent> events;
    Holdings before;  // of the sender
    Holdings after;
    std::optional<std::uint64_t> task;  // that it is about, where it is about one
    Uint256 escrow_before;              // of that task; zero: it is not there
    Uint256 escrow_after;
};

class Simulator {
public:
    virtual ~Simulator() = default;
    [[nodiscard]] virtual Expected<SimulationResult> call(const SimulatedCall& call, const BlockSelector& at) const = 0;
    // The least gas limit with which the call succeeds; errors name the failure ("execution reverted", ...).
    [[nodiscard]] virtual Expected<std::uint64_t> estimate_gas(const SimulatedCall& call,
                                                               const BlockSelector& at) const = 0;
    // Of a call with a native kind. Errors: native.reserved_kind, native.unknown_kind, chain.state_unavailable,
    // store.*; what the transaction itself would fail with is part of the result.
    [[nodiscard]] virtual Expected<NativeTrial> try_native(const SimulatedCall& call,
                                                           const BlockSelector& at) const = 0;
};

}  // namespace quern::chain::api
