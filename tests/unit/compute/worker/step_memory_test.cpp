// What a worker holds for a step, and what it says that it needs.
#include <gtest/gtest.h>

#include "compute/core/dispute_strategy.h"
#include "compute/worker/step_runner.h"
#include "compute/worker/task_inputs.h"
#include "support/counted_memory.h"
#include "unit/vm/tensor/test_programs.h"
#include "vm/tensor/plan.h"

namespace quern::compute::worker {
namespace {

namespace tensor = vm::tensor;
using tensor::DType;

constexpr std::uint64_t kSteps = 4;

// Outputs of a step together take 20 times what a step needs at once.
struct Deep {
    tensor::Program program = tensor::test::deep_program(24, 384);
    core::TaskPrograms programs = *core::TaskPrograms::make({program}, core::plain_body(kSteps));
    tensor::State state = tensor::test::random_state(program, 1, tensor::test::Fill::moderate);
    tensor::MemoryData data = tensor::test::random_data(program, 2);
    tensor::Tensor seed = tensor::test::test_seed();

    [[nodiscard]] std::uint64_t state_bytes() const {
        std::uint64_t bytes = 0;
        for (const tensor::Tensor& slot : state) bytes += slot.words.size() * sizeof(std::uint32_t);
        return bytes;
    }
};

TEST(StepMemory, a_replay_of_probed_and_plain_steps_takes_little_more_than_a_solver) {
    const Deep deep;
    std::uint64_t outputs = 0;
    for (const auto& node : deep.program.nodes) outputs += node.shape.elements() * sizeof(std::uint32_t);
    const auto peak_of = [&](bool probed) {
        const std::size_t before = quern::test::counted_memory();
        quern::test::mark_counted_memory();
        StepRunner runner(deep.programs, deep.data, deep.seed, {}, tensor::arith::best_backend(), nullptr, nullptr);
        tensor::State state = deep.state;
        tensor::Tile kept{};
        for (std::uint64_t step = 1; step <= kSteps; ++step) {
            if (probed && step % 2 == 0)
                EXPECT_TRUE(runner.run_tapped(state, step, [&](const tensor::TappedNode& tapped) {
                    if (tapped.number == 40) kept = read_tile(tapped.output, 3);
                }));
            else
                EXPECT_TRUE(runner.run(state, step));
        }
        EXPECT_EQ(kept != tensor::Tile{}, probed);
        return quern::test::peak_of_counted_memory() - before;
    };
    const std::size_t solver = peak_of(false);
    ASSERT_GE(outputs, 20 * (solver - deep.state_bytes()));
    EXPECT_LE(static_cast<double>(peak_of(true)), 1.2 * static_cast<double>(solver));
}

TEST(StepMemory, what_a_task_needs_is_its_run_and_states_and_not_all_outputs) {
    const Deep deep;
    const std::uint64_t state = deep.state_bytes();
    const std::uint64_t data = kept_data_bytes(deep.program.header);
    const std::uint64_t run = std::max(tensor::step_bytes(deep.program), core::dispute_bytes(deep.program, 1));
    const std::uint64_t decoded = 1'536 * deep.program.nodes.size() + 512 * deep.program.slots.size();
    EXPECT_EQ(memory_needed(deep.programs.programs, 1), decoded + run + data + 3 * state);
    EXPECT_GE(core::dispute_bytes(deep.program, 1), tensor::tapped_bytes(deep.program));
    EXPECT_LE(static_cast<double>(core::dispute_bytes(deep.program, 1) + state),
              1.2 * static_cast<double>(tensor::step_bytes(deep.program) + state));
}

// Of many small nodes programs and their plans take more than what is computed.
TEST(StepMemory, counts_programs_of_many_nodes_and_their_plans) {
    tensor::test::Graph graph;
    const std::uint32_t slot = graph.add_slot("w", DType::f32, {});
    std::uint32_t sum = slot;
    for (int i = 0; i < 60'000; ++i) sum = graph.element(tensor::arith::ElementOp::add, {sum, slot});
    graph.add_slot("loss", DType::f32, {});
    graph.update(0, sum);
    graph.update(1, sum);
    graph.finish({{1, 1, 1, 1}});
    const tensor::Program& program = graph.program;
    std::uint64_t run = std::max(tensor::step_bytes(program), core::dispute_bytes(program, 1));
    const std::uint64_t counted = memory_needed({&program, 1}, 1) - run;
    const std::size_t held = quern::test::counted_memory();
    quern::test::mark_counted_memory();
    {
        const tensor::Program decoded = program;
        const auto plain = tensor::make_plan(decoded, nullptr, tensor::PlanMode::step);
        const auto tapped = tensor::make_plan(decoded, nullptr, tensor::PlanMode::tapped);
        EXPECT_FALSE(plain.steps.empty() || tapped.steps.empty());
    }
    const std::size_t taken = quern::test::peak_of_counted_memory() - held;
    EXPECT_GE(counted, taken);
    EXPECT_LE(counted, 4 * taken) << "not far more";
}

// Each row of [n, 1, 1, 1] is a tile: a slot of these is fetched in a thousand times its words.
TEST(StepMemory, counts_the_tiles_of_narrow_slots_that_are_fetched) {
    constexpr std::uint32_t kRows = 100'000;
    Deep deep;
    const std::uint64_t before = memory_needed({&deep.program, 1}, 1);
    const std::size_t slot = deep.program.slots.size();
    deep.program.slots.push_back(deep.program.slots.front());
    deep.program.updates.push_back(deep.program.updates.front());
    deep.program.slots[slot].shape = {{kRows, 1, 1, 1}};
    EXPECT_GE(fetched_bytes(deep.program), kRows * std::uint64_t{tensor::kTileBytes});
    EXPECT_GE(memory_needed({&deep.program, 1}, 1), kRows * std::uint64_t{tensor::kTileBytes});
    deep.program.slots[slot].shape = {{1, 1, 1, kRows}};
    EXPECT_LT(memory_needed({&deep.program, 1}, 1), before + 5 * kRows * sizeof(std::uint32_t));
}

}  // namespace
}  // namespace quern::compute::worker
