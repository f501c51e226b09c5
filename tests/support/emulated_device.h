// The device of vm/tensor/cuda on the processor: what its users order is done at once, by the bodies of the kernels
// that a card runs (emulated_block.h). Used by one thread at a time.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "support/emulated_block.h"
#include "vm/tensor/cuda/device.h"

namespace quern::test {

class EmulatedDevice final : public vm::tensor::cuda::Device {
public:
    using Failure = vm::tensor::cuda::Failure;
    // `bytes`: of memory that there is.
    explicit EmulatedDevice(ThreadOrder order, std::uint64_t bytes = ~std::uint64_t{0}) : order_(order), free_(bytes) {}

    [[nodiscard]] std::string name() const override { return "emulated"; }
    [[nodiscard]] std::uint64_t free_bytes() const override { return free_; }
    [[nodiscard]] std::uint32_t multiprocessors() const override { return 1; }
    [[nodiscard]] double clock_hz() const override { return 0; }

    [[nodiscard]] Failure allocate(std::uint64_t words, std::uint32_t*& data) override {
        if (words * sizeof(std::uint32_t) > free_) return "out of memory";
        // What nobody has written must not be read.
        std::vector<std::uint32_t> made(words, 0xa5a5a5a5U);
        data = made.data();
        free_ -= words * sizeof(std::uint32_t);
        memory_.emplace(data, std::move(made));
        return nullptr;
    }
    void release(std::uint32_t* data) override {
        const auto found = memory_.find(data);
        if (found == memory_.end()) return;
        free_ += found->second.size() * sizeof(std::uint32_t);
        memory_.erase(found);
    }
    [[nodiscard]] Failure allocate_visible(std::uint64_t words, std::uint32_t*& data) override {
        return allocate(words, data);
    }
    void release_visible(std::uint32_t* data) override { release(data); }

    [[nodiscard]] Failure upload(const void* from, void* to, std::uint64_t bytes) override {
        return copy(from, to, bytes);
    }
    [[nodiscard]] Failure download(const void* from, void* to, std::uint64_t bytes) override {
        return copy(from, to, bytes);
    }
    [[nodiscard]] Failure run_blocks(const vm::tensor::cuda::AnyKernel& kernel, std::uint64_t first,
                                     std::uint64_t count) override {
        if (fails_after_ == 0) return "an error was asked for";
        --fails_after_;
        ++launches_;
        ++outstanding_;
        most_queued_ = std::max(most_queued_, ++queued_);
        emulate(kernel, order_, first, count);
        return nullptr;
    }
    [[nodiscard]] Failure start_clock() override { return nullptr; }
    [[nodiscard]] Failure stop_clock(double& seconds) override {
        seconds = -1;
        return nullptr;
    }
    [[nodiscard]] Failure wait() override {
        outstanding_ = 0;
        queued_ = 0;
        return nullptr;
    }

    // So many copies are made, and no more.
    void fail_after_copies(std::uint64_t copies) { fails_after_copies_ = copies; }
    // So many kernels run, and no more.
    void fail_after(std::uint64_t kernels) { fails_after_ = kernels; }
    [[nodiscard]] std::uint64_t launches() const { return launches_; }
    // Copies and launches that nobody has waited for: on a card perhaps not done.
    [[nodiscard]] std::uint64_t outstanding() const { return outstanding_; }
    [[nodiscard]] std::uint64_t most_queued() const { return most_queued_; }  // launches, at any time

private:
    Failure copy(const void* from, void* to, std::uint64_t bytes) {
        if (fails_after_copies_ == 0) return "an error was asked for";
        --fails_after_copies_;
        ++outstanding_;
        if (bytes != 0) std::memcpy(to, from, bytes);
        return nullptr;
    }

    ThreadOrder order_;
    std::uint64_t free_;
    std::uint64_t fails_after_ = ~std::uint64_t{0};
    std::uint64_t fails_after_copies_ = ~std::uint64_t{0};
    std::uint64_t launches_ = 0;
    std::uint64_t outstanding_ = 0;
    std::uint64_t queued_ = 0;
    std::uint64_t most_queued_ = 0;
    std::map<std::uint32_t*, std::vector<std::uint32_t>> memory_;
};

}  // namespace quern::test
