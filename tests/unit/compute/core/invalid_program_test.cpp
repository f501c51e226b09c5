// Nobody checks a whole program on chain: a game about one that is none must still end, by the total rule (+0).
#include <gtest/gtest.h>

#include "compute/core/dispute_game.h"
#include "compute/core/history.h"
#include "vm/tensor/executor.h"

namespace quern::compute::core {
namespace {

using vm::tensor::DType;
using vm::tensor::Node;
using vm::tensor::Op;
using vm::tensor::Program;
using vm::tensor::Tensor;
using vm::tensor::arith::ElementOp;

// Slot 0 is updated by node 2, of which `broken` is the definition.
Program program_with(Node broken) {
    Program program;
    program.slots.push_back({"loss", DType::f32, {}, 0});
    program.nodes.push_back({Op::slot, {}, DType::f32, {}, {}, 0, {0}});
    program.nodes.push_back({Op::full, {}, DType::f32, {{1, 1, 1, 3}}, {}, 0x3f800000, {}});
    program.nodes.push_back(std::move(broken));
    program.updates = {2};
    vm::tensor::complete_header(program);
    return program;
}

Tensor filled(const vm::tensor::Shape& shape, std::uint32_t first) {
    Tensor tensor{DType::f32, shape, std::vector<std::uint32_t>(shape.elements())};
    tensor.words[0] = first;
    return tensor;
}

// Plays all moves of both sides by hand; the defender claims `claimed` as first word of node 2's output, the rival +0.
Game play(const Program& program, std::uint32_t claimed, std::size_t operands) {
    EXPECT_FALSE(vm::tensor::validate(program).has_value());
    const ProgramProver prover(program);
    const std::array<Tensor, 2> outputs{filled(program.nodes[2].shape, claimed), filled(program.nodes[2].shape, 0)};
    const Tensor start = filled({}, 7);
    std::array<std::vector<Hash32>, 2> traces;
    std::array<std::vector<Hash32>, 2> histories;
    for (std::size_t side = 0; side < 2; ++side) {
        const Hash32 output = vm::tensor::tensor_root(outputs[side]);
        traces[side] = {vm::tensor::tensor_root(start), vm::tensor::tensor_root(filled(program.nodes[1].shape, 1)),
                        output};
        histories[side] = {vm::tensor::state_root(vm::tensor::State{start}),
                           vm::tensor::state_root(std::vector{output})};
    }
    GameContext context;
    context.plan = TaskPlan::make({{prover.root(), program.header}}, plain_body(1))->bytes();
    context.history_leaves = 2;
    auto opened = open_history_game(context, history_root(histories[0]), history_root(histories[1]), 10, 0);
    EXPECT_TRUE(opened.has_value());
    Game game = *opened;
    for (const Phase phase : {Phase::history, Phase::state, Phase::trace, Phase::tile, Phase::element}) {
        SplitMove post;
        for (std::size_t side = 0; side < 2; ++side) {
            SplitMove move;
            move.phase = static_cast<std::uint8_t>(phase);
            switch (phase) {
                case Phase::history:
                    move.nodes = histories[side];
                    break;
                case Phase::state:
                    move.nodes = {traces[side][2]};
                    if (side != 0) break;
                    move.previous_state = histories[side][0];
                    move.previous_path = history_path(histories[side], 0);
                    break;
                case Phase::trace:
                    move.nodes = traces[side];
                    move.program = {prover.update(0)};
                    move.anchor_path = crypto::merkle_path(traces[side], 2);
                    break;
                case Phase::tile:
                    move.nodes = vm::tensor::tile_hashes(outputs[side]);
                    if (side != 0) break;
                    move.program = {prover.node(2)};
                    for (std::size_t i = 0; i < operands; ++i)
                        move.program.push_back(prover.node(program.nodes[2].inputs[i]));
                    break;
                default:
                    move.tiles = post.tiles;
                    move.tiles.push_back(vm::tensor::tile_bytes(vm::tensor::read_tile(outputs[side], 0)));
                    break;
            }
            if (side == 0) {
                post = move;
            } else if (phase != Phase::element) {
                move.pick = *first_difference(post.nodes, move.nodes);
                move.nodes.clear();
            }
            const Status status = apply_split(game, static_cast<Side>(side), move, 0);
            EXPECT_TRUE(status.has_value()) << to_string(phase) << " " << status.error().to_string();
        }
    }
    const Status status = apply_leaf(game, Side::rival, {}, 0);
    EXPECT_TRUE(status.has_value()) << status.error().to_string();
    return game;
}

TEST(InvalidProgram, OutputOfANodeWhoseShapesDoNotFitIsZero) {
    const Game game =
        play(program_with({Op::elementwise, ElementOp::add, DType::f32, {{1, 1, 1, 2}}, {0, 1}, 0, {}}), 5, 2);
    EXPECT_EQ(game.verdict, Verdict::rival_wins);
    EXPECT_EQ(game.true_value, 0U);
}

TEST(InvalidProgram, NodeThatReadsItselfOrALaterOneHasNoOperands) {
    for (const std::uint32_t input : {2U, 3U, 0xffffffffU}) {
        const Game game = play(program_with({Op::matmul, {}, DType::f32, {{1, 1, 2, 2}}, {1, input}, 0, {0, 0}}), 5, 0);
        EXPECT_EQ(game.verdict, Verdict::rival_wins);
    }
}

TEST(InvalidProgram, ReductionToAWrongShapeIsZero) {
    const Game game = play(program_with({Op::sum_last, {}, DType::f32, {{1, 1, 2, 2}}, {1}, 0, {}}), 9, 1);
    EXPECT_EQ(game.verdict, Verdict::rival_wins);
}

TEST(InvalidProgram, SlotNodeWithoutSuchASlotIsZero) {
    const Game game = play(program_with({Op::slot, {}, DType::f32, {{1, 1, 1, 2}}, {}, 0, {4000}}), 5, 0);
    EXPECT_EQ(game.verdict, Verdict::rival_wins);
    const Game bare = play(program_with({Op::slot, {}, DType::f32, {{1, 1, 1, 2}}, {}, 0, {}}), 5, 0);
    EXPECT_EQ(bare.verdict, Verdict::rival_wins);
}

}  // namespace
}  // namespace quern::compute::core
