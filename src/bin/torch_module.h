// libtorch for programs that are not linked with it: the module quern-torch-steps.so, which lies beside them, is loaded
// when something is to be trained by it. Used by quern-worker. Thread-safe.
#pragma once

#include "compute/worker/fast_steps.h"

namespace quern {

inline constexpr const char* kTorchModule = "quern-torch-steps.so";
// What the module exports: makes the steps of a program, nullptr where libtorch cannot. Module and program are of one
// build.
inline constexpr const char* kTorchModuleSymbol = "quern_make_torch_steps";
using MakeTorchSteps = compute::worker::FastSteps* (*)(const vm::tensor::Program& program, int threads);

// By libtorch with so many threads, 0 one per CPU. What it makes is null where the module is not there, which is logged
// once.
[[nodiscard]] compute::worker::MakeFastSteps steps_by_torch(std::size_t threads);

}  // namespace quern
