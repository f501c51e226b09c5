// Plans against their own unfolding, step by step, and each way in which one is none.
#include "compute/core/task_plan.h"

#include <gtest/gtest.h>

#include "base/rlp.h"
#include "compute/core/history.h"
#include "crypto/merkle.h"
#include "unit/vm/tensor/test_programs.h"

namespace quern::compute::core {
namespace {

using vm::tensor::ProgramHeader;
using vm::tensor::test::Random;

// Programs that the chain knows by their headers alone, of this work each.
std::vector<PlanProgram> programs_of(const std::vector<std::uint64_t>& works) {
    std::vector<PlanProgram> programs;
    for (const std::uint64_t work : works) {
        ProgramHeader header = vm::tensor::test::training_program(4, 5, 40).header;
        header.work_units = work;
        header.sizes.window_bytes = 0;  // which any work pays for
        header.node_count += programs.size();
        programs.push_back({Hash32{{static_cast<std::uint8_t>(programs.size() + 1)}}, header});
    }
    return programs;
}

void unfold(const std::vector<PlanItem>& body, std::vector<std::uint32_t>& steps) {
    for (const PlanItem& item : body)
        for (std::uint64_t turn = 0; turn < item.count; ++turn) {
            if (item.count == 1)
                steps.push_back(item.program);
            else
                unfold(item.body, steps);
        }
}

std::vector<PlanItem> random_body(Random& random, unsigned depth, std::uint32_t programs) {
    std::vector<PlanItem> body;
    const std::uint32_t items = 1 + random.below(4);
    while (body.size() < items) {
        PlanItem item = plan_step(random.below(programs));
        if (depth < kMaxPlanDepth && random.below(2) == 0)
            item = plan_repeat(2 + random.below(4), random_body(random, depth + 1, programs));
        if (body.empty() || body.back() != item) body.push_back(std::move(item));
    }
    if (depth > 1 && body.size() == 1 && body.front().count != 1) return {plan_step(0)};
    return body;
}

TEST(TaskPlan, isItsUnfoldingStepByStep) {
    Random random(11);
    int made = 0;
    for (int round = 0; round < 3'000 && made < 200; ++round) {
        const auto programs = programs_of({random.below(1'000) + 5'000, random.below(1'000) + 5'000, 200'000});
        std::vector<std::uint32_t> steps;
        const std::vector<PlanItem> body = random_body(random, 1, 3);
        unfold(body, steps);
        const auto plan = TaskPlan::make(programs, body);
        if (!plan) {
            EXPECT_EQ(plan.error().name, "plan.unused_program");
            continue;
        }
        ++made;
        ASSERT_EQ(plan->steps(), steps.size());
        const auto work_of = [&](std::uint64_t step) { return programs[steps[step - 1]].header.work_units; };
        std::vector<std::uint64_t> until{0};
        for (std::uint64_t step = 1; step <= steps.size(); ++step) {
            ASSERT_EQ(plan->program_of(step), steps[step - 1]) << step;
            ASSERT_EQ(plan->at(step), programs[steps[step - 1]]);
            until.push_back(until.back() + work_of(step));
            ASSERT_EQ(plan->work_until(step), Uint256(until.back())) << step;
        }
        EXPECT_TRUE(plan->work_until(0).is_zero());
        for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{2}, 1 + random.next() % steps.size(),
                                          static_cast<std::uint64_t>(steps.size())}) {
            std::uint64_t most = 0;
            for (std::uint64_t end = count; end <= steps.size(); ++end)
                most = std::max(most, until[end] - until[end - count]);
            EXPECT_GE(plan->most_work(count), Uint256(most));
            EXPECT_LE(plan->most_work(count), Uint256(until.back()));
            if (count == 1 || count == steps.size()) {
                EXPECT_EQ(plan->most_work(count), Uint256(most));
            }
        }
        const auto planned = plan->planned(1, 1);
        const std::uint64_t commit = programs.front().header.sizes.commit_work;
        EXPECT_EQ(planned.steps, steps.size());
        EXPECT_EQ(planned.interval, 1U);
        EXPECT_EQ(planned.commit, commit);
        EXPECT_EQ(planned.segment, Uint256(planned.step + commit));
        EXPECT_EQ(planned.total, Uint256(until.back() + commit * steps.size()));
        const auto by_stride = plan->planned(steps.size(), steps.size());
        EXPECT_EQ(by_stride.segment, Uint256(until.back() + commit)) << "one commitment for all";
        EXPECT_EQ(by_stride.total, by_stride.segment);
        const auto again = TaskPlan::decode(plan->bytes());
        ASSERT_TRUE(again) << again.error().to_string();
        EXPECT_EQ(again->body(), body);
        EXPECT_EQ(again->programs(), programs);
        EXPECT_EQ(again->bytes(), plan->bytes());
    }
    EXPECT_EQ(made, 200);
}

TEST(TaskPlan, segmentsOfWholeTurnsCostWhatTheyDo) {
    const auto programs = programs_of({9'000, 70'000});
    const auto plan = TaskPlan::make(programs, {plan_repeat(50, {plan_repeat(4, {plan_step(0)}), plan_step(1)})});
    ASSERT_TRUE(plan) << plan.error().to_string();
    const Uint256 turn = plan->work_until(5);
    for (const std::uint64_t turns : {1, 2, 25, 50}) EXPECT_EQ(plan->most_work(5 * turns), turn * Uint256(turns));
    const std::uint64_t commit = programs[1].header.sizes.commit_work;
    EXPECT_EQ(plan->planned(10, 5).segment, turn + turn + Uint256(2 * commit));
    EXPECT_EQ(plan->planned(10, 5).total, turn * Uint256(50) + Uint256(50 * commit));
    EXPECT_EQ(plan->planned(10, 5).step, programs[1].header.work_units);
}

// A clock of a dispute counts in segments, each of which its solver had the heartbeat for: the largest that there is,
// not a bound of it. Else a plan whose bound is loose leaves nobody the time to hash the states of a stride.
TEST(TaskPlan, clocksOfDisputesHaveTheTimeForTheStatesOfAStride) {
    constexpr std::uint64_t kTiles = 10'000;
    constexpr std::uint64_t kSegment = 1'000;  // steps, and one stride
    auto programs = programs_of({10, 50 * kTiles * vm::tensor::kTileHashWork});
    for (auto& program : programs) {
        program.header.sizes.state_bytes = kTiles * 4'096;
        program.header.sizes.peak_bytes = 2 * kTiles * 4'096;
        program.header.sizes.commit_work = kTiles * vm::tensor::kTileHashWork;
    }
    const std::vector<PlanItem> turn{plan_repeat(kSegment - 1, {plan_step(0)}), plan_step(1)};
    const auto plan = TaskPlan::make(
        programs, {plan_repeat(1'000, {plan_repeat(1'000, turn), plan_repeat(kSegment, {plan_step(0)})})});
    ASSERT_TRUE(plan) << plan.error().to_string();
    Uint256 largest;
    for (std::uint64_t segment = 0; segment < 2'002; ++segment)
        largest = std::max(largest, plan->work_of({segment * kSegment, kSegment}, kSegment));
    const Uint256 commit(programs[0].header.sizes.commit_work);
    const Uint256 dispute = Uint256(2) * (largest - commit) + Uint256(kSegment) * commit;
    const std::uint64_t segments = chain::market::dispute_segments(plan->planned(kSegment, kSegment));
    EXPECT_GE(Uint256(segments) * largest, dispute)
        << segments << " segments, needs " << ((dispute + largest - Uint256(1)) / largest).to_decimal();
}

TEST(TaskPlan, clocksOfDisputesHaveTheTimeForATrace) {
    auto programs = programs_of({1'000'000});
    auto& header = programs[0].header;
    const std::uint64_t step = header.work_units + header.sizes.commit_work;
    const std::uint64_t tiles = 60 * step / vm::tensor::kTileHashWork;
    header.sizes.trace_bytes = tiles * 4'096;
    const auto plan = TaskPlan::make(programs, plain_body(100));
    ASSERT_TRUE(plan) << plan.error().to_string();
    for (const std::uint64_t stride : {1U, 10U}) {
        const auto planned = plan->planned(10, stride);
        EXPECT_EQ(planned.trace, tiles * vm::tensor::kTileHashWork);
        EXPECT_GE(Uint256(chain::market::dispute_segments(planned)) * planned.segment,
                  planned.segment + Uint256(planned.trace));
    }
}

TEST(TaskPlan, theLongestIsReckonedWithAsTheShortest) {
    const auto programs = programs_of({9'000, 70'000});
    const auto of = [&](std::uint64_t adds) {
        return TaskPlan::make(programs,
                              {plan_repeat(kMaxPlanCount, {plan_repeat(adds, {plan_step(0)}), plan_step(1)})});
    };
    const std::uint64_t turn = kMaxPlanSteps / kMaxPlanCount;
    EXPECT_EQ(of(turn).error().name, "plan.too_many_steps");
    const auto longest = of(turn - 1);
    ASSERT_TRUE(longest) << longest.error().to_string();
    EXPECT_EQ(longest->steps(), kMaxPlanSteps);
    EXPECT_EQ(longest->program_of(kMaxPlanSteps), 1U);
    EXPECT_EQ(longest->program_of(kMaxPlanSteps - 1), 0U);
    EXPECT_EQ(longest->work_until(kMaxPlanSteps), longest->work_until(turn) * Uint256(kMaxPlanCount));
}

TEST(TaskPlan, eachDefectIsNamed) {
    const auto works = std::vector<std::uint64_t>{9'000, 70'000};
    const auto name = [&](std::vector<PlanItem> body) {
        const auto plan = TaskPlan::make(programs_of(works), std::move(body));
        return plan ? "accepted" : std::string(plan.error().name);
    };
    const PlanItem a = plan_step(0);
    const PlanItem b = plan_step(1);
    EXPECT_EQ(name({a, b}), "accepted");
    EXPECT_EQ(name({a, a, b}), "plan.not_shortest");
    EXPECT_EQ(name({plan_repeat(2, {a}), plan_repeat(2, {a}), b}), "plan.not_shortest");
    EXPECT_EQ(name({plan_repeat(2, {a}), plan_repeat(3, {a}), b}), "accepted");
    EXPECT_EQ(name({plan_repeat(2, {plan_repeat(2, {a})}), b}), "plan.not_shortest");
    EXPECT_EQ(name({a}), "plan.unused_program");
    EXPECT_EQ(name({a, plan_step(2), b}), "plan.bad_program");
    EXPECT_EQ(name({}), "plan.bad_body");
    EXPECT_EQ(name({a, plan_repeat(2, {}), b}), "plan.bad_body");
    std::vector<PlanItem> many;
    for (std::size_t i = 0; i <= kMaxPlanItems; ++i) many.push_back(i % 2 == 0 ? a : b);
    EXPECT_EQ(name(many), "plan.bad_body");
    many.pop_back();
    EXPECT_EQ(name(many), "accepted");
    EXPECT_EQ(name({plan_repeat(0, {a}), b}), "plan.bad_count");
    EXPECT_EQ(name({plan_repeat(1, {a}), b}), "plan.bad_count");
    EXPECT_EQ(name({plan_repeat(kMaxPlanCount, {a}), b}), "accepted");
    EXPECT_EQ(name({plan_repeat(kMaxPlanCount + 1, {a}), b}), "plan.bad_count");
    std::vector<PlanItem> deep{a, b};
    for (unsigned depth = 1; depth < kMaxPlanDepth; ++depth) deep = {a, plan_repeat(2, deep)};
    EXPECT_EQ(name(deep), "accepted");
    EXPECT_EQ(name({a, plan_repeat(2, deep)}), "plan.too_deep");
    const auto wide = [&](std::uint64_t bodies) {
        std::vector<PlanItem> body;
        for (std::uint64_t i = 0; i < bodies; ++i) body.push_back(plan_repeat(2 + i, {a, b}));
        return body;
    };
    // The outermost, and three of 16 repeats each; then one more in another.
    std::vector<PlanItem> full;
    for (std::uint64_t i = 0; i < 3; ++i) full.push_back(plan_repeat(2 + i, wide(16)));
    full.push_back(plan_repeat(9, wide(11)));
    EXPECT_EQ(name(full), "accepted");
    full.back() = plan_repeat(9, wide(12));
    EXPECT_EQ(name(full), "plan.too_many_bodies");
    EXPECT_EQ(name({plan_repeat(kMaxPlanCount, {a, plan_repeat(300, {b})})}), "plan.too_many_steps");
    const std::uint64_t huge = kMaxPlanCount;  // 2^128 steps, if they were not saturated
    EXPECT_EQ(name({plan_repeat(huge, {a, plan_repeat(huge, {b, plan_repeat(huge, {a, b})})})}), "plan.too_many_steps");
    EXPECT_EQ(TaskPlan::make({}, {a}).error().name, "plan.bad_program_count");
    EXPECT_EQ(TaskPlan::make(programs_of(std::vector<std::uint64_t>(9, 9'000)), {a}).error().name,
              "plan.bad_program_count");
}

TEST(TaskPlan, programsMustAgreeInAllThatTheChainSeesOfTheState) {
    const auto name = [](const std::function<void(ProgramHeader&)>& change) {
        auto programs = programs_of({9'000, 70'000});
        change(programs[1].header);
        const auto plan = TaskPlan::make(std::move(programs), {plan_step(0), plan_step(1)});
        return plan ? "accepted" : std::string(plan.error().name);
    };
    EXPECT_EQ(name([](ProgramHeader&) {}), "accepted");
    EXPECT_EQ(name([](ProgramHeader& h) { h.data[0].elements += 1; }), "plan.programs_differ");
    EXPECT_EQ(name([](ProgramHeader& h) { h.slot_root.data[3] ^= 1; }), "plan.programs_differ");
    EXPECT_EQ(name([](ProgramHeader& h) { h.loss_slot -= 1; }), "plan.programs_differ");
    EXPECT_EQ(name([](ProgramHeader& h) {
                  h.slot_count += 1;
                  h.sizes.commit_work += vm::tensor::kTileHashWork;
                  h.sizes.state_bytes += vm::tensor::kTileBytes;
                  h.sizes.peak_bytes += vm::tensor::kTileBytes;
              }),
              "plan.programs_differ");
    EXPECT_EQ(name([](ProgramHeader& h) { h.format = 3; }), "program.unknown_format");
}

TEST(TaskPlan, decodingIsStrict) {
    const auto plan = *TaskPlan::make(programs_of({9'000, 70'000}),
                                      {plan_repeat(50, {plan_repeat(4, {plan_step(0)}), plan_step(1)})});
    EXPECT_EQ(plan.id(), crypto::merkle_leaf(plan.bytes()));
    const auto name = [](BytesView bytes) {
        const auto decoded = TaskPlan::decode(bytes);
        return decoded ? "accepted" : std::string(decoded.error().name);
    };
    // [format, roots, headers, body], of which each part may be another.
    const auto written = [&](std::uint64_t format, std::size_t roots, std::size_t headers, BytesView body,
                             bool more = false) {
        rlp::Writer writer;
        writer.begin_list().integer(format).begin_list();
        for (std::size_t i = 0; i < roots; ++i) writer.fixed(plan.programs()[i % 2].root);
        writer.end_list().begin_list();
        for (std::size_t i = 0; i < headers; ++i) writer.raw(vm::tensor::encode(plan.programs()[i % 2].header));
        writer.end_list().raw(body);
        if (more) writer.integer(std::uint64_t{0});
        writer.end_list();
        return std::move(writer).finish();
    };
    rlp::Writer of_body;
    of_body.begin_list().begin_list().integer(std::uint64_t{50}).begin_list();
    of_body.begin_list().integer(std::uint64_t{4}).begin_list().integer(std::uint64_t{0}).end_list().end_list();
    of_body.integer(std::uint64_t{1}).end_list().end_list().end_list();
    const Bytes whole = std::move(of_body).finish();
    EXPECT_EQ(written(1, 2, 2, whole), plan.bytes());
    EXPECT_EQ(name(written(2, 2, 2, whole)), "plan.unknown_format");
    EXPECT_EQ(name(written(1, 2, 1, whole)), "plan.bad_program_count");
    EXPECT_EQ(name(written(1, 1, 2, whole)), "plan.bad_program_count");
    EXPECT_EQ(name(written(1, 9, 9, whole)), "plan.bad_program_count");
    EXPECT_EQ(name(written(1, 2, 2, whole, true)), "rlp.trailing_bytes");
    const auto of = [](const std::function<void(rlp::Writer&)>& write) {
        rlp::Writer writer;
        write(writer);
        return std::move(writer).finish();
    };
    EXPECT_EQ(name(written(1, 2, 2, of([](auto& w) { w.integer(std::uint64_t{1}); }))), "rlp.expected_list");
    EXPECT_EQ(name(written(1, 2, 2, of([](auto& w) { w.begin_list().integer(std::uint64_t{8}).end_list(); }))),
              "plan.bad_program");
    EXPECT_EQ(name(written(1, 2, 2, of([](auto& w) {
                               w.begin_list().begin_list().integer(std::uint64_t{2}).begin_list();
                               w.integer(std::uint64_t{0}).end_list().integer(std::uint64_t{7}).end_list().end_list();
                           }))),
              "rlp.trailing_bytes");
    const auto counted = [&](std::uint64_t count) {
        return written(1, 2, 2, of([&](auto& w) {
                           w.begin_list().begin_list().integer(count).begin_list();
                           w.integer(std::uint64_t{0}).end_list().end_list().integer(std::uint64_t{1}).end_list();
                       }));
    };
    EXPECT_EQ(name(counted(2)), "accepted");
    EXPECT_EQ(name(counted(1)), "plan.bad_count");
    EXPECT_EQ(name(counted(0)), "plan.bad_count");
    EXPECT_EQ(name(written(1, 2, 2, of([](auto& w) {
                               w.begin_list();
                               for (int i = 0; i < 40; ++i) w.begin_list().integer(std::uint64_t{2}).begin_list();
                               for (int i = 0; i < 40; ++i) w.end_list().end_list();
                               w.end_list();
                           }))),
              "plan.too_deep");
    EXPECT_EQ(name(written(1, 2, 2, of([](auto& w) {
                               w.begin_list();
                               for (int i = 0; i < 17; ++i) w.integer(std::uint64_t(i % 2));
                               w.end_list();
                           }))),
              "plan.bad_body");
    EXPECT_EQ(name(Bytes(kMaxPlanBytes + 1)), "plan.too_large");
}

// Whatever its stretches are, they cost together what the run does.
TEST(TaskPlan, theWorkOfItsStretchesAddsUpToItsWork) {
    const auto plan =
        TaskPlan::make(programs_of({9'000, 70'000}), {plan_repeat(20, {plan_repeat(4, {plan_step(0)}), plan_step(1)})});
    ASSERT_TRUE(plan);
    constexpr std::uint64_t kStride = 2;
    for (const std::uint64_t tranche : {0U, 2U, 6U, 14U, 100U}) {
        const auto planned = plan->planned(2, kStride, tranche);
        Uint256 sum;
        for (std::uint32_t i = 0; i < chain::market::stretch_count(100, tranche); ++i) {
            const Uint256 work = plan->work_of(chain::market::stretch_of(100, tranche, i), kStride);
            EXPECT_LE(work, planned.stretch) << tranche;
            sum += work;
        }
        EXPECT_EQ(sum, planned.total) << tranche;
    }
    EXPECT_EQ(plan->planned(2, kStride, 100).stretch, plan->planned(2, kStride).total);
}

}  // namespace
}  // namespace quern::compute::core
