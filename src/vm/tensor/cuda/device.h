// What kernels run on: memory of its own, and one queue in which copies and kernels follow each other. A card, where
// the build found CUDA and the machine has one; in tests the processor (tests/support/emulated_device.h). Each call but
// wait() may return before its work is done; host memory that a copy uses stays as it is until wait(). A device is used
// by one thread at a time; several devices may share a card.
#pragma once

#include <memory>
#include <string>

#include "vm/tensor/cuda/kernels.h"

namespace quern::vm::tensor::cuda {

// What went wrong, in the runtime's words; null: nothing. After a failure nothing that the device holds is of use.
using Failure = const char*;

class Device {
public:
    virtual ~Device() = default;
    [[nodiscard]] virtual std::string name() const = 0;  // "NVIDIA H100 80GB HBM3"
    [[nodiscard]] virtual u64 free_bytes() const = 0;
    [[nodiscard]] virtual u32 multiprocessors() const = 0;
    [[nodiscard]] virtual double clock_hz() const = 0;  // of its arithmetic, at most; 0: nobody knows

    // Of the device's own memory, at an address that is a multiple of 256 bytes; given back by release().
    [[nodiscard]] virtual Failure allocate(u64 words, u32*& data) = 0;
    virtual void release(u32* data) = 0;
    // Memory of the host that kernels see as well, slowly, at the same address; given back by release_visible().
    [[nodiscard]] virtual Failure allocate_visible(u64 words, u32*& data) = 0;
    virtual void release_visible(u32* data) = 0;

    [[nodiscard]] virtual Failure upload(const void* from, void* to, u64 bytes) = 0;
    [[nodiscard]] virtual Failure download(const void* from, void* to, u64 bytes) = 0;
    // `count` of the kernel's blocks, from the block `first` on.
    [[nodiscard]] virtual Failure run_blocks(const AnyKernel& kernel, u64 first, u64 count) = 0;
    [[nodiscard]] Failure run(const AnyKernel& kernel) { return run_blocks(kernel, 0, blocks_of(kernel)); }
    // The device's own time for what is queued between the two calls, in seconds; negative: it cannot tell.
    [[nodiscard]] virtual Failure start_clock() = 0;
    [[nodiscard]] virtual Failure stop_clock(double& seconds) = 0;
    [[nodiscard]] virtual Failure wait() = 0;
};

// Whether this build has the kernels for cards.
[[nodiscard]] bool is_built();
// The first card; null: there is none that runs them, and `why` says it.
[[nodiscard]] std::unique_ptr<Device> open_device(std::string& why);

}  // namespace quern::vm::tensor::cuda
