// Where libtorch's tensors lie and its ops run, by the names that programs take. Used by TorchExecutor and by programs
// that choose. No torch header is included here. Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/expected.h"

namespace quern::compute::torch_backend {

enum class Device : std::uint8_t {
    cpu,
    cuda,  // libtorch's current graphics processor: the first of those that CUDA_VISIBLE_DEVICES leaves

    // The two of tests, where there is no such processor. emulated: everything that is done for cuda, on tensors of the
    // processor, so that values can be compared. meta: the same on tensors that have shapes and no values, so that
    // whatever reads a value, or leaves one on the processor, is found; what comes back is zeros.
    emulated,
    meta,
};

// "cpu", "cuda", or "auto": cuda where this libtorch and this machine have it. Errors: torch.unknown_device (the two of
// tests have no name), those of check_device().
[[nodiscard]] Expected<Device> find_device(std::string_view name);

// Error: torch.no_cuda, whose detail says whether libtorch was built without CUDA or finds no graphics processor.
[[nodiscard]] Status check_device(Device device);

// "cpu", "cuda", "emulated", "meta".
[[nodiscard]] std::string_view name_of(Device device);

// Whether products in bf16 are computed as such there: on the processor by oneDNN and AVX-512, on a graphics processor
// by those of compute capability 8.0 (Ampere) on. Elsewhere operands and results are rounded and the product is one of
// f32, so that bf16 saves no time. Of cuda where check_device() refuses it: false.
[[nodiscard]] bool has_bf16_products(Device device);

}  // namespace quern::compute::torch_backend
