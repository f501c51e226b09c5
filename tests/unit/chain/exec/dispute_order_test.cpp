// Many games about one claim: a defender plays one at a time, so that none of them takes the time of another, and all
// together last no longer than one after the other.
#include <deque>
#include <set>

#include "lifecycle_fixture.h"

namespace quern::chain::exec::test {
namespace {

constexpr std::uint64_t kReplay_s = 30;  // more than the clock has beside it

class DisputeOrder : public Lifecycle {
protected:
    DisputeOrder() {
        spec.windows.heartbeat_s = kReplay_s;
        spec.windows.challenge_s = 60;
    }
    struct Rival {
        types::Address who;
        const History* claim = nullptr;
        Hash32 salt;
        std::uint64_t dispute = 0;
        std::unique_ptr<core::DisputeStrategy> strategy;
    };
    // Each with a history of its own that differs from the truth in the step; commits to it.
    void commit_rivals(std::uint64_t id, std::initializer_list<std::uint64_t> steps) {
        for (const std::uint64_t step : steps) {
            const auto who = address(700 + rivals.size());
            give(world.state(), who, Uint256(1'000'000'000'000'000));
            world.bond_role(who, Role::whistleblower, 100'000);
            histories.push_back(compute_history(kSteps, step, 1U << (10 + rivals.size())));
            const Hash32 salt = crypto::sha256(as_bytes("salt"));
            rivals.push_back({who, &histories.back(), salt, 0, nullptr});
            expect_ok(world.one(
                who, NativeKind::challenge_commit,
                types::ChallengeCommitPayload{id, 0, core::challenge_commitment(who, histories.back().root, salt)}));
        }
    }
    // Those from `first` to before `last`, in one block.
    void reveal_rivals(std::uint64_t id, std::size_t first, std::size_t last, std::uint32_t target = 0) {
        world.begin();
        for (std::size_t i = first; i < last; ++i) {
            auto& [who, claim, salt, dispute, strategy] = rivals[i];
            expect_ok(
                world.send(who, NativeKind::challenge_reveal,
                           types::ChallengeRevealPayload{id, 0, target, claim->root, salt, history_opening(*claim)}));
            dispute = world.claim(id).disputes.back();
            strategy = std::make_unique<core::DisputeStrategy>(party_of(world.live(id), *claim));
        }
        ASSERT_TRUE(world.finish());
    }
    [[nodiscard]] core::Game game_of(std::uint64_t dispute) const {
        return *types::decode_record<core::Game>(world.dispute(dispute).game);
    }
    [[nodiscard]] std::vector<std::uint64_t> full_clocks(std::uint64_t id) const {
        return std::vector<std::uint64_t>(2, market::dispute_clock(world.params.market, world.task(id)));
    }
    Result send_move(const types::Address& who, std::uint64_t dispute, const core::Move& move) {
        if (const auto* leaf = std::get_if<core::LeafWitness>(&move))
            return world.send(who, NativeKind::dispute_prove_leaf,
                              types::DisputeProveLeafPayload{dispute, types::encode_record(*leaf)});
        return world.send(who, NativeKind::dispute_split,
                          types::DisputeSplitPayload{dispute, types::encode_record(std::get<core::SplitMove>(move))});
    }
    void post(const types::Address& who, std::uint64_t dispute, core::DisputeStrategy& strategy, core::Side side) {
        const auto game = game_of(dispute);
        const auto move = strategy.next_move(game, side, waiting_post(game));
        ASSERT_TRUE(move) << move.error().to_string();
        world.begin();
        expect_ok(send_move(who, dispute, *move));
        ASSERT_TRUE(world.finish());
    }
    void concede(std::uint64_t dispute, const types::Address& who) {
        expect_ok(world.one(who, NativeKind::dispute_concede, types::DisputeConcedePayload{dispute}));
    }
    // A block with the solver's move, the rivals' that owe one and a tick if it is due.
    void block(std::uint64_t id, std::optional<std::pair<std::uint64_t, core::Move>> solvers = std::nullopt) {
        world.begin();
        if (solvers) expect_ok(send_move(kSolver, solvers->first, solvers->second));
        for (const Rival& rival : rivals) {
            if (rival.dispute == 0 || world.dispute(rival.dispute).closed_at != 0) continue;
            const auto game = game_of(rival.dispute);
            if (!core::owes_move(game, core::Side::rival)) continue;
            const auto move = rival.strategy->next_move(game, core::Side::rival, waiting_post(game));
            ASSERT_TRUE(move) << move.error().to_string();
            if (!std::holds_alternative<core::NoMove>(*move)) expect_ok(send_move(rival.who, rival.dispute, *move));
        }
        if (world.claim(id).state == ClaimState::disputed && world.market_ms() >= world.deadline(id))
            expect_ok(world.send(address(0x71c), NativeKind::tick, types::TickPayload{types::TickObject::task, id}));
        ASSERT_TRUE(world.finish());
    }
    // Of the games in which the solver has something to do, the one with the earliest deadline.
    [[nodiscard]] std::optional<std::uint64_t> most_urgent(std::uint64_t id) const {
        std::optional<std::uint64_t> urgent;
        for (const std::uint64_t dispute : world.claim(id).disputes) {
            if (world.dispute(dispute).closed_at != 0) continue;
            const auto game = game_of(dispute);
            const bool in_leaf = game.phase == core::Phase::leaf && core::has_begun(game);
            if (!in_leaf && !core::owes_move(game, core::Side::defender)) continue;
            if (!urgent || core::next_deadline(game) < core::next_deadline(game_of(*urgent))) urgent = dispute;
        }
        return urgent;
    }

    std::vector<Rival> rivals;
    std::deque<History> histories;
};

TEST_F(DisputeOrder, a_defender_that_replays_for_one_game_at_a_time_beats_any_number_of_rivals) {
    const auto id = reach(ClaimState::challenge, truth);
    commit_rivals(id, {1, 2, 3, 4, 2, 4});
    reveal_rivals(id, 0, 4);
    core::DisputeStrategy solver(party_of(world.live(id), truth));
    std::set<std::uint64_t> replayed;
    for (int blocks = 0; blocks < 1'000 && world.claim(id).open_disputes > 0; ++blocks) {
        if (rivals[4].dispute == 0 && world.dispute(rivals[1].dispute).closed_at != 0) reveal_rivals(id, 4, 6);
        const auto dispute = most_urgent(id);
        if (!dispute) {
            block(id);
            continue;
        }
        // The state before the disputed step takes what a clock has for it, and meanwhile the machine does nothing
        // else.
        if (game_of(*dispute).phase == core::Phase::state && replayed.insert(*dispute).second)
            for (std::uint64_t second = 0; second < kReplay_s; ++second) block(id);
        const auto game = game_of(*dispute);
        if (game.verdict != core::Verdict::none) continue;
        const auto move = solver.next_move(game, core::Side::defender, waiting_post(game));
        ASSERT_TRUE(move) << move.error().to_string();
        if (std::holds_alternative<core::NoMove>(*move))
            block(id);
        else
            block(id, std::make_pair(*dispute, *move));
    }
    EXPECT_EQ(replayed.size(), rivals.size());
    for (const Rival& rival : rivals) {
        ASSERT_NE(rival.dispute, 0U);
        EXPECT_EQ(world.dispute(rival.dispute).winner, types::DisputeWinner::defender);
        EXPECT_EQ(world.dispute(rival.dispute).reason, "leaf");
    }
    EXPECT_EQ(world.bond(Role::solver, kSolver).bonded, Uint256(100'000));
    EXPECT_EQ(world.claim(id).state, ClaimState::challenge);
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
}

TEST_F(DisputeOrder, rivals_hold_a_claim_up_for_two_clocks_each_and_pay_more_for_each) {
    const auto id = reach(ClaimState::challenge, truth);
    const std::uint64_t clock = full_clocks(id)[0];
    commit_rivals(id, {1, 2, 3});
    reveal_rivals(id, 0, 3);
    const std::uint64_t opened = world.market_ms();
    // Both sides use all the time that they have, as a defender may that is the rivals' friend.
    for (const Rival& rival : rivals) {
        EXPECT_EQ(game_of(rival.dispute).budget, full_clocks(id));
        EXPECT_EQ(game_of(rival.dispute).charged_to, world.market_ms());
        EXPECT_EQ(world.deadline(id), world.market_ms() + clock);
        core::DisputeStrategy solver(party_of(world.live(id), truth));
        world.skip_until(world.deadline(id) - 2 * world.block_ms);
        post(kSolver, rival.dispute, solver, core::Side::defender);  // now the rival owes a pick
        tick_when_due(id);
        EXPECT_EQ(world.dispute(rival.dispute).reason, "clock");
        EXPECT_EQ(world.dispute(rival.dispute).winner, types::DisputeWinner::defender);
    }
    const std::uint64_t blocks = 4 * world.block_ms;  // a game's that decide nothing sooner
    EXPECT_LE(world.market_ms() - opened, rivals.size() * 2 * clock);
    EXPECT_GE(world.market_ms() - opened, rivals.size() * (2 * clock - blocks));
    for (std::size_t i = 0; i < rivals.size(); ++i)
        EXPECT_EQ(world.bond(Role::whistleblower, rivals[i].who).bonded, Uint256(100'000 - (i + 1) * 1'000));
    EXPECT_EQ(world.claim(id).state, ClaimState::challenge);
    tick_when_due(id);
    EXPECT_EQ(world.task(id).state, TaskState::settled);
}

TEST_F(DisputeOrder, a_game_that_waits_takes_moves_and_charges_nobody_until_the_one_before_ends) {
    const auto id = reach(ClaimState::challenge, truth);
    commit_rivals(id, {1, 2, 3});
    reveal_rivals(id, 0, 3);
    const auto first = rivals[0].dispute;
    const auto second = rivals[1].dispute;
    const auto third = rivals[2].dispute;
    EXPECT_TRUE(core::has_begun(game_of(first)));
    for (const auto waiting : {second, third}) {
        EXPECT_FALSE(core::has_begun(game_of(waiting)));
        EXPECT_EQ(world.dispute(waiting).deadline, 0U);
        EXPECT_EQ(name(world.one(kSecond, NativeKind::tick, types::TickPayload{types::TickObject::dispute, waiting})),
                  "tick.too_early");
    }
    core::DisputeStrategy solver(party_of(world.live(id), truth));
    post(kSolver, third, solver, core::Side::defender);
    post(rivals[2].who, third, *rivals[2].strategy, core::Side::rival);
    EXPECT_FALSE(core::has_begun(game_of(third)));
    EXPECT_EQ(game_of(third).budget, full_clocks(id));
    // What waits may end before its turn, and nobody's turn comes by that.
    concede(second, rivals[1].who);
    EXPECT_EQ(world.dispute(second).winner, types::DisputeWinner::defender);
    EXPECT_FALSE(core::has_begun(game_of(third)));
    EXPECT_EQ(world.deadline(id), world.dispute(first).deadline);
    concede(first, rivals[0].who);
    EXPECT_EQ(game_of(third).budget, full_clocks(id));
    EXPECT_EQ(game_of(third).charged_to, world.market_ms());
    EXPECT_EQ(world.deadline(id), world.dispute(third).deadline);
    tick_when_due(id);  // the solver owed a post since its game began
    EXPECT_EQ(world.dispute(third).winner, types::DisputeWinner::rival);
}

TEST_F(DisputeOrder, games_of_other_defenders_go_on_beside) {
    const auto id = reach(ClaimState::challenge, truth);
    commit_rivals(id, {1, 2, 3, 4});
    reveal_rivals(id, 0, 1);
    reveal_rivals(id, 1, 3, core::kPassTarget);
    reveal_rivals(id, 3, 4, core::kPassTarget + 1);
    EXPECT_TRUE(core::has_begun(game_of(rivals[0].dispute)));
    EXPECT_TRUE(core::has_begun(game_of(rivals[1].dispute)));
    EXPECT_FALSE(core::has_begun(game_of(rivals[2].dispute))) << "of the same verifier";
    EXPECT_TRUE(core::has_begun(game_of(rivals[3].dispute)));
    concede(rivals[3].dispute, rivals[3].who);
    EXPECT_FALSE(core::has_begun(game_of(rivals[2].dispute)));
    concede(rivals[1].dispute, rivals[1].who);
    EXPECT_TRUE(core::has_begun(game_of(rivals[2].dispute)));
}

TEST_F(DisputeOrder, games_that_wait_are_moot_when_the_defender_has_lost) {
    const auto id = reach(ClaimState::challenge, wrong);
    commit_rivals(id, {1, 2, 3});
    reveal_rivals(id, 0, 3);
    concede(rivals[0].dispute, kSolver);
    EXPECT_EQ(world.task(id).state, TaskState::open);
    for (std::size_t i = 1; i < rivals.size(); ++i) {
        EXPECT_EQ(world.dispute(rivals[i].dispute).reason, "moot");
        EXPECT_EQ(world.dispute(rivals[i].dispute).deadline, 0U);
        EXPECT_EQ(world.bond(Role::whistleblower, rivals[i].who).bonded, Uint256(100'000));
        EXPECT_TRUE(world.bond(Role::whistleblower, rivals[i].who).locked.is_zero());
    }
}

}  // namespace
}  // namespace quern::chain::exec::test
