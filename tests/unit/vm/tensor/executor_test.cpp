#include "vm/tensor/executor.h"
#include "vm/tensor/view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "support/counted_memory.h"
#include "test_programs.h"
#include "vm/tensor/arith/random.h"
#include "vm/tensor/leaf.h"

namespace quern::vm::tensor {
namespace {

// Every loop of this program's tests is spread over the pools that they give.
const bool kSpread = (worth_a_thread = 1, true);

using test::Fill;

struct Case {
    Program program;
    State state;
    MemoryData data;
    Tensor seed = test::test_seed();
};

Case every_op(Fill fill) {
    Case c{test::every_op_program(), {}, {}, test::test_seed()};
    c.state = test::random_state(c.program, 1, fill);
    c.data = test::random_data(c.program, 2);
    return c;
}

Case training() {
    Case c{test::training_program(40, 24, 72), {}, {}, test::test_seed()};
    c.state = test::random_state(c.program, 3, Fill::moderate);
    for (std::uint32_t& word : c.state[3].words) word = 0;
    c.data = test::random_data(c.program, 4);
    Bytes examples = c.data.sets().front();
    for (std::size_t row = 0; row < 64; ++row)  // labels
        for (std::size_t b = 0; b < 4; ++b) examples[8 * row + 4 + b] = b != 0 ? 0 : row % 3 == 0 ? 3 : 5;
    c.data = MemoryData({examples});
    return c;
}

std::vector<arith::Backend> available_backends() {
    std::vector<arith::Backend> result;
    for (const arith::Backend backend : arith::kBackends)
        if (arith::available(backend)) result.push_back(backend);
    return result;
}

TEST(Executor, programs_of_the_tests_are_valid) {
    for (const Case& c : {every_op(Fill::special), training()}) {
        const Status status = validate(c.program);
        EXPECT_TRUE(status) << status.error().to_string();
        EXPECT_TRUE(check_state(c.program, c.state));
    }
}

TEST(Executor, all_backends_give_the_same_bits_for_every_node) {
    for (const Fill fill : {Fill::moderate, Fill::special}) {
        const Case c = every_op(fill);
        const NodeOutputs wanted =
            Executor(c.program, arith::Backend::scalar, nullptr).run_all(c.state, c.data, c.seed);
        for (const arith::Backend backend : available_backends()) {
            const NodeOutputs outputs = Executor(c.program, backend, nullptr).run_all(c.state, c.data, c.seed);
            ASSERT_EQ(outputs.size(), wanted.size());
            for (std::size_t i = 0; i < outputs.size(); ++i)
                EXPECT_EQ(outputs[i], wanted[i])
                    << arith::name(backend) << " node " << i << " op " << static_cast<int>(c.program.nodes[i].op)
                    << " element " << static_cast<int>(c.program.nodes[i].element);
        }
    }
}

TEST(Executor, a_planned_step_gives_the_update_nodes_of_run_all) {
    ThreadPool pool(3);
    for (Case c : {every_op(Fill::special), every_op(Fill::moderate), training()}) {
        for (const arith::Backend backend : {arith::Backend::scalar, arith::best_backend()}) {
            for (ThreadPool* threads : {static_cast<ThreadPool*>(nullptr), &pool}) {
                Executor executor(c.program, backend, threads);
                State state = c.state;
                for (int step = 0; step < 3; ++step) {
                    const NodeOutputs outputs = executor.run_all(state, c.data, c.seed);
                    executor.step(state, c.data, c.seed);
                    ASSERT_TRUE(check_state(c.program, state));
                    for (std::size_t slot = 0; slot < state.size(); ++slot)
                        ASSERT_EQ(state[slot], outputs[c.program.updates[slot]])
                            << "step " << step << " slot " << c.program.slots[slot].name;
                }
            }
        }
    }
}

TEST(Executor, no_order_of_writing_over_slots_changes_a_bit) {
    ThreadPool pool(3);
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
        Program program = test::tangled_program(seed);
        const Status valid = validate(program);
        ASSERT_TRUE(valid) << valid.error().to_string();
        const MemoryData nothing;
        const State before = test::random_state(program, seed, Fill::moderate);
        const NodeOutputs outputs =
            Executor(program, arith::Backend::scalar, nullptr).run_all(before, nothing, test::test_seed());
        const std::uint64_t stated = program.header.sizes.peak_bytes;
        // As the header says; as if any memory would do; as if none were enough.
        for (const std::uint64_t peak : {stated, std::uint64_t{1} << 60, std::uint64_t{0}}) {
            program.header.sizes.peak_bytes = peak;
            for (const bool tapped : {false, true}) {
                Executor executor(program, arith::best_backend(), seed % 2 == 0 ? nullptr : &pool);
                State state = before;
                for (int step = 0; step < 2; ++step) {  // the second time in buffers that were used
                    state = before;
                    if (tapped)
                        ASSERT_TRUE(executor.step_tapped(state, nothing, test::test_seed(), [](const TappedNode&) {}));
                    else
                        ASSERT_TRUE(executor.step(state, nothing, test::test_seed()));
                }
                for (std::size_t slot = 0; slot < state.size(); ++slot)
                    ASSERT_EQ(state[slot], outputs[program.updates[slot]])
                        << "seed " << seed << " peak " << peak << " slot " << slot << (tapped ? " tapped" : "");
            }
        }
    }
}

std::uint64_t bytes_of(const State& state) {
    std::uint64_t bytes = 0;
    for (const Tensor& slot : state) bytes += slot.words.size() * sizeof(std::uint32_t);
    return bytes;
}

// Adam over `count` parameters of side x side words whose gradients are products.
Program adam_program(std::uint32_t count, std::uint32_t side) {
    using arith::ElementOp;
    test::Graph g;
    const Shape shape{{1, 1, side, side}};
    const auto number = [&](float value) { return g.full(DType::f32, {}, std::bit_cast<std::uint32_t>(value)); };
    const std::uint32_t x = g.reduce(Op::sum_rows, g.element(ElementOp::i2f, {g.iota({{1, 1, 32, side}}, 3)}));
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t p = g.add_slot("parameter" + std::to_string(i), DType::f32, shape);
        const std::uint32_t m = g.add_slot("first" + std::to_string(i), DType::f32, shape);
        const std::uint32_t v = g.add_slot("second" + std::to_string(i), DType::f32, shape);
        const std::uint32_t gradient = g.matmul(g.matmul(x, p), x, true);
        const std::uint32_t first =
            g.element(ElementOp::fma, {g.element(ElementOp::sub, {gradient, m}), number(0.1F), m});
        const std::uint32_t square = g.element(ElementOp::mul, {gradient, gradient});
        const std::uint32_t second =
            g.element(ElementOp::fma, {g.element(ElementOp::sub, {square, v}), number(0.01F), v});
        const std::uint32_t scale = g.element(ElementOp::add, {g.element(ElementOp::sqrt, {second}), number(1e-8F)});
        const std::uint32_t change = g.element(ElementOp::div, {first, scale});
        const std::uint32_t decayed = g.element(ElementOp::mul, {p, number(0.99F)});
        g.update(3 * i, g.element(ElementOp::fma, {change, number(-0.01F), decayed}));
        g.update(3 * i + 1, first);
        g.update(3 * i + 2, second);
    }
    g.add_slot("loss", DType::f32, {});
    g.finish({});
    return g.program;
}

TEST(Executor, an_optimizer_needs_no_second_copy_of_what_it_updates) {
    Program program = adam_program(3, 256);
    ASSERT_TRUE(validate(program)) << validate(program).error().to_string();
    const std::uint64_t parameter = 256 * 256 * sizeof(std::uint32_t);
    EXPECT_LE(step_bytes(program), 3 * parameter / 2) << "a gradient, and nothing for moments";
    State state = test::random_state(program, 1, Fill::moderate);
    const MemoryData nothing;
    Executor executor(program, arith::best_backend(), nullptr);
    const NodeOutputs outputs = executor.run_all(state, nothing, test::test_seed());
    std::vector<const std::uint32_t*> words;
    for (const Tensor& slot : state) words.push_back(slot.words.data());
    const std::size_t before = quern::test::counted_memory();
    quern::test::mark_counted_memory();
    ASSERT_TRUE(executor.step(state, nothing, test::test_seed()));
    EXPECT_LE(quern::test::peak_of_counted_memory() - before, step_bytes(program) + (256U << 10));  // plan, scratch
    for (std::size_t slot = 0; slot < state.size(); ++slot) {
        EXPECT_EQ(state[slot], outputs[program.updates[slot]]) << slot;
        EXPECT_EQ(state[slot].words.data(), words[slot]) << "written where it was";
    }
}

TEST(Executor, a_step_keeps_within_the_peak_bytes_of_its_program) {
    std::vector<Program> programs{
        test::every_op_program(),    test::training_program(40, 24, 72), test::training_program(512, 96, 256),
        test::deep_program(24, 256), test::deep_program(6, 40),          adam_program(3, 256),
        adam_program(40, 33)};
    for (std::uint64_t seed = 0; seed < 400; ++seed) programs.push_back(test::tangled_program(seed));
    std::size_t smallest = 0;
    for (std::size_t i = 0; i < programs.size(); ++i) {
        const Program& program = programs[i];
        State state = test::random_state(program, 1, Fill::moderate);
        EXPECT_LE(step_bytes(program) + bytes_of(state), program.header.sizes.peak_bytes) << "program " << i;
        Program unbounded = program;
        unbounded.header.sizes.peak_bytes = std::uint64_t{1} << 60;
        if (step_bytes(unbounded) + bytes_of(state) > program.header.sizes.peak_bytes) ++smallest;
    }
    EXPECT_GT(smallest, 0U) << "else the bound was never looked at";
}

TEST(Executor, what_is_told_before_a_slot_is_written_finds_the_old_words) {
    Program program = adam_program(2, 40);
    State state = test::random_state(program, 1, Fill::moderate);
    const State before = state;
    const MemoryData nothing;
    for (const bool tapped : {false, true}) {
        state = before;
        Executor executor(program, arith::best_backend(), nullptr);
        std::vector<std::size_t> told;
        executor.set_before_writing([&](std::size_t slot) {
            EXPECT_EQ(state[slot], before[slot]);
            told.push_back(slot);
        });
        if (tapped)
            executor.step_tapped(state, nothing, test::test_seed(), [](const TappedNode&) {});
        else
            executor.step(state, nothing, test::test_seed());
        std::sort(told.begin(), told.end());
        EXPECT_EQ(told, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5}));  // each once, not the loss
    }
}

TEST(Executor, the_number_of_threads_does_not_change_a_bit) {
    const Case c{test::training_program(512, 96, 256), {}, {}, test::test_seed()};
    State initial = test::random_state(c.program, 5, Fill::moderate);
    const MemoryData data = test::random_data(c.program, 6);
    Hash32 wanted;
    for (const std::size_t threads : {1, 2, 3, 5}) {
        ThreadPool pool(threads);
        Executor executor(c.program, arith::best_backend(), &pool);
        State state = initial;
        for (int step = 0; step < 3; ++step) executor.step(state, data, c.seed);
        if (threads == 1) wanted = state_root(state);
        EXPECT_EQ(state_root(state), wanted) << threads << " threads";
    }
}

TEST(Executor, training_lowers_the_loss) {
    Case c = training();
    for (std::size_t slot = 0; slot < 3; ++slot)
        for (std::uint32_t& word : c.state[slot].words) word = (word & 0x807fffffU) | 0x3d000000U;  // small weights
    Executor executor(c.program, arith::best_backend(), nullptr);
    const auto loss = [&] { return std::bit_cast<float>(c.state.back().words[0]); };
    executor.step(c.state, c.data, c.seed);
    const float first = loss();
    for (int step = 0; step < 60; ++step) executor.step(c.state, c.data, c.seed);
    EXPECT_LT(loss(), 0.95F * first);
}

TEST(Executor, an_altered_output_is_what_later_nodes_read) {
    const Case c = training();
    Executor executor(c.program, arith::Backend::scalar, nullptr);
    const NodeOutputs honest = executor.run_all(c.state, c.data, c.seed);
    std::uint32_t altered = 0;
    while (c.program.nodes[altered].op != Op::matmul) ++altered;
    const NodeOutputs other = executor.run_altered(c.state, c.data, c.seed, [&](std::uint32_t node, Tensor& output) {
        if (node == altered) output.words[0] ^= 0x00400000;
    });
    for (std::uint32_t i = 0; i < altered; ++i) EXPECT_EQ(honest[i], other[i]);
    EXPECT_NE(honest[altered], other[altered]);
    EXPECT_NE(honest[c.program.updates.back()], other[c.program.updates.back()]);
}

TEST(Executor, data_ops_do_what_the_header_says) {
    using Words = std::vector<std::uint32_t>;
    test::Graph g;
    const std::uint32_t x = g.add_slot("x", DType::i32, {{1, 2, 2, 3}});
    const std::uint32_t table = g.add_slot("table", DType::f32, {{1, 1, 3, 2}});
    const std::uint32_t source = g.add_slot("source", DType::f32, {{1, 1, 4, 2}});
    const std::uint32_t index = g.add_slot("index", DType::i32, {{1, 1, 4, 1}});
    const std::uint32_t key = g.add_slot("key", DType::i32, {{1, 1, 1, 4}});
    const std::uint32_t iota = g.iota({{1, 2, 2, 3}}, 2);
    const std::uint32_t reshape = g.reshape(x, {{1, 1, 3, 4}});
    const std::uint32_t permute = g.permute(x, {0, 3, 1, 2});  // [1,3,2,2]
    const std::uint32_t slice = g.slice(x, {0, 1, 0, 1}, {{1, 1, 2, 2}});
    const std::uint32_t joined = g.concat(x, x, 3);
    const std::uint32_t gather = g.gather(table, index);
    const std::uint32_t scatter = g.scatter_add(source, index, 3);
    const std::uint32_t philox = g.philox(key, {{1, 1, 1, 2}});
    const std::uint32_t max = g.reduce(Op::max_last, source);
    const std::uint32_t product = g.matmul(table, source, false, true);  // [3,2] x [4,2]^T
    const Tensor row = {DType::i32, {{1, 1, 1, 4}}, {0, 0, 0, 0}};
    const State state = {
        {DType::i32, {{1, 2, 2, 3}}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
        {DType::f32, {{1, 1, 3, 2}}, {0x3f800000, 0x40000000, 0x40400000, 0x40800000, 0x40a00000, 0x40c00000}},  // 1..6
        {DType::f32, {{1, 1, 4, 2}}, {0x3f800000, 0x40000000, 0xbf800000, 0x7fc00000, 0x3f800000, 0x80000000, 0, 0}},
        {DType::i32, {{1, 1, 4, 1}}, {2, 3, 2, 0xffffffff}},
        {DType::i32, {{1, 1, 1, 4}}, {0xa4093822, 0x299f31d0, 0x85a308d3, 0x13198a2e}}};
    const NodeOutputs out = Executor(g.program, arith::Backend::scalar, nullptr).run_all(state, MemoryData(), row);
    EXPECT_EQ(out[iota].words, (Words{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}));
    EXPECT_EQ(out[reshape].words, state[0].words);
    EXPECT_EQ(out[permute].words, (Words{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}));
    EXPECT_EQ(out[slice].words, (Words{7, 8, 10, 11}));
    EXPECT_EQ(out[joined].words, (Words{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7, 8, 6, 7, 8, 9, 10, 11, 9, 10, 11}));
    EXPECT_EQ(out[gather].words, (Words{0x40a00000, 0x40c00000, 0, 0, 0x40a00000, 0x40c00000, 0, 0}));
    EXPECT_EQ(out[scatter].words, (Words{0, 0, 0, 0, 0x40000000, 0x40000000}));  // row 2 = source 0 + source 2
    EXPECT_EQ(out[philox].words, (Words{arith::philox_word(0, 0x85a308d3, 0x13198a2e, 0xa4093822, 0x299f31d0),
                                        arith::philox_word(1, 0x85a308d3, 0x13198a2e, 0xa4093822, 0x299f31d0)}));
    EXPECT_EQ(out[max].words, (Words{0x40000000, 0x7fc00000, 0x3f800000, 0}));
    EXPECT_EQ(out[product].words[0], 0x40a00000U);  // 1 * 1 + 2 * 2
    EXPECT_EQ(out[product].words[1], 0x7fc00000U);
    EXPECT_EQ(out[product].words[2], 0x3f800000U);
    EXPECT_EQ(out[product].words[8], 0x41880000U);  // 5 * 1 + 6 * 2 = 17
}

// Against sorting, with what a selection by bytes may get wrong: equal words, a byte that all share, both ends.
TEST(Executor, the_kth_largest_word_is_that_of_a_sort) {
    for (const std::uint32_t columns : {1U, 33U, 1030U}) {
        test::Graph g;
        const std::uint32_t x = g.add_slot("x", DType::i32, {{1, 1, 5, columns}});
        std::vector<std::uint32_t> ranks{1, columns / 2 + 1, columns};
        std::vector<std::uint32_t> nodes;
        for (const std::uint32_t k : ranks) nodes.push_back(g.kth(x, k));
        Tensor words{DType::i32, {{1, 1, 5, columns}}, {}};
        for (std::uint32_t i = 0; i < 5 * columns; ++i) {
            const std::uint32_t word = arith::philox_word(i, 1, 2, 3, 4);
            const std::uint32_t row = i / columns;
            words.words.push_back(row == 0   ? word
                                  : row == 1 ? 0xffffffff
                                  : row == 2 ? word % 3
                                  : row == 3 ? 0x80ff0000 + (word & 0xff00)
                                             : (word % 2 == 0 ? 0 : 0xffffffff));
        }
        ThreadPool pool(2);
        const Tensor seed{DType::i32, {{1, 1, 1, 4}}, {0, 0, 0, 0}};
        const NodeOutputs out = Executor(g.program, arith::best_backend(), &pool).run_all({words}, MemoryData(), seed);
        for (std::size_t n = 0; n < nodes.size(); ++n)
            for (std::uint32_t row = 0; row < 5; ++row) {
                std::vector<std::uint32_t> sorted(words.words.begin() + row * columns,
                                                  words.words.begin() + (row + 1) * columns);
                std::sort(sorted.rbegin(), sorted.rend());
                EXPECT_EQ(out[nodes[n]].words[row], sorted[ranks[n] - 1]) << "row " << row << " of " << columns;
            }
    }
}

TEST(Executor, a_large_program_takes_no_memory_before_its_size_can_be_seen) {
    test::Graph g;
    const std::uint32_t loss = g.add_slot("loss", DType::f32, {});
    const Shape huge{{1, 1, 1U << 15, 1U << 16}};
    const std::uint32_t many =
        g.element(arith::ElementOp::exp, {g.element(arith::ElementOp::add, {loss, g.full(DType::f32, huge, 1)})});
    const std::uint32_t constant = g.element(arith::ElementOp::i2f, {g.iota(huge, 3)});
    const std::uint32_t sums =
        g.element(arith::ElementOp::add, {g.reduce(Op::sum_last, many), g.reduce(Op::sum_last, constant)});
    g.update(0, g.reduce(Op::sum_rows, sums));
    g.finish({});
    ASSERT_TRUE(validate(g.program)) << validate(g.program).error().to_string();
    const Executor executor(g.program, arith::best_backend(), nullptr);
    EXPECT_GE(step_bytes(g.program), std::uint64_t{2} << 33);  // two tensors of 8 GiB at least
    EXPECT_GE(tapped_bytes(g.program), std::uint64_t{2} << 33);
}

// A word that has no neighbour of its row or column beside it is a cache line for each product that reads it.
TEST(Executor, products_share_a_copy_of_an_operand_without_lines) {
    const Shape stored{{1, 24, 40, 32}};
    const auto program = [&](Op op, const std::vector<std::uint32_t>& axes) {
        test::Graph g;
        const bool bytes = op == Op::imatmul;
        const std::uint32_t x = g.add_slot("x", bytes ? DType::i32 : DType::f32, stored);
        const std::uint32_t view = g.permute(x, axes);
        const Shape shape = g.shape(view);
        for (std::uint32_t each = 0; each < 2; ++each) {
            const Shape row{{1, shape.dims[1], 1, shape.dims[2]}};
            const std::uint32_t a = g.full(bytes ? DType::i32 : DType::f32, row, bytes ? 3 + each : 0x3f800000U);
            const auto scales = [&](const Shape& of, std::size_t axis) {
                return g.full(DType::f32, strips_of(of, axis), 0x3f800000U);
            };
            const std::uint32_t product =
                bytes ? g.imatmul({a, scales(row, 3)}, {view, scales(shape, 2)}) : g.matmul(a, view);
            g.add_slot("y" + std::to_string(each), DType::f32, g.shape(product));
            g.update(1 + each, product);
        }
        g.add_slot("z", DType::f32, {});
        g.finish({});
        return g.program;
    };
    const std::uint64_t words = 4 * stored.elements();
    for (const Op op : {Op::matmul, Op::imatmul}) {
        const Program lines = program(op, {0, 2, 3, 1});      // columns lie side by side
        const Program rows = program(op, {0, 2, 1, 3});       // rows do
        const Program scattered = program(op, {0, 3, 1, 2});  // neither
        ASSERT_TRUE(validate(scattered)) << validate(scattered).error().to_string();
        EXPECT_LT(step_bytes(rows), words);
        EXPECT_GE(step_bytes(scattered), words) << "one copy";
        EXPECT_LT(step_bytes(scattered), 2 * words) << "for both";
        for (const Program* each : {&lines, &rows, &scattered}) {
            State state = test::random_state(*each, 5, Fill::moderate);
            State plain = state;
            const MemoryData none;
            ASSERT_TRUE(Executor(*each, arith::best_backend(), nullptr).step(state, none, test::test_seed()));
            ASSERT_TRUE(Executor(*each, arith::Backend::soft, nullptr).step(plain, none, test::test_seed()));
            EXPECT_EQ(state, plain);
        }
    }
}

TEST(Executor, roots_of_a_state_do_not_depend_on_the_pool) {
    const Case c = every_op(Fill::special);
    ThreadPool pool(3);
    std::vector<Hash32> wanted;
    for (const Tensor& slot : c.state) wanted.push_back(tensor_root(slot));
    EXPECT_EQ(slot_roots(c.state), wanted);
    EXPECT_EQ(slot_roots(c.state, &pool), wanted);
    EXPECT_EQ(state_root(c.state, &pool), state_root(wanted));
}

TEST(Executor, words_are_moved_as_they_are_and_every_nan_that_is_computed_is_the_same) {
    test::Graph g;
    const Shape shape{{1, 1, 3, 7}};
    const std::uint32_t x = g.add_slot("x", DType::f32, shape);
    const std::uint32_t full = g.full(DType::f32, shape, 0xffc12345);
    const std::uint32_t index = g.iota({{1, 1, 3, 1}}, 2);
    const std::uint32_t one = g.full(DType::i32, {}, 1);
    const std::vector<std::uint32_t> moved{
        x,
        full,
        g.reshape(g.reshape(x, {{1, 1, 1, 21}}), shape),
        g.permute(g.permute(x, {0, 1, 3, 2}), {0, 1, 3, 2}),
        g.slice(g.concat(x, full, 2), {0, 0, 0, 0}, shape),
        g.slice(g.concat(full, x, 3), {0, 0, 0, 7}, shape),
        g.gather(x, index),
    };
    std::vector<std::uint32_t> computed;
    for (const std::uint32_t operand : {x, full}) {
        for (const arith::ElementOpInfo& info : arith::kElementOps) {
            if (info.output != arith::WordType::f32 || info.inputs[0] != arith::WordType::f32) continue;
            computed.push_back(g.element(info.op, std::vector<std::uint32_t>(info.arity, operand)));
        }
        computed.push_back(g.element(arith::ElementOp::select, {one, operand, operand}));
        computed.push_back(g.matmul(operand, operand, false, true));
        for (const Op op : {Op::sum_last, Op::max_last, Op::sum_rows}) computed.push_back(g.reduce(op, operand));
        computed.push_back(g.scatter_add(operand, index, 3));
    }
    for (const auto& nodes : {moved, computed}) {
        for (const std::uint32_t node : nodes) {
            g.add_slot("slot" + std::to_string(node), DType::f32, g.shape(node));
            g.update(g.program.slots.size() - 1, node);
        }
    }
    g.add_slot("loss", DType::f32, {});
    g.finish({});
    ASSERT_TRUE(validate(g.program)) << validate(g.program).error().to_string();
    State state;
    for (const Slot& slot : g.program.slots)
        state.push_back({slot.dtype, slot.shape, std::vector<std::uint32_t>(slot.shape.elements(), 0x7f800001)});
    ASSERT_TRUE(check_state(g.program, state));
    const MemoryData nothing;
    ThreadPool pool(2);
    for (const arith::Backend backend : available_backends()) {
        Executor executor(g.program, backend, &pool);
        const NodeOutputs outputs = executor.run_all(state, nothing, test::test_seed());
        State next = state;
        executor.step(next, nothing, test::test_seed());
        for (std::size_t slot = 1; slot <= moved.size() + computed.size(); ++slot) {
            const std::uint32_t node = g.program.updates[slot];
            const std::uint32_t word = slot > moved.size() ? arith::kCanonicalNan
                                       : node == full      ? 0xffc12345
                                                           : 0x7f800001;
            const std::vector<std::uint32_t> expected(g.shape(node).elements(), word);
            EXPECT_EQ(outputs[node].words, expected) << arith::name(backend) << " node " << node;
            EXPECT_EQ(next[slot].words, expected) << arith::name(backend) << " node " << node;
            const Node& definition = g.program.nodes[node];
            if (definition.op != Op::slot) {
                const auto trace = micro_trace(definition, test::operands(outputs, definition), 0);
                EXPECT_EQ(trace.back().accumulators[0], read_tile(outputs[node], 0)) << node;
            }
        }
    }
}

TEST(Executor, refuses_states_that_are_not_the_programs) {
    const Case c = training();
    const auto error_of = [&](auto change) {
        State state = c.state;
        change(state);
        const Status status = check_state(c.program, state);
        return status ? std::string_view("none") : status.error().name;
    };
    EXPECT_EQ(error_of([](State&) {}), "none");
    EXPECT_EQ(error_of([](State& s) { s.pop_back(); }), "executor.bad_state");
    EXPECT_EQ(error_of([](State& s) { s[0].dtype = DType::i32; }), "executor.bad_state");
    EXPECT_EQ(error_of([](State& s) { std::swap(s[0].shape.dims[2], s[0].shape.dims[3]); }), "executor.bad_state");
    EXPECT_EQ(error_of([](State& s) { s[0].words.pop_back(); }), "executor.bad_state");
}

}  // namespace
}  // namespace quern::vm::tensor
