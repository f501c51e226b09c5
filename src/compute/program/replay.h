// Steps done over again in the canonical arithmetic, and what differs from what somebody says of them. Used by
// quern-compile. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/machine_memory.h"
#include "base/thread_pool.h"
#include "compute/core/task_plan.h"
#include "vm/tensor/data.h"
#include "vm/tensor/executor.h"

namespace quern::compute::program {

// The state before step `first` becomes that after step `last`, 1 <= first <= last <= the plan's steps. Errors:
// replay.bad_range, those of check_state(), memory.too_little (less than replay_bytes()), replay.no_data (the source
// lacks some).
[[nodiscard]] Status replay(const core::TaskPrograms& programs, vm::tensor::State& state,
                            const vm::tensor::DataSource& data, const vm::tensor::Tensor& seed, std::uint64_t first,
                            std::uint64_t last, ThreadPool* pool, std::uint64_t memory = machine_memory());
// What the state and steps of all programs take.
[[nodiscard]] std::uint64_t replay_bytes(const core::TaskPrograms& programs);

struct Difference {
    std::string slot;            // the first in the slots' order
    std::uint64_t elements = 0;  // of it that differ
    // Of numbers that are such on both sides; absent where an element that differs is none, or the slot holds whole
    // numbers.
    std::optional<double> largest;
    std::size_t slots = 0;  // that differ, all together
};
// Of two states of one program, word by word; nothing where they are equal.
[[nodiscard]] std::optional<Difference> difference(const vm::tensor::Program& program, const vm::tensor::State& a,
                                                   const vm::tensor::State& b);

}  // namespace quern::compute::program
