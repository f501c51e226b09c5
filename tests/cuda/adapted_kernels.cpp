#include "cuda/adapted_kernels.h"

#include <cstring>

namespace quern::test {
namespace {

namespace cuda = vm::tensor::cuda;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using vm::tensor::arith::ElementOp;
using vm::tensor::arith::Kernels;
using vm::tensor::arith::MatrixView;

struct Memory {
    cuda::Device* device = nullptr;
    u32* words = nullptr;
    u64 size = 0;
    u64 used = 0;
    cuda::Failure failure = nullptr;
};
thread_local Memory memory;

// A call: its copies of operands, and where the output goes back.
class Call {
public:
    Call() { memory.used = 0; }

    u32* put(const u32* from, u64 words) {
        // Never two arrays side by side: what is written beyond one is seen.
        const u64 taken = (words + kGap - 1) / kGap * kGap + kGap;
        if (memory.used + taken > memory.size) {
            note("the session has too little memory");
            return memory.words;
        }
        u32* const at = memory.words + memory.used;
        memory.used += taken;
        if (words != 0 && from != nullptr) std::memcpy(at, from, words * sizeof(u32));
        for (u64 i = words; i < taken; ++i) at[i] = kGuard;
        return at;
    }
    u32* put_output(u32* out, u64 words) {
        out_ = out;
        out_words_ = words;
        return out_copy_ = put(out, words);
    }
    void run(const cuda::AnyKernel& kernel) {
        if (memory.failure == nullptr) note(memory.device->run(kernel));
    }
    void finish() {
        if (memory.failure == nullptr) note(memory.device->wait());
        for (u64 i = 0; out_copy_ != nullptr && i < kGap; ++i)
            if (out_copy_[out_words_ + i] != kGuard) note("a kernel wrote beyond its output");
        if (out_words_ != 0) std::memcpy(out_, out_copy_, out_words_ * sizeof(u32));
    }

private:
    static constexpr u64 kGap = 64;
    static constexpr u32 kGuard = 0x5c5c5c5cU;
    static void note(cuda::Failure failure) {
        if (memory.failure == nullptr) memory.failure = failure;
    }

    u32* out_ = nullptr;
    u32* out_copy_ = nullptr;
    u64 out_words_ = 0;
};

void elementwise(ElementOp op, std::size_t n, const u32* a, std::size_t stride_a, const u32* b, std::size_t stride_b,
                 const u32* c, std::size_t stride_c, u32 immediate, u32* out) {
    if (n == 0) return;
    Call call;
    cuda::Elementwise kernel;
    kernel.op = op;
    kernel.immediate = immediate;
    kernel.count = static_cast<u32>(n);
    kernel.out = call.put_output(out, n);
    const auto* info = vm::tensor::arith::find_element_op(op);
    kernel.arity = info == nullptr ? 0 : info->arity;
    const u32* const from[] = {a, b, c};
    const std::size_t strides[] = {stride_a, stride_b, stride_c};
    for (unsigned o = 0; o < kernel.arity; ++o) {
        kernel.operands[o].data = from[o] == out ? kernel.out : call.put(from[o], strides[o] == 0 ? 1 : n);
        kernel.operands[o].layout =
            cuda::merged({1, 1, 1, kernel.count}, {0, 0, 0, static_cast<cuda::i64>(strides[o])});
    }
    call.run(kernel);
    call.finish();
}

const u32* put_matrix(Call& call, const MatrixView& view, std::size_t rows, std::size_t columns) {
    if (rows == 0 || columns == 0) return call.put(nullptr, 0);
    return call.put(view.data, static_cast<u64>(static_cast<std::ptrdiff_t>(rows - 1) * view.row_stride +
                                                static_cast<std::ptrdiff_t>(columns - 1) * view.col_stride + 1));
}

cuda::ProductCall product_call(Call& call, std::size_t m, std::size_t n, std::size_t k, MatrixView a, MatrixView b,
                               u32* c, std::size_t ldc) {
    cuda::ProductCall made;
    made.shape.m = static_cast<u32>(m);
    made.shape.n = static_cast<u32>(n);
    made.shape.k = static_cast<u32>(k);
    made.shape.ldc = static_cast<u32>(ldc);
    made.a = {put_matrix(call, a, m, k), a.row_stride, a.col_stride, 0, 0};
    made.b = {put_matrix(call, b, k, n), b.col_stride, b.row_stride, 0, 0};
    made.c = call.put_output(c, (m - 1) * ldc + n);
    return made;
}

void matmul(std::size_t m, std::size_t n, std::size_t k, MatrixView a, MatrixView b, u32* c, std::size_t ldc) {
    if (m == 0 || n == 0) return;
    Call call;
    const cuda::ProductCall made = product_call(call, m, n, k, a, b, c, ldc);
    if ((m + n + k) % 2 == 0)
        call.run(cuda::product<cuda::LargeMatmul>(made));
    else
        call.run(cuda::product<cuda::SmallMatmul>(made));
    call.finish();
}

void imatmul(std::size_t m, std::size_t n, std::size_t k, MatrixView a, MatrixView scale_a, MatrixView b,
             MatrixView scale_b, u32* c, std::size_t ldc) {
    if (m == 0 || n == 0) return;
    Call call;
    cuda::ProductCall made = product_call(call, m, n, k, a, b, c, ldc);
    const std::size_t strips = (k + cuda::kProductBlock - 1) / cuda::kProductBlock;
    made.scale_a = {put_matrix(call, scale_a, m, strips), scale_a.row_stride, scale_a.col_stride, 0, 0};
    made.scale_b = {put_matrix(call, scale_b, strips, n), scale_b.col_stride, scale_b.row_stride, 0, 0};
    call.run(cuda::imatmul(made));
    call.finish();
}

u64 row_words(std::size_t rows, std::size_t columns, std::size_t ld) {
    return rows == 0 ? 0 : (rows - 1) * ld + columns;
}

template <class Kernel>
void reduce_last(std::size_t rows, std::size_t columns, const u32* x, std::size_t ld, u32* out) {
    if (rows == 0) return;
    Call call;
    Kernel kernel;
    kernel.rows.data = call.put(x, row_words(rows, columns, ld));
    kernel.rows.dims[2] = static_cast<u32>(rows);
    kernel.rows.strides[2] = static_cast<cuda::i64>(ld);
    kernel.columns = static_cast<u32>(columns);
    kernel.out = call.put_output(out, rows);
    call.run(kernel);
    call.finish();
}

void sum_rows(std::size_t rows, std::size_t columns, const u32* x, std::size_t ld, u32* out) {
    if (columns == 0) return;
    Call call;
    cuda::SumRowBlocks blocks;
    blocks.matrices.data = call.put(x, row_words(rows, columns, ld));
    blocks.row_count = static_cast<u32>(rows);
    blocks.columns = static_cast<u32>(columns);
    blocks.stride = static_cast<cuda::i64>(ld);
    blocks.out = call.put(nullptr, blocks.sums());
    cuda::SumTotals totals;
    totals.sums = blocks.out;
    totals.matrices = 1;
    totals.row_blocks = blocks.row_blocks();
    totals.columns = blocks.columns;
    totals.out = call.put_output(out, columns);
    if (rows != 0) call.run(blocks);
    call.run(totals);
    call.finish();
}

void add_rows(std::size_t rows, std::size_t columns, const u32* x, std::size_t ld, const u32* index,
              std::size_t table_rows, u32* table, std::size_t table_ld) {
    if (columns == 0) return;
    Call call;
    cuda::ScatterAddRows kernel;
    kernel.x = call.put(x, row_words(rows, columns, ld));
    kernel.stride = static_cast<cuda::i64>(ld);
    kernel.index = call.put(index, rows);
    kernel.rows = static_cast<u32>(rows);
    kernel.columns = static_cast<u32>(columns);
    kernel.table = call.put_output(table, row_words(table_rows, columns, table_ld));
    kernel.table_rows = static_cast<u32>(table_rows);
    kernel.table_stride = static_cast<cuda::i64>(table_ld);
    kernel.blocked = 0;
    call.run(kernel);
    call.finish();
}

void philox(u32 first, const u32 counter[3], const u32 key[2], std::size_t calls, bool whole, u32* out) {
    if (calls == 0) return;
    Call call;
    const u32 parameters[] = {key[0], key[1], counter[0], counter[1]};
    cuda::Philox kernel;
    kernel.parameters = call.put(parameters, 4);
    kernel.domain = counter[2];
    kernel.first = first;
    kernel.whole = whole ? 1 : 0;
    kernel.count = (whole ? 4 : 1) * calls;
    kernel.out = call.put_output(out, kernel.count);
    call.run(kernel);
    call.finish();
}

constexpr Kernels kTable{
    elementwise, matmul,   nullptr, imatmul, reduce_last<cuda::SumLast>, reduce_last<cuda::MaxLast>,
    sum_rows,    add_rows, philox};

}  // namespace

AdaptedSession::AdaptedSession(cuda::Device& device, u64 words) {
    memory = {&device, nullptr, words, 0, nullptr};
    memory.failure = device.allocate_visible(words, memory.words);
    if (memory.failure != nullptr) memory.size = 0;
}

AdaptedSession::~AdaptedSession() {
    if (memory.words != nullptr) memory.device->release_visible(memory.words);
    memory = {};
}

cuda::Failure AdaptedSession::failure() const { return memory.failure; }

const Kernels& adapted_kernels() { return kTable; }

}  // namespace quern::test
