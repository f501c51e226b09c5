// Starts a kernel of this folder on a card. Included by the .cu files alone. Thread-safe.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "vm/tensor/cuda/kernels.h"

namespace quern::vm::tensor::cuda {

template <class Kernel>
constexpr unsigned blocks_at_once() {
    if constexpr (requires { Kernel::kBlocksAtOnce; })
        return Kernel::kBlocksAtOnce;
    else
        return 1;
}

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, blocks_at_once<Kernel>())
    run_kernel(const __grid_constant__ Kernel kernel) {
    DeviceBlock<Kernel::kThreads> block;
    kernel(block);
}

template <class Kernel>
cudaError_t launch(const Kernel& kernel, cudaStream_t stream) {
    constexpr u64 kMaxBlocks = 0x7fffffff;
    constexpr std::size_t kFreelyShared = 48U << 10;
    constexpr std::size_t shared = std::is_same_v<typename Kernel::Shared, NoShared> ? 0 : sizeof(typename Kernel::Shared);
    const u64 blocks = kernel.blocks();
    if (blocks == 0) return cudaSuccess;
    if (blocks > kMaxBlocks) return cudaErrorInvalidConfiguration;
    if constexpr (shared > kFreelyShared) {
        const cudaError_t error = cudaFuncSetAttribute(
            run_kernel<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
        if (error != cudaSuccess) return error;
    }
    run_kernel<Kernel><<<static_cast<unsigned>(blocks), Kernel::kThreads, shared, stream>>>(kernel);
    return cudaGetLastError();
}

// Products, which take most of the time to compile.
cudaError_t launch_product(const Ways<LargeMatmul>& kernel, cudaStream_t stream);
cudaError_t launch_product(const Ways<SmallMatmul>& kernel, cudaStream_t stream);
cudaError_t launch_product(const Ways<ByteProduct>& kernel, cudaStream_t stream);

}  // namespace quern::vm::tensor::cuda
