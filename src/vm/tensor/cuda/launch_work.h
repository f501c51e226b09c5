// How long a launch may take, by its shapes alone: who queues launches ends between two of them, and leaves to the
// processor what few blocks would take long for. Pure; thread-safe.
#pragma once

#include <type_traits>

#include "vm/tensor/cuda/kernels.h"

namespace quern::vm::tensor::cuda {

// What one thread does one after the other: reads that are on their way at once and what is made of them, a k of a
// product's 64 elements. By the kernels' latencies 0.05 to 0.5 microseconds (not measured).
template <class Kernel>
[[nodiscard]] u64 serial_steps_of(const Kernel& kernel) {
    if constexpr (requires { kernel.shape.k; }) {
        return kernel.shape.k;
    } else if constexpr (std::is_same_v<Kernel, SumLast> || std::is_same_v<Kernel, MaxLast>) {
        return divided_up(kernel.columns, kLanes * Kernel::kAtOnce);
    } else if constexpr (std::is_same_v<Kernel, KthLast>) {
        return 32 * divided_up(kernel.columns, KthLast::kThreads);  // a pass a bit
    } else if constexpr (std::is_same_v<Kernel, SumRowBlocks>) {
        return divided_up(least(kernel.row_count, SumRowBlocks::kRowsOfBlock), SumRowBlocks::kAtOnce);
    } else if constexpr (std::is_same_v<Kernel, SumTotals>) {
        return kernel.row_blocks;
    } else if constexpr (std::is_same_v<Kernel, ScatterAddRows>) {
        return 2 * u64{kernel.rows};  // the search for equal targets; one chain of all rows
    } else if constexpr (std::is_same_v<Kernel, TileHashes>) {
        return TileHashes::kTileWords;
    } else if constexpr (requires { kernel.member_count; }) {
        return u64{kernel.member_count} * kElementsPerThread;
    } else {
        return kElementsPerThread;
    }
}
[[nodiscard]] inline u64 serial_steps(const AnyKernel& kernel) {
    u64 steps = 0;
    visit_kernel(kernel, [&](const auto& each) { steps = serial_steps_of(each); });
    return steps;
}

struct LaunchLimits {
    // In steps as above, blocks that run at once counted once.
    u64 in_flight = u64{1} << 20;      // before the queue is waited for: 0.05 to 0.5 seconds
    u64 serial = u64{1} << 23;         // of any launch, which nothing interrupts: 0.4 to 4 seconds
    u64 serial_of_few = u64{1} << 20;  // of a launch of fewer blocks than:
    u64 few_blocks = 32;

    [[nodiscard]] bool is_suitable(u64 steps, u64 blocks) const {
        return steps <= (blocks < few_blocks ? serial_of_few : serial);
    }
};
inline constexpr u64 kLaunchSteps = 16;            // what a launch takes itself
inline constexpr u64 kBlocksOfMultiprocessor = 2;  // at once: of products, the largest; of others more

// As much of a launch as is queued in one piece.
struct LaunchPieces {
    u64 at_once = 1;  // blocks
    u64 blocks = 1;   // of a piece: at least those that run at once
    u64 steps = 0;    // of one block

    LaunchPieces(u64 steps_of_block, u32 multiprocessors, const LaunchLimits& limits)
        : at_once(kBlocksOfMultiprocessor * (multiprocessors == 0 ? 1 : multiprocessors)),
          blocks(at_once *
                 (steps_of_block == 0 || steps_of_block > limits.in_flight ? 1 : limits.in_flight / steps_of_block)),
          steps(steps_of_block) {}
    [[nodiscard]] u64 steps_of(u64 some_blocks) const {
        return kLaunchSteps + divided_up(some_blocks, at_once) * steps;
    }
};

}  // namespace quern::vm::tensor::cuda
