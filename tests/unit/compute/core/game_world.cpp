#include "unit/compute/core/game_world.h"

#include <gtest/gtest.h>

namespace quern::compute::core::test {

using vm::tensor::Executor;

namespace {

State state_after(const World& world, const State& state, std::uint64_t step, const Alter& alter) {
    Executor executor(world.program, vm::tensor::arith::best_backend(), nullptr);
    const auto outputs = executor.run_altered(state, world.data, world.seed, [&](std::uint32_t node, Tensor& output) {
        if (alter) alter(step, node, output);
    });
    State next;
    for (const std::uint32_t update : world.program.updates) next.push_back(outputs[update]);
    return next;
}

Expected<std::vector<Hash32>> slice_of(const std::vector<Hash32>& roots, std::uint64_t first, std::uint64_t last) {
    return std::vector(roots.begin() + static_cast<std::ptrdiff_t>(first),
                       roots.begin() + static_cast<std::ptrdiff_t>(last) + 1);
}

}  // namespace

Program every_kind_program() {
    using vm::tensor::DType;
    using vm::tensor::arith::ElementOp;
    vm::tensor::test::Graph g;
    const std::uint32_t f = g.add_slot("f", DType::f32, {{1, 2, 37, 35}});
    const std::uint32_t f2 = g.add_slot("f2", DType::f32, {{1, 1, 1, 35}});
    const std::uint32_t f3 = g.add_slot("f3", DType::f32, {{1, 2, 37, 1}});
    const std::uint32_t i = g.add_slot("i", DType::i32, {{1, 2, 37, 35}});
    const std::uint32_t i2 = g.add_slot("i2", DType::i32, {{1, 1, 37, 1}});
    const std::uint32_t wide = g.add_slot("wide", DType::f32, {{1, 1, 5, 600}});
    g.update(5, g.element(ElementOp::add, {wide, wide}));
    const std::uint32_t data = g.data({{1, 1, 9, 11}});
    const std::uint32_t seed = g.seed();
    const std::uint32_t column = g.slice(data, {0, 0, 0, 3}, {{1, 1, 9, 1}});

    std::vector<std::uint32_t> parts{data, seed, column};
    for (const auto& info : vm::tensor::arith::kElementOps) {
        const std::uint32_t choices[2][3] = {{i, i2, i}, {f, f2, f3}};
        std::vector<std::uint32_t> inputs;
        for (std::size_t k = 0; k < info.arity; ++k)
            inputs.push_back(choices[info.inputs[k] == vm::tensor::arith::WordType::f32 ? 1 : 0][k]);
        if (info.op == ElementOp::permute_index)
            inputs = {i, g.slice(seed, {0, 0, 0, 0}, {}), g.slice(seed, {0, 0, 0, 1}, {})};
        parts.push_back(g.element(info.op, inputs, info.uses_immediate ? 1000 : 0));
    }
    parts.push_back(g.philox(seed, {{1, 1, 5, 33}}));
    parts.push_back(g.philox_words(seed, {{1, 1, 5, 33}}));
    parts.push_back(g.iota({{2, 1, 4, 5}}, 3));
    parts.push_back(g.full(DType::f32, {{1, 1, 33, 2}}, 0x3f800001));
    parts.push_back(g.matmul(f, f, false, true));
    parts.push_back(g.matmul(f, f, true, false));
    parts.push_back(g.matmul(wide, wide, false, true));  // k = 600: three blocks
    parts.push_back(g.matmul(f2, f2, true));             // k = 1: one micro-step
    for (const Op op : {Op::sum_last, Op::max_last, Op::sum_rows}) {
        parts.push_back(g.reduce(op, f));
        parts.push_back(g.reduce(op, wide));
    }
    parts.push_back(g.imatmul({i, f3}, {i, f3}, false, true));
    const vm::tensor::test::Graph::Scaled strips{g.element(ElementOp::bits, {wide}),
                                                 g.slice(wide, {0, 0, 0, 0}, {{1, 1, 5, 3}})};
    parts.push_back(g.imatmul(strips, strips, false, true));  // k = 600: three strips
    const std::uint32_t words = g.element(ElementOp::bits, {f});
    parts.push_back(g.kth(words, 3));
    parts.push_back(g.reshape(f, {{1, 1, 70, 37}}));
    parts.push_back(g.permute(f, {3, 1, 0, 2}));
    parts.push_back(g.slice(wide, {0, 0, 1, 300}, {{1, 1, 3, 100}}));
    for (std::uint32_t axis = 0; axis < 4; ++axis) parts.push_back(g.concat(f, f, axis));
    parts.push_back(g.gather(g.reshape(f, {{1, 1, 74, 35}}), column));
    parts.push_back(g.scatter_add(g.slice(f, {0, 1, 0, 0}, {{1, 1, 9, 35}}), column, 40));
    parts.push_back(g.scatter_add(g.slice(g.reshape(wide, {{1, 1, 100, 30}}), {0, 0, 1, 0}, {{1, 1, 99, 30}}),
                                  g.reshape(data, {{1, 1, 1, 99}}), 35));
    const std::uint32_t few = g.element(ElementOp::iand, {i2, g.full(DType::i32, {}, 63)});
    parts.push_back(g.window(few, 1, DType::i32, 97, 40));
    parts.push_back(g.window(few, 2, DType::i32, 31, 33));
    parts.push_back(g.window(few, 3, DType::i32, 20, 50));
    parts.push_back(g.window(few, 4, DType::f32, 17, 33));
    for (std::size_t k = 0; k < parts.size(); ++k) {
        g.add_slot("part" + std::to_string(k), g.dtype(parts[k]), g.shape(parts[k]));
        g.update(g.program.slots.size() - 1, parts[k]);
    }
    g.add_slot("loss", DType::f32, {});
    g.update(g.program.slots.size() - 1, g.slice(f2, {0, 0, 0, 4}, {}));
    g.finish({{1, 1, 9, 11}}, {{vm::tensor::DataType::u8, 5000},
                               {vm::tensor::DataType::i8, 1500},
                               {vm::tensor::DataType::u16, 2300},
                               {vm::tensor::DataType::f32, 1030}});
    return g.program;
}

std::vector<Hash32> strided(const std::vector<Hash32>& roots, std::uint64_t stride) {
    std::vector<Hash32> history;
    for (std::size_t step = 0; step < roots.size(); step += stride) history.push_back(roots[step]);
    return history;
}

World make_world(Program program, std::uint64_t steps, std::uint64_t seed, std::uint64_t stride) {
    World world;
    world.program = std::move(program);
    EXPECT_TRUE(vm::tensor::validate(world.program).has_value());
    world.data = vm::tensor::test::random_data(world.program, seed + 1);
    for (std::size_t i = 0; i < 32; ++i) world.beacon.data[i] = static_cast<std::uint8_t>(29 * i + seed);
    world.seed = vm::tensor::seed_tensor(world.beacon);
    world.states.push_back(vm::tensor::test::random_state(world.program, seed + 2, vm::tensor::test::Fill::moderate));
    world.roots.push_back(vm::tensor::state_root(world.states.back()));
    Executor executor(world.program, vm::tensor::arith::best_backend(), nullptr);
    for (std::uint64_t step = 1; step <= steps; ++step) {
        State state = world.states.back();
        executor.step(state, world.data, world.seed);
        world.roots.push_back(vm::tensor::state_root(state));
        world.states.push_back(std::move(state));
    }
    world.programs = std::make_shared<const TaskPrograms>(*TaskPrograms::make({world.program}, plain_body(steps)));
    world.context.plan = world.programs->plan.bytes();
    world.context.data_roots = world.data.roots();
    world.context.seed_beacon = world.beacon;
    world.context.stride = stride;
    world.context.history_leaves = steps / stride + 1;
    return world;
}

History altered_history(const World& world, const Alter& alter, std::uint64_t first_altered_step) {
    History history;
    history.stride = world.context.stride;
    for (std::uint64_t step = 0; step < first_altered_step; ++step) {
        history.states.push_back(world.states[step]);
        history.roots.push_back(world.roots[step]);
    }
    for (std::uint64_t step = first_altered_step; step <= world.steps(); ++step) {
        history.states.push_back(state_after(world, history.states.back(), step, alter));
        history.roots.push_back(vm::tensor::state_root(history.states.back()));
    }
    return history;
}

DisputeParty honest_party(const World& world) {
    DisputeParty party;
    party.programs = world.programs.get();
    party.history = world.history();
    party.states_of = [&world](std::uint64_t first, std::uint64_t last) { return slice_of(world.roots, first, last); };
    party.state_before = [&world](std::uint64_t step) -> Expected<State> { return world.states[step - 1]; };
    party.data = &world.data;
    party.seed = world.seed;
    return party;
}

DisputeStrategy honest_player(const World& world) { return DisputeStrategy(honest_party(world)); }

DisputeStrategy dishonest_player(const World& world, History history, Alter alter) {
    DisputeParty party;
    party.programs = world.programs.get();
    party.history = history.history();
    party.states_of = [roots = history.roots](std::uint64_t first, std::uint64_t last) {
        return slice_of(roots, first, last);
    };
    party.state_before = [states = std::move(history.states)](std::uint64_t step) -> Expected<State> {
        return states[step - 1];
    };
    party.data = &world.data;
    party.seed = world.seed;
    party.alter = std::move(alter);
    return DisputeStrategy(std::move(party));
}

Alter flip(std::uint64_t step, std::uint32_t node, std::uint64_t word, std::uint32_t bits) {
    return [=](std::uint64_t at_step, std::uint32_t at_node, Tensor& output) {
        if (at_step == step && at_node == node) output.words[word % output.words.size()] ^= bits;
    };
}

Player player(DisputeStrategy& strategy) {
    return [&strategy](const Game& game, Side side) { return strategy.next_move(game, side, waiting_post(game)); };
}

Player silent_player() {
    return [](const Game&, Side) -> Expected<Move> { return Move{NoMove{}}; };
}

Status apply(Game& game, Side side, const Move& move, std::uint64_t height) {
    if (const auto* split = std::get_if<SplitMove>(&move)) {
        // As the chain gets it: through its encoding.
        QUERN_TRY(const SplitMove decoded, decode_split_move(chain::types::encode_record(*split)));
        quern::test::remember_post(decoded);
        return apply_split(game, side, decoded, height);
    }
    if (const auto* witness = std::get_if<LeafWitness>(&move)) {
        QUERN_TRY(const LeafWitness decoded, decode_leaf_witness(chain::types::encode_record(*witness)));
        return apply_leaf(game, side, decoded, height);
    }
    if (std::holds_alternative<Concede>(move)) return concede(game, side, height);
    return {};
}

Transcript play(Game& game, const Player& defender, const Player& rival, std::uint64_t height) {
    Transcript transcript;
    for (std::uint64_t block = 0; block < 10 * kBudget && game.phase != Phase::decided; ++block, ++height) {
        charge_clocks(game, height);
        for (const Side side : {Side::rival, Side::defender}) {
            if (game.phase == Phase::decided) break;
            const Expected<Move> move = (side == Side::defender ? defender : rival)(game, side);
            if (!move) {
                transcript.refused.push_back(move.error().to_string());
                continue;
            }
            if (std::holds_alternative<NoMove>(*move)) continue;
            // The game lives as bytes between two moves.
            const Bytes bytes = chain::types::encode_record(game);
            transcript.largest_game = std::max(transcript.largest_game, bytes.size() - game.context.plan.size());
            const Expected<Game> stored = chain::types::decode_record<Game>(bytes);
            EXPECT_TRUE(stored.has_value());
            if (stored) game = *stored;
            if (const Status status = apply(game, side, *move, height); !status) {
                transcript.refused.push_back(status.error().to_string());
                continue;
            }
            std::size_t size = 0;
            if (const auto* split = std::get_if<SplitMove>(&*move)) size = chain::types::encode_record(*split).size();
            if (const auto* leaf = std::get_if<LeafWitness>(&*move)) {
                size = chain::types::encode_record(*leaf).size();
                transcript.leaf_executed = true;
            }
            ++transcript.rounds;
            transcript.bytes += size;
            transcript.largest_move = std::max(transcript.largest_move, size);
        }
    }
    return transcript;
}

Game history_game(const World& world, const Hash32& defender, const Hash32& rival) {
    auto game = open_history_game(world.context, defender, rival, kBudget, 1000);
    EXPECT_TRUE(game.has_value()) << game.error().to_string();
    return game ? *game : Game{};
}

}  // namespace quern::compute::core::test
