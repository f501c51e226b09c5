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
    run_kernel(const __grid_constant__ Kernel kernel, u64 first) {
    DeviceBlock<Kernel::kThreads> block(first);
    kernel(block);
}

// The blocks that run, of a kernel's.
struct BlockRange {
    u64 first = 0;
    u64 count = 0;
};

template <class Kernel>
cudaError_t launch(const Kernel& kernel, BlockRange range, cudaStream_t stream) {
    constexpr u64 kMaxBlocks = 0x7fffffff;  // of a grid
    constexpr std::size_t kFreelyShared = 48U << 10;
    constexpr std::size_t shared =
        std::is_same_v<typename Kernel::Shared, NoShared> ? 0 : sizeof(typename Kernel::Shared);
    if constexpr (shared > kFreelyShared) {
        const cudaError_t error = cudaFuncSetAttribute(run_kernel<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                       static_cast<int>(shared));
        if (error != cudaSuccess) return error;
    }
    while (range.count != 0) {
        const u64 blocks = least(range.count, kMaxBlocks);
        // An error of an earlier call, which it has returned, is not this launch's.
        (void)cudaGetLastError();
        run_kernel<Kernel><<<static_cast<unsigned>(blocks), Kernel::kThreads, shared, stream>>>(kernel, range.first);
        if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
        range.first += blocks;
        range.count -= blocks;
    }
    return cudaSuccess;
}

// Products, which take most of the time to compile.
cudaError_t launch_product(const Ways<LargeMatmul>& kernel, BlockRange range, cudaStream_t stream);
cudaError_t launch_product(const Ways<SmallMatmul>& kernel, BlockRange range, cudaStream_t stream);
cudaError_t launch_product(const Ways<ByteProduct>& kernel, BlockRange range, cudaStream_t stream);

}  // namespace quern::vm::tensor::cuda
