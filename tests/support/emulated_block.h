// Runs the kernels of vm/tensor/cuda on the processor: block after block, in each the threads one after the other
// between two barriers. A barrier that is missing shows where the order of the threads changes what comes out: run each
// kernel in all orders. Shared memory and what threads keep hold rubbish at first. Used by one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "vm/tensor/cuda/kernels.h"

namespace quern::test {

enum class ThreadOrder : std::uint8_t { ascending, descending, mixed };
inline constexpr std::array<ThreadOrder, 3> kThreadOrders{ThreadOrder::ascending, ThreadOrder::descending,
                                                          ThreadOrder::mixed};

template <unsigned kThreads, class Shared>
class EmulatedBlock {
public:
    template <class T>
    class Private {
    public:
        Private() : values_(kThreads) { std::memset(static_cast<void*>(values_.data()), 0xa5, kThreads * sizeof(T)); }
        T& operator[](unsigned thread) { return values_[thread]; }

    private:
        std::vector<T> values_;
    };

    EmulatedBlock(std::uint64_t index, ThreadOrder order) : index_(index), shared_(std::make_unique<Shared>()) {
        std::memset(static_cast<void*>(shared_.get()), 0xa5, sizeof(Shared));
        for (unsigned i = 0; i < kThreads; ++i) {
            order_[i] = order == ThreadOrder::descending ? kThreads - 1 - i : i;
        }
        // Some permutation that keeps no neighbours together: kThreads is a power of two, the factor odd.
        if (order == ThreadOrder::mixed)
            for (unsigned i = 0; i < kThreads; ++i) order_[i] = (i * 77 + 13) % kThreads;
        static_assert((kThreads & (kThreads - 1)) == 0);
    }

    [[nodiscard]] std::uint64_t index() const { return index_; }
    template <class F>
    void each(const F& f) const {
        for (const unsigned thread : order_) f(thread);
    }
    // Without a barrier: what a thread writes into shared memory here another one may read too early.
    template <class F>
    void alone(const F& f) const {
        if constexpr (std::is_same_v<Shared, vm::tensor::cuda::NoShared>) return each(f);
        const std::vector<unsigned char> before(bytes(), bytes() + sizeof(Shared));
        each(f);
        if (std::memcmp(before.data(), bytes(), sizeof(Shared)) == 0) return;
        std::fprintf(stderr, "a kernel writes shared memory without a barrier behind it\n");
        std::abort();
    }
    template <class T>
    T& shared() const {
        return *shared_;
    }

private:
    [[nodiscard]] const unsigned char* bytes() const { return reinterpret_cast<const unsigned char*>(shared_.get()); }

    std::uint64_t index_;
    std::array<unsigned, kThreads> order_{};
    std::unique_ptr<Shared> shared_;
};

// `count` blocks, from `first` on.
template <class Kernel>
void emulate(const Kernel& kernel, ThreadOrder order, std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
        EmulatedBlock<Kernel::kThreads, typename Kernel::Shared> block(
            first + (order == ThreadOrder::descending ? count - 1 - i : i), order);
        kernel(block);
    }
}
inline void emulate(const vm::tensor::cuda::AnyKernel& kernel, ThreadOrder order, std::uint64_t first,
                    std::uint64_t count) {
    visit_kernel(kernel, [&](const auto& each) { emulate(each, order, first, count); });
}

}  // namespace quern::test
