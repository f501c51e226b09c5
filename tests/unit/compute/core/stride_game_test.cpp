// Games about histories by strides: the states inside a stride are shown when a dispute asks, whoever lies about one of
// them is caught at its step, and a probe inside a stride is judged from a state that both sides have come to.
#include <gtest/gtest.h>

#include "unit/compute/core/game_world.h"

namespace quern::compute::core::test {
namespace {

constexpr std::uint64_t kStride = 4;
constexpr std::uint64_t kSteps = 12;
constexpr std::uint32_t kBits = 1U << 15;  // lasts to the end of a stride

const World& world() {
    static const World instance = make_world(vm::tensor::test::training_program(4, 5, 7), kSteps, 1, kStride);
    return instance;
}

std::uint32_t probed_node() { return world().program.updates[0]; }

std::string_view name_of(const Status& status) { return status ? "accepted" : status.error().name; }

Hash32 other_hash() {
    Hash32 hash;
    hash.data.fill(0xee);
    return hash;
}

// Plays the lie against the truth of `task`, on both sides of the table.
void expect_history_lie_loses(const World& task, const Alter& alter, std::uint64_t step) {
    const History lie = altered_history(task, alter, step);
    ASSERT_NE(lie.root(), task.root());
    for (const bool defends : {true, false}) {
        DisputeStrategy honest = honest_player(task);
        DisputeStrategy liar = dishonest_player(task, lie, alter);
        Game game = history_game(task, defends ? lie.root() : task.root(), defends ? task.root() : lie.root());
        const Transcript played = play(game, player(defends ? liar : honest), player(defends ? honest : liar));
        EXPECT_EQ(game.verdict, defends ? Verdict::rival_wins : Verdict::defender_wins) << "step " << step;
        EXPECT_EQ(game.reason, "leaf");
        EXPECT_EQ(game.step, step);
        EXPECT_EQ(game.stride, (step - 1) / task.context.stride + 1);
        EXPECT_TRUE(played.refused.empty()) << played.refused.front();
    }
}

TEST(StrideGame, TheFirstWrongStepIsFoundInItsStride) {
    for (std::uint64_t step = 1; step <= kSteps; ++step)
        expect_history_lie_loses(world(), flip(step, probed_node(), 3, kBits), step);
}

TEST(StrideGame, StridesOfMoreStepsThanAPostHolds) {
    const World task = make_world(vm::tensor::test::training_program(4, 5, 7), 600, 1, 300);
    for (const std::uint64_t step : {1ULL, 128ULL, 129ULL, 300ULL, 301ULL, 557ULL, 600ULL})
        expect_history_lie_loses(task, flip(step, task.program.updates[0], 3, kBits), step);
}

TEST(StrideGame, AWholeTrainingCanBeOneStride) {
    const World task = make_world(vm::tensor::test::training_program(4, 5, 7), 5, 1, 5);
    expect_history_lie_loses(task, flip(3, task.program.updates[0], 3, kBits), 3);
}

// Up to the phase, the liar defending.
Game game_at(Phase phase, DisputeStrategy& liar, DisputeStrategy& honest, const History& lie) {
    Game game = history_game(world(), lie.root(), world().root());
    while (game.phase < phase)
        for (const Side side : {Side::defender, Side::rival}) {
            if (game.phase >= phase) break;
            const auto move = (side == Side::defender ? liar : honest).next_move(game, side, waiting_post(game));
            EXPECT_TRUE(move && apply(game, side, *move, 1000));
            if (!move) return game;
        }
    return game;
}

struct Lie {
    Alter alter = flip(7, probed_node(), 3, kBits);  // the third step of the second stride
    History history = altered_history(world(), alter, 7);
    DisputeStrategy liar = dishonest_player(world(), history, alter);
    DisputeStrategy honest = honest_player(world());
};

TEST(StrideGame, StatesOfAStrideThatDoNotEndInTheHistorysAreRefused) {
    Lie lie;
    const Game before = game_at(Phase::steps, lie.liar, lie.honest, lie.history);
    ASSERT_EQ(before.phase, Phase::steps);
    const auto move = lie.liar.next_move(before, Side::defender, nullptr);
    ASSERT_TRUE(move && std::holds_alternative<SplitMove>(*move));
    Game posted = before;
    ASSERT_TRUE(apply(posted, Side::defender, *move, 1000));
    const auto expect_refused = [&](Side side, const SplitMove& changed, std::string_view error) {
        const Game& game = side == Side::rival ? posted : before;
        Game tried = game;
        EXPECT_EQ(name_of(apply_split(tried, side, changed, 1000)), error);
        EXPECT_EQ(chain::types::encode_record(tried), chain::types::encode_record(game));
    };
    SplitMove changed = std::get<SplitMove>(*move);
    changed.nodes.back() = other_hash();
    expect_refused(Side::defender, changed, "dispute.not_anchored");
    // The defender has committed to another state after the stride: it cannot agree to the rival's.
    changed.nodes = {world().roots.begin() + 5, world().roots.begin() + 9};
    changed.anchor_path = crypto::merkle_path(changed.nodes, 3);
    expect_refused(Side::defender, changed, "dispute.not_anchored");
    changed = std::get<SplitMove>(*move);
    changed.nodes.pop_back();
    expect_refused(Side::defender, changed, "dispute.wrong_node_count");
    changed = std::get<SplitMove>(*move);
    changed.anchor_path = {other_hash()};
    expect_refused(Side::defender, changed, "dispute.bad_path");
    changed = std::get<SplitMove>(*move);
    changed.previous_state = world().roots[4];
    expect_refused(Side::defender, changed, "dispute.unexpected_field");
    // Nor can the rival pick from a list that does not end in its own.
    const auto answer = lie.honest.next_move(posted, Side::rival, waiting_post(posted));
    ASSERT_TRUE(answer && std::holds_alternative<SplitMove>(*answer));
    changed = std::get<SplitMove>(*answer);
    changed.pick.rival_path.front() = other_hash();
    expect_refused(Side::rival, changed, "dispute.not_anchored");
    changed = std::get<SplitMove>(*answer);
    changed.pick = {};
    expect_refused(Side::rival, changed, "dispute.bad_pick");
    Game picked = posted;
    EXPECT_TRUE(apply(picked, Side::rival, *answer, 1000));
    EXPECT_EQ(picked.step, 7U);
}

TEST(StrideGame, AnotherStateBeforeTheStepThanTheAgreedOneIsRefused) {
    Lie lie;
    const Game game = game_at(Phase::state, lie.liar, lie.honest, lie.history);
    ASSERT_EQ(game.step, 7U);
    const auto move = lie.liar.next_move(game, Side::defender, nullptr);
    ASSERT_TRUE(move && std::holds_alternative<SplitMove>(*move));
    for (const std::uint64_t step : {4U, 5U, 7U}) {
        SplitMove changed = std::get<SplitMove>(*move);
        changed.previous_state = world().roots[step];
        Game tried = game;
        EXPECT_EQ(name_of(apply_split(tried, Side::defender, changed, 1000)), "dispute.bad_path") << step;
    }
    SplitMove changed = std::get<SplitMove>(*move);
    changed.previous_path.pop_back();
    Game tried = game;
    EXPECT_EQ(name_of(apply_split(tried, Side::defender, changed, 1000)), "dispute.bad_path");
    EXPECT_TRUE(apply_split(tried, Side::defender, std::get<SplitMove>(*move), 1000));
}

// A liar that computes rightly and makes up one state inside the stride, of which it knows no slots but those of its
// first one, or that of another step.
TEST(StrideGame, AMadeUpStateInsideAStrideLoses) {
    Lie lie;
    for (const bool another_step : {false, true}) {
        DisputeParty party;
        party.programs = world().programs.get();
        party.history = lie.history.history();
        party.state_before = [&](std::uint64_t step) -> Expected<State> { return lie.history.states[step - 1]; };
        party.states_of = [&](std::uint64_t first, std::uint64_t last) -> Expected<std::vector<Hash32>> {
            std::vector<Hash32> roots(lie.history.roots.begin() + static_cast<std::ptrdiff_t>(first),
                                      lie.history.roots.begin() + static_cast<std::ptrdiff_t>(last) + 1);
            roots[0] = another_step ? world().roots[6] : other_hash();  // instead of S_5
            return roots;
        };
        party.data = &world().data;
        party.seed = world().seed;
        party.alter = lie.alter;
        DisputeStrategy liar(std::move(party));
        Game game = history_game(world(), lie.history.root(), world().root());
        play(game, player(liar), player(lie.honest));
        EXPECT_EQ(game.verdict, Verdict::rival_wins);
        EXPECT_EQ(game.step, 5U) << "where it made something up, not where it computed wrongly";
    }
}

TEST(StrideGame, ASilentSideLosesInThePhaseSteps) {
    Lie lie;
    for (const bool defends : {true, false}) {
        Game game = history_game(world(), defends ? lie.history.root() : world().root(),
                                 defends ? world().root() : lie.history.root());
        const Player stops = [&](const Game& now, Side side) -> Expected<Move> {
            if (now.phase >= Phase::steps) return Move{NoMove{}};
            return lie.liar.next_move(now, side, waiting_post(now));
        };
        play(game, defends ? stops : player(lie.honest), defends ? player(lie.honest) : stops);
        EXPECT_EQ(game.verdict, defends ? Verdict::rival_wins : Verdict::defender_wins);
        EXPECT_EQ(game.reason, "clock");
        EXPECT_EQ(disputed_from(game), 5U) << "the first step of the stride that differs";
    }
}

TEST(StrideGame, APartyWhoseStrideDoesNotLeadToItsHistoryConcedes) {
    Lie lie;
    DisputeStrategy confused = dishonest_player(world(), {world().states, world().roots, kStride}, {});
    Game game = game_at(Phase::steps, lie.liar, lie.honest, lie.history);
    const auto move = confused.next_move(game, Side::defender, waiting_post(game));
    ASSERT_TRUE(move.has_value());
    EXPECT_TRUE(std::holds_alternative<Concede>(*move));
}

// --- Probes ----------------------------------------------------------------------------------------------------------

Hash32 tile_of(std::uint64_t step, const Alter& alter) {
    vm::tensor::Executor executor(world().program, vm::tensor::arith::Backend::scalar, nullptr);
    const auto outputs = executor.run_altered(world().states[step - 1], world().data, world().seed,
                                              [&](std::uint32_t node, Tensor& output) {
                                                  if (alter) alter(step, node, output);
                                              });
    return vm::tensor::tile_hashes(outputs[probed_node()])[0];
}

Game probe_game(std::uint64_t step, bool liar_defends, const Hash32& lie) {
    const Hash32 truth = tile_of(step, {});
    auto game = open_probe_game(world().context, world().root(), step, probed_node(), 0, liar_defends ? lie : truth,
                                liar_defends ? truth : lie, kBudget, 1000);
    EXPECT_TRUE(game.has_value());
    return game ? *game : Game{};
}

// The defender is the verifier that probed, the rival who says that its tile is another.
TEST(StrideProbe, AWrongTileLosesWhereverItsStepLies) {
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
        const Alter alter = flip(step, probed_node(), 3, kBits);
        for (const bool defends : {true, false}) {
            Game game = probe_game(step, defends, tile_of(step, alter));
            EXPECT_EQ(game.phase, step % kStride == 1 ? Phase::trace : Phase::steps);
            DisputeStrategy honest = honest_player(world());
            DisputeStrategy liar = dishonest_player(world(), {world().states, world().roots, kStride}, alter);
            const Transcript played = play(game, player(defends ? liar : honest), player(defends ? honest : liar));
            EXPECT_EQ(game.verdict, defends ? Verdict::rival_wins : Verdict::defender_wins) << step;
            EXPECT_EQ(game.reason, "leaf");
            EXPECT_EQ(game.step, step);
            EXPECT_TRUE(at_probe(game));
            EXPECT_TRUE(played.refused.empty()) << played.refused.front();
        }
    }
}

// Who computes an earlier step of the stride wrongly comes to another state before the probed one, and to a tile that
// is right there: the game is about the earlier step then.
TEST(StrideProbe, ALieAboutTheStateBeforeTheProbeIsFoundAtItsStep) {
    for (const std::uint64_t step : {6ULL, 7ULL, 8ULL})
        for (std::uint64_t wrong = 5; wrong < step; ++wrong) {
            const Alter alter = flip(wrong, probed_node(), 3, kBits);
            const History lie = altered_history(world(), alter, wrong);
            vm::tensor::Executor executor(world().program, vm::tensor::arith::Backend::scalar, nullptr);
            const auto outputs = executor.run_all(lie.states[step - 1], world().data, world().seed);
            const Hash32 tile = vm::tensor::tile_hashes(outputs[probed_node()])[0];
            ASSERT_NE(tile, tile_of(step, {}));
            for (const bool defends : {true, false}) {
                Game game = probe_game(step, defends, tile);
                DisputeStrategy honest = honest_player(world());
                DisputeParty party;  // of the accepted history, with states of its own in the stride
                party.programs = world().programs.get();
                party.history = world().history();
                party.state_before = [&](std::uint64_t at) -> Expected<State> { return lie.states[at - 1]; };
                party.states_of = [&](std::uint64_t first, std::uint64_t last) -> Expected<std::vector<Hash32>> {
                    return std::vector(lie.roots.begin() + static_cast<std::ptrdiff_t>(first),
                                       lie.roots.begin() + static_cast<std::ptrdiff_t>(last) + 1);
                };
                party.data = &world().data;
                party.seed = world().seed;
                party.alter = alter;
                DisputeStrategy liar(std::move(party));
                const Transcript played = play(game, player(defends ? liar : honest), player(defends ? honest : liar));
                EXPECT_EQ(game.verdict, defends ? Verdict::rival_wins : Verdict::defender_wins);
                EXPECT_EQ(game.reason, "leaf");
                EXPECT_EQ(game.step, wrong);
                EXPECT_FALSE(at_probe(game));
                EXPECT_TRUE(played.refused.empty()) << played.refused.front();
            }
        }
}

// Nobody need stand for the state after the stride: it says nothing about the probe, and where the history is wrong
// there, it is the history that a game is due about.
TEST(StrideProbe, AHistoryThatIsWrongAfterTheProbeDoesNotHelpALiar) {
    const Alter later = flip(8, probed_node(), 3, kBits);  // the last step of the stride of step 6
    const History wrong = altered_history(world(), later, 8);
    const Alter alter = flip(6, probed_node(), 3, kBits);
    auto game = open_probe_game(world().context, wrong.root(), 6, probed_node(), 0, tile_of(6, alter), tile_of(6, {}),
                                kBudget, 1000);
    ASSERT_TRUE(game.has_value());
    DisputeStrategy liar = dishonest_player(world(), wrong, alter);
    DisputeStrategy honest = dishonest_player(world(), wrong, {});  // of the same history, executing rightly
    play(*game, player(liar), player(honest));
    EXPECT_EQ(game->verdict, Verdict::rival_wins);
    EXPECT_EQ(game->step, 6U);
}

TEST(StrideProbe, AnotherStateBeforeTheProbeThanTheListsIsRefused) {
    Game game = probe_game(7, false, tile_of(7, flip(7, probed_node(), 3, kBits)));
    DisputeStrategy honest = honest_player(world());
    for (const Side side : {Side::defender, Side::rival}) {
        const auto move = honest.next_move(game, side, waiting_post(game));
        ASSERT_TRUE(move && apply(game, side, *move, 1000));
    }
    ASSERT_EQ(game.phase, Phase::trace);
    const auto move = honest.next_move(game, Side::defender, nullptr);
    ASSERT_TRUE(move && std::holds_alternative<SplitMove>(*move));
    for (const std::uint64_t step : {4U, 5U, 7U}) {
        SplitMove changed = std::get<SplitMove>(*move);
        changed.previous_state = world().roots[step];
        Game tried = game;
        EXPECT_EQ(name_of(apply_split(tried, Side::defender, changed, 1000)), "dispute.bad_path") << step;
    }
}

TEST(StrideProbe, ContradictionsInAStoredGameAreRefused) {
    const Game game = probe_game(7, true, other_hash());
    EXPECT_TRUE(check_game(game));
    const auto changed = [&](auto change) {
        Game other = game;
        change(other);
        return name_of(check_game(other));
    };
    EXPECT_EQ(changed([](Game& g) { g.probe_step = 0; }), "dispute.bad_game");
    EXPECT_EQ(changed([](Game& g) { g.probe_step = 9; }), "dispute.bad_game") << "of another stride";
    EXPECT_EQ(changed([](Game& g) { g.probe_step = 5; }), "dispute.bad_game") << "no state lies before it";
    EXPECT_EQ(changed([](Game& g) { g.probe = false; }), "dispute.bad_game") << "no stride roots";
    EXPECT_EQ(changed([](Game& g) { g.post = other_hash(); }), "dispute.bad_game") << "no top of it";
    EXPECT_EQ(changed([](Game& g) { g.cursor.nodes = {other_hash()}; }), "dispute.bad_game") << "no post of it";
    Lie lie;
    const Game at_state = game_at(Phase::state, lie.liar, lie.honest, lie.history);
    Game other = at_state;
    other.step = 9;
    EXPECT_EQ(name_of(check_game(other)), "dispute.bad_game") << "of another stride";
    other = at_state;
    other.step = 0;
    EXPECT_EQ(name_of(check_game(other)), "dispute.bad_game");
}

TEST(StrideProbe, AStateThatIsRebuiltIsAskedForOnce) {
    int replays = 0;
    DisputeParty party;
    party.programs = world().programs.get();
    party.history = world().history();
    party.state_before = [](std::uint64_t step) -> Expected<State> { return world().states[step - 1]; };
    party.states_of = [&](std::uint64_t first, std::uint64_t last) -> Expected<std::vector<Hash32>> {
        ++replays;
        return std::vector(world().roots.begin() + static_cast<std::ptrdiff_t>(first),
                           world().roots.begin() + static_cast<std::ptrdiff_t>(last) + 1);
    };
    party.data = &world().data;
    party.seed = world().seed;
    DisputeStrategy honest(std::move(party));
    Lie lie;
    Game game = history_game(world(), lie.history.root(), world().root());
    play(game, player(lie.liar), player(honest));
    EXPECT_EQ(game.verdict, Verdict::rival_wins);
    EXPECT_EQ(replays, 1);
}

}  // namespace
}  // namespace quern::compute::core::test
