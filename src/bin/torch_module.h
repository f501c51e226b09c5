// libtorch for programs that are not linked with it: the module quern-torch-steps.so, which lies beside them, is loaded
// when something is to be trained by it. Used by quern-worker, quern-train, quern-profile and quern-compile.
// Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compute/program/stepper.h"
#include "compute/tolerance/profile/profile.h"
#include "compute/worker/fast_steps.h"
#include "quern_version.h"

namespace quern {

inline constexpr const char* kTorchModule = "quern-torch-steps.so";
// The module hands over C++ objects: it must be of the program's own build. Whoever changes what it exports raises the
// number.
inline constexpr std::string_view kTorchBuild = QUERN_VERSION ", interface 2";
inline constexpr const char* kTorchBuildSymbol = "quern_torch_build";
using TorchBuild = const char* (*)();
// What the module exports: makes the steps of a program; nullptr where libtorch cannot, and `why`.
inline constexpr const char* kTorchModuleSymbol = "quern_make_torch_steps";
using MakeTorchSteps = compute::worker::FastSteps* (*)(const vm::tensor::Program& program, int threads,
                                                       std::string& why);

// By libtorch with so many threads, 0 one per CPU. What it makes is null where the module is not there or is of another
// build, which is logged once, and where libtorch cannot run the program, which is logged.
[[nodiscard]] compute::worker::MakeFastSteps steps_by_torch(std::size_t threads);

// The same as a stepper, which says what is wrong. Errors of what it makes: torch.no_module (it cannot be loaded: the
// detail says why, and what brings it), torch.other_build, torch.failed (libtorch cannot run the program).
[[nodiscard]] compute::program::Stepper torch_stepper(std::size_t threads);

// The same module's backends for profiling: all threads, one thread, products in double precision.
inline constexpr const char* kTorchBackendsSymbol = "quern_make_torch_backends";
using TorchBackends = std::vector<compute::tolerance::profile::Profiler>;
using MakeTorchBackends = TorchBackends* (*)(const vm::tensor::Program& program, const vm::tensor::DataSource& data,
                                             const vm::tensor::Tensor& seed, int threads, std::string& why);

// Errors of what it makes: those of torch_stepper()'s.
[[nodiscard]] compute::tolerance::profile::MakeProfilers backends_by_torch();

}  // namespace quern
