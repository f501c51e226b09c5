// A training task of the built-in transformer and dispute games about it, in process: real programs, states, claims and
// strategies on both sides. Shared by the fuzz targets and the benchmarks. One thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compute/core/dispute_strategy.h"
#include "compute/program/architecture.h"

namespace quern::test {

using Alter = std::function<void(std::uint64_t step, std::uint32_t node, vm::tensor::Tensor& output)>;

// A program with its data, the history that it leads to, and the first states of it.
struct Training {
    compute::program::BuiltProgram built;
    std::shared_ptr<const compute::core::TaskPrograms> programs;  // of N steps of it
    vm::tensor::MemoryData data;
    Hash32 beacon;
    vm::tensor::Tensor seed;
    std::vector<vm::tensor::State> states;  // S_0 …, as many as were to be kept
    std::uint64_t stride = 1;
    std::vector<Hash32> roots;  // of S_0 … S_N

    [[nodiscard]] const vm::tensor::Program& program() const { return built.program; }
    [[nodiscard]] std::vector<Hash32> history() const;  // of S_0, S_u, … S_N
    [[nodiscard]] Hash32 history_root() const;
    [[nodiscard]] compute::core::GameContext context() const;
};

// Small enough for thousands of games: one layer, width 8.
[[nodiscard]] compute::program::Architecture small_architecture();
// What contrib/demo.sh trains: two layers, width 64, context 64, batch 16, AdamW.
[[nodiscard]] compute::program::Architecture demo_architecture(std::uint32_t windows);

// A network of layers over images of three colours, as bytes, in classes; its layers are still to be named. `images`:
// of the data set.
[[nodiscard]] compute::program::Architecture image_architecture(compute::program::Extent2d size, std::uint32_t classes,
                                                                std::uint32_t images);

struct TrainOptions {
    vm::tensor::arith::Backend backend = vm::tensor::arith::Backend::scalar;
    ThreadPool* pool = nullptr;
    std::uint64_t keep_steps = ~std::uint64_t{0};  // states after later steps are let go
};
// Random bytes as data, tokens and classes within their numbers. The architecture must be valid: anything else ends the
// process with a message.
[[nodiscard]] Training train(const compute::program::Architecture& architecture, std::uint64_t steps,
                             const TrainOptions& options = {});
// The same task as someone computes it who alters outputs from `first_altered_step` on, the state before which the
// honest training has kept.
[[nodiscard]] Training train_altered(const Training& honest, const Alter& alter, std::uint64_t first_altered_step,
                                     const TrainOptions& options = {});
// Flips the low bit of word `word` (modulo their number) of node `node`'s output in step `step`.
[[nodiscard]] Alter flip_low_bit(std::uint64_t step, std::uint32_t node, std::uint64_t word);

// A player of the training's own claim; `training` outlives it. `alter` only where the training was altered.
[[nodiscard]] compute::core::DisputeStrategy player_of(const Training& training, Alter alter,
                                                       const TrainOptions& options = {});

// One accepted move.
struct PlayedMove {
    compute::core::Game before;
    compute::core::Side side = compute::core::Side::defender;
    compute::core::Move move;
    std::uint64_t height = 0;
};
// Bytes of the move as its transaction carries it; 0 for a concession.
[[nodiscard]] Bytes move_bytes(const compute::core::Move& move);
// Through the move's encoding, as the chain gets it.
[[nodiscard]] Status apply_move(compute::core::Game& game, compute::core::Side side, const compute::core::Move& move,
                                std::uint64_t height);
// Plays until the game is decided: in each block the rival, then the defender may move. Refused moves are dropped.
std::vector<PlayedMove> play(compute::core::Game& game, compute::core::DisputeStrategy& defender,
                             compute::core::DisputeStrategy& rival, std::uint64_t height);

}  // namespace quern::test
