// The kernels of vm/tensor/cuda behind the table that the processor's backends fill, so that the same random cases run
// on them. A call copies its operands to memory that the device sees, runs, waits and copies back what it wrote.
// Without the micro-steps of a matmul, which only disputes take. Tables are used by the thread that made the session.
#pragma once

#include "vm/tensor/arith/kernel_table.h"
#include "vm/tensor/cuda/device.h"

namespace quern::test {

// While it lives, the table's calls of this thread run on `device`.
class AdaptedSession {
public:
    AdaptedSession(vm::tensor::cuda::Device& device, std::uint64_t words);
    ~AdaptedSession();
    AdaptedSession(const AdaptedSession&) = delete;
    AdaptedSession& operator=(const AdaptedSession&) = delete;

    // The first thing that went wrong; null: nothing.
    [[nodiscard]] vm::tensor::cuda::Failure failure() const;
};

[[nodiscard]] const vm::tensor::arith::Kernels& adapted_kernels();

}  // namespace quern::test
