// Explains market objects whose inside RPC does not know: what a task would cost, where a dispute stands. Implemented
// by the node over compute/core. Pure functions of their arguments and the chain's parameters; thread-safe.
#pragma once

#include "base/json.h"
#include "chain/types/native_objects.h"

namespace quern::chain::api {

struct TaskEstimate {                 // amounts in grains
    std::uint64_t steps = 0;          // of the plan
    std::uint64_t work_per_step = 0;  // of its largest step ...
    std::uint64_t commit_work = 0;    // ... and of the commitment that ends a stride
    Uint256 total_work;
    std::uint64_t segments = 0;          // steps / interval
    std::uint64_t stretches = 0;         // verified and paid for one by one
    std::uint64_t sampled_segments = 0;  // each verifier's of a stretch
    Uint256 verifier_work;               // each verifier's of a stretch
    Uint256 reward;                      // at the price cap
    Uint256 verifier_fee;                // each, at the price cap
    Uint256 verifier_fees;
    Uint256 custody_fee;  // of each custodian of a stretch ...
    Uint256 custody_fees;
    Uint256 profiler_fee;  // of each profiler ...
    Uint256 profiler_fees;
    Uint256 tax;
    Uint256 storage_deposit;
    Uint256 escrow;  // the sum
    Uint256 solver_bond;
    Uint256 verifier_bond;
    Uint256 profiler_bond;  // of each profiler; 0: there are none
};

class MarketGuide {
public:
    virtual ~MarketGuide() = default;
    // Also checks the specification's form. Errors: task.*, plan.*, program.*.
    [[nodiscard]] virtual Expected<TaskEstimate> estimate_task(const types::TaskSubmitPayload& spec) const = 0;
    // Market time at which the retention of a task ends, with which what is held of a reward is its solver's.
    [[nodiscard]] virtual std::uint64_t retention_end(const types::Task& task) const = 0;
    // The stored form of a dispute's game in readable fields: phase, step, slot, node, tile, element, claimed and true
    // values, who owes a move, milliseconds left. Error: the codec's.
    [[nodiscard]] virtual Expected<json::Value> describe_game(BytesView game) const = 0;
    // "matmul", "elementwise"; "unknown" for a number that is none.
    [[nodiscard]] virtual std::string op_name(std::uint32_t op) const = 0;
};

}  // namespace quern::chain::api
