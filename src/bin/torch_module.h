// libtorch for programs that are not linked with it: the module quern-torch-steps.so, which lies beside them, is loaded
// when something is to be trained by it. Used by quern-worker, quern-train, quern-profile and quern-compile.
// Thread-safe.
#pragma once

#include <cstdint>
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
inline constexpr std::string_view kTorchBuild = QUERN_VERSION ", interface 4";
inline constexpr const char* kTorchBuildSymbol = "quern_torch_build";
using TorchBuild = const char* (*)();

// How matrix products of steps are computed: in f32, or as mixed precision does, of bf16 operands with all else in f32
// (compute/torch). Whoever trains so needs limits that were profiled so.
enum class TorchProducts : std::uint8_t { f32, bf16 };
inline constexpr const char* kTorchProductNames[] = {"f32", "bf16"};  // by number
// A name that is not known is f32: options let no other pass.
[[nodiscard]] inline TorchProducts torch_products(std::string_view name) {
    return name == kTorchProductNames[1] ? TorchProducts::bf16 : TorchProducts::f32;
}
struct TorchChoice {
    TorchProducts products = TorchProducts::f32;
    std::string device = "cpu";  // cpu, cuda or auto (compute/torch/device.h)
};

// What the module exports: whether libtorch has the device of that name.
inline constexpr const char* kTorchDeviceSymbol = "quern_check_torch_device";
using CheckTorchDevice = void (*)(const std::string& device, Status& found);
// Makes the steps of a program; nullptr where libtorch cannot, and `why`. Where it can, `why` is what whoever runs it
// should know, or empty.
inline constexpr const char* kTorchModuleSymbol = "quern_make_torch_steps";
using MakeTorchSteps = compute::worker::FastSteps* (*)(const vm::tensor::Program& program, int threads,
                                                       const TorchChoice& choice, std::string& why);

// Errors: torch.no_cuda, torch.unknown_device, and of a module that cannot be used those of backends_by_torch().
[[nodiscard]] Status check_torch_device(const std::string& device);

// By libtorch with so many threads, 0 one per CPU. What it makes is null where the module is not there or is of another
// build, which is logged once, and where libtorch cannot run the program, which is logged.
[[nodiscard]] compute::worker::MakeFastSteps steps_by_torch(std::size_t threads, TorchChoice choice);

// The same as a stepper, in f32 on the processor, which says what is wrong. Errors of what it makes: torch.no_module
// (it cannot be loaded: the detail says why, and what brings it), torch.other_build, torch.failed (libtorch cannot run
// the program).
[[nodiscard]] compute::program::Stepper torch_stepper(std::size_t threads);

// The same module's backends for profiling. Of f32: all threads, one thread, products in double precision. Of bf16: all
// threads, one thread, and all threads with products in f32, so that the median of the three is one of bf16. Where the
// device is a graphics processor, that one before them.
inline constexpr const char* kTorchBackendsSymbol = "quern_make_torch_backends";
using TorchBackends = std::vector<compute::tolerance::profile::Profiler>;
using MakeTorchBackends = TorchBackends* (*)(const vm::tensor::Program& program, const vm::tensor::DataSource& data,
                                             const vm::tensor::Tensor& seed, int threads, const TorchChoice& choice,
                                             std::string& why);

// Errors of what it makes: torch.no_module, torch.other_build, torch.no_cuda, torch.failed, as above.
[[nodiscard]] compute::tolerance::profile::MakeProfilers backends_by_torch(TorchChoice choice);

}  // namespace quern
