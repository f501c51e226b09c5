// Who watches an execution without taking part in it. Implemented by the node; called by one thread.
#pragma once

#include <cstdint>

namespace quern::chain::exec {

// Called around a leaf so that a node can time it; never influences a result.
class ExecutionObserver {
public:
    virtual ~ExecutionObserver() = default;
    virtual void leaf_begins(std::uint64_t dispute) = 0;
    virtual void leaf_ended(std::uint64_t dispute) = 0;
};

}  // namespace quern::chain::exec
