// Tasks in tolerance mode: the solver's proof brings the last data tensor, and games about the claim read that one.
#include "compute/core/task_spec.h"
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

class Tolerance : public Lifecycle {
protected:
    Tolerance() {
        spec.work.mode = types::TaskMode::tolerance;
        spec.data_roots.back() = Hash32();
        spec.windows.challenge_s = 100;
    }
    [[nodiscard]] core::GameContext context_of(std::uint64_t dispute) const {
        return types::decode_record<core::Game>(world.dispute(dispute).game)->context;
    }
};

TEST_F(Tolerance, a_task_names_all_data_but_what_is_claimed) {
    EXPECT_TRUE(world.task(submit()).spec.data_roots.back().is_zero());
    spec.data_roots.back() = Hash32{{1}};
    EXPECT_EQ(name(world.one(kSubmitter, NativeKind::task_submit, spec)), "task.bad_root");
    spec.work.mode = types::TaskMode::exact;
    expect_ok(world.one(kSubmitter, NativeKind::task_submit, spec));
    spec.data_roots.back() = Hash32();
    EXPECT_EQ(name(world.one(kSubmitter, NativeKind::task_submit, spec)), "task.bad_root");
}

TEST_F(Tolerance, a_proof_brings_what_is_claimed) {
    const auto id = reach(ClaimState::working, truth);
    for (const std::uint64_t step : {2U, 4U})
        expect_ok(world.one(kSolver, NativeKind::task_checkpoint, checkpoint_of(world.task(id), truth, step)));
    EXPECT_TRUE(core::data_roots_of(world.task(id).spec, world.claim(id)).back().is_zero());
    auto proof = proof_of(world.task(id), truth);
    const Hash32 claimed = std::exchange(proof.claimed_content, Hash32());
    ASSERT_FALSE(claimed.is_zero());
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_prove, proof)), "prove.claimed_content");
    proof.claimed_content = claimed;
    expect_ok(world.one(kSolver, NativeKind::task_prove, proof));
    EXPECT_EQ(world.claim(id).claimed_content, claimed);
    EXPECT_EQ(core::data_roots_of(world.task(id).spec, world.claim(id)).back(), claimed);
}

TEST_F(Tolerance, a_proof_names_as_many_segments_as_the_task_wants) {
    spec.work.largest = 1;
    const auto id = reach(ClaimState::working, truth);
    for (const std::uint64_t step : {2U, 4U})
        expect_ok(world.one(kSolver, NativeKind::task_checkpoint, checkpoint_of(world.task(id), truth, step)));
    auto proof = proof_of(world.task(id), truth);
    for (const std::vector<std::uint64_t>& bad : {std::vector<std::uint64_t>{}, {0, 1}, {kSteps / kInterval}}) {
        proof.largest = bad;
        EXPECT_EQ(name(world.one(kSolver, NativeKind::task_prove, proof)), "prove.largest");
    }
    proof.largest = {1};
    expect_ok(world.one(kSolver, NativeKind::task_prove, proof));
    EXPECT_EQ(world.claim(id).largest, proof.largest);
}

TEST_F(Tolerance, only_its_tasks_want_the_largest_segments) {
    spec.work.largest = core::kMaxLargest;
    expect_ok(world.one(kSubmitter, NativeKind::task_submit, spec));
    spec.work.largest = core::kMaxLargest + 1;
    EXPECT_EQ(name(world.one(kSubmitter, NativeKind::task_submit, spec)), "task.bad_largest");
    spec.work.largest = core::kMaxLargest;
    spec.work.samples = core::kMaxSamples - core::kMaxLargest + 1;
    EXPECT_EQ(name(world.one(kSubmitter, NativeKind::task_submit, spec)), "task.bad_largest");
    spec = tiny_spec(kSteps, kInterval);
    spec.work.largest = 1;
    EXPECT_EQ(name(world.one(kSubmitter, NativeKind::task_submit, spec)), "task.bad_largest");
}

// Though the beacon alone would not have drawn it for that verifier.
TEST_F(Tolerance, a_pass_of_a_wrong_segment_that_was_named_costs_the_verifier) {
    spec.work.samples = 1;
    spec.work.largest = 1;
    // `wrong` is so in its second segment, which is not drawn for some verifier of one of a few tasks.
    std::uint64_t id = 0;
    std::optional<types::VerifierReport> other;
    for (int i = 0; i < 8 && !other; ++i) {
        id = reach(ClaimState::challenge, wrong);
        for (const types::VerifierReport& report : world.reports(id))
            if (core::draw_segments(world.claim(id).verify_beacon, report.verifier, kSteps / kInterval, 1).front() == 0)
                other = report;
    }
    ASSERT_TRUE(other);
    const auto dispute =
        challenge(id, kWhistleblower, core::kPassTarget + other->place, truth.root, history_opening(truth));
    play_out(dispute, party_of(world.live(id), wrong), party_of(world.live(id), truth));
    EXPECT_EQ(world.dispute(dispute).winner, types::DisputeWinner::rival);
    EXPECT_EQ(world.task(id).slashes.at(0).reason, "passed_wrong_result");
}

TEST_F(Tolerance, an_exact_task_takes_no_other_data) {
    spec = tiny_spec(kSteps, kInterval);
    const auto id = reach(ClaimState::working, truth);
    for (const std::uint64_t step : {2U, 4U})
        expect_ok(world.one(kSolver, NativeKind::task_checkpoint, checkpoint_of(world.task(id), truth, step)));
    auto proof = proof_of(world.task(id), truth);
    ASSERT_TRUE(proof.claimed_content.is_zero());
    proof.claimed_content = Hash32{{1}};
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_prove, proof)), "prove.claimed_content");
}

TEST_F(Tolerance, games_read_what_is_claimed) {
    const auto id = reach(ClaimState::challenge, wrong);
    const auto dispute = challenge(id, kWhistleblower, 0, truth.root, history_opening(truth));
    const auto context = context_of(dispute);
    ASSERT_EQ(context.data_roots.size(), spec.data_roots.size());
    EXPECT_EQ(context.data_roots.back(), world.claim(id).claimed_content);
    play_out(dispute, party_of(world.live(id), wrong), party_of(world.live(id), truth));
    EXPECT_EQ(world.dispute(dispute).winner, types::DisputeWinner::rival);
    EXPECT_TRUE(world.check_from_genesis());
}

TEST_F(Tolerance, a_task_settles_with_the_roots_that_it_names) {
    const auto id = reach(ClaimState::challenge, truth);
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
    EXPECT_TRUE(world.task(id).spec.data_roots.back().is_zero());
    EXPECT_TRUE(world.check_from_genesis());
}

}  // namespace
}  // namespace quern::chain::exec::test
