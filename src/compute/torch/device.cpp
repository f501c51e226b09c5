#include "compute/torch/device.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <exception>
#include <string>

namespace quern::compute::torch_backend {
namespace {

bool processor_has_bf16_products() {
#ifdef __x86_64__
    return at::hasMKLDNN() && __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
           __builtin_cpu_supports("avx512dq") != 0;  // what oneDNN asks for
#else
    return false;
#endif
}

// What libtorch itself asks before it convolves in bf16: the one question in its interface, without CUDA's headers,
// that is answered by the card's compute capability. Of a libtorch without cuDNN the answer is no.
bool card_has_bf16_products() {
    try {
        return torch::cuda::is_available() && at::detail::getCUDAHooks().supportsBFloat16ConvolutionWithCuDNNv8();
    } catch (const std::exception&) {  // a driver that does not start
        return false;
    }
}

}  // namespace

Expected<Device> find_device(std::string_view name) {
    if (name == "cpu") return Device::cpu;
    if (name == "auto") return check_device(Device::cuda) ? Device::cuda : Device::cpu;
    if (name != "cuda") return fail("torch.unknown_device", std::string(name) + "; known: cpu, cuda, auto");
    QUERN_CHECK(check_device(Device::cuda));
    return Device::cuda;
}

Status check_device(Device device) {
    if (device != Device::cuda) return {};
    try {
        if (!at::Context::hasCUDART())
            return fail("torch.no_cuda", "libtorch " TORCH_VERSION " here was built without CUDA");
        if (!torch::cuda::is_available())
            return fail("torch.no_cuda",
                        "libtorch finds no graphics processor: look at the driver (nvidia-smi) and at "
                        "CUDA_VISIBLE_DEVICES");
    } catch (const std::exception& problem) {
        return fail("torch.no_cuda", problem.what());
    }
    return {};
}

std::string_view name_of(Device device) {
    switch (device) {
        case Device::cpu:
            return "cpu";
        case Device::cuda:
            return "cuda";
        case Device::emulated:
            return "emulated";
        case Device::meta:
            return "meta";
    }
    return "";
}

bool has_bf16_products(Device device) {
    switch (device) {
        case Device::cpu:
        case Device::emulated:
            return processor_has_bf16_products();
        case Device::cuda:
            return card_has_bf16_products();
        case Device::meta:
            return true;
    }
    return false;
}

}  // namespace quern::compute::torch_backend
