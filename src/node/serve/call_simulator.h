// eth_call, eth_estimateGas and task_simulate: execution on a throw-away overlay of a committed state, as if in the
// next block. Thread-safe.
#pragma once

#include "chain/api/simulator.h"
#include "node/chain/chain_database.h"
#include "node/chain/snapshot.h"

namespace quern::node {

class CallSimulator final : public chain::api::Simulator {
public:
    // Both outlive the simulator.
    CallSimulator(const ChainSetup& setup, const SnapshotBoard& board) : setup_(setup), board_(board) {}

    [[nodiscard]] Expected<chain::api::SimulationResult> call(const chain::api::SimulatedCall& call,
                                                              const chain::api::BlockSelector& at) const override;
    // Errors: "execution reverted", "insufficient funds for transfer", "gas required exceeds allowance", and call's.
    [[nodiscard]] Expected<std::uint64_t> estimate_gas(const chain::api::SimulatedCall& call,
                                                       const chain::api::BlockSelector& at) const override;

    [[nodiscard]] Expected<chain::api::NativeTrial> try_native(const chain::api::SimulatedCall& call,
                                                               const chain::api::BlockSelector& at) const override;

private:
    [[nodiscard]] Expected<chain::api::SimulationResult> run(const chain::api::SimulatedCall& call,
                                                             const Snapshot& snapshot, std::uint64_t gas) const;
    const ChainSetup& setup_;
    const SnapshotBoard& board_;
};

}  // namespace quern::node
