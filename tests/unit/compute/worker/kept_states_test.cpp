// Which states a solver keeps, and which it is asked for.
#include "compute/worker/kept_states.h"

#include <gtest/gtest.h>

#include "compute/core/verification_report.h"

namespace quern::compute::worker {
namespace {

using chain::types::TaskClaim;

// 64 segments of 10 steps, behind another stretch.
TaskClaim live_of() {
    TaskClaim live;
    live.task.steps = 1'280;
    live.task.spec.work.tranche = 640;
    live.task.spec.work.interval = 10;
    live.task.spec.work.verifiers = 2;
    live.task.spec.work.samples = 4;
    live.task.spec.windows.heartbeat_s = 100;
    live.task.spec.windows.verify_s = 1'000;
    live.claim.id.stretch = 1;
    return live;
}

TEST(KeptStates, all_stay_as_long_as_there_is_room) {
    const TaskClaim live = live_of();
    EXPECT_EQ(kept_spacing(live, 64, {630, 10, 0}), 1U) << "63 between the first and the newest";
    EXPECT_EQ(kept_spacing(live, 64, {629, 10, 0}), 2U);
    EXPECT_EQ(kept_spacing(live, 64, {310, 10, 0}), 2U) << "31: the newest is the 64th";
    EXPECT_EQ(kept_spacing(live, 64, {309, 10, 0}), 4U);
    EXPECT_EQ(kept_spacing(live, 1, {0, 10, 0}), 1U) << "the newest needs no room";
    EXPECT_EQ(kept_spacing(live, 64, {0, 10, 0}), 64U) << "none but the first and the newest";
    for (std::uint64_t done = 1; done < 64; ++done)
        EXPECT_GE(kept_spacing(live, done + 1, {50, 10, 0}), kept_spacing(live, done, {50, 10, 0}))
            << "what went is not wanted later";
}

TEST(KeptStates, more_stay_where_the_way_back_would_be_too_long) {
    const TaskClaim live = live_of();
    // One state in a quarter of 100 s, or 8 drawn ones (or all 64 segments) in a quarter of 1,000 s.
    EXPECT_EQ(kept_spacing(live, 64, {0, 10, 3'000}), 8U) << "8 segments take 24 s";
    EXPECT_EQ(kept_spacing(live, 64, {0, 10, 3'200}), 4U);
    EXPECT_EQ(kept_spacing(live, 64, {0, 10, 25'000}), 1U);
    TaskClaim soon = live;
    soon.task.spec.windows.heartbeat_s = 1'000'000;
    EXPECT_EQ(kept_spacing(soon, 64, {0, 10, 3'900}), 64U) << "the whole stretch takes 249.6 s";
    EXPECT_EQ(kept_spacing(soon, 64, {0, 10, 4'000}), 4U) << "8 times 8 segments 256 s";
}

TEST(KeptStates, the_first_and_the_newest_are_never_spare) {
    const TaskClaim live = live_of();
    std::vector<KeptState> kept;
    for (std::uint64_t step = 640; step <= 690; step += 10)
        kept.push_back({step, Hash32{{static_cast<std::uint8_t>(step / 10)}}, {}});
    std::vector<KeptState> all = kept;
    const auto steps = [](const std::vector<KeptState>& states) {
        std::vector<std::uint64_t> result;
        for (const KeptState& state : states) result.push_back(state.step);
        return result;
    };
    EXPECT_EQ(steps(take_spare(live, 1, all)), std::vector<std::uint64_t>{});
    EXPECT_EQ(steps(take_spare(live, 2, all)), (std::vector<std::uint64_t>{650, 670}));
    EXPECT_EQ(steps(all), (std::vector<std::uint64_t>{640, 660, 680, 690}));
    EXPECT_EQ(steps(take_spare(live, 64, all)), (std::vector<std::uint64_t>{660, 680}));
    EXPECT_EQ(steps(all), (std::vector<std::uint64_t>{640, 690}));
    // Of a whole stretch custodians are to have the state before the last one, too.
    TaskClaim kept_by_others = live;
    kept_by_others.task.custodians = 3;
    const auto end = chain::market::stretch_of(live).last();
    all = {{end - 20, {}, {}}, {end - 10, {}, {}}, {end, {}, {}}};
    EXPECT_EQ(steps(take_spare(kept_by_others, 64, all)), std::vector<std::uint64_t>{end - 20});
    EXPECT_EQ(steps(take_spare(live, 64, all)), std::vector<std::uint64_t>{end - 10});
    all = {{end - 30, {}, {}}, {end - 20, {}, {}}, {end - 10, {}, {}}};
    EXPECT_EQ(steps(take_spare(kept_by_others, 64, all)), (std::vector<std::uint64_t>{end - 30, end - 20}));
}

TEST(KeptStates, verifiers_ask_for_what_drawn_segments_begin_with_and_the_stretch_and_its_last_segment) {
    TaskClaim live = live_of();
    EXPECT_TRUE(drawn_steps(live).empty());
    live.claim.verify_beacon = Hash32{{7}};
    live.reports.resize(2);
    live.reports[0].verifier.data[0] = 1;
    live.reports[1].verifier.data[0] = 2;
    std::set<std::uint64_t> expected{640, 640 + 10 * 63};
    for (const auto& report : live.reports)
        for (const std::uint64_t segment : core::draw_segments(live.claim.verify_beacon, report.verifier, 64, 4))
            expected.insert(640 + 10 * segment);
    EXPECT_EQ(drawn_steps(live), expected);
    EXPECT_GE(expected.size(), 5U);
}

}  // namespace
}  // namespace quern::compute::worker
