// Tasks, histories and players for the tests of the dispute game.
#pragma once

#include <functional>
#include <string>

#include "compute/core/dispute_strategy.h"
#include "compute/core/history.h"
#include "support/posts.h"
#include "unit/vm/tensor/test_programs.h"

namespace quern::compute::core::test {

using quern::test::waiting_post;
using vm::tensor::Op;
using vm::tensor::Program;
using vm::tensor::State;
using vm::tensor::Tensor;
using vm::tensor::test::Random;

using Alter = std::function<void(std::uint64_t step, std::uint32_t node, Tensor& output)>;

inline constexpr std::uint64_t kBudget = 100;

// Of the roots of all states those that a history by strides has.
std::vector<Hash32> strided(const std::vector<Hash32>& roots, std::uint64_t stride);

// One task: program, initial state, data, seed, and the honest history with its states.
struct World {
    Program program;  // of each step
    std::shared_ptr<const TaskPrograms> programs;
    vm::tensor::MemoryData data;
    Hash32 beacon;
    Tensor seed;
    std::vector<State> states;  // S_0 … S_N
    std::vector<Hash32> roots;  // theirs
    GameContext context;

    [[nodiscard]] std::vector<Hash32> history() const { return strided(roots, context.stride); }
    [[nodiscard]] Hash32 root() const { return history_root(history()); }
    [[nodiscard]] std::uint64_t steps() const { return roots.size() - 1; }
};
// Every op and element op once or more, small and ragged, each output in a slot of its own: no altered element is
// rounded away. More than 128 nodes.
Program every_kind_program();
World make_world(Program program, std::uint64_t steps, std::uint64_t seed = 1, std::uint64_t stride = 1);

// A history computed with altered outputs, from the first step on.
struct History {
    std::vector<State> states;
    std::vector<Hash32> roots;
    std::uint64_t stride = 1;
    [[nodiscard]] std::vector<Hash32> history() const { return strided(roots, stride); }
    [[nodiscard]] Hash32 root() const { return history_root(history()); }
};
History altered_history(const World& world, const Alter& alter, std::uint64_t first_altered_step);

DisputeParty honest_party(const World& world);
DisputeStrategy honest_player(const World& world);
DisputeStrategy dishonest_player(const World& world, History history, Alter alter);
// Flips `bits` of word `word` (modulo the number of words) of node `node`'s output in step `step`.
Alter flip(std::uint64_t step, std::uint32_t node, std::uint64_t word = 0, std::uint32_t bits = 1);

// Who moves for a side: nullopt keeps still for good.
using Player = std::function<Expected<Move>(const Game&, Side)>;
Player player(DisputeStrategy& strategy);
Player silent_player();

struct Transcript {
    std::uint64_t rounds = 0;  // accepted moves
    std::uint64_t bytes = 0;   // their encodings
    std::size_t largest_move = 0;
    std::size_t largest_game = 0;      // beside its plan
    std::vector<std::string> refused;  // errors of refused moves
    bool leaf_executed = false;
};
// Plays until the game is decided: each block both sides may move, then the clocks are charged.
Transcript play(Game& game, const Player& defender, const Player& rival, std::uint64_t height = 1000);

Game history_game(const World& world, const Hash32& defender, const Hash32& rival);
Status apply(Game& game, Side side, const Move& move, std::uint64_t height);

}  // namespace quern::compute::core::test
