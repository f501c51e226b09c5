// Tasks whose plan has two programs: what they cost and pay, and disputes about a step of each.
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

class Plans : public Lifecycle {
protected:
    Plans() {
        spec = spec_of(programs, kInterval);
        truth = compute_history(programs);
    }
    [[nodiscard]] Uint256 work_of(std::uint64_t step) const { return tensor::step_work(programs.at(step).header); }
    [[nodiscard]] Uint256 paid(const types::Task& task, const types::Address& to, std::string_view reason) const {
        Uint256 sum;
        for (const auto& payment : task.payments)
            if (payment.to == to && payment.reason == reason) sum += payment.amount;
        return sum;
    }

    void catch_lie(std::uint64_t step) {
        const History lie = compute_history(programs, step, 1U << 20);
        const auto id = reach(ClaimState::challenge, lie);
        const auto dispute = challenge(id, kWhistleblower, 0, truth.root, history_opening(truth));
        const auto live = world.live(id);
        play_out(dispute, party_of(live, lie), party_of(live, truth));
        const auto closed = world.dispute(dispute);
        EXPECT_EQ(closed.winner, types::DisputeWinner::rival);
        EXPECT_EQ(closed.reason, "leaf");
        EXPECT_TRUE(closed.leaf_executed);
        const auto game = *types::decode_record<core::Game>(closed.game);
        EXPECT_EQ(game.step, step);
        EXPECT_EQ(game.node, programs.at(step).updates.front());
        EXPECT_TRUE(world.check_from_genesis());
    }

    const core::TaskPrograms& programs = tiny().both(kSteps);
    const Uint256 turn = work_of(1) + work_of(2);
};

TEST_F(Plans, a_task_keeps_what_its_plan_comes_to) {
    ASSERT_NE(work_of(1), work_of(2));
    const auto task = world.task(submit());
    EXPECT_EQ(task.steps, kSteps);
    EXPECT_EQ(Uint256(task.work_units + task.commit_work), work_of(2));
    EXPECT_EQ(task.segment_work, turn);
    EXPECT_EQ(task.total_work, turn + turn);
    const Uint256 fee = spec.money.price_cap * Uint256(2) * turn * Uint256(6) / Uint256(5);  // two segments
    EXPECT_EQ(task.escrow, spec.money.price_cap * (turn + turn) + fee * Uint256(spec.work.verifiers) + spec.money.tax +
                               task.deposit);
}

TEST_F(Plans, each_step_is_paid_as_what_it_costs) {
    const auto id = reach(ClaimState::challenge, truth);
    tick_when_due(id);
    const auto task = world.task(id);
    ASSERT_EQ(task.state, TaskState::settled);
    EXPECT_EQ(paid(task, kSolver, "solver_reward"), Uint256(3) * (turn + turn));
    const Uint256 fee = spec.money.price_cap * (turn + turn) * Uint256(6) / Uint256(5);
    for (const auto& report : world.reports(id)) EXPECT_EQ(paid(task, report.verifier, "verifier_fee"), fee);
    const Uint256 refund = (spec.money.price_cap - Uint256(3)) * (turn + turn);
    EXPECT_EQ(paid(task, kSubmitter, "refund"), refund);
    EXPECT_EQ(task.escrow, task.deposit);
    EXPECT_TRUE(world.check_from_genesis());
}

TEST_F(Plans, a_lie_in_a_step_of_the_first_program_is_judged_by_it) { catch_lie(3); }

TEST_F(Plans, a_lie_in_a_step_of_the_second_program_is_judged_by_it) { catch_lie(4); }

TEST_F(Plans, programs_that_do_not_fit_each_other_make_no_task) {
    const auto refused = [&](const std::function<void(types::TaskSubmitPayload&)>& change) {
        auto changed = spec;
        change(changed);
        return name(world.one(kSubmitter, NativeKind::task_submit, changed));
    };
    EXPECT_EQ(refused([](auto& s) { std::swap(s.header_paths[0], s.header_paths[1]); }), "task.bad_header_path");
    EXPECT_EQ(refused([](auto& s) { s.contents.programs.pop_back(); }), "task.bad_root");
    EXPECT_EQ(refused([](auto& s) { s.work.interval = 3; }), "task.bad_interval");
    EXPECT_EQ(refused([](auto& s) { s.plan.pop_back(); }), "rlp.truncated");
    EXPECT_EQ(refused([](auto& s) { s.plan = tiny().programs(kSteps).plan.bytes(); }), "task.bad_root");
}

}  // namespace
}  // namespace quern::chain::exec::test
