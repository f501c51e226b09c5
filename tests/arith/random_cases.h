// Random calls of every array kernel: words, sizes, strides and aliases are made of a seed and the case's number alone.
// Used by the programs that compare backends, tests/arith and tests/cuda. Needs no library. Pure; thread-safe.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "unit/vm/tensor/arith_inputs.h"
#include "vm/tensor/arith/kernel_table.h"

namespace quern::vm::tensor::arith::test {

using u32 = std::uint32_t;
using Array = std::vector<u32>;

inline constexpr u32 kGuard = 0x5a5a5a5aU;  // what stands where nothing may be written

inline std::uint64_t mix(std::uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

// A call of one kernel: what it is in words, what the output holds before, and the call itself.
struct Case {
    std::string what;
    Array output;
    std::function<void(const Kernels&, Array&)> call;
    bool is_micro_step = false;  // of a matmul, as disputes take it
    std::function<std::string(std::size_t)> inputs = [](std::size_t) { return std::string(); };  // of an output word
};

template <class... Arguments>
std::string text(const char* format, Arguments... arguments) {
    char buffer[240];
    std::snprintf(buffer, sizeof buffer, format, arguments...);
    return buffer;
}

// `n` words of one kind: any, as in training, special ones alone, or as in training with a few of any kind.
inline Array some_words(std::size_t n, Words& words) {
    const u32 kind = words.below(4);
    if (kind == 0) return words.mixed(n);
    Array out = words.usual(n);
    if (kind == 1)
        for (u32& word : out) word = kSpecialWords[words.below(std::size(kSpecialWords))];
    if (kind == 2 && n > 0)
        for (std::size_t i = 0; i < n / 40 + 1; ++i) out[words.below(static_cast<u32>(n))] = words.mixed();
    return out;
}

inline Case elementwise_case(Words& words) {
    const ElementOpInfo& info = kElementOps[words.below(static_cast<u32>(kElementOps.size()))];
    const std::size_t n = words.below(words.below(32) == 0 ? 300 : 40);
    Array inputs[3];
    std::size_t strides[3];
    for (std::size_t o = 0; o < 3; ++o) {
        strides[o] = words.below(4) == 0 ? 0 : 1;
        inputs[o] = some_words(strides[o] == 0 ? 1 : n, words);
    }
    // permute_index walks longer the larger its immediate is beside a power of four, four rounds at most on average.
    const u32 immediate = words.below(2) == 0 ? words.below(1000) : words.mixed();
    const std::size_t aliased = words.below(6);  // the operand that the output is; 3 and above: none
    const bool in_place = aliased < info.arity && strides[aliased] == 1;
    Case made;
    made.what = text("%.*s n %zu strides %zu %zu %zu immediate %08x%s", static_cast<int>(info.name.size()),
                     info.name.data(), n, strides[0], strides[1], strides[2], immediate, in_place ? " in place" : "");
    made.output = in_place ? inputs[aliased] : Array(n, kGuard);
    made.output.push_back(kGuard);
    made.inputs = [=](std::size_t i) {
        std::string said = "; operands";
        for (std::size_t o = 0; o < info.arity && i < n; ++o) said += text(" %08x", inputs[o][i * strides[o]]);
        return said;
    };
    made.call = [=, op = info.op](const Kernels& table, Array& out) {
        const u32* data[3];
        for (std::size_t o = 0; o < 3; ++o) data[o] = in_place && o == aliased ? out.data() : inputs[o].data();
        table.elementwise(op, n, data[0], strides[0], data[1], strides[1], data[2], strides[2], immediate, out.data());
    };
    return made;
}

struct Matrix {
    Array data;
    std::ptrdiff_t row_stride = 0;
    std::ptrdiff_t col_stride = 0;
    [[nodiscard]] MatrixView view() const { return {data.data(), row_stride, col_stride}; }
};

// rows x columns, both above 0: by rows, by columns, each with a gap or without, or with gaps both ways. No word is
// kept beyond the last element.
inline Matrix some_matrix(std::size_t rows, std::size_t columns, Words& words) {
    Matrix made;
    const std::size_t gap = words.below(2) == 0 ? 0 : words.below(4);
    const std::size_t step = words.below(8) == 0 ? 2 : 1;
    const bool by_rows = words.below(2) == 0;
    const std::size_t line = (by_rows ? columns : rows) * step + gap;
    made.row_stride = static_cast<std::ptrdiff_t>(by_rows ? line : step);
    made.col_stride = static_cast<std::ptrdiff_t>(by_rows ? step : line);
    const auto last = static_cast<std::ptrdiff_t>(rows - 1) * made.row_stride +
                      static_cast<std::ptrdiff_t>(columns - 1) * made.col_stride;
    made.data = some_words(static_cast<std::size_t>(last) + 1, words);
    return made;
}

inline Case matmul_case(bool block, Words& words) {
    std::size_t m = 1 + words.below(16);
    std::size_t n = 1 + words.below(40);
    std::size_t k = words.below(24);
    switch (words.below(24)) {
        case 0:  // several blocks of k
            m = 1 + words.below(3), n = 1 + words.below(5), k = 200 + words.below(400);
            break;
        case 1:  // several panels each way
            m = 1 + words.below(40), n = 1 + words.below(80), k = words.below(5);
            break;
        default:
            break;
    }
    const std::size_t ld = n + words.below(3);
    const Matrix a = some_matrix(m, std::max<std::size_t>(k, 1), words);
    const Matrix b = some_matrix(std::max<std::size_t>(k, 1), n, words);
    Case made;
    made.what = text("%s m %zu n %zu k %zu ld %zu strides %td %td, %td %td", block ? "matmul_block" : "matmul", m, n, k,
                     ld, a.row_stride, a.col_stride, b.row_stride, b.col_stride);
    made.is_micro_step = block;
    made.output = some_words((m - 1) * ld + n, words);
    made.output.push_back(kGuard);
    made.call = [=](const Kernels& table, Array& out) {
        (block ? table.matmul_block : table.matmul)(m, n, k, a.view(), b.view(), out.data(), ld);
    };
    return made;
}

// Bytes are the lowest of any words, scales any words.
inline Case imatmul_case(Words& words) {
    std::size_t m = 1 + words.below(16);
    std::size_t n = 1 + words.below(40);
    std::size_t k = words.below(70);
    switch (words.below(16)) {
        case 0:  // several strips
            m = 1 + words.below(3), n = 1 + words.below(5), k = 200 + words.below(600);
            break;
        case 1:  // several panels each way
            m = 1 + words.below(40), n = 1 + words.below(80), k = words.below(9);
            break;
        case 2:  // more rows or columns than are packed at once
            m = words.below(2) == 0 ? 337 + words.below(9) : 1 + words.below(3);
            n = m > 3 ? 1 + words.below(3) : 1020 + words.below(9), k = words.below(9);
            break;
        default:
            break;
    }
    const std::size_t ld = n + words.below(3);
    const std::size_t strips = std::max<std::size_t>((k + 255) / 256, 1);
    const Matrix a = some_matrix(m, std::max<std::size_t>(k, 1), words);
    const Matrix b = some_matrix(std::max<std::size_t>(k, 1), n, words);
    const Matrix scale_a = some_matrix(m, strips, words);
    const Matrix scale_b = some_matrix(strips, n, words);
    Case made;
    made.what = text("imatmul m %zu n %zu k %zu ld %zu strides %td %td, %td %td", m, n, k, ld, a.row_stride,
                     a.col_stride, b.row_stride, b.col_stride);
    made.output = some_words((m - 1) * ld + n, words);
    made.output.push_back(kGuard);
    made.call = [=](const Kernels& table, Array& out) {
        table.imatmul(m, n, k, a.view(), scale_a.view(), b.view(), scale_b.view(), out.data(), ld);
    };
    return made;
}

// Rows of a row stride, and no word beyond them; one word where there is none, for a pointer that is not null.
inline Array some_rows(std::size_t rows, std::size_t columns, std::size_t ld, Words& words) {
    return some_words(std::max<std::size_t>(rows == 0 ? 0 : (rows - 1) * ld + columns, 1), words);
}

inline Case reduction_case(u32 kind, Words& words) {
    const bool tall = kind == 2 && words.below(8) == 0;
    const std::size_t rows = tall ? 200 + words.below(400) : words.below(8);
    const std::size_t columns = words.below(tall ? 4 : words.below(16) == 0 ? 300 : 80);
    const std::size_t ld = columns + words.below(3);
    const Array x = some_rows(rows, columns, ld, words);
    constexpr const char* kNames[] = {"sum_last", "max_last", "sum_rows"};
    Case made;
    made.what = text("%s rows %zu columns %zu ld %zu", kNames[kind], rows, columns, ld);
    made.output = Array((kind == 2 ? columns : rows) + 1, kGuard);
    made.call = [=](const Kernels& table, Array& out) {
        const auto kernel = kind == 0 ? table.sum_last : kind == 1 ? table.max_last : table.sum_rows;
        kernel(rows, columns, x.data(), ld, out.data());
    };
    return made;
}

inline Case add_rows_case(Words& words) {
    const std::size_t rows = words.below(20);
    const std::size_t columns = words.below(40);
    const std::size_t ld = columns + words.below(3);
    const std::size_t table_rows = words.below(6);
    const std::size_t table_ld = columns + words.below(3);
    const Array x = some_rows(rows, columns, ld, words);
    Array index(rows);
    for (u32& i : index) i = words.below(8) == 0 ? words.mixed() : words.below(8);
    Case made;
    made.what = text("add_rows rows %zu columns %zu ld %zu table %zu ld %zu", rows, columns, ld, table_rows, table_ld);
    made.output = some_words(table_rows * table_ld, words);
    made.output.push_back(kGuard);
    made.call = [=](const Kernels& table, Array& out) {
        table.add_rows(rows, columns, x.data(), ld, index.data(), table_rows, out.data(), table_ld);
    };
    return made;
}

inline Case philox_case(Words& words) {
    const bool whole = words.below(2) == 0;
    const std::size_t calls = words.below(words.below(8) == 0 ? 150 : 40);
    const u32 first = words.below(4) == 0 ? 0U - words.below(40) : words.mixed();  // numbers of calls wrap
    const Array counter = words.mixed(3);
    const Array key = words.mixed(2);
    Case made;
    made.what = text("philox calls %zu from %08x counter %08x %08x %08x key %08x %08x%s", calls, first, counter[0],
                     counter[1], counter[2], key[0], key[1], whole ? " whole" : "");
    made.output = Array((whole ? 4 : 1) * calls + 1, kGuard);
    made.call = [=](const Kernels& table, Array& out) {
        table.philox(first, counter.data(), key.data(), calls, whole, out.data());
    };
    return made;
}

inline Case case_of(std::uint64_t seed, std::uint64_t number) {
    Words words(mix(mix(seed) + number));
    const u32 kind = words.below(16);
    if (kind == 0) return matmul_case(false, words);
    if (kind == 1) return matmul_case(true, words);
    if (kind <= 4) return reduction_case(kind - 2, words);
    if (kind == 5) return add_rows_case(words);
    if (kind == 6) return imatmul_case(words);
    if (kind == 7) return philox_case(words);
    return elementwise_case(words);
}

// The first difference of one backend's words; empty where there is none.
inline std::string difference(const Case& made, const Array& expected, const Array& found) {
    for (std::size_t i = 0; i < expected.size(); ++i)
        if (expected[i] != found[i])
            return text("word %zu of %zu: %08x, expected %08x", i, expected.size(), found[i], expected[i]) +
                   made.inputs(i);
    return {};
}

}  // namespace quern::vm::tensor::arith::test
