// How the kernels of this folder are written: each is a plain struct of its arguments with
//
//     static constexpr unsigned kThreads;              of a block
//     struct Shared;                                   the block's shared memory
//     std::uint64_t blocks() const;                    how many
//     template <class Block> void operator()(Block& block) const;
//
// The body says what the threads of a block do between two barriers: block.each(f) calls f(thread) for each of them and
// then waits for all; what a thread keeps from one call to the next lies in a Private. On a device f runs once, for the
// thread that calls; tests/support/emulated_block.h runs the same body on the processor, thread after thread, so that
// indices, ragged edges and barriers are tested where there is no card. Plain values; a body is called by its launch
// alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vm/tensor/arith/host_device.h"

// The loop that follows is unrolled on a device: what it indexes is then in registers.
#if defined(__CUDA_ARCH__)
#define QUERN_UNROLL _Pragma("unroll")
#else
#define QUERN_UNROLL
#endif

namespace quern::vm::tensor::cuda {

using u32 = std::uint32_t;
using i32 = std::int32_t;
using u64 = std::uint64_t;
using i64 = std::int64_t;

struct NoShared {};

QUERN_HD constexpr u64 divided_up(u64 a, u64 b) { return (a + b - 1) / b; }
template <class T>
QUERN_HD constexpr T least(T a, T b) {
    return b < a ? b : a;
}

#if defined(__CUDACC__)
// The block of the thread that calls. Its shared memory is what the launch asks for.
template <unsigned kThreads>
class DeviceBlock {
public:
    template <class T>
    class Private {
    public:
        __device__ T& operator[](unsigned) { return value_; }

    private:
        T value_;
    };

    __device__ explicit DeviceBlock(u64 first) : first_(first) {}
    __device__ u64 index() const { return first_ + blockIdx.x; }
    template <class F>
    __device__ void each(const F& f) const {
        f(threadIdx.x);
        __syncthreads();
    }
    // Without a barrier: where no thread reads what another one writes.
    template <class F>
    __device__ void alone(const F& f) const {
        f(threadIdx.x);
    }
    template <class T>
    __device__ T& shared() const {
        extern __shared__ __align__(16) unsigned char memory[];
        return *reinterpret_cast<T*>(memory);
    }

private:
    u64 first_;  // of the launch
};
#endif

}  // namespace quern::vm::tensor::cuda
