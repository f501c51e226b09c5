// What a task must look like, and the escrow equation.
#include "compute/core/task_spec.h"

#include <gtest/gtest.h>

#include "compute/core/program_opening.h"
#include "compute/core/verification_report.h"
#include "unit/vm/tensor/test_programs.h"

namespace quern::compute::core {
namespace {

using chain::types::TaskSubmitPayload;

TaskSubmitPayload good_spec() {
    static const vm::tensor::Program program = vm::tensor::test::training_program(4, 5, 40);
    const ProgramProver prover(program);
    TaskSubmitPayload spec;
    spec.plan = TaskPlan::make({{prover.root(), program.header}}, plain_body(300))->bytes();
    spec.header_paths = {prover.header_path()};
    spec.init_root = spec.contents.init = Hash32{{1}};
    spec.data_roots = {Hash32{{1}}};
    spec.contents.programs = {Hash32{{1}}};
    spec.work.interval = 30;
    spec.money.price_cap = 7;
    spec.money.tax = 1000;
    spec.windows.bid_s = spec.windows.start_s = spec.windows.heartbeat_s = spec.windows.prove_s =
        spec.windows.verify_s = spec.windows.challenge_s = 10;
    spec.contents.uris = {"https://example.org/data"};
    return spec;
}

// A second program over the same slots, which each take a constant; a free one keeps them as they are.
TaskSubmitPayload of_two_programs(bool free) {
    const vm::tensor::Program training = vm::tensor::test::training_program(4, 5, 40);
    vm::tensor::test::Graph other;
    for (const vm::tensor::Slot& slot : training.slots) other.add_slot(slot.name, slot.dtype, slot.shape);
    if (!free)
        for (std::size_t slot = 0; slot < training.slots.size(); ++slot)
            other.update(slot, other.full(training.slots[slot].dtype, training.slots[slot].shape, 0));
    other.program.slots = training.slots;
    other.finish({});
    other.program.header.data = training.header.data;  // which it does not read
    TaskSubmitPayload spec = good_spec();
    const TaskPrograms programs =
        *TaskPrograms::make({training, other.program}, {plan_repeat(150, {plan_step(0), plan_step(1)})});
    spec.plan = programs.plan.bytes();
    spec.header_paths.push_back(ProgramProver(other.program).header_path());
    spec.contents.programs.push_back(Hash32{{2}});
    return spec;
}

TEST(TaskSpec, ATaskOfTwoProgramsOpensBothHeaders) {
    const TaskSubmitPayload good = of_two_programs(false);
    const auto plan = check_task_spec(good, 0);
    ASSERT_TRUE(plan.has_value()) << plan.error().to_string();
    EXPECT_EQ(plan->programs().size(), 2U);
    TaskSubmitPayload swapped = good;
    std::swap(swapped.header_paths[0], swapped.header_paths[1]);
    EXPECT_EQ(check_task_spec(swapped, 0).error().name, "task.bad_header_path");
}

TEST(TaskSpec, WellFormedTaskGivesItsPlan) {
    const auto plan = check_task_spec(good_spec(), 0);
    ASSERT_TRUE(plan.has_value()) << plan.error().to_string();
    EXPECT_EQ(plan->steps(), 300U);
    EXPECT_EQ(plan->bytes(), good_spec().plan);
}

TEST(TaskSpec, EachDefectIsNamed) {
    const auto expect = [](std::string_view error, auto change) {
        TaskSubmitPayload spec = good_spec();
        change(spec);
        const auto plan = check_task_spec(spec, 0);
        EXPECT_EQ(plan ? "accepted" : plan.error().name, error);
    };
    using Spec = TaskSubmitPayload;
    const auto planned = [](const Spec& spec, std::uint64_t steps) {
        return TaskPlan::make(TaskPlan::decode(spec.plan)->programs(), plain_body(steps))->bytes();
    };
    const std::uint64_t strides = (kMaxStrides + 30) / 30 * 30;
    expect("task.bad_steps", [&](Spec& s) { s.plan = planned(s, strides); });
    expect("accepted", [&](Spec& s) { s.plan = planned(s, strides), s.work.stride = 2; });
    expect("accepted", [](Spec& s) {
        constexpr std::uint64_t kTurn = kMaxSteps / kMaxPlanCount;
        const std::vector<PlanItem> turn{plan_repeat(kTurn - 1, {plan_step(0)}), plan_step(0)};
        s.plan = TaskPlan::make(TaskPlan::decode(s.plan)->programs(), {plan_repeat(kMaxPlanCount, turn)})->bytes();
        s.work.interval = kMaxSteps;
        s.work.stride = kMaxStride;
    });
    expect("accepted", [&](Spec& s) { s.plan = planned(s, strides), s.work.tranche = 30; });
    expect("accepted", [](Spec& s) { s.work.tranche = 300; });
    expect("task.bad_tranche", [](Spec& s) { s.work.tranche = 330; });
    expect("task.bad_tranche", [](Spec& s) { s.work.tranche = 45; });
    expect("task.bad_tranche", [&](Spec& s) {
        s.plan = planned(s, kMaxStretches + 1);
        s.work.interval = s.work.tranche = 1;
    });
    expect("accepted", [&](Spec& s) {
        s.plan = planned(s, kMaxStretches);
        s.work.interval = s.work.tranche = 1;
    });
    expect("task.bad_stride", [](Spec& s) { s.work.stride = 0; });
    expect("task.bad_stride", [](Spec& s) { s.work.stride = 4; });
    expect("task.bad_stride", [](Spec& s) { s.work.stride = 60; });
    expect("task.bad_stride", [&](Spec& s) {
        s.plan = planned(s, 2 * kMaxStride);
        s.work.interval = s.work.stride = 2 * kMaxStride;
    });
    expect("task.bad_interval", [](Spec& s) { s.work.interval = 0; });
    expect("task.bad_interval", [](Spec& s) { s.work.interval = 31; });
    expect("task.bad_verifiers", [](Spec& s) { s.work.verifiers = 0; });
    expect("task.bad_verifiers", [](Spec& s) { s.work.verifiers = kMaxVerifiers + 1; });
    expect("task.bad_samples", [](Spec& s) { s.work.samples = 0; });
    expect("task.bad_samples", [](Spec& s) { s.work.samples = 5000; });
    expect("task.bad_price", [](Spec& s) { s.money.price_cap = 0; });
    expect("task.bad_price", [](Spec& s) { s.money.price_cap = Uint256(1) << kMaxPriceBits; });
    expect("task.bad_price", [](Spec& s) { s.money.tax = Uint256(1) << kMaxPriceBits; });
    expect("task.bad_root", [](Spec& s) { s.init_root = {}; });
    expect("task.bad_root", [](Spec& s) { s.data_roots = {}; });
    expect("task.bad_root", [](Spec& s) { s.data_roots = {Hash32{}}; });
    expect("task.bad_root", [](Spec& s) { s.data_roots.push_back(Hash32{{1}}); });
    expect("task.bad_window", [](Spec& s) { s.windows.verify_s = 0; });
    expect("task.bad_window", [](Spec& s) { s.windows.bid_s = kMaxWindowSeconds + 1; });
    Spec spec = good_spec();
    spec.windows.prove_s = 0;
    EXPECT_EQ(check_task_spec(spec, 0).error().detail, "proveS is 0; each waiting state lasts 1 to 2^20 seconds");
    expect("task.bad_class", [](Spec& s) { s.classes.bandwidth = chain::market::kMaxClass + 1; });
    expect("task.bad_class", [](Spec& s) { s.classes.speed = ~std::uint32_t{0}; });
    expect("task.window_too_short", [](Spec& s) { s.classes.bandwidth = 1; });
    expect("task.window_too_short", [](Spec& s) { s.classes.speed = 1; });
    expect("accepted", [](Spec& s) { s.classes.bandwidth = s.classes.speed = chain::market::kMaxClass; });
    expect("task.bad_uris", [](Spec& s) { s.contents.uris.assign(9, "x"); });
    expect("task.bad_uris", [](Spec& s) { s.contents.uris = {""}; });
    expect("task.bad_uris", [](Spec& s) { s.contents.uris = {"a b"}; });
    expect("task.bad_uris", [](Spec& s) { s.contents.uris = {std::string(513, 'x')}; });
    expect("task.mode_not_supported", [](Spec& s) { s.work.mode = static_cast<chain::types::TaskMode>(2); });
    // In tolerance mode the last data tensor, and no other, is nobody's yet.
    const auto tolerant = [](Spec& s, std::vector<Hash32> roots) {
        s.work.mode = chain::types::TaskMode::tolerance;
        s.data_roots = std::move(roots);
    };
    expect("accepted", [&](Spec& s) { tolerant(s, {Hash32{}}); });
    expect("task.bad_root", [&](Spec& s) { tolerant(s, {Hash32{{1}}}); });
    expect("task.bad_root", [&](Spec& s) { tolerant(s, {}); });
    expect("task.bad_root", [&](Spec& s) { tolerant(s, {Hash32{{1}}, Hash32{}}); });
    expect("task.mode_not_supported", [](Spec& s) { s.work.mode = static_cast<chain::types::TaskMode>(9); });
    expect("task.privacy_not_supported", [](Spec& s) { s.work.privacy = chain::types::TaskPrivacy::encrypted; });
    expect("task.solvers_not_supported", [](Spec& s) { s.work.solvers = 2; });
    expect("task.bad_root", [](Spec& s) { s.contents.programs = {Hash32{}}; });
    expect("task.bad_root", [](Spec& s) { s.contents.programs.clear(); });
    expect("task.bad_header_path", [](Spec& s) {
        const vm::tensor::ProgramHeader header = TaskPlan::decode(s.plan)->header();
        s.plan = TaskPlan::make({{Hash32{{9}}, header}}, plain_body(300))->bytes();
    });
    expect("task.bad_header_path", [](Spec& s) { s.header_paths[0].pop_back(); });
    expect("task.bad_header_path", [](Spec& s) { s.header_paths.push_back({}); });
    expect("task.no_work", [](Spec& s) { s = of_two_programs(true); });
    expect("rlp.truncated", [](Spec& s) { s.plan.clear(); });
}

// chain/market's sums are checked for these.
static_assert(kMaxSteps <= std::uint64_t{1} << 40 && kMaxSamples <= 4096);

}  // namespace
}  // namespace quern::compute::core
