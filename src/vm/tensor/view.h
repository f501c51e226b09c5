// Strided views of tensors: what the executor passes between ops so that reshape, permute, slice and broadcast need no
// copies, and shows in taps (tap.h). Plain values; thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "vm/tensor/tensor.h"

namespace quern::vm::tensor {

using Strides = std::array<std::ptrdiff_t, 4>;  // words between neighbours along each dim; 0 repeats; never negative

struct View {
    const std::uint32_t* data = nullptr;
    Shape shape;
    Strides strides{};
};

[[nodiscard]] Strides dense_strides(const Shape& shape);
// Row-major without gaps; strides of dims of size 1 do not matter.
[[nodiscard]] bool is_dense(const Shape& shape, const Strides& strides);
// Every element is the same word.
[[nodiscard]] bool is_uniform(const Shape& shape, const Strides& strides);
[[nodiscard]] View dense_view(const Tensor& tensor);
// Strides of the same words seen with another shape of equally many elements; false when that needs a copy.
[[nodiscard]] bool reshape_strides(const Shape& from, const Strides& strides, const Shape& to, Strides& result);
// Strides to read an operand as if it had shape `to`: 0 along broadcast dims.
[[nodiscard]] Strides broadcast_strides(const Shape& from, const Strides& strides, const Shape& to);

// The loop nest of an op over up to three operands, with as few and as long rows as the strides allow. The output is
// dense, so element i of row r is output word r * row_length + i.
inline constexpr std::size_t kMaxOperands = 3;
struct LoopNest {
    std::size_t row_length = 1;
    std::array<std::size_t, 3> outer{1, 1, 1};                        // outermost first
    std::array<std::array<std::ptrdiff_t, 3>, kMaxOperands> steps{};  // of each operand along the outer dims
    std::array<std::ptrdiff_t, kMaxOperands> inner{};                 // of each operand along the row

    [[nodiscard]] std::size_t rows() const { return outer[0] * outer[1] * outer[2]; }
    [[nodiscard]] std::ptrdiff_t row_offset(std::size_t operand, std::size_t row) const {
        const std::size_t last = row % outer[2];
        const std::size_t rest = row / outer[2];
        return static_cast<std::ptrdiff_t>(rest / outer[1]) * steps[operand][0] +
               static_cast<std::ptrdiff_t>(rest % outer[1]) * steps[operand][1] +
               static_cast<std::ptrdiff_t>(last) * steps[operand][2];
    }
};
[[nodiscard]] LoopNest make_loop_nest(const Shape& shape, std::span<const Strides> operands);

// Copies a view into `out`, whose element strides are `out_strides` with stride 1 along the last dim.
void copy_view(const View& source, std::uint32_t* out, const Strides& out_strides, ThreadPool* pool);

// Elements [begin, end) of the view broadcast to `shape`, in row-major order.
void gather_words(const View& source, const Shape& shape, std::size_t begin, std::size_t end, std::uint32_t* out);

// Below this much work one thread is quicker than several (measured on the demo's step: 2^14 to 2^16 are the same, 2^18
// gives a fifth of the gain away). Threads that sleep must be woken, which is worth it for more work only. No bit of a
// result depends on it; tests lower it, so that small programs are spread too.
inline std::size_t worth_a_thread = 1U << 16;
inline constexpr std::size_t kWakingFactor = 16;

// fn(begin, end) over parts of 0..count-1, on the pool where `work` (words touched, or as much arithmetic) is worth it.
template <class Fn>
void parallel_parts(ThreadPool* pool, std::size_t count, std::size_t work, Fn&& fn) {
    const std::size_t worth = pool != nullptr && pool->spins() ? worth_a_thread : kWakingFactor * worth_a_thread;
    if (pool == nullptr || pool->size() == 1 || work < worth || count < 2) {
        if (count != 0) fn(std::size_t{0}, count);
        return;
    }
    // One captured pointer fits a std::function without allocation.
    pool->parallel_ranges(count, [&fn](std::size_t begin, std::size_t end) { fn(begin, end); });
}

}  // namespace quern::vm::tensor
