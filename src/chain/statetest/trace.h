// Traces of transactions as EIP-3155 has them: a line of JSON for each step, then one that sums the transaction up.
// Used by the runners of state and blockchain tests; one thread.
#pragma once

#include <ostream>

#include "vm/evm/step_log.h"

namespace quern::chain::statetest {

class Trace {
public:
    // `out` outlives it.
    explicit Trace(std::ostream& out);

    [[nodiscard]] vm::evm::Tracer& tracer() { return log_; }

    struct Summary {
        Hash32 state_root;
        BytesView output;  // returned or revert data
        std::uint64_t gas_used = 0;
        bool passed = false;  // the transaction succeeded
        std::string_view fork;
    };
    void sum_up(const Summary& summary);

private:
    std::ostream& out_;
    vm::evm::StepLog log_;
};

}  // namespace quern::chain::statetest
