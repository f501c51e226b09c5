// The table of single-threaded array kernels that each backend fills. Used through kernels.h; on its own only by the
// translation units that are compiled for a newer instruction set, which therefore must not see inline library code.
// Kernels keep no state but thread-local packing buffers: all may run on any number of threads at once.
//
// All tensors are arrays of 32-bit words: f32 as IEEE-754 bits, i32 as two's complement. Strides and leading dimensions
// count words. Every f32 result word is canonical: a NaN is kCanonicalNan. Definitions: doc/arithmetic.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vm/tensor/arith/element_op.h"

namespace quern::vm::tensor::arith {

inline constexpr std::uint32_t kCanonicalNan = 0x7fc00000U;
inline constexpr std::size_t kReductionLanes = 32;  // of sum_last and max_last
inline constexpr std::size_t kChainBlock = 256;     // summands per chain; block results are added in order

// Element (i, j) is data[i * row_stride + j * col_stride]. A transpose is a swap of the strides.
struct MatrixView {
    const std::uint32_t* data = nullptr;
    std::ptrdiff_t row_stride = 0;
    std::ptrdiff_t col_stride = 0;
};

struct Kernels {
    // out[i] = op(a[i * stride_a], b[i * stride_b], c[i * stride_c]) for i < n. Strides are 0 (one element for all) or
    // 1; inputs beyond the op's arity are not read and may be null. `out` may be exactly an input of stride 1.
    // An op that does not exist gives 0.
    void (*elementwise)(ElementOp op, std::size_t n, const std::uint32_t* a, std::size_t stride_a,
                        const std::uint32_t* b, std::size_t stride_b, const std::uint32_t* c, std::size_t stride_c,
                        std::uint32_t immediate, std::uint32_t* out);

    // c[m x n] (row stride ldc) = A[m x k] B[k x n]. Operands are squashed: |x| < 2^-40 reads as +0. Blocks of 256 k;
    // in a block one fma chain over k ascending from +0; block results added in order, starting from the first.
    // k = 0 gives +0. c must not overlap the operands.
    void (*matmul)(std::size_t m, std::size_t n, std::size_t k, MatrixView a, MatrixView b, std::uint32_t* c,
                   std::size_t ldc);

    // partial[m x n] (row stride ld): each element's fma chain goes on over k ascending from its present value, with
    // squashed operands. One micro-step of a matmul has k <= 32.
    void (*matmul_block)(std::size_t m, std::size_t n, std::size_t k, MatrixView a, MatrixView b,
                         std::uint32_t* partial, std::size_t ld);

    // c[m x n] (row stride ldc) = A[m x k] B[k x n] of signed bytes: the lowest byte of each word. Strips of 256 k,
    // each with a scale for a row of A, scale_a(i, strip), and for a column of B, scale_b(strip, j), of which the
    // exponent field alone counts (strip_scale in soft_float.h). Of each strip the exact sum p of its products; from
    // +0, strips in order, c += p * (scale_a * scale_b), where only the addition rounds. k = 0 gives +0. c must not
    // overlap the operands.
    void (*imatmul)(std::size_t m, std::size_t n, std::size_t k, MatrixView a, MatrixView scale_a, MatrixView b,
                    MatrixView scale_b, std::uint32_t* c, std::size_t ldc);

    // out[r] = sum of row r of x[rows x columns] (row stride ld): 32 lanes, lane l adds columns l, l + 32, ... in order
    // from +0; then lane j += lane j + 16, 8, 4, 2, 1.
    void (*sum_last)(std::size_t rows, std::size_t columns, const std::uint32_t* x, std::size_t ld, std::uint32_t* out);
    // The same with max from -inf.
    void (*max_last)(std::size_t rows, std::size_t columns, const std::uint32_t* x, std::size_t ld, std::uint32_t* out);

    // out[j] = the sum of column j of x[rows x columns]. Blocks of 256 rows; in a block one chain of adds over its rows
    // in order from +0; block results added in order, from +0.
    void (*sum_rows)(std::size_t rows, std::size_t columns, const std::uint32_t* x, std::size_t ld, std::uint32_t* out);

    // For each row r of x ascending: row index[r] of the table (row stride table_ld) += row r, where index[r] as
    // unsigned is below table_rows; other rows are dropped. The table starts as given: no blocks here.
    void (*add_rows)(std::size_t rows, std::size_t columns, const std::uint32_t* x, std::size_t ld,
                     const std::uint32_t* index, std::size_t table_rows, std::uint32_t* table, std::size_t table_ld);

    // Of `calls` calls of Philox4x32-10 (random.h) with the counters (first + i, counter) and this key, one after the
    // other: all four words where `whole`, else the first.
    void (*philox)(std::uint32_t first, const std::uint32_t counter[3], const std::uint32_t key[2], std::size_t calls,
                   bool whole, std::uint32_t* out);
};

}  // namespace quern::vm::tensor::arith
