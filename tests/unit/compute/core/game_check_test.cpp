// Games as they are stored, with something about them changed: each contradiction is refused before anybody relies on
// the game, and what only looks odd is not.
#include <gtest/gtest.h>

#include <map>

#include "unit/compute/core/game_world.h"

namespace quern::compute::core::test {
namespace {

// A matmul of three blocks, so that all phases are played.
std::uint32_t long_matmul(const Program& program) {
    for (std::uint32_t node = 0; node < program.nodes.size(); ++node)
        if (program.nodes[node].op == Op::matmul && program.nodes[node].shape == vm::tensor::Shape{{1, 1, 5, 5}})
            return node;
    return 0;
}

// Every state that one game went through, by phase; of each phase the last one.
const std::map<Phase, Game>& games() {
    static const std::map<Phase, Game> instance = [] {
        const World world = make_world(every_kind_program(), 3);
        const Alter alter = flip(2, long_matmul(world.program), 7);
        const History lie = altered_history(world, alter, 2);
        DisputeStrategy liar = dishonest_player(world, lie, alter);
        DisputeStrategy honest = honest_player(world);
        std::map<Phase, Game> found;
        Game game = history_game(world, lie.root(), world.root());
        for (int i = 0; i < 100 && game.phase != Phase::decided; ++i) {
            for (const Side side : {Side::defender, Side::rival}) {
                if (!owes_move(game, side)) continue;
                found[game.phase] = game;
                const auto move = (side == Side::defender ? liar : honest).next_move(game, side, waiting_post(game));
                EXPECT_TRUE(move && apply(game, side, *move, 1000));
            }
        }
        found[game.phase] = game;
        return found;
    }();
    return instance;
}

std::string_view verdict_on(Phase phase, const std::function<void(Game&)>& change) {
    Game game = games().at(phase);
    change(game);
    const Status status = check_game(game);
    return status ? "fits" : status.error().name;
}

TEST(GameCheck, GamesOfEachPhaseFit) {
    for (const Phase phase : {Phase::history, Phase::state, Phase::trace, Phase::tile, Phase::micro, Phase::element,
                              Phase::leaf, Phase::decided}) {
        ASSERT_TRUE(games().contains(phase)) << to_string(phase);
        EXPECT_EQ(verdict_on(phase, [](Game&) {}), "fits") << to_string(phase);
    }
}

TEST(GameCheck, PhaseAndVerdictAgree) {
    for (const auto& [phase, game] : games()) {
        EXPECT_EQ(verdict_on(phase, [](Game& g) { g.phase = static_cast<Phase>(10); }), "dispute.bad_game");
        EXPECT_EQ(verdict_on(phase, [](Game& g) { g.phase = static_cast<Phase>(0); }), "dispute.bad_game");
        EXPECT_EQ(verdict_on(phase, [](Game& g) { g.verdict = static_cast<Verdict>(4); }), "dispute.bad_game");
        EXPECT_EQ(
            verdict_on(phase,
                       [](Game& g) { g.verdict = g.phase == Phase::decided ? Verdict::none : Verdict::both_lose; }),
            "dispute.bad_game")
            << to_string(phase);
    }
    EXPECT_EQ(verdict_on(Phase::decided, [](Game& g) { g.verdict = Verdict::both_lose; }), "fits");
}

TEST(GameCheck, ClocksOfTheDecidedAndOfThePastStandStill) {
    const auto charged = [](Game game, std::uint64_t height) {
        charge_clocks(game, height);
        return chain::types::encode_record(game);
    };
    const Game& over = games().at(Phase::decided);
    EXPECT_EQ(charged(over, over.charged_to + 5), chain::types::encode_record(over));
    const Game& going_on = games().at(Phase::trace);
    EXPECT_EQ(charged(going_on, going_on.charged_to), chain::types::encode_record(going_on));
    EXPECT_EQ(charged(going_on, going_on.charged_to - 1), chain::types::encode_record(going_on));
    EXPECT_NE(charged(going_on, going_on.charged_to + 1), chain::types::encode_record(going_on));
    Game damaged = going_on;
    damaged.budget.clear();
    EXPECT_FALSE(owes_move(damaged, Side::rival));
}

TEST(GameCheck, WhatBothSidesHaveIsThereTwice) {
    for (const auto& [phase, game] : games()) {
        if (phase == Phase::decided) continue;
        EXPECT_EQ(verdict_on(phase, [](Game& g) { g.claims.pop_back(); }), "dispute.bad_game") << to_string(phase);
        EXPECT_EQ(verdict_on(phase, [](Game& g) { g.claims.emplace_back(); }), "dispute.bad_game") << to_string(phase);
        EXPECT_EQ(verdict_on(phase, [](Game& g) { g.budget.push_back(1); }), "dispute.bad_game") << to_string(phase);
    }
    for (const Phase phase : {Phase::trace, Phase::tile, Phase::micro, Phase::element, Phase::leaf}) {
        EXPECT_EQ(verdict_on(phase, [](Game& g) { g.slot_roots.pop_back(); }), "dispute.bad_game") << to_string(phase);
        if (phase != Phase::trace) {
            EXPECT_EQ(verdict_on(phase, [](Game& g) { g.trace_tops.pop_back(); }), "dispute.bad_game")
                << to_string(phase);
        }
    }
    EXPECT_EQ(verdict_on(Phase::trace, [](Game& g) { g.trace_tops.resize(1); }), "dispute.bad_game");
    EXPECT_EQ(verdict_on(Phase::trace, [](Game& g) { g.trace_tops.resize(3); }), "dispute.bad_game");
    EXPECT_EQ(verdict_on(Phase::tile, [](Game& g) { g.cursor.nodes.pop_back(); }), "dispute.bad_game");
    EXPECT_EQ(verdict_on(Phase::micro, [](Game& g) { g.micro_tops.resize(1); }), "dispute.bad_game");
    EXPECT_EQ(verdict_on(Phase::micro, [](Game& g) { g.micro_tops.resize(3); }), "dispute.bad_game");
    for (const Phase phase : {Phase::micro, Phase::element, Phase::leaf})
        EXPECT_EQ(verdict_on(phase, [](Game& g) { g.tile_hashes.pop_back(); }), "dispute.bad_game") << to_string(phase);
    for (const Phase phase : {Phase::element, Phase::leaf}) {
        EXPECT_EQ(verdict_on(phase, [](Game& g) { g.micro_tops.pop_back(); }), "dispute.bad_game") << to_string(phase);
        EXPECT_EQ(verdict_on(phase, [](Game& g) { g.micro_hashes.pop_back(); }), "dispute.bad_game")
            << to_string(phase);
    }
    EXPECT_EQ(verdict_on(Phase::leaf, [](Game& g) { g.values.pop_back(); }), "dispute.bad_game");
}

TEST(GameCheck, APostWaitsWhereThereCanBeOne) {
    EXPECT_EQ(verdict_on(Phase::leaf, [](Game& g) { g.post = Hash32{{1}}; }), "dispute.bad_game");
    ASSERT_TRUE(has_post(games().at(Phase::micro)));
    ASSERT_TRUE(at_top(games().at(Phase::micro).cursor));
    EXPECT_EQ(verdict_on(Phase::micro, [](Game& g) { g.post = {}; }), "dispute.bad_game") << "a top without its post";
    EXPECT_EQ(verdict_on(Phase::micro, [](Game& g) { g.cursor.nodes.clear(); }), "dispute.bad_game");
    EXPECT_EQ(verdict_on(Phase::tile, [](Game& g) { g.node_bytes.clear(); }), "dispute.bad_game");
}

TEST(GameCheck, PlacesLieWhereTheyCan) {
    for (const auto& [phase, game] : games()) {
        if (phase == Phase::decided) continue;
        EXPECT_EQ(verdict_on(phase, [](Game& g) { g.step = g.context.history_leaves; }), "dispute.bad_game");
        const auto last = [](Game& g) { g.step = g.stride = g.context.history_leaves - 1; };
        EXPECT_EQ(verdict_on(phase, last), "fits") << to_string(phase);
        EXPECT_EQ(verdict_on(phase, [](Game& g) { g.stride = g.context.history_leaves; }), "dispute.bad_game");
        EXPECT_EQ(verdict_on(phase, [](Game& g) { g.context.stride = 0; }), "dispute.bad_game");
        EXPECT_EQ(verdict_on(phase, [](Game& g) { g.context.stride = kMaxStride + 1; }), "dispute.bad_game");
        EXPECT_EQ(verdict_on(phase, [](Game& g) { g.context.history_leaves = 1; }), "dispute.bad_game");
        EXPECT_EQ(verdict_on(phase, [](Game& g) { g.context.history_leaves = kMaxStrides + 2; }), "dispute.bad_game");
        if (phase != Phase::history) {  // whose cursor is of so many leaves
            EXPECT_EQ(verdict_on(phase, [](Game& g) { g.context.history_leaves = kMaxStrides + 1; }), "fits")
                << to_string(phase);
        }
        EXPECT_EQ(verdict_on(phase, [](Game& g) { g.context.plan.pop_back(); }), "dispute.bad_game");
        if (phase != Phase::history) {
            EXPECT_EQ(verdict_on(phase, [](Game& g) { g.stride = 0; }), "dispute.bad_game") << to_string(phase);
            EXPECT_EQ(verdict_on(phase, [](Game& g) { ++g.stride; }), "dispute.bad_game") << to_string(phase);
            EXPECT_EQ(verdict_on(phase, [](Game& g) { g.step = 0; }), "dispute.bad_game") << to_string(phase);
        }
    }
    for (const Phase phase : {Phase::history, Phase::state, Phase::trace, Phase::tile, Phase::micro})
        EXPECT_EQ(verdict_on(phase, [](Game& g) { g.cursor.level = 60; }), "dispute.bad_game") << to_string(phase);
    for (const Phase phase : {Phase::element, Phase::leaf})
        EXPECT_EQ(verdict_on(phase, [](Game& g) { g.cursor.level = 60; }), "fits") << "its tree is done with";
    const auto node = disputed_node(games().at(Phase::leaf));
    ASSERT_TRUE(node.has_value());
    ASSERT_GT(node->micro_steps, 1U);
    for (const Phase phase : {Phase::micro, Phase::element, Phase::leaf}) {
        const auto tiles = node->node.shape.tiles();
        EXPECT_EQ(verdict_on(phase, [&](Game& g) { g.tile = tiles; }), "dispute.bad_game") << to_string(phase);
        EXPECT_EQ(verdict_on(phase, [&](Game& g) { g.tile = tiles - 1; }), "fits") << to_string(phase);
        EXPECT_EQ(verdict_on(phase, [](Game& g) { g.node_bytes.front().pop_back(); }), "dispute.bad_game");
    }
    for (const Phase phase : {Phase::element, Phase::leaf}) {
        EXPECT_EQ(verdict_on(phase, [&](Game& g) { g.micro_step = node->micro_steps; }), "dispute.bad_game");
        EXPECT_EQ(verdict_on(phase, [&](Game& g) { g.micro_step = node->micro_steps - 1; }), "fits");
    }
    EXPECT_EQ(verdict_on(Phase::leaf, [](Game& g) { g.element = vm::tensor::kTileWords; }), "dispute.bad_game");
    EXPECT_EQ(verdict_on(Phase::leaf, [](Game& g) { g.element = vm::tensor::kTileWords - 1; }), "fits");
    EXPECT_EQ(verdict_on(Phase::leaf, [&](Game& g) { g.accumulator = static_cast<std::uint32_t>(node->accumulators); }),
              "dispute.bad_game");
}

}  // namespace
}  // namespace quern::compute::core::test
