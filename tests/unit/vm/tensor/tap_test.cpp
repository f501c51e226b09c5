#include "vm/tensor/tap.h"

#include <gtest/gtest.h>

#include "crypto/tile_leaves.h"
#include "support/counted_memory.h"
#include "test_programs.h"

namespace quern::vm::tensor {
namespace {

using test::Fill;
using test::Graph;
using test::Random;

struct Case {
    Program program;
    State state;
    MemoryData data;
    Tensor seed = test::test_seed();
};

Case case_of(Program program, Fill fill) {
    Case c{std::move(program), {}, {}, test::test_seed()};
    c.state = test::random_state(c.program, 1, fill);
    c.data = test::random_data(c.program, 2);
    return c;
}

// Reductions whose last row of tiles has one row, views that are read in place, nodes that no update needs.
Program ragged_program() {
    Graph g;
    const std::uint32_t a = g.add_slot("a", DType::f32, {{1, 2, 33, 70}});
    const std::uint32_t b = g.add_slot("b", DType::f32, {{1, 1, 65, 100}});
    g.add_slot("c", DType::f32, {{1, 1, 100, 65}});
    g.add_slot("kept", DType::f32, {{1, 1, 3, 5}});
    const std::uint32_t index = g.data({{1, 1, 65, 1}});
    const std::uint32_t product = g.matmul(a, a, false, true);  // [1,2,33,33]
    g.matmul(a, a, true, false);
    const std::uint32_t turned = g.permute(b, {0, 1, 3, 2});
    for (const Op op : {Op::sum_last, Op::max_last, Op::sum_rows}) {
        g.reduce(op, a);
        g.reduce(op, b);
        g.reduce(op, turned);
        g.reduce(op, g.reshape(b, {{5, 1, 1, 1300}}));
    }
    g.scatter_add(b, index, 33);
    g.scatter_add(b, index, 1);
    g.gather(b, index);
    const std::uint32_t again = g.reshape(g.element(arith::ElementOp::add, {turned, turned}), {{1, 1, 65, 100}});
    g.reshape(turned, {{1, 1, 65, 100}});  // needs a copy
    g.reshape(turned, {{1, 1, 50, 130}});  // of the same copy
    // Read for the last time here, while later nodes of the same size take its place, and seen as another shape there.
    const std::uint32_t early = g.element(arith::ElementOp::tanh, {b});
    g.reduce(Op::sum_last, early);
    g.element(arith::ElementOp::exp, {g.element(arith::ElementOp::neg, {b})});
    g.reshape(early, {{1, 1, 100, 65}});
    // Read through a copy, which is made before the node: its operand is still the original.
    g.reduce(Op::sum_last, g.permute(g.element(arith::ElementOp::abs, {b}), {0, 1, 3, 2}));
    g.update(1, g.element(arith::ElementOp::mul, {b, again}));
    g.update(2, turned);
    g.add_slot("loss", DType::f32, {});
    g.update(4, g.slice(product, {0, 1, 32, 32}, {}));
    g.finish({{1, 1, 65, 1}});
    return g.program;
}

std::vector<Case> cases() {
    return {case_of(test::every_op_program(), Fill::special), case_of(test::every_op_program(), Fill::moderate),
            case_of(test::training_program(40, 24, 72), Fill::moderate), case_of(ragged_program(), Fill::moderate)};
}

Tensor copy_of(const TensorView& view) {
    Tensor tensor{view.dtype, view.shape(), std::vector<std::uint32_t>(view.shape().elements())};
    copy_view(view.view, tensor.words.data(), dense_strides(view.shape()), nullptr);
    return tensor;
}

TEST(Tap, programs_of_the_tests_are_valid) {
    for (const Case& c : cases()) EXPECT_TRUE(validate(c.program)) << validate(c.program).error().to_string();
}

TEST(Tap, a_run_shows_what_run_all_gives_in_order_and_once) {
    ThreadPool pool(3);
    for (const Case& c : cases()) {
        for (const arith::Backend backend : {arith::Backend::scalar, arith::best_backend()}) {
            for (ThreadPool* threads : {static_cast<ThreadPool*>(nullptr), &pool}) {
                Executor executor(c.program, backend, threads);
                State state = c.state;
                for (int step = 0; step < 3; ++step) {
                    const NodeOutputs wanted = executor.run_all(state, c.data, c.seed);
                    std::uint32_t next = 0;
                    const Tap tap = [&](const TappedNode& tapped) {
                        ASSERT_EQ(tapped.number, next++);
                        ASSERT_EQ(tapped.node, &c.program.nodes[tapped.number]);
                        ASSERT_EQ(copy_of(tapped.output), wanted[tapped.number]) << "node " << tapped.number;
                        ASSERT_EQ(tapped.operands.size(), tapped.node->inputs.size());
                        for (std::size_t i = 0; i < tapped.operands.size(); ++i)
                            ASSERT_EQ(copy_of(tapped.operands[i]), wanted[tapped.node->inputs[i]])
                                << "operand " << i << " of node " << tapped.number;
                    };
                    const State before = state;
                    executor.run_tapped(state, c.data, c.seed, tap);
                    EXPECT_EQ(next, c.program.nodes.size());
                    EXPECT_EQ(state, before);
                    next = 0;
                    executor.step_tapped(state, c.data, c.seed, tap);
                    EXPECT_EQ(next, c.program.nodes.size());
                    State planned = before;
                    executor.step(planned, c.data, c.seed);  // with the same arena
                    EXPECT_EQ(state, planned);
                    if (testing::Test::HasFatalFailure()) return;
                }
            }
        }
    }
}

TEST(Tap, a_run_ends_with_the_last_node_that_was_asked_for) {
    const Case c = case_of(ragged_program(), Fill::moderate);
    Executor executor(c.program, arith::best_backend(), nullptr);
    for (std::uint32_t last = 0; last < c.program.nodes.size(); ++last) {
        std::uint32_t seen = 0;
        executor.run_tapped(
            c.state, c.data, c.seed, [&](const TappedNode&) { ++seen; }, {}, last);
        EXPECT_EQ(seen, last + 1);
    }
}

TEST(Tap, an_altered_run_shows_what_run_altered_gives) {
    for (const Case& c :
         {case_of(test::training_program(40, 24, 72), Fill::moderate), case_of(ragged_program(), Fill::moderate)}) {
        Executor executor(c.program, arith::best_backend(), nullptr);
        for (std::uint32_t altered = 0; altered < c.program.nodes.size(); ++altered) {
            const Alter alter = [&](std::uint32_t node, Tensor& output) {
                if (node == altered) output.words[output.words.size() / 2] ^= 0x00400000;
            };
            const NodeOutputs wanted = executor.run_altered(c.state, c.data, c.seed, alter);
            State state = c.state;
            executor.step_tapped(
                state, c.data, c.seed,
                [&](const TappedNode& tapped) {
                    ASSERT_EQ(copy_of(tapped.output), wanted[tapped.number])
                        << "node " << tapped.number << ", altered " << altered;
                },
                alter);
            for (std::size_t slot = 0; slot < state.size(); ++slot)
                ASSERT_EQ(state[slot], wanted[c.program.updates[slot]]);
        }
    }
}

TEST(Tap, tiles_and_hashes_are_those_of_the_tensor) {
    const test::SpreadSmallWork spread;
    ThreadPool pool(3);
    for (const Case& c :
         {case_of(test::every_op_program(), Fill::special), case_of(ragged_program(), Fill::moderate)}) {
        Executor executor(c.program, arith::best_backend(), &pool);
        const NodeOutputs outputs = executor.run_all(c.state, c.data, c.seed);
        executor.run_tapped(c.state, c.data, c.seed, [&](const TappedNode& tapped) {
            const Tensor& output = outputs[tapped.number];
            for (std::uint64_t tile = 0; tile < output.shape.tiles(); ++tile)
                ASSERT_EQ(read_tile(tapped.output, tile), read_tile(output, tile));
            ASSERT_EQ(tile_hashes(tapped.output, &pool), tile_hashes(output));
            ASSERT_EQ(tensor_root(tapped.output, nullptr), tensor_root(output));
        });
    }
}

TEST(Tap, micro_traces_and_leaves_are_those_of_whole_operands) {
    Random random(5);
    for (const Case& c :
         {case_of(test::every_op_program(), Fill::special), case_of(ragged_program(), Fill::moderate)}) {
        Executor executor(c.program, arith::best_backend(), nullptr);
        const NodeOutputs outputs = executor.run_all(c.state, c.data, c.seed);
        executor.run_tapped(c.state, c.data, c.seed, [&](const TappedNode& tapped) {
            const Node& node = *tapped.node;
            if (is_kind(node.op, OpKind::input) || is_kind(node.op, OpKind::window)) return;
            const auto operands = test::operands(outputs, node);
            const std::uint64_t tiles = node.shape.tiles();
            for (std::uint64_t tile = 0; tile < tiles; tile += 1 + (tile + 3 < tiles ? tiles / 8 : 0)) {
                const std::vector<MicroState> wanted = micro_trace(node, operands, tile);
                const std::vector<MicroState> trace = micro_trace(tapped, tile);
                ASSERT_EQ(trace, wanted) << "node " << tapped.number << " tile " << tile;
                std::uint64_t bytes = trace.size() * trace.back().accumulators.size() * kTileBytes;
                const std::vector<OperandType> types = test::operand_types(c.program, node);
                ASSERT_GE(micro_state_bytes(node, types) + micro_copy_bytes(node, types), bytes);

                const LeafTarget target{tile, random.next() % trace.size(),
                                        random.below(static_cast<std::uint32_t>(accumulator_count(node))),
                                        random.below(kTileWords)};
                const MicroState before =
                    target.micro_step == 0 ? initial_micro_state(node) : trace[target.micro_step - 1];
                const auto leaf = evaluate_leaf(tapped, c.program.header, target, before, c.data);
                ASSERT_TRUE(leaf) << leaf.error().to_string();
                EXPECT_EQ(leaf->value, trace[target.micro_step].accumulators[target.accumulator][target.element]);
                const auto reads = leaf_reads(node, operands, target);
                ASSERT_EQ(leaf->tiles.size(), reads.size());
                for (std::size_t i = 0; i < reads.size(); ++i) {
                    EXPECT_EQ(leaf->tiles[i].first, reads[i]);
                    EXPECT_EQ(leaf->tiles[i].second, read_tile(*operands[reads[i].operand], reads[i].tile));
                }
            }
        });
    }
}

TEST(Tap, the_last_micro_state_of_an_altered_output_holds_the_altered_tile) {
    const Case c = case_of(ragged_program(), Fill::moderate);
    Executor executor(c.program, arith::best_backend(), nullptr);
    std::uint32_t matmul = 0;
    while (c.program.nodes[matmul].op != Op::matmul) ++matmul;
    std::vector<MicroState> honest;
    executor.run_tapped(c.state, c.data, c.seed, [&](const TappedNode& tapped) {
        if (tapped.number == matmul) honest = micro_trace(tapped, 0);
    });
    std::vector<MicroState> altered;
    executor.run_tapped(
        c.state, c.data, c.seed,
        [&](const TappedNode& tapped) {
            if (tapped.number == matmul) altered = micro_trace(tapped, 0);
        },
        [&](std::uint32_t node, Tensor& output) {
            if (node == matmul) output.words[0] ^= 1;
        });
    ASSERT_EQ(honest.size(), altered.size());
    for (std::size_t u = 0; u + 1 < honest.size(); ++u) EXPECT_EQ(honest[u], altered[u]);
    honest.back().accumulators[0][0] ^= 1;
    EXPECT_EQ(honest.back(), altered.back());
}

TEST(Tap, a_run_takes_what_the_plan_says_and_no_more_than_a_step) {
    const Program program = test::deep_program(24, 256);
    const Case c = case_of(program, Fill::moderate);
    std::uint64_t all = 0;
    for (const Node& node : program.nodes) all += node.shape.elements() * sizeof(std::uint32_t);
    std::uint64_t state_bytes = 0;
    for (const Tensor& slot : c.state) state_bytes += slot.words.size() * sizeof(std::uint32_t);
    ASSERT_GE(all, 20 * tapped_bytes(program));
    EXPECT_LE(tapped_bytes(program), step_bytes(program) + step_bytes(program) / 5);

    const auto peak_of = [&](auto run) {
        Executor executor(program, arith::best_backend(), nullptr);
        const std::size_t before = quern::test::counted_memory();
        quern::test::mark_counted_memory();
        run(executor);
        return quern::test::peak_of_counted_memory() - before;
    };
    State state = c.state;
    const std::size_t step = peak_of([&](Executor& executor) { executor.step(state, c.data, c.seed); });
    Hash32 root;
    const Tap tap = [&](const TappedNode& tapped) { root = tensor_root(tapped.output, nullptr); };
    const std::size_t tapped = peak_of([&](Executor& executor) { executor.run_tapped(c.state, c.data, c.seed, tap); });
    EXPECT_LE(step_bytes(program), step);
    EXPECT_LE(tapped_bytes(program), tapped);
    const std::size_t hashed = crypto::kHashLanes * (kTileBytes + sizeof(std::uint32_t));  // at a time
    EXPECT_LE(tapped, tapped_bytes(program) + hashed + (64U << 10));  // the plan itself, hashes of one output
    EXPECT_LE(static_cast<double>(tapped + state_bytes), 1.2 * static_cast<double>(step + state_bytes));
    const std::size_t whole = peak_of([&](Executor& executor) { (void)executor.run_all(c.state, c.data, c.seed); });
    EXPECT_GE(whole, all);                                   // so the count counts
    EXPECT_GE(tapped_bytes(program), 2 * state_bytes - 64);  // a product and its operand
}

TEST(Cancellation, ends_a_run_between_two_nodes_and_leaves_no_state_between_two) {
    const Case c = case_of(test::deep_program(6, 40), Fill::moderate);
    for (const int allowed : {0, 1, 5}) {
        for (int kind = 0; kind < 3; ++kind) {
            int looks = 0;
            const Cancellation cancellation([&] { return looks++ >= allowed; });
            Executor executor(c.program, arith::Backend::scalar, nullptr, &cancellation);
            State state = c.state;
            int tapped = 0;
            const Tap tap = [&](const TappedNode&) { ++tapped; };
            const bool whole = kind == 0   ? executor.step(state, c.data, c.seed)
                               : kind == 1 ? executor.step_tapped(state, c.data, c.seed, tap)
                                           : executor.run_tapped(state, c.data, c.seed, tap);
            EXPECT_FALSE(whole);
            EXPECT_EQ(state, c.state);  // the parameter is read until the last product
            EXPECT_EQ(looks, allowed + 1) << "once requested, it is not asked again";
            EXPECT_EQ(tapped, kind == 0 ? 0 : allowed);
        }
    }
    for (const bool tapped : {false, true}) {  // asked for once something was written over
        bool writes = false;
        const Cancellation late([&] { return writes; });
        Executor executor(c.program, arith::Backend::scalar, nullptr, &late);
        executor.set_before_writing([&](std::size_t) { writes = true; });
        State state = c.state;
        if (tapped) {
            EXPECT_FALSE(executor.step_tapped(state, c.data, c.seed, [](const TappedNode&) {}));
        } else {
            EXPECT_FALSE(executor.step(state, c.data, c.seed));
        }
        EXPECT_TRUE(writes);
        EXPECT_TRUE(state.empty()) << "neither the state before nor the one after";
    }
    const Cancellation never;
    Executor executor(c.program, arith::Backend::scalar, nullptr, &never);
    State state = c.state;
    int tapped = 0;
    EXPECT_TRUE(executor.step_tapped(state, c.data, c.seed, [&](const TappedNode&) { ++tapped; }));
    EXPECT_EQ(tapped, static_cast<int>(c.program.nodes.size()));
    EXPECT_NE(state, c.state);
}

TEST(Cancellation, ends_hashing_between_two_batches) {
    const State state{{DType::i32, {{1, 1, 1, 5 * 256 * 1024}}, std::vector<std::uint32_t>(5 * 256 * 1024, 7)}};
    const TensorView view{DType::i32, dense_view(state[0])};
    int looks = 0;
    const Cancellation third([&] { return ++looks == 3; });
    const std::vector<Hash32> hashes = tile_hashes(view, nullptr, &third);
    ASSERT_EQ(hashes.size(), 5 * kHashBatch);
    EXPECT_NE(hashes[2 * kHashBatch - 1], Hash32{});
    EXPECT_EQ(hashes[2 * kHashBatch], Hash32{});
    EXPECT_TRUE(third.requested());
    looks = 0;
    const Cancellation again([&] { return ++looks == 3; });
    EXPECT_NE(slot_roots(state, nullptr, &again), slot_roots(state));
    EXPECT_EQ(looks, 3);
    EXPECT_EQ(slot_roots(state, nullptr, nullptr)[0], tensor_root(view, nullptr));
}

TEST(Cancellation, ends_a_micro_trace_between_two_states) {
    Graph g;
    const std::uint32_t a = g.add_slot("a", DType::f32, {{1, 1, 40, 320}});
    const std::uint32_t product = g.matmul(a, a, false, true);
    g.add_slot("loss", DType::f32, {});
    g.finish({{1, 1, 1, 8}});
    const Case c = case_of(g.program, Fill::moderate);
    Executor executor(c.program, arith::Backend::scalar, nullptr);
    std::vector<MicroState> all;
    std::vector<MicroState> taken;
    executor.run_tapped(c.state, c.data, c.seed, [&](const TappedNode& tapped) {
        if (tapped.number != product) return;
        all = micro_trace(tapped, 1);
        each_micro_state(tapped, 1, [&](const MicroState& state) {
            taken.push_back(state);
            return taken.size() < 4;
        });
    });
    ASSERT_EQ(all.size(), 10U);
    EXPECT_EQ(taken, std::vector<MicroState>(all.begin(), all.begin() + 4));
}

}  // namespace
}  // namespace quern::vm::tensor
