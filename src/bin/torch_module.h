// libtorch for programs that are not linked with it: the module quern-torch-steps.so, which lies beside them, is loaded
// when something is to be trained by it. Used by quern-worker, quern-train and quern-profile. Thread-safe.
#pragma once

#include <vector>

#include "compute/tolerance/profile/profile.h"
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

// The same module's backends for profiling: all threads, one thread, products in double precision.
inline constexpr const char* kTorchBackendsSymbol = "quern_make_torch_backends";
using TorchBackends = std::vector<compute::tolerance::profile::Profiler>;
using MakeTorchBackends = TorchBackends* (*)(const vm::tensor::Program& program, const vm::tensor::DataSource& data,
                                             const vm::tensor::Tensor& seed, int threads);

// What it makes is empty where the module is not there, which is logged once.
[[nodiscard]] compute::tolerance::profile::MakeProfilers backends_by_torch();

}  // namespace quern
