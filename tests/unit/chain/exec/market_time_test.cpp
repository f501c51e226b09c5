// Market time: what a block adds to it, and that nobody loses by a chain that stood still, in whatever state its task
// or dispute is.
#include "chain/market/delays.h"
#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

constexpr std::uint64_t kDay = 86'400'000;

class MarketTime : public Lifecycle {
protected:
    std::string send(const types::Address& who, NativeKind kind, const auto& payload) {
        return name(world.one(who, kind, payload));
    }
    // The next block comes a day after the last one; the transaction is in it.
    std::string after_a_halt(const types::Address& who, NativeKind kind, const auto& payload) {
        const std::uint64_t before = world.market_ms();
        world.block_ms = kDay;
        auto result = send(who, kind, payload);
        world.block_ms = 1'000;
        EXPECT_EQ(world.market_ms() - before, params::kMaxBlockIdles * world.params.max_idle_ms);
        return result;
    }
    // So that the window of the task's state has only just room for a block after a halt.
    void late(std::uint64_t id) { world.skip_until(world.deadline(id) - 1'000); }
};

TEST_F(MarketTime, grows_with_the_timestamps_by_at_most_five_idle_pauses_a_block) {
    ASSERT_EQ(world.params.max_idle_ms, 200U);
    World fresh;
    give(fresh.state(), kSolver, 1);
    EXPECT_EQ(fresh.market_ms(), 0U) << "at genesis";
    for (const auto& [elapsed, expected] :
         {std::pair{1U, 1U}, {999U, 1'000U}, {1'000U, 2'000U}, {1'001U, 3'000U}, {86'400'000U, 4'000U}}) {
        fresh.block_ms = elapsed;
        fresh.begin();
        EXPECT_EQ(fresh.market_ms(), expected) << "before the block's transactions, " << elapsed;
        EXPECT_TRUE(fresh.finish());
        EXPECT_EQ(fresh.market_ms(), expected);
    }
}

TEST_F(MarketTime, never_outruns_the_timestamps_whatever_proposers_date_their_blocks) {
    std::uint64_t random = 7;
    std::uint64_t passed = 0;
    const std::uint64_t begun = world.market_ms();
    for (int i = 0; i < 300; ++i) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        world.block_ms = 1 + (random >> 33) % (i % 3 == 0 ? 2U : 2'500U);
        passed += world.block_ms;
        const std::uint64_t before = world.market_ms();
        world.skip(1);
        EXPECT_GT(world.market_ms(), before);
        EXPECT_LE(world.market_ms() - before, params::kMaxBlockIdles * world.params.max_idle_ms);
        EXPECT_LE(world.market_ms() - begun, passed);
    }
    EXPECT_LT(world.market_ms() - begun, passed) << "some were cut";
}

TEST_F(MarketTime, is_the_blocks_own_for_its_transactions) {
    const auto id = submit();
    EXPECT_EQ(world.task(id).since, world.market_ms());
    EXPECT_EQ(world.deadline(id), world.market_ms() + 12'000);
}

TEST_F(MarketTime, a_state_that_does_not_decode_stops_the_block) {
    world.state().store(types::key_of<types::Globals>(), types::BeaconObject{});
    world.begin();
    const auto status = world.execution->finish();
    ASSERT_FALSE(status);
    EXPECT_NE(status.error().name, "exec.invariant_broken");
}

TEST_F(MarketTime, a_bidder_loses_nothing_by_a_halt) {
    const auto id = reach(TaskState::open);
    world.skip_until(world.deadline(id) - 1'000);
    EXPECT_EQ(after_a_halt(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 3}), "ok");
}

TEST_F(MarketTime, a_solver_loses_nothing_by_a_halt) {
    const auto id = reach(TaskState::assigned);
    late(id);
    EXPECT_EQ(after_a_halt(kSolver, NativeKind::task_start, types::TaskIdPayload{id}), "ok");
    for (std::uint64_t step = kInterval; step <= kSteps; step += kInterval) {
        late(id);
        EXPECT_EQ(after_a_halt(kSolver, NativeKind::task_checkpoint, checkpoint_of(world.task(id), truth, step)), "ok");
    }
    late(id);
    EXPECT_EQ(after_a_halt(kSolver, NativeKind::task_prove, proof_of(world.task(id), truth)), "ok");
    EXPECT_TRUE(world.task(id).slashes.empty());
}

TEST_F(MarketTime, a_verifier_loses_nothing_by_a_halt) {
    const auto id = reach(ClaimState::proved, truth);
    world.block_ms = kDay;
    tick_when_due(id);
    world.block_ms = 1'000;
    ASSERT_EQ(world.claim(id).state, ClaimState::custody);
    for (const auto state : {ClaimState::custody, ClaimState::committing, ClaimState::revealing}) {
        ASSERT_EQ(world.claim(id).state, state);
        world.skip_until(world.deadline(id) - 2'000);
        bool halted = false;
        for (const auto& report : world.reports(id)) {
            const auto mine = make_report(world.live(id), report.verifier, truth, true, {}, 1);
            const auto act = [&](NativeKind kind, const auto& payload) {
                EXPECT_EQ(halted ? send(report.verifier, kind, payload) : after_a_halt(report.verifier, kind, payload),
                          "ok");
                halted = true;
            };
            if (state == ClaimState::custody)
                act(NativeKind::custody_receipt, types::CustodyReceiptPayload{id, 0, true});
            else if (state == ClaimState::committing)
                act(NativeKind::verify_commit, types::VerifyCommitPayload{id, 0, mine.sealed.commitment});
            else
                act(NativeKind::verify_reveal, core::make_reveal(mine.sealed, id, mine.sealed.true_index));
        }
    }
    EXPECT_EQ(world.claim(id).state, ClaimState::challenge);
    EXPECT_TRUE(world.task(id).slashes.empty());
}

TEST_F(MarketTime, a_challenger_loses_nothing_by_a_halt) {
    const auto id = reach(ClaimState::challenge, wrong);
    const Hash32 salt = crypto::sha256(as_bytes("salt"));
    late(id);
    EXPECT_EQ(after_a_halt(
                  kWhistleblower, NativeKind::challenge_commit,
                  types::ChallengeCommitPayload{id, 0, core::challenge_commitment(kWhistleblower, truth.root, salt)}),
              "ok");
    // What a commitment holds back for is a window as well, whose last block comes after another halt.
    EXPECT_EQ(world.deadline(id), market::reveal_expected(world.params.market, world.market_ms()));
    late(id);
    EXPECT_EQ(after_a_halt(kWhistleblower, NativeKind::challenge_reveal,
                           types::ChallengeRevealPayload{id, 0, 0, truth.root, salt, history_opening(truth)}),
              "ok");
    EXPECT_EQ(world.claim(id).state, ClaimState::disputed);
}

TEST_F(MarketTime, a_disputes_side_is_charged_what_passes_and_no_halt) {
    const auto id = reach(ClaimState::challenge, wrong);
    const auto dispute = challenge(id, kWhistleblower, 0, truth.root, history_opening(truth));
    const auto game_of = [&] { return *types::decode_record<core::Game>(world.dispute(dispute).game); };
    const std::uint64_t clock = market::dispute_clock(world.params.market, world.task(id));
    ASSERT_EQ(game_of().budget, (std::vector<std::uint64_t>{clock, clock}));
    core::DisputeStrategy solver(party_of(world.live(id), wrong));
    core::DisputeStrategy accuser(party_of(world.live(id), truth));

    world.block_ms = 137;
    world.skip(3);
    const auto post = [&](core::DisputeStrategy& strategy, core::Side side) {
        const auto game = game_of();
        const auto move = *strategy.next_move(game, side, waiting_post(game));
        return types::DisputeSplitPayload{dispute, types::encode_record(std::get<core::SplitMove>(move))};
    };
    EXPECT_EQ(after_a_halt(kSolver, NativeKind::dispute_split, post(solver, core::Side::defender)), "ok");
    const std::uint64_t spent = 3 * 137 + 1'000;
    EXPECT_EQ(game_of().budget, (std::vector<std::uint64_t>{clock - spent, clock})) << "the solver owed a post";
    EXPECT_EQ(world.dispute(dispute).deadline, world.market_ms() + clock);

    // Now the accuser owes a pick. A day before the end of its clock is a second before it, too.
    world.skip_until(world.dispute(dispute).deadline - 1'000);
    EXPECT_EQ(after_a_halt(kWhistleblower, NativeKind::dispute_split, post(accuser, core::Side::rival)), "ok");
    EXPECT_EQ(game_of().verdict, core::Verdict::none);
    EXPECT_GT(game_of().budget[1], 0U);
    EXPECT_EQ(game_of().budget[0], clock - spent) << "stood still meanwhile";
}

TEST_F(MarketTime, twelve_blocks_come_in_the_shortest_window_whatever_their_timestamps) {
    const auto id = reach(TaskState::assigned);
    const std::uint64_t assigned = world.task(id).seats.at(0).assigned_at;
    world.block_ms = kDay;
    world.skip_to(assigned + params::kShortestWindowBlocks - 1);
    EXPECT_EQ(send(kSolver, NativeKind::task_start, types::TaskIdPayload{id}), "ok");
    EXPECT_EQ(world.height, assigned + params::kShortestWindowBlocks - 1);
}

TEST_F(MarketTime, bidding_ends_with_its_window_and_its_draw_is_anchored_where_nobody_can_bid_any_more) {
    bond_everybody();
    const auto id = submit();
    EXPECT_EQ(send(kSolver, NativeKind::task_bid, types::TaskBidPayload{id, 0, 5}), "ok");
    world.skip_until(world.deadline(id));
    const auto until = world.deadline(id);
    EXPECT_EQ(send(kSecond, NativeKind::task_bid, types::TaskBidPayload{id, 0, 4}), "task.deadline_passed");
    EXPECT_EQ(send(kSubmitter, NativeKind::task_cancel, types::TaskIdPayload{id}), "task.has_bids");
    EXPECT_EQ(name(world.tick(id)), "ok");
    EXPECT_EQ(world.task(id).state, TaskState::open);
    EXPECT_EQ(world.task(id).draw_at, world.height);
    EXPECT_GT(world.deadline(id), until);
    // Its block is the anchor, and the beacon eight blocks later draws: market time alone would allow it in the next
    // one.
    EXPECT_EQ(name(world.tick(id)), "tick.too_early");
    EXPECT_GE(world.market_ms(), world.deadline(id));
    world.skip_to(world.task(id).draw_at + params::kBeaconDelay - 1);
    EXPECT_EQ(name(world.tick(id)), "tick.too_early");
    EXPECT_EQ(send(kSecond, NativeKind::task_bid, types::TaskBidPayload{id, 0, 4}), "task.deadline_passed");
    EXPECT_EQ(name(world.tick(id)), "ok");
    EXPECT_EQ(world.task(id).state, TaskState::assigned);
    EXPECT_EQ(world.task(id).seats.at(0).solver, kSolver);
}

TEST_F(MarketTime, a_draw_that_is_due_by_its_height_is_due_by_market_time_however_close_the_timestamps) {
    const auto id = reach(ClaimState::proved, truth);
    world.block_ms = 1;
    world.skip_to(market::draw_height(world.claim(id).draw_at));
    EXPECT_EQ(name(world.tick(id)), "ok");
    EXPECT_EQ(world.claim(id).state, ClaimState::custody);
}

}  // namespace
}  // namespace quern::chain::exec::test
