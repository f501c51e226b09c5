// The array kernels as plain loops over an arithmetic given by a policy {add, mul, max, fma, from_i32,
// evaluate} on words; included
// once by scalar_kernels.cpp and once by soft_kernels.cpp. Thread-safe.
#pragma once

#include "vm/tensor/arith/elementary_constants.h"
#include "vm/tensor/arith/random.h"
#include "vm/tensor/arith/soft_float.h"

namespace quern::vm::tensor::arith {

template <class Arithmetic>
struct ReferenceKernels {
    using u32 = std::uint32_t;

    static void elementwise(ElementOp op, std::size_t n, const u32* a, std::size_t stride_a, const u32* b,
                            std::size_t stride_b, const u32* c, std::size_t stride_c, u32 immediate, u32* out) {
        const ElementOpInfo* info = find_element_op(op);
        const unsigned arity = info == nullptr ? 0 : info->arity;
        for (std::size_t i = 0; i < n; ++i) {
            const u32 x = arity > 0 ? a[i * stride_a] : 0;
            const u32 y = arity > 1 ? b[i * stride_b] : 0;
            const u32 z = arity > 2 ? c[i * stride_c] : 0;
            out[i] = Arithmetic::evaluate(op, x, y, z, immediate);
        }
    }

    static u32 chain(u32 start, std::size_t count, const u32* a, std::ptrdiff_t stride_a, const u32* b,
                     std::ptrdiff_t stride_b) {
        u32 value = start;
        for (std::size_t k = 0; k < count; ++k) {
            const auto step = static_cast<std::ptrdiff_t>(k);
            value = Arithmetic::fma(soft_squash(a[step * stride_a]), soft_squash(b[step * stride_b]), value);
        }
        return value;
    }

    static void matmul(std::size_t m, std::size_t n, std::size_t k, MatrixView a, MatrixView b, u32* c,
                       std::size_t ldc) {
        for (std::size_t i = 0; i < m; ++i) {
            for (std::size_t j = 0; j < n; ++j) {
                u32 total = 0;
                for (std::size_t first = 0; first < k; first += kChainBlock) {
                    const std::size_t count = k - first < kChainBlock ? k - first : kChainBlock;
                    const auto row = static_cast<std::ptrdiff_t>(i);
                    const auto column = static_cast<std::ptrdiff_t>(j);
                    const auto start = static_cast<std::ptrdiff_t>(first);
                    const u32 block = chain(0, count, a.data + row * a.row_stride + start * a.col_stride, a.col_stride,
                                            b.data + start * b.row_stride + column * b.col_stride, b.row_stride);
                    total = first == 0 ? block : Arithmetic::add(total, block);
                }
                c[i * ldc + j] = canonical(total);
            }
        }
    }

    static void matmul_block(std::size_t m, std::size_t n, std::size_t k, MatrixView a, MatrixView b, u32* partial,
                             std::size_t ld) {
        for (std::size_t i = 0; i < m; ++i) {
            for (std::size_t j = 0; j < n; ++j) {
                u32& p = partial[i * ld + j];
                p = canonical(chain(p, k, a.data + static_cast<std::ptrdiff_t>(i) * a.row_stride, a.col_stride,
                                    b.data + static_cast<std::ptrdiff_t>(j) * b.col_stride, b.row_stride));
            }
        }
    }

    static void imatmul(std::size_t m, std::size_t n, std::size_t k, MatrixView a, MatrixView scale_a, MatrixView b,
                        MatrixView scale_b, u32* c, std::size_t ldc) {
        for (std::size_t i = 0; i < m; ++i) {
            const auto row = static_cast<std::ptrdiff_t>(i);
            for (std::size_t j = 0; j < n; ++j) {
                const auto column = static_cast<std::ptrdiff_t>(j);
                u32 total = 0;
                for (std::size_t first = 0; first < k; first += kChainBlock) {
                    const std::size_t end = k - first < kChainBlock ? k : first + kChainBlock;
                    const auto strip = static_cast<std::ptrdiff_t>(first / kChainBlock);
                    std::int32_t sum = 0;
                    for (std::size_t s = first; s < end; ++s) {
                        const auto step = static_cast<std::ptrdiff_t>(s);
                        sum += signed_byte(a.data[row * a.row_stride + step * a.col_stride]) *
                               signed_byte(b.data[step * b.row_stride + column * b.col_stride]);
                    }
                    const u32 left = scale_a.data[row * scale_a.row_stride + strip * scale_a.col_stride];
                    const u32 right = scale_b.data[strip * scale_b.row_stride + column * scale_b.col_stride];
                    const u32 scale = Arithmetic::mul(strip_scale(left), strip_scale(right));
                    total = Arithmetic::add(total, Arithmetic::mul(Arithmetic::from_i32(static_cast<u32>(sum)), scale));
                }
                c[i * ldc + j] = canonical(total);
            }
        }
    }

    template <class Operation>
    static u32 reduce(std::size_t columns, const u32* x, u32 identity, Operation operation) {
        u32 lanes[kReductionLanes];
        for (u32& lane : lanes) lane = identity;
        for (std::size_t j = 0; j < columns; ++j)
            lanes[j % kReductionLanes] = operation(lanes[j % kReductionLanes], x[j]);
        for (std::size_t width = kReductionLanes / 2; width > 0; width /= 2)
            for (std::size_t j = 0; j < width; ++j) lanes[j] = operation(lanes[j], lanes[j + width]);
        return canonical(lanes[0]);
    }

    static void sum_last(std::size_t rows, std::size_t columns, const u32* x, std::size_t ld, u32* out) {
        for (std::size_t r = 0; r < rows; ++r) out[r] = reduce(columns, x + r * ld, 0, Arithmetic::add);
    }
    static void max_last(std::size_t rows, std::size_t columns, const u32* x, std::size_t ld, u32* out) {
        for (std::size_t r = 0; r < rows; ++r)
            out[r] = reduce(columns, x + r * ld, constants::kMinusInfinity, Arithmetic::max);
    }

    static void sum_rows(std::size_t rows, std::size_t columns, const u32* x, std::size_t ld, u32* out) {
        for (std::size_t j = 0; j < columns; ++j) {
            u32 total = 0;
            for (std::size_t first = 0; first < rows; first += kChainBlock) {
                u32 sum = 0;
                for (std::size_t r = first; r < rows && r < first + kChainBlock; ++r)
                    sum = Arithmetic::add(sum, x[r * ld + j]);
                total = Arithmetic::add(total, sum);
            }
            out[j] = canonical(total);
        }
    }

    static void add_rows(std::size_t rows, std::size_t columns, const u32* x, std::size_t ld, const u32* index,
                         std::size_t table_rows, u32* table, std::size_t table_ld) {
        for (std::size_t r = 0; r < rows; ++r) {
            if (index[r] >= table_rows) continue;
            u32* target = table + index[r] * table_ld;
            for (std::size_t j = 0; j < columns; ++j) target[j] = canonical(Arithmetic::add(target[j], x[r * ld + j]));
        }
    }

    static void philox(u32 first, const u32* counter, const u32* key, std::size_t calls, bool whole, u32* out) {
        for (std::size_t i = 0; i < calls; ++i) {
            const auto words =
                philox4x32_10({first + static_cast<u32>(i), counter[0], counter[1], counter[2]}, {key[0], key[1]});
            for (std::size_t w = 0; w < (whole ? 4 : 1); ++w) *out++ = words[w];
        }
    }

    static constexpr Kernels table() {
        return {elementwise, matmul, matmul_block, imatmul, sum_last, max_last, sum_rows, add_rows, philox};
    }
};

}  // namespace quern::vm::tensor::arith
