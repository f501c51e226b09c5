// Random cases of every array kernel: all backends that run here must give the words of the integer-only one, and write
// nothing else. Needs no library, so that it is built for other processors as it is (contrib/check-neon.sh); there the
// digest of all expected words must be the same.
//
//     test_arith_cases [--cases N] [--seed S] [--only CASE]
//
// Case i of a seed is made of the seed and i alone: --only i runs what a failure named. Ends with "digest D" and
// "N passed, N failed", one for each backend beside the integer-only one.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "unit/vm/tensor/arith_inputs.h"
#include "vm/tensor/arith/kernels.h"

namespace quern::vm::tensor::arith {
namespace {

using u32 = std::uint32_t;
using Array = std::vector<u32>;

constexpr u32 kGuard = 0x5a5a5a5aU;  // what stands where nothing may be written
constexpr std::uint64_t kDefaultCases = 100'000;
constexpr std::size_t kShownFailures = 10;  // of each backend

std::uint64_t mix(std::uint64_t x) {
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
    std::function<std::string(std::size_t)> inputs = [](std::size_t) { return std::string(); };  // of an output word
};

template <class... Arguments>
std::string text(const char* format, Arguments... arguments) {
    char buffer[240];
    std::snprintf(buffer, sizeof buffer, format, arguments...);
    return buffer;
}

// `n` words of one kind: any, as in training, special ones alone, or as in training with a few of any kind.
Array some_words(std::size_t n, test::Words& words) {
    const u32 kind = words.below(4);
    if (kind == 0) return words.mixed(n);
    Array out = words.usual(n);
    if (kind == 1)
        for (u32& word : out) word = test::kSpecialWords[words.below(std::size(test::kSpecialWords))];
    if (kind == 2 && n > 0)
        for (std::size_t i = 0; i < n / 40 + 1; ++i) out[words.below(static_cast<u32>(n))] = words.mixed();
    return out;
}

Case elementwise_case(test::Words& words) {
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
Matrix some_matrix(std::size_t rows, std::size_t columns, test::Words& words) {
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

Case matmul_case(bool block, test::Words& words) {
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
    made.output = some_words((m - 1) * ld + n, words);
    made.output.push_back(kGuard);
    made.call = [=](const Kernels& table, Array& out) {
        (block ? table.matmul_block : table.matmul)(m, n, k, a.view(), b.view(), out.data(), ld);
    };
    return made;
}

// Bytes are the lowest of any words, scales any words.
Case imatmul_case(test::Words& words) {
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
Array some_rows(std::size_t rows, std::size_t columns, std::size_t ld, test::Words& words) {
    return some_words(std::max<std::size_t>(rows == 0 ? 0 : (rows - 1) * ld + columns, 1), words);
}

Case reduction_case(u32 kind, test::Words& words) {
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

Case add_rows_case(test::Words& words) {
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

Case philox_case(test::Words& words) {
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

Case case_of(std::uint64_t seed, std::uint64_t number) {
    test::Words words(mix(mix(seed) + number));
    const u32 kind = words.below(16);
    if (kind == 0) return matmul_case(false, words);
    if (kind == 1) return matmul_case(true, words);
    if (kind <= 4) return reduction_case(kind - 2, words);
    if (kind == 5) return add_rows_case(words);
    if (kind == 6) return imatmul_case(words);
    if (kind == 7) return philox_case(words);
    return elementwise_case(words);
}

struct Compared {
    Backend backend{};
    std::uint64_t failures = 0;
};

// The first difference of one backend's words; empty where there is none.
std::string difference(const Case& made, const Array& expected, const Array& found) {
    for (std::size_t i = 0; i < expected.size(); ++i)
        if (expected[i] != found[i])
            return text("word %zu of %zu: %08x, expected %08x", i, expected.size(), found[i], expected[i]) +
                   made.inputs(i);
    return {};
}

int run(std::uint64_t first, std::uint64_t end, std::uint64_t seed) {
    if (const Status fit = check_floating_point_environment(); !fit) {
        std::printf("FAIL %s\n0 passed, 1 failed\n", fit.error().to_string().c_str());
        return 1;
    }
    std::vector<Compared> compared;
    for (const Backend backend : kBackends)
        if (backend != Backend::soft && available(backend)) compared.push_back({backend});
    std::uint64_t digest = seed;
    for (std::uint64_t number = first; number < end; ++number) {
        const Case made = case_of(seed, number);
        Array expected = made.output;
        made.call(kernels(Backend::soft), expected);
        for (const u32 word : expected) digest = mix(digest ^ word);
        for (Compared& each : compared) {
            Array found = made.output;
            made.call(kernels(each.backend), found);
            const std::string said = difference(made, expected, found);
            if (said.empty() || ++each.failures > kShownFailures) continue;
            std::printf("FAIL seed %" PRIu64 " case %" PRIu64 ", %s: %s: %s\n", seed, number,
                        std::string(name(each.backend)).c_str(), made.what.c_str(), said.c_str());
        }
    }
    std::size_t failed = 0;
    for (const Compared& each : compared) {
        failed += each.failures > 0 ? 1 : 0;
        std::printf("%s: %" PRIu64 " cases of seed %" PRIu64 ", %" PRIu64 " differ\n",
                    std::string(name(each.backend)).c_str(), end - first, seed, each.failures);
    }
    std::printf("digest %016" PRIx64 "\n%zu passed, %zu failed\n", digest, compared.size() - failed, failed);
    return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace quern::vm::tensor::arith

int main(int argc, char** argv) {
    std::uint64_t cases = quern::vm::tensor::arith::kDefaultCases;
    std::uint64_t seed = 1;
    std::uint64_t first = 0;
    bool only = false;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string_view option = argv[i];
        const std::uint64_t number = std::strtoull(argv[i + 1], nullptr, 10);
        if (option == "--cases") {
            cases = number;
        } else if (option == "--seed") {
            seed = number;
        } else if (option == "--only") {
            first = number, only = true;
        } else {
            std::fprintf(stderr, "test_arith_cases: unknown option %s\n", argv[i]);
            return 2;
        }
    }
    if (argc % 2 == 0) {
        std::fprintf(stderr, "test_arith_cases: %s needs a value\n", argv[argc - 1]);
        return 2;
    }
    return quern::vm::tensor::arith::run(first, only ? first + 1 : cases, seed);
}
