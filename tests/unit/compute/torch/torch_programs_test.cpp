// Programs of each further kind, one step and 200, on the canonical machine and on the torch executor, each with the
// bounds that doc/torch.md states.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include "compute/program/architecture.h"
#include "compute/program/initial_state.h"
#include "compute/torch/torch_executor.h"
#include "unit/compute/torch/torch_rows.h"

namespace quern::compute::torch_backend {
namespace {

using namespace quern::compute::program;
using vm::tensor::State;
using vm::tensor::Tensor;

using test::Row;

const Tensor kSeed{DType::i32, vector_shape(4), {0x01234567, 0x89abcdef, 3, 4}};
constexpr int kSteps = 200;

double number(std::uint32_t word) { return static_cast<double>(__builtin_bit_cast(float, word)); }

// How far a and b are from one another in the parameters, as a part of how far a is from `start`.
double distance(const Program& program, const State& a, const State& b, const State& start) {
    double apart = 0;
    double way = 0;
    for (std::size_t s = 0; s < program.slots.size(); ++s) {
        if ((program.slots[s].flags & vm::tensor::kSlotParameter) == 0) continue;
        for (std::size_t e = 0; e < a[s].words.size(); ++e) {
            apart += std::pow(number(a[s].words[e]) - number(b[s].words[e]), 2);
            way += std::pow(number(a[s].words[e]) - number(start[s].words[e]), 2);
        }
    }
    return std::sqrt(apart / way);
}

class TorchPrograms : public testing::TestWithParam<Row> {};

// The programs of a turn, in order: of a plain training one.
std::vector<const Program*> turn_of(const TrainingPrograms& built, std::uint32_t accumulate) {
    std::vector<const Program*> turn(std::max(accumulate, 1U), &built.programs.front().program);
    if (accumulate != 0) turn.push_back(&built.programs.back().program);
    return turn;
}

TEST_P(TorchPrograms, train_within_their_bounds_of_the_canonical_machine) {
    const Row& row = GetParam();
    set_thread_count(1);
    const Architecture architecture = test::architecture_of(row);
    const vm::tensor::MemoryData data = test::data_of(architecture);
    const auto built = build_training_programs(architecture);
    ASSERT_TRUE(built) << built.error().to_string();
    const Program& program = built->programs.front().program;
    const State start = initial_state(built->programs.front(), 5);
    State state = start;
    State on_torch = start;
    std::map<const Program*, vm::tensor::Executor> canonical;
    std::map<const Program*, TorchExecutor> torch;
    for (const BuiltProgram& each : built->programs) {
        canonical.try_emplace(&each.program, each.program, vm::tensor::arith::best_backend(), nullptr);
        torch.try_emplace(&each.program, each.program);
    }
    double farthest = 0;
    double move = 0;
    double last = 0;
    for (int step = 0; step < kSteps; ++step) {
        for (const Program* const each : turn_of(*built, row.accumulate)) {
            ASSERT_TRUE(canonical.at(each).step(state, data, kSeed));
            const Status status = torch.at(each).step(on_torch, data, kSeed);
            ASSERT_TRUE(status) << status.error().to_string();
        }
        const double loss = number(state[program.header.loss_slot].words[0]);
        farthest = std::max(farthest, std::fabs(loss - number(on_torch[program.header.loss_slot].words[0])));
        if (step == 0) move = distance(program, state, on_torch, start);
        if (step >= kSteps - 10) last += loss / 10;
    }
    const double way = distance(program, state, on_torch, start);
    std::array<char, 160> seen{};
    std::snprintf(seen.data(), seen.size(), "loss %.2g, move %.2g, way %.2g, last %.3f", farthest, move, way, last);
    RecordProperty("seen", seen.data());
    EXPECT_LT(farthest, row.bounds.loss);
    EXPECT_LT(move, row.bounds.move);
    EXPECT_LT(way, row.bounds.way);
    EXPECT_LT(last, row.lowers_to);
    EXPECT_TRUE(vm::tensor::check_state(program, on_torch));
}

INSTANTIATE_TEST_SUITE_P(Rows, TorchPrograms, testing::ValuesIn(test::rows()),
                         [](const auto& named) { return std::string(named.param.name); });

}  // namespace
}  // namespace quern::compute::torch_backend
