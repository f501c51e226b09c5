// Steps done over again, and differences between states.
#include "compute/program/replay.h"

#include <gtest/gtest.h>

#include "compute/program/architecture.h"
#include "compute/program/initial_state.h"

namespace quern::compute::program {
namespace {

using vm::tensor::State;
using vm::tensor::Tensor;

const Tensor kSeed{DType::i32, vector_shape(4), {1, 2, 3, 4}};

Architecture small(std::uint32_t accumulate) {
    Architecture architecture;
    architecture.model = TransformerSpec{1, 16, 2, 12, 2, 20};
    architecture.data[0].elements = 9 * 12 + 1;
    architecture.batch = 3;
    architecture.accumulate = accumulate;
    return architecture;
}

struct Case {
    core::TaskPrograms programs;
    State initial;
    vm::tensor::MemoryData data;
};
Case make(std::uint32_t accumulate, std::uint64_t updates) {
    const Architecture architecture = small(accumulate);
    auto built = build_training_programs(architecture);
    EXPECT_TRUE(built) << built.error().to_string();
    State initial = initial_state(built->programs.front(), 7);
    std::vector<Program> programs;
    for (BuiltProgram& each : built->programs) programs.push_back(std::move(each.program));
    auto made = core::TaskPrograms::make(std::move(programs), built->body(updates));
    EXPECT_TRUE(made) << made.error().to_string();
    Bytes tokens;
    for (std::uint32_t i = 0; i < architecture.data[0].elements; ++i)
        tokens.push_back(static_cast<std::uint8_t>(i * 7 % 20));
    return {std::move(*made), std::move(initial), vm::tensor::MemoryData({tokens})};
}

TEST(Replay, runs_nothing_that_memory_has_no_room_for) {
    const Case each = make(2, 1);
    State state = each.initial;
    const std::uint64_t needed = replay_bytes(each.programs);
    const auto with = [&](std::uint64_t memory) {
        return replay(each.programs, state, each.data, kSeed, 1, 1, nullptr, memory);
    };
    EXPECT_EQ(with(needed - 1).error().name, "memory.too_little");
    EXPECT_FALSE(difference(each.programs.any(), state, each.initial));
    EXPECT_TRUE(with(needed));
}

TEST(Replay, of_parts_is_that_of_the_whole) {
    for (const std::uint32_t accumulate : {0U, 2U}) {
        const Case each = make(accumulate, 4);
        const std::uint64_t steps = each.programs.plan.steps();
        EXPECT_EQ(steps, accumulate == 0 ? 4U : 12U);
        State whole = each.initial;
        ASSERT_TRUE(replay(each.programs, whole, each.data, kSeed, 1, steps, nullptr));
        State parts = each.initial;
        ASSERT_TRUE(replay(each.programs, parts, each.data, kSeed, 1, 1, nullptr));
        EXPECT_TRUE(difference(each.programs.any(), whole, parts));
        ASSERT_TRUE(replay(each.programs, parts, each.data, kSeed, 2, steps, nullptr));
        EXPECT_FALSE(difference(each.programs.any(), whole, parts));
    }
}

TEST(Replay, refuses_what_it_cannot_do) {
    const Case each = make(0, 4);
    const auto error = [&](std::uint64_t first, std::uint64_t last) {
        State state = each.initial;
        const Status status = replay(each.programs, state, each.data, kSeed, first, last, nullptr);
        return status ? "none" : std::string(status.error().name);
    };
    EXPECT_EQ(error(1, 4), "none");
    EXPECT_EQ(error(0, 4), "replay.bad_range");
    EXPECT_EQ(error(3, 2), "replay.bad_range");
    EXPECT_EQ(error(1, 5), "replay.bad_range");
    State state = each.initial;
    state.pop_back();
    EXPECT_FALSE(replay(each.programs, state, each.data, kSeed, 1, 1, nullptr));
    state = each.initial;
    const vm::tensor::MemoryData none({Bytes(3)});
    EXPECT_EQ(replay(each.programs, state, none, kSeed, 1, 1, nullptr).error().name, "replay.no_data");
}

TEST(Replay, differences_are_told_of_the_first_slot) {
    const Case each = make(0, 1);
    const Program& program = each.programs.any();
    const auto weight = slot_index(program, "model.wte", "missing");
    const auto step = slot_index(program, "step", "missing");
    ASSERT_TRUE(weight && step);
    State other = each.initial;
    EXPECT_FALSE(difference(program, each.initial, other));
    other[*weight].words[3] = 0x3f800000;
    other[*weight].words[4] = 0x40800000;
    auto found = difference(program, each.initial, other);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->slot, "model.wte");
    EXPECT_EQ(found->elements, 2U);
    EXPECT_EQ(found->slots, 1U);
    ASSERT_TRUE(found->largest);
    EXPECT_NEAR(*found->largest, 4.0, 1.0);
    other[*weight].words[4] = 0x7fc00000;
    EXPECT_FALSE(difference(program, each.initial, other)->largest);
    other[*step].words[0] = 1;
    found = difference(program, each.initial, other);
    EXPECT_EQ(found->slots, 2U);
    EXPECT_EQ(found->slot, *weight < *step ? "model.wte" : "step");
}

}  // namespace
}  // namespace quern::compute::program
