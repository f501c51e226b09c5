// What does the steps of a training on this machine: the canonical arithmetic, or another backend that a program hands
// in. Used by what trains here: quern-measure, quern-compile, profilers. What is made is used by one thread.
#pragma once

#include <cstdint>
#include <functional>

#include "base/expected.h"
#include "base/thread_pool.h"
#include "crypto/hash.h"
#include "vm/tensor/executor.h"

namespace quern::compute::program {

// 32 bytes that fix the data's order where no chain has drawn any: the seed, big endian, in bytes 8 to 15.
[[nodiscard]] Hash32 beacon_of_seed(std::uint64_t seed);

// state := the state after the next step.
using StepFunction = std::function<Status(vm::tensor::State& state)>;
// Makes it of a program, its data and the task's seed, which outlive what is made. Errors: those of the backend.
using Stepper = std::function<Expected<StepFunction>(
    const vm::tensor::Program& program, const vm::tensor::DataSource& data, const vm::tensor::Tensor& seed)>;

// The canonical arithmetic on a pool, which outlives what is made. Error of a step: step.no_data (the source lacks
// some; the state is of no more use then).
[[nodiscard]] Stepper canonical_stepper(ThreadPool* pool);

}  // namespace quern::compute::program
