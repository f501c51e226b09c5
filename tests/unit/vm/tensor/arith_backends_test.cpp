// All backends must give the same bits. Every test compares each available backend with the integer-only one.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <thread>

#include "unit/vm/tensor/arith_inputs.h"
#include "vm/tensor/arith/kernels.h"
#include "vm/tensor/arith/random.h"
#include "vm/tensor/arith/scalar.h"
#include "vm/tensor/arith/soft_float.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace quern::vm::tensor::arith {
namespace {

using u32 = std::uint32_t;
using Array = std::vector<u32>;

std::vector<Backend> others() {
    std::vector<Backend> found;
    for (Backend backend : kBackends)
        if (backend != Backend::soft && available(backend)) found.push_back(backend);
    return found;
}

std::string where_different(const Array& a, const Array& b) {
    for (std::size_t i = 0; i < a.size(); ++i)
        if (a[i] != b[i]) {
            char text[80];
            std::snprintf(text, sizeof text, "element %zu of %zu: %08x, expected %08x", i, a.size(), b[i], a[i]);
            return text;
        }
    return "";
}

const Kernels& soft() { return kernels(Backend::soft); }

TEST(Backends, soft_and_scalar_are_always_there) {
    EXPECT_TRUE(available(Backend::soft));
    EXPECT_TRUE(available(Backend::scalar));
    EXPECT_TRUE(available(best_backend()));
    EXPECT_FALSE(available(static_cast<Backend>(9)));
    EXPECT_EQ(&kernels(static_cast<Backend>(9)), &kernels(Backend::scalar));
    for (Backend backend : kBackends) EXPECT_NE(name(backend), "unknown");
}

TEST(Backends, elementwise_ops_agree_on_all_pairs_of_special_words) {
    Array a;
    Array b;
    Array c;
    for (u32 x : test::kSpecialWords)
        for (u32 y : test::kSpecialWords) {
            a.push_back(x);
            b.push_back(y);
            c.push_back(test::kSpecialWords[(x ^ y) % std::size(test::kSpecialWords)]);
        }
    for (const ElementOpInfo& info : kElementOps) {
        Array expected(a.size());
        Array found(a.size());
        soft().elementwise(info.op, a.size(), a.data(), 1, b.data(), 1, c.data(), 1, 77, expected.data());
        for (std::size_t i = 0; i < a.size(); ++i)
            ASSERT_EQ(expected[i], evaluate_scalar(info.op, a[i], b[i], c[i], 77)) << info.name << " " << i;
        for (Backend backend : others()) {
            kernels(backend).elementwise(info.op, a.size(), a.data(), 1, b.data(), 1, c.data(), 1, 77, found.data());
            EXPECT_EQ(where_different(expected, found), "") << info.name << " " << name(backend);
        }
    }
}

TEST(Backends, elementwise_ops_agree_on_random_words) {
    test::Words words(11);
    const std::size_t n = 20000;
    const Array a = words.mixed(n);
    const Array b = words.mixed(n);
    const Array c = words.mixed(n);
    for (const ElementOpInfo& info : kElementOps) {
        Array expected(n);
        Array found(n);
        const u32 immediate = words.bits();
        soft().elementwise(info.op, n, a.data(), 1, b.data(), 1, c.data(), 1, immediate, expected.data());
        for (u32 word : expected) ASSERT_TRUE(info.output == WordType::i32 || word == canonical(word)) << info.name;
        for (Backend backend : others()) {
            kernels(backend).elementwise(info.op, n, a.data(), 1, b.data(), 1, c.data(), 1, immediate, found.data());
            EXPECT_EQ(where_different(expected, found), "") << info.name << " " << name(backend);
        }
    }
}

// Processors differ in whether they look at a number before or after its rounding when they flush it: results that lie
// around the least normal number, from both sides, and the functions where theirs do.
TEST(Backends, agree_on_what_is_flushed) {
    test::Words words(17);
    const auto check = [](ElementOp op, const Array& a, const Array& b, const Array& c) {
        Array expected(a.size());
        Array found(a.size());
        soft().elementwise(op, a.size(), a.data(), 1, b.data(), 1, c.data(), 1, 0, expected.data());
        std::size_t zeros = 0;
        for (std::size_t i = 0; i < a.size(); ++i) {
            ASSERT_TRUE((expected[i] & 0x7fffffffU) == 0 || (expected[i] & 0x7fffffffU) > kLargestFlushed);
            zeros += (expected[i] & 0x7fffffffU) == 0 ? 1 : 0;
            ASSERT_EQ(expected[i], evaluate_scalar(op, a[i], b[i], c[i], 0));
        }
        EXPECT_GT(zeros, a.size() / 8);
        EXPECT_LT(zeros, a.size() - a.size() / 8);
        for (Backend backend : others()) {
            kernels(backend).elementwise(op, a.size(), a.data(), 1, b.data(), 1, c.data(), 1, 0, found.data());
            EXPECT_EQ(where_different(expected, found), "") << find_element_op(op)->name << " " << name(backend);
        }
    };
    const auto near = [&](u32 word) { return (word + words.below(7) - 3) ^ (words.below(2) << 31); };
    Array factors(20000);
    Array others_of_product(factors.size());
    Array divisors(factors.size());
    Array summands(factors.size());
    const u32 least = 0x00800000U;
    for (std::size_t i = 0; i < factors.size(); ++i) {
        factors[i] = (64U + words.below(8)) << 23 | (words.bits() & 0x7fffffU);  // 2^-63 to 2^-55
        others_of_product[i] = near(soft_div(least, factors[i]));
        const u32 divisor = (127U + words.below(20)) << 23 | (words.bits() & 0x7fffffU);
        divisors[i] = near(divisor);
        // a * b is about 2^-126: minus a tenth of it leaves less, plus a tenth more.
        summands[i] = words.below(2) == 0 ? words.bits() & 0x807fffffU
                                          : (words.bits() & 0x80000000U) | (least + words.below(1000));
    }
    check(ElementOp::mul, factors, others_of_product, factors);
    Array dividends(factors.size());
    for (std::size_t i = 0; i < factors.size(); ++i) dividends[i] = near(soft_mul(least, divisors[i]));
    check(ElementOp::div, dividends, divisors, factors);
    // Of exact products above and below what is added: 2^-126 (1 + x) - 2^-126 x.
    Array sums(factors.size());
    for (std::size_t i = 0; i < factors.size(); ++i)
        sums[i] = near(soft_sub(soft_mul(soft_mul(factors[i], 0x4b000000U), others_of_product[i]) ^ 0x80000000U,
                                words.below(2) == 0 ? least : 0));
    Array larger(factors.size());
    for (std::size_t i = 0; i < factors.size(); ++i) larger[i] = soft_mul(factors[i], 0x4b000000U);
    Array expected(factors.size());
    Array found(factors.size());
    for (const Array* c : {&summands, &sums}) {
        const Array& a = c == &sums ? larger : factors;
        soft().elementwise(ElementOp::fma, a.size(), a.data(), 1, others_of_product.data(), 1, c->data(), 1, 0,
                           expected.data());
        for (Backend backend : others()) {
            kernels(backend).elementwise(ElementOp::fma, a.size(), a.data(), 1, others_of_product.data(), 1, c->data(),
                                         1, 0, found.data());
            EXPECT_EQ(where_different(expected, found), "") << name(backend);
        }
    }
    // exp and sigmoid pass 2^-126 at -87.3365.
    Array around;
    for (u32 word = std::bit_cast<u32>(-87.33F); word < std::bit_cast<u32>(-87.342F); ++word) around.push_back(word);
    check(ElementOp::exp, around, around, around);
    check(ElementOp::sigmoid, around, around, around);
    Array tiny;
    for (u32 word = least - 500; word < least + 500; ++word) tiny.insert(tiny.end(), {word, word | 0x80000000U});
    check(ElementOp::tanh, tiny, tiny, tiny);
    check(ElementOp::erf, tiny, tiny, tiny);
}

TEST(Backends, flush_in_what_multiplies_alone) {
    const u32 small = 0x00000200U;
    const u32 one = 0x3f800000U;
    const u32 minus = 0x80000000U;
    for (Backend backend : kBackends) {
        if (!available(backend)) continue;
        const auto of = [&](ElementOp op, u32 a, u32 b = 0, u32 c = 0) {
            u32 out = 0;
            kernels(backend).elementwise(op, 1, &a, 1, &b, 1, &c, 1, 0, &out);
            return out;
        };
        SCOPED_TRACE(name(backend));
        EXPECT_EQ(of(ElementOp::mul, small, one), 0U);
        EXPECT_EQ(of(ElementOp::mul, small, one | minus), minus);
        EXPECT_EQ(of(ElementOp::mul, small, 0x7f800000U), kCanonicalNan) << "zero times infinity";
        EXPECT_EQ(of(ElementOp::mul, kLargestFlushed | minus, one), minus);
        EXPECT_EQ(of(ElementOp::mul, kLargestFlushed + 1, one), kLargestFlushed + 1);
        EXPECT_EQ(of(ElementOp::div, one, small | minus), 0xff800000U);
        EXPECT_EQ(of(ElementOp::div, small, small), kCanonicalNan);
        EXPECT_EQ(of(ElementOp::fma, one, one, small), one);
        EXPECT_EQ(of(ElementOp::fma, 0, one, small), 0U);
        EXPECT_EQ(of(ElementOp::fma, 0, one, small | minus), 0U) << "+0 - 0";
        EXPECT_EQ(of(ElementOp::sqrt, small), 0U);
        EXPECT_EQ(of(ElementOp::sqrt, small | minus), minus);
        EXPECT_EQ(of(ElementOp::exp, small), one);
        EXPECT_EQ(of(ElementOp::log, small | minus), 0xff800000U);
        EXPECT_EQ(of(ElementOp::tanh, small | minus), minus);
        EXPECT_EQ(of(ElementOp::erf, kLargestFlushed), 0x00906ebaU);
        EXPECT_EQ(of(ElementOp::sigmoid, small), 0x3f000000U);
        EXPECT_EQ(of(ElementOp::add, small, small), 2 * small);
        EXPECT_EQ(of(ElementOp::sub, kLargestFlushed + 1, kLargestFlushed), 1U);
        EXPECT_EQ(of(ElementOp::neg, small), small | minus);
        EXPECT_EQ(of(ElementOp::max, small, 0), small);
        EXPECT_EQ(of(ElementOp::lt, 0, small), 1U);
        EXPECT_TRUE(check_floating_point_environment()) << "what was set is set back";
        const Flushing flushing(true);
        EXPECT_EQ(of(ElementOp::mul, small, one), 0U);
        EXPECT_EQ(of(ElementOp::exp, small), one);
    }
    EXPECT_TRUE(check_floating_point_environment());
}

// Every length, broadcast pattern and aliasing; and nothing is written beyond the end.
TEST(Backends, elementwise_handles_ragged_lengths_broadcasts_and_aliases) {
    test::Words words(12);
    for (std::size_t n = 0; n <= 50; ++n) {
        for (unsigned strides = 0; strides < 8; ++strides) {
            const std::size_t sa = strides & 1U;
            const std::size_t sb = strides >> 1 & 1U;
            const std::size_t sc = strides >> 2 & 1U;
            const Array a = words.mixed(std::max<std::size_t>(n, 1));
            const Array b = words.mixed(std::max<std::size_t>(n, 1));
            const Array c = words.mixed(std::max<std::size_t>(n, 1));
            for (ElementOp op : {ElementOp::fma, ElementOp::select, ElementOp::irem}) {
                Array expected(n + 1, 0x5a5a5a5aU);
                soft().elementwise(op, n, a.data(), sa, b.data(), sb, c.data(), sc, 0, expected.data());
                for (std::size_t i = 0; i < n; ++i)
                    ASSERT_EQ(expected[i], evaluate_soft(op, a[i * sa], b[i * sb], c[i * sc], 0));
                for (Backend backend : others()) {
                    Array found(n + 1, 0x5a5a5a5aU);
                    kernels(backend).elementwise(op, n, a.data(), sa, b.data(), sb, c.data(), sc, 0, found.data());
                    ASSERT_EQ(where_different(expected, found), "") << name(backend) << " n " << n;
                    if (sb == 0 || n == 0) continue;
                    Array in_place = b;
                    kernels(backend).elementwise(op, n, a.data(), sa, in_place.data(), sb, c.data(), sc, 0,
                                                 in_place.data());
                    in_place.push_back(0x5a5a5a5aU);
                    ASSERT_EQ(where_different(expected, in_place), "") << name(backend) << " in place, n " << n;
                }
            }
        }
    }
}

TEST(Backends, elementwise_gives_0_for_an_op_that_does_not_exist) {
    const Array a(5, 0x3f800000U);
    for (Backend backend : kBackends) {
        Array found(5, 1);
        kernels(backend).elementwise(static_cast<ElementOp>(0), 5, a.data(), 1, nullptr, 0, nullptr, 0, 0,
                                     found.data());
        EXPECT_EQ(found, Array(5, 0)) << name(backend);
    }
}

struct Matrix {
    Array data;
    MatrixView view;
};

// A rows x columns matrix stored by rows, by columns or with gaps.
Matrix matrix(std::size_t rows, std::size_t columns, int form, bool hostile, test::Words& words) {
    Matrix m;
    const std::size_t count = (rows + 3) * (columns + 3) * 2 + 1;
    m.data = words.usual(count);
    if (hostile)
        for (std::size_t i = 0; i < count / 60 + 1; ++i) m.data[words.below(static_cast<u32>(count))] = words.mixed();
    const auto r = static_cast<std::ptrdiff_t>(rows);
    const auto c = static_cast<std::ptrdiff_t>(columns);
    if (form == 0) m.view = {m.data.data(), c, 1};
    if (form == 1) m.view = {m.data.data(), 1, r};
    if (form == 2) m.view = {m.data.data() + 1, c + 3, 1};
    if (form == 3) m.view = {m.data.data() + 1, 2 * (c + 1), 2};
    if (form == 4) m.view = {m.data.data(), 1, r + 2};
    return m;
}

void expect_same_matmul(std::size_t m, std::size_t n, std::size_t k, int form_a, int form_b, bool hostile,
                        test::Words& words) {
    const Matrix a = matrix(m, k, form_a, hostile, words);
    const Matrix b = matrix(k, n, form_b, hostile, words);
    const std::size_t ld = n + words.below(3);
    const Array before = words.usual(m * ld + 1);
    Array expected = before;
    soft().matmul(m, n, k, a.view, b.view, expected.data(), ld);
    Array chain = before;
    soft().matmul_block(m, n, k, a.view, b.view, chain.data(), ld);
    for (Backend backend : others()) {
        Array found = before;
        kernels(backend).matmul(m, n, k, a.view, b.view, found.data(), ld);
        ASSERT_EQ(where_different(expected, found), "")
            << name(backend) << " " << m << "x" << n << "x" << k << " forms " << form_a << " " << form_b;
        found = before;
        kernels(backend).matmul_block(m, n, k, a.view, b.view, found.data(), ld);
        ASSERT_EQ(where_different(chain, found), "")
            << name(backend) << " block " << m << "x" << n << "x" << k << " forms " << form_a << " " << form_b;
    }
}

TEST(Backends, matmul_agrees_on_ragged_shapes_and_all_views) {
    test::Words words(21);
    for (int round = 0; round < 600; ++round) {
        const std::size_t m = 1 + words.below(40);
        const std::size_t n = 1 + words.below(70);
        const std::size_t k = words.below(48);
        expect_same_matmul(m, n, k, round % 5, round / 5 % 5, round % 3 == 0, words);
        if (HasFatalFailure()) return;
    }
}

TEST(Backends, matmul_agrees_over_several_blocks_of_k) {
    test::Words words(22);
    for (std::size_t k : {255U, 256U, 257U, 512U, 513U, 700U})
        for (int form = 0; form < 4; ++form) {
            expect_same_matmul(5 + words.below(12), 20 + words.below(20), k, form % 2, form / 2, form == 3, words);
            if (HasFatalFailure()) return;
        }
}

TEST(Backends, matmul_agrees_beyond_the_cache_blocks) {
    test::Words words(23);
    expect_same_matmul(345, 17, 20, 0, 1, false, words);
    expect_same_matmul(3, 1100, 9, 1, 0, false, words);
}

TEST(Backends, matmul_does_not_depend_on_how_threads_split_it) {
    test::Words words(24);
    const std::size_t m = 97;
    const std::size_t n = 83;
    const std::size_t k = 300;
    const Matrix a = matrix(m, k, 0, true, words);
    const Matrix b = matrix(k, n, 1, true, words);
    for (Backend backend : others()) {
        Array whole(m * n);
        kernels(backend).matmul(m, n, k, a.view, b.view, whole.data(), n);
        for (std::size_t parts : {2U, 3U, 7U}) {
            Array by_rows(m * n);
            Array by_columns(m * n);
            std::vector<std::thread> threads;
            for (std::size_t p = 0; p < parts; ++p) {
                threads.emplace_back([&, p] {
                    const std::size_t r0 = m * p / parts;
                    const std::size_t r1 = m * (p + 1) / parts;
                    MatrixView slice = a.view;
                    slice.data += static_cast<std::ptrdiff_t>(r0) * slice.row_stride;
                    kernels(backend).matmul(r1 - r0, n, k, slice, b.view, by_rows.data() + r0 * n, n);
                    const std::size_t c0 = n * p / parts;
                    const std::size_t c1 = n * (p + 1) / parts;
                    slice = b.view;
                    slice.data += static_cast<std::ptrdiff_t>(c0) * slice.col_stride;
                    kernels(backend).matmul(m, c1 - c0, k, a.view, slice, by_columns.data() + c0, n);
                });
            }
            for (std::thread& thread : threads) thread.join();
            EXPECT_EQ(where_different(whole, by_rows), "") << name(backend);
            EXPECT_EQ(where_different(whole, by_columns), "") << name(backend);
        }
    }
}

// What a dispute relies on: 32-step micro-steps with an addition after every 8th give the matmul's bits.
TEST(Backends, matmul_is_its_micro_steps) {
    test::Words words(25);
    const std::size_t m = 9;
    const std::size_t n = 21;
    for (std::size_t k : {1U, 32U, 255U, 256U, 300U, 600U}) {
        const Matrix a = matrix(m, k, 0, true, words);
        const Matrix b = matrix(k, n, 0, true, words);
        for (Backend backend : kBackends) {
            if (!available(backend)) continue;
            const Kernels& table = kernels(backend);
            Array total(m * n, 0);
            Array partial(m * n, 0);
            for (std::size_t first = 0; first < k; first += 32) {
                const std::size_t count = std::min<std::size_t>(32, k - first);
                const auto offset = static_cast<std::ptrdiff_t>(first);
                table.matmul_block(m, n, count,
                                   {a.view.data + offset * a.view.col_stride, a.view.row_stride, a.view.col_stride},
                                   {b.view.data + offset * b.view.row_stride, b.view.row_stride, b.view.col_stride},
                                   partial.data(), n);
                if ((first / 32) % 8 == 7 || first + 32 >= k) {
                    table.elementwise(ElementOp::add, m * n, total.data(), 1, partial.data(), 1, nullptr, 0, 0,
                                      total.data());
                    std::fill(partial.begin(), partial.end(), 0U);
                }
            }
            Array whole(m * n);
            table.matmul(m, n, k, a.view, b.view, whole.data(), n);
            EXPECT_EQ(where_different(whole, total), "") << name(backend) << " k " << k;
        }
    }
}

TEST(Backends, matmul_squashes_operands_but_not_infinities_and_nan) {
    const auto word = [](float x) { return std::bit_cast<u32>(x); };
    const u32 infinity = 0x7f800000U;
    struct Case {
        u32 a, b, expected;
    };
    const Case cases[] = {
        {word(0x1p-40F), word(1.0F), word(0x1p-40F)}, {word(0x1.fffffep-41F), word(0x1p100F), 0},
        {word(0x1p100F), word(-0x1.fffffep-41F), 0},  {word(0x1p-40F), word(0x1p-40F), word(0x1p-80F)},
        {infinity, word(0x1p-41F), kCanonicalNan},    {infinity, word(-0x1p-40F), 0xff800000U},
        {0xff812345U, word(1.0F), kCanonicalNan},     {word(-0.0F), word(1.0F), 0},
    };
    for (Backend backend : kBackends) {
        if (!available(backend)) continue;
        for (const Case& t : cases) {
            u32 c = 1;
            kernels(backend).matmul(1, 1, 1, {&t.a, 1, 1}, {&t.b, 1, 1}, &c, 1);
            EXPECT_EQ(c, t.expected) << name(backend) << std::hex << " " << t.a << " " << t.b;
        }
        Array c(6, 0x12345678U);
        kernels(backend).matmul(2, 3, 0, {}, {}, c.data(), 3);
        EXPECT_EQ(c, Array(6, 0)) << name(backend);
        c[1] = 0xffffffffU;
        kernels(backend).matmul_block(2, 3, 0, {}, {}, c.data(), 3);
        EXPECT_EQ(c, (Array{0, kCanonicalNan, 0, 0, 0, 0})) << name(backend);
    }
}

TEST(Backends, reductions_agree_on_every_width) {
    test::Words words(31);
    for (std::size_t columns = 0; columns <= 200; ++columns) {
        const std::size_t rows = 1 + words.below(5);
        const std::size_t ld = columns + words.below(4);
        const Array x = columns % 2 == 0 ? words.usual(rows * ld + 1) : words.mixed(rows * ld + 1);
        const auto check = [&](auto kernel, std::size_t count, const char* what) {
            Array expected(count + 1, 7);
            (soft().*kernel)(rows, columns, x.data(), ld, expected.data());
            for (Backend backend : others()) {
                Array found(count + 1, 7);
                (kernels(backend).*kernel)(rows, columns, x.data(), ld, found.data());
                ASSERT_EQ(where_different(expected, found), "") << what << " " << name(backend) << " " << columns;
            }
        };
        check(&Kernels::sum_last, rows, "sum_last");
        check(&Kernels::max_last, rows, "max_last");
        check(&Kernels::sum_rows, columns, "sum_rows");
        if (HasFatalFailure()) return;
    }
}

TEST(Backends, empty_reductions_give_the_identities) {
    for (Backend backend : kBackends) {
        if (!available(backend)) continue;
        u32 out = 9;
        kernels(backend).sum_last(1, 0, nullptr, 0, &out);
        EXPECT_EQ(out, 0U);
        kernels(backend).max_last(1, 0, nullptr, 0, &out);
        EXPECT_EQ(out, 0xff800000U);
        const Array negative_zeros(64, 0x80000000U);
        kernels(backend).sum_last(1, 64, negative_zeros.data(), 64, &out);
        EXPECT_EQ(out, 0U);
        kernels(backend).max_last(1, 64, negative_zeros.data(), 64, &out);
        EXPECT_EQ(out, 0x80000000U);
    }
}

TEST(Backends, sum_last_is_32_lanes_and_the_fold) {
    test::Words words(32);
    for (std::size_t columns : {1U, 31U, 33U, 100U, 500U}) {
        const Array x = words.usual(columns);
        u32 lanes[kReductionLanes] = {};
        for (std::size_t j = 0; j < columns; ++j) lanes[j % 32] = soft_add(lanes[j % 32], x[j]);
        for (Backend backend : kBackends) {
            if (!available(backend)) continue;
            u32 out = 0;
            kernels(backend).sum_last(1, columns, x.data(), columns, &out);
            EXPECT_EQ(out, fold_sum_soft(lanes)) << name(backend);
        }
    }
}

// What doc/arithmetic.md says of a sum in blocks.
u32 sum_by_blocks(const Array& summands) {
    u32 total = 0;
    for (std::size_t first = 0; first < summands.size(); first += 256) {
        u32 block = 0;
        for (std::size_t i = first; i < std::min(summands.size(), first + 256); ++i)
            block = soft_add(block, summands[i]);
        total = soft_add(total, block);
    }
    return total;
}

TEST(Backends, sum_rows_is_a_sum_in_blocks_of_256_rows) {
    test::Words words(34);
    for (const std::size_t rows : {0U, 1U, 255U, 256U, 257U, 511U, 512U, 513U, 769U}) {
        for (const std::size_t columns : {1U, 7U, 16U, 70U, 131U}) {
            const std::size_t ld = columns + words.below(3);
            const Array x = columns == 16 ? words.mixed(rows * ld + 1) : words.usual(rows * ld + 1);
            Array expected(columns + 1, 7);
            for (std::size_t j = 0; j < columns; ++j) {
                Array column;
                for (std::size_t r = 0; r < rows; ++r) column.push_back(x[r * ld + j]);
                expected[j] = sum_by_blocks(column);
            }
            for (Backend backend : kBackends) {
                if (!available(backend)) continue;
                Array found(columns + 1, 7);
                kernels(backend).sum_rows(rows, columns, x.data(), ld, found.data());
                ASSERT_EQ(where_different(expected, found), "") << name(backend) << " " << rows << "x" << columns;
            }
        }
    }
}

TEST(Backends, add_rows_agrees_and_drops_rows_out_of_range) {
    test::Words words(33);
    for (int round = 0; round < 100; ++round) {
        const std::size_t rows = 1 + words.below(40);
        const std::size_t columns = 1 + words.below(40);
        const std::size_t ld = columns + words.below(3);
        const std::size_t table_ld = columns + words.below(3);
        const std::size_t table_rows = words.below(12);
        const Array x = round % 2 == 0 ? words.usual(rows * ld) : words.mixed(rows * ld);
        Array index(rows);
        for (u32& i : index) i = words.below(8) == 0 ? words.mixed() : words.below(14);
        const Array before = words.usual(table_rows * table_ld + 1);
        Array expected = before;
        for (std::size_t r = 0; r < rows; ++r)
            if (index[r] < table_rows)
                for (std::size_t j = 0; j < columns; ++j) {
                    u32& cell = expected[index[r] * table_ld + j];
                    cell = soft_add(cell, x[r * ld + j]);
                }
        for (Backend backend : kBackends) {
            if (!available(backend)) continue;
            Array found = before;
            kernels(backend).add_rows(rows, columns, x.data(), ld, index.data(), table_rows, found.data(), table_ld);
            ASSERT_EQ(where_different(expected, found), "") << name(backend);
        }
    }
}

TEST(Backends, random_words_are_the_same_for_any_number_of_calls) {
    const u32 counter[3] = {3, 0xfffffff0U, 7};
    const u32 key[2] = {0xffffffffU, 0x12345678U};
    for (const u32 first : {0U, 0xffffffe0U})  // its numbers wrap
        for (std::size_t calls = 0; calls <= 70; ++calls)
            for (const bool whole : {false, true}) {
                const std::size_t words = whole ? 4 : 1;
                Array expected(words * calls + 1, 0x5a5a5a5aU);
                for (std::size_t i = 0; i < words * calls; ++i)
                    expected[i] =
                        philox4x32_10({first + static_cast<u32>(i / words), counter[0], counter[1], counter[2]},
                                      {key[0], key[1]})[i % words];
                for (const Backend backend : kBackends) {
                    if (!available(backend)) continue;
                    Array found(expected.size(), 0x5a5a5a5aU);
                    kernels(backend).philox(first, counter, key, calls, whole, found.data());
                    ASSERT_EQ(where_different(expected, found), "") << name(backend) << " " << calls << " calls";
                }
            }
}

// A change of any constant, sequence or order changes this digest: then kArithmeticVersion must change too, because
// live disputes are judged by what their program says.
TEST(Backends, the_arithmetic_is_that_of_version_3) {
    test::Words words(99);
    std::uint64_t digest = 0xcbf29ce484222325ULL;
    const auto absorb = [&digest](const Array& array) {
        for (u32 word : array) digest = (digest ^ word) * 0x100000001b3ULL;
    };
    const Kernels& table = kernels(best_backend());
    const std::size_t n = 5000;
    for (const ElementOpInfo& info : kElementOps) {
        const Array a = words.mixed(n);
        const Array b = words.mixed(n);
        const Array c = words.mixed(n);
        Array out(n);
        table.elementwise(info.op, n, a.data(), 1, b.data(), 1, c.data(), 1, 1000, out.data());
        absorb(out);
    }
    const Array a = words.usual(20 * 600);
    const Array b = words.usual(600 * 30);
    Array out(600);
    table.matmul(20, 30, 600, {a.data(), 600, 1}, {b.data(), 30, 1}, out.data(), 30);
    absorb(out);
    Array sums(20);
    table.sum_last(20, 600, a.data(), 600, sums.data());
    absorb(sums);
    table.max_last(20, 600, a.data(), 600, sums.data());
    absorb(sums);
    table.sum_rows(20, 600, a.data(), 600, out.data());
    absorb(out);
    table.sum_rows(600, 20, a.data(), 20, sums.data());
    absorb(sums);
    EXPECT_EQ(digest, 8158000521933541316ULL);
}

TEST(FloatingPointEnvironment, is_accepted_as_it_is_at_start) { EXPECT_TRUE(check_floating_point_environment()); }

#if defined(__x86_64__)
TEST(FloatingPointEnvironment, rejects_flush_to_zero_and_other_roundings) {
    const unsigned before = _mm_getcsr();
    for (unsigned bits : {0x8000U, 0x0040U, 0x2000U, 0x6000U}) {
        _mm_setcsr(before | bits);
        const Status status = check_floating_point_environment();
        _mm_setcsr(before);
        ASSERT_FALSE(status) << std::hex << bits;
        EXPECT_EQ(status.error().name, "arith.bad_fp_environment");
    }
    EXPECT_TRUE(check_floating_point_environment());
}
#elif defined(__aarch64__)
TEST(FloatingPointEnvironment, rejects_flush_to_zero_and_other_roundings) {
    const auto set = [](std::uint64_t control) { __asm__ volatile("msr fpcr, %0" : : "r"(control) : "memory"); };
    for (const unsigned bit : {22U, 23U, 24U, 25U}) {  // two of the rounding, flush-to-zero, default NaN
        set(std::uint64_t{1} << bit);
        const Status status = check_floating_point_environment();
        set(0);
        ASSERT_FALSE(status) << bit;
        EXPECT_EQ(status.error().name, "arith.bad_fp_environment");
    }
    EXPECT_TRUE(check_floating_point_environment());
}
#endif

}  // namespace
}  // namespace quern::vm::tensor::arith
