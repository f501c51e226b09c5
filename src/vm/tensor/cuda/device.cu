#include "vm/tensor/cuda/device.h"

#include "vm/tensor/cuda/driver.h"
#include "vm/tensor/cuda/launch.cuh"

namespace quern::vm::tensor::cuda {
namespace {

// The runtime keeps an error until somebody asks for it: nobody else is to take it for its own.
Failure said(cudaError_t error) {
    if (error == cudaSuccess) return nullptr;
    (void)cudaGetLastError();
    return cudaGetErrorString(error);
}

class Card final : public Device {
public:
    Card() = default;
    ~Card() override {
        if (from_ != nullptr) cudaEventDestroy(from_);
        if (to_ != nullptr) cudaEventDestroy(to_);
        if (stream_ != nullptr) cudaStreamDestroy(stream_);
    }
    Card(const Card&) = delete;
    Card& operator=(const Card&) = delete;

    Failure open() {
        if (const Failure failure = said(cudaSetDevice(0))) return failure;
        if (const Failure failure = said(cudaGetDeviceProperties(&properties_, 0))) return failure;
        int khz = 0;
        if (said(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0)) == nullptr) clock_hz_ = 1e3 * khz;
        if (const Failure failure = said(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking))) return failure;
        if (const Failure failure = said(cudaEventCreate(&from_))) return failure;
        if (const Failure failure = said(cudaEventCreate(&to_))) return failure;
        // One that the build has no code for fails at its first kernel: here.
        Iota nothing;
        u32* word = nullptr;
        if (const Failure failure = allocate(1, word)) return failure;
        nothing.out = word;
        nothing.count = 1;
        const Failure failure = said(launch(nothing, {0, nothing.blocks()}, stream_));
        const Failure waited = wait();
        release(word);
        return failure != nullptr ? failure : waited;
    }

    std::string name() const override { return properties_.name; }
    u64 free_bytes() const override {
        std::size_t free = 0;
        std::size_t total = 0;
        return said(cudaMemGetInfo(&free, &total)) == nullptr ? free : 0;
    }
    u32 multiprocessors() const override { return static_cast<u32>(properties_.multiProcessorCount); }
    double clock_hz() const override { return clock_hz_; }

    Failure allocate(u64 words, u32*& data) override { return said(cudaMalloc(&data, words * sizeof(u32))); }
    void release(u32* data) override { (void)said(cudaFree(data)); }
    Failure allocate_visible(u64 words, u32*& data) override {
        return said(cudaHostAlloc(&data, words * sizeof(u32), cudaHostAllocMapped | cudaHostAllocPortable));
    }
    void release_visible(u32* data) override { (void)said(cudaFreeHost(data)); }

    Failure upload(const void* from, void* to, u64 bytes) override {
        return said(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_));
    }
    Failure download(const void* from, void* to, u64 bytes) override {
        return said(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_));
    }
    Failure run_blocks(const AnyKernel& kernel, u64 first, u64 count) override {
        const BlockRange range{first, count};
        return said(std::visit(
            [&](const auto& each) {
                if constexpr (requires { each.blocks(); })
                    return launch(each, range, stream_);
                else
                    return launch_product(each, range, stream_);
            },
            kernel));
    }
    Failure start_clock() override { return said(cudaEventRecord(from_, stream_)); }
    Failure stop_clock(double& seconds) override {
        if (const Failure failure = said(cudaEventRecord(to_, stream_))) return failure;
        if (const Failure failure = said(cudaEventSynchronize(to_))) return failure;
        float milliseconds = 0;
        const Failure failure = said(cudaEventElapsedTime(&milliseconds, from_, to_));
        seconds = 1e-3 * milliseconds;
        return failure;
    }
    Failure wait() override { return said(cudaStreamSynchronize(stream_)); }

private:
    cudaDeviceProp properties_{};
    cudaStream_t stream_ = nullptr;
    cudaEvent_t from_ = nullptr;
    cudaEvent_t to_ = nullptr;
    double clock_hz_ = 0;
};

}  // namespace

bool is_built() { return true; }

std::unique_ptr<Device> open_device(std::string& why) {
    int cards = 0;
    const cudaError_t counted = cudaGetDeviceCount(&cards);
    const Failure none = said(counted);
    if (counted == cudaErrorInsufficientDriver) {
        int driver = 0;
        (void)said(cudaDriverGetVersion(&driver));
        why = driver_problem(driver, CUDART_VERSION);
        return nullptr;
    }
    if (none != nullptr || cards == 0) {
        why = none != nullptr ? none : "no card";
        return nullptr;
    }
    auto card = std::make_unique<Card>();
    if (const Failure failure = card->open()) {
        why = failure;
        return nullptr;
    }
    return card;
}

}  // namespace quern::vm::tensor::cuda
