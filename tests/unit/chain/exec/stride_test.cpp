// Tasks by strides of two steps: what is paid, what is accepted, and disputes about steps inside a stride.
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

constexpr std::uint64_t kStride = 2;

class Strides : public Lifecycle {
protected:
    Strides() : Lifecycle(kStride) { spec.windows.challenge_s = 100; }

    [[nodiscard]] core::Game game(std::uint64_t dispute) const {
        return *types::decode_record<core::Game>(world.dispute(dispute).game);
    }
};

TEST_F(Strides, a_commitment_is_paid_for_once_a_stride) {
    const auto id = reach(ClaimState::challenge, truth);
    tick_when_due(id);
    const auto task = world.task(id);
    EXPECT_EQ(task.state, TaskState::settled);
    const Uint256 work = Uint256(kSteps * task.work_units + kSteps / kStride * task.commit_work);
    ASSERT_EQ(task.payments.size(), 4U);
    EXPECT_EQ(task.payments[0].amount, Uint256(3) * work);
    EXPECT_EQ(task.payments[1].amount, Uint256(10) * work * Uint256(6) / Uint256(5));
}

TEST_F(Strides, a_stride_whose_states_take_longer_than_any_window_is_refused) {
    const auto refused = [&](std::uint64_t stride, std::uint64_t heartbeat_s) {
        auto long_spec = tiny_spec(1'000'000, 1'000'000);
        long_spec.work.stride = stride;
        long_spec.windows.heartbeat_s = heartbeat_s;
        long_spec.money.price_cap = 1;
        return name(world.one(kSubmitter, NativeKind::task_submit, long_spec));
    };
    // A step costs two work units and a commitment 410: hashing each state of the segment takes 207 times as long.
    EXPECT_EQ(refused(1'000'000, 4'000), "ok");
    EXPECT_EQ(refused(1'000'000, 5'000), "task.bad_stride");
    EXPECT_EQ(refused(10, 5'000), "ok");
}

TEST_F(Strides, two_claims_at_once_must_be_computed_within_one_window) {
    const auto refused = [&](std::uint64_t tranche, std::uint64_t heartbeat_s) {
        auto long_spec = tiny_spec(2'000'000, 1'000'000);
        long_spec.work.stride = 1'000'000;
        long_spec.work.tranche = tranche;
        long_spec.windows.heartbeat_s = heartbeat_s;
        long_spec.money.price_cap = 1;
        return name(world.one(kSubmitter, NativeKind::task_submit, long_spec));
    };
    EXPECT_EQ(refused(0, 4'000), "ok");
    EXPECT_EQ(refused(1'000'000, 4'000), "task.bad_stride");
    EXPECT_EQ(refused(1'000'000, 2'400), "ok");
}

TEST_F(Strides, the_proof_opens_the_ends_of_the_strides) {
    const auto id = reach(ClaimState::working, truth);
    for (const std::uint64_t step : {2U, 4U})
        expect_ok(world.one(kSolver, NativeKind::task_checkpoint, checkpoint_of(world.task(id), truth, step)));
    // The history of all steps is another list.
    auto payload = proof_of(world.task(id), compute_history(kSteps));
    EXPECT_EQ(name(world.one(kSolver, NativeKind::task_prove, payload)), "task.bad_initial_proof");
    expect_ok(world.one(kSolver, NativeKind::task_prove, proof_of(world.task(id), truth)));
}

TEST_F(Strides, a_wrong_step_inside_a_stride_costs_the_solver) {
    const auto id = reach(ClaimState::challenge, wrong);
    const auto dispute = challenge(id, kWhistleblower, 0, truth.root, history_opening(truth));
    play_out(dispute, party_of(world.live(id), wrong), party_of(world.live(id), truth));
    EXPECT_EQ(world.dispute(dispute).reason, "leaf");
    EXPECT_EQ(game(dispute).step, 3U);
    EXPECT_EQ(world.task(id).slashes.at(0).reason, "wrong_result");
}

TEST_F(Strides, a_false_accuser_of_a_stride_loses_its_stake) {
    const auto id = reach(ClaimState::challenge, truth);
    const auto dispute = challenge(id, kWhistleblower, 0, wrong.root, history_opening(wrong));
    play_out(dispute, party_of(world.live(id), truth), party_of(world.live(id), wrong));
    EXPECT_EQ(world.dispute(dispute).winner, types::DisputeWinner::defender);
    EXPECT_EQ(world.dispute(dispute).reason, "leaf");
    EXPECT_EQ(world.task(id).slashes.at(0).reason, "false_accusation");
}

// Who did not replay a stride cannot show its steps: that it was not drawn for it must show before the step does.
TEST_F(Strides, a_stride_that_was_not_drawn_is_nobodys_pass) {
    spec.work.samples = 1;
    const auto id = reach(ClaimState::challenge, truth);
    const auto who = world.reports(id)[0].verifier;
    const auto drawn = core::draw_segments(world.claim(id).verify_beacon, who, kSteps / kInterval, 1).front();
    for (const bool sampled : {false, true}) {
        const std::uint64_t segment = sampled ? drawn : 1 - drawn;
        const auto claim = compute_history(kSteps, segment * kInterval + 1, 1U << 20, kStride);
        const auto dispute = challenge(id, kWhistleblower, core::kPassTarget, claim.root, history_opening(claim));
        core::DisputeStrategy players[] = {core::DisputeStrategy(party_of(world.live(id), truth)),
                                           core::DisputeStrategy(party_of(world.live(id), claim))};
        for (const auto side : {core::Side::defender, core::Side::rival}) {
            const auto now = game(dispute);
            const auto move = players[static_cast<int>(side)].next_move(now, side, waiting_post(now));
            ASSERT_TRUE(move && std::holds_alternative<core::SplitMove>(*move));
            expect_ok(
                world.one(side == core::Side::defender ? who : kWhistleblower, NativeKind::dispute_split,
                          types::DisputeSplitPayload{dispute, types::encode_record(std::get<core::SplitMove>(*move))}));
        }
        ASSERT_EQ(game(dispute).phase, core::Phase::steps);
        expect_ok(world.one(who, NativeKind::dispute_concede, types::DisputeConcedePayload{dispute}));
        EXPECT_EQ(world.dispute(dispute).reason, sampled ? "conceded" : "not_sampled");
        ASSERT_EQ(world.task(id).slashes.size(), sampled ? 2U : 1U);
        EXPECT_EQ(world.task(id).slashes.back().reason, sampled ? "passed_wrong_result" : "false_accusation");
    }
}

// Wherever its step lies in its stride: the draw follows from the height.
class StrideProbe : public Strides, public ::testing::WithParamInterface<std::uint64_t> {};

TEST_P(StrideProbe, a_wrong_tile_costs_its_verifier) {
    world.skip(GetParam());
    const auto id = reach(ClaimState::committing, truth);
    const auto live = world.live(id);
    std::vector<ReportData> reports;
    for (std::size_t i = 0; i < 2; ++i) {
        const auto& who = live.reports[i].verifier;
        reports.push_back(make_report(live, who, truth, true, {}, i, i == 0 ? 4 : 0));
        expect_ok(
            world.one(who, NativeKind::verify_commit, types::VerifyCommitPayload{id, 0, reports[i].sealed.commitment}));
    }
    for (std::size_t i = 0; i < 2; ++i)
        expect_ok(world.one(live.reports[i].verifier, NativeKind::verify_reveal,
                            core::make_reveal(reports[i].sealed, id, reports[i].sealed.true_index)));
    const auto honest = make_report(live, live.reports[0].verifier, truth, true, {}, 0);
    const auto& probe = reports[0].probes[0];
    const auto opening = open_probe(reports[0], *tiny().prover);
    const auto claim = core::opened_leaves(honest.sealed, honest.sealed.true_index)[1];
    const auto dispute = challenge(id, kWhistleblower, 1, claim, core::encode(opening));
    EXPECT_EQ(game(dispute).phase, probe.step % kStride == 0 ? core::Phase::steps : core::Phase::trace);
    play_out(dispute, party_of(live, truth, probe.step, probe.node, 4), party_of(live, truth));
    EXPECT_EQ(game(dispute).step, probe.step);
    EXPECT_EQ(world.task(id).slashes.at(0).reason, "wrong_probe");
    EXPECT_EQ(world.task(id).slashes.at(0).address, live.reports[0].verifier);
}

INSTANTIATE_TEST_SUITE_P(draws, StrideProbe, ::testing::Range<std::uint64_t>(0, 6));

}  // namespace
}  // namespace quern::chain::exec::test
