#include "support/training_game.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/rng.h"
#include "compute/core/history.h"
#include "compute/program/initial_state.h"
#include "support/posts.h"

namespace quern::test {

using compute::core::Game;
using compute::core::LeafWitness;
using compute::core::Move;
using compute::core::Phase;
using compute::core::Side;
using compute::core::SplitMove;
using vm::tensor::State;
using vm::tensor::Tensor;

namespace {

template <class T>
T must(Expected<T> value, const char* what) {
    if (!value) {
        std::fprintf(stderr, "%s: %s\n", what, value.error().to_string().c_str());
        std::abort();
    }
    return std::move(*value);
}

}  // namespace

std::vector<Hash32> Training::history() const {
    std::vector<Hash32> history;
    for (std::size_t step = 0; step < roots.size(); step += stride) history.push_back(roots[step]);
    return history;
}

Hash32 Training::history_root() const { return compute::core::history_root(history()); }

compute::core::GameContext Training::context() const {
    compute::core::GameContext context;
    context.plan = programs->plan.bytes();
    context.data_roots = data.roots();
    context.seed_beacon = beacon;
    context.stride = stride;
    context.history_leaves = history().size();
    return context;
}

compute::program::Architecture small_architecture() {
    compute::program::Architecture architecture;
    architecture.model = compute::program::TransformerSpec{1, 8, 2, 4, 2, 8};
    architecture.data[0].elements = 5 * 4 + 1;
    architecture.batch = 2;
    return architecture;
}

compute::program::Architecture demo_architecture(std::uint32_t windows) {
    compute::program::Architecture architecture;
    architecture.model = compute::program::TransformerSpec{2, 64, 4, 64, 4, 98};
    architecture.data[0].elements = std::uint64_t{windows} * 64 + 1;
    architecture.batch = 16;
    architecture.optimizer.learning_rate = 3e-3F;
    architecture.optimizer.beta2 = 0.95F;
    architecture.optimizer.weight_decay = 0.1F;
    return architecture;
}

compute::program::Architecture image_architecture(compute::program::Extent2d size, std::uint32_t classes,
                                                  std::uint32_t images) {
    using namespace compute::program;
    Architecture architecture = demo_architecture(1);
    auto& model = architecture.model.emplace<LayersSpec>();
    model.input = LayersSpec::Input::image;
    model.image = size;
    model.channels = 3;
    model.scale = 1.0F / 256;
    model.outputs = classes;
    architecture.data = {{vm::tensor::DataType::u8, images * model.input_size()}, {vm::tensor::DataType::u8, images}};
    return architecture;
}

Training train(const compute::program::Architecture& architecture, std::uint64_t steps, const TrainOptions& options) {
    Training training;
    training.built = must(compute::program::build_training_program(architecture), "training program");
    const std::uint64_t planned = std::max<std::uint64_t>(steps, 2);  // no plan is shorter
    training.programs = std::make_shared<const compute::core::TaskPrograms>(
        must(compute::core::TaskPrograms::make({training.program()}, compute::core::plain_body(planned)), "plan"));
    SeededRng rng(7);
    const auto* transformer = std::get_if<compute::program::TransformerSpec>(&architecture.model);
    std::vector<Bytes> sets;
    for (std::size_t i = 0; i < architecture.data.size(); ++i) {
        // Tokens; inputs are any bytes, and then come classes.
        const std::uint64_t below = transformer != nullptr ? transformer->vocabulary
                                    : i == 0               ? 256
                                                           : architecture.layers().outputs;
        Bytes& set = sets.emplace_back(architecture.data[i].elements);
        for (std::uint8_t& element : set) element = static_cast<std::uint8_t>(rng.below(below));
    }
    training.data = vm::tensor::MemoryData(std::move(sets));
    rng.fill(training.beacon.data);
    training.seed = vm::tensor::seed_tensor(training.beacon);
    training.states.push_back(compute::program::initial_state(training.built, 1));
    training.roots.push_back(vm::tensor::state_root(training.states.back()));
    vm::tensor::Executor executor(training.program(), options.backend, options.pool);
    State state = training.states.back();
    for (std::uint64_t step = 1; step <= steps; ++step) {
        executor.step(state, training.data, training.seed);
        training.roots.push_back(vm::tensor::state_root(state, options.pool));
        if (step <= options.keep_steps) training.states.push_back(state);
    }
    return training;
}

Training train_altered(const Training& honest, const Alter& alter, std::uint64_t first_altered_step,
                       const TrainOptions& options) {
    Training training = honest;
    vm::tensor::Executor executor(training.program(), options.backend, options.pool);
    State state = training.states[first_altered_step - 1];
    for (std::uint64_t step = first_altered_step; step < training.roots.size(); ++step) {
        const auto outputs =
            executor.run_altered(state, training.data, training.seed,
                                 [&](std::uint32_t node, Tensor& output) { alter(step, node, output); });
        const auto& updates = training.program().updates;
        for (std::size_t i = 0; i < updates.size(); ++i) state[i] = outputs[updates[i]];
        training.roots[step] = vm::tensor::state_root(state, options.pool);
        if (step < training.states.size()) training.states[step] = state;
    }
    return training;
}

Alter flip_low_bit(std::uint64_t step, std::uint32_t node, std::uint64_t word) {
    return [=](std::uint64_t at_step, std::uint32_t at_node, Tensor& output) {
        if (at_step == step && at_node == node) output.words[word % output.words.size()] ^= 1;
    };
}

compute::core::DisputeStrategy player_of(const Training& training, Alter alter, const TrainOptions& options) {
    compute::core::DisputeParty party;
    party.programs = training.programs.get();
    party.history = training.history();
    party.states_of = [&training](std::uint64_t first, std::uint64_t last) -> Expected<std::vector<Hash32>> {
        return std::vector(training.roots.begin() + static_cast<std::ptrdiff_t>(first),
                           training.roots.begin() + static_cast<std::ptrdiff_t>(last) + 1);
    };
    party.state_before = [&training](std::uint64_t step) -> Expected<State> {
        if (step == 0 || step > training.states.size()) return fail("training.state_not_kept");
        return training.states[step - 1];
    };
    party.data = &training.data;
    party.seed = training.seed;
    party.backend = options.backend;
    party.pool = options.pool;
    party.alter = std::move(alter);
    return compute::core::DisputeStrategy(std::move(party));
}

Bytes move_bytes(const Move& move) {
    if (const auto* split = std::get_if<SplitMove>(&move)) return chain::types::encode_record(*split);
    if (const auto* witness = std::get_if<LeafWitness>(&move)) return chain::types::encode_record(*witness);
    return {};
}

Status apply_move(Game& game, Side side, const Move& move, std::uint64_t height) {
    if (std::holds_alternative<SplitMove>(move)) {
        QUERN_TRY(const SplitMove decoded, compute::core::decode_split_move(move_bytes(move)));
        remember_post(decoded);
        return apply_split(game, side, decoded, height);
    }
    if (std::holds_alternative<LeafWitness>(move)) {
        QUERN_TRY(const LeafWitness decoded, compute::core::decode_leaf_witness(move_bytes(move)));
        return apply_leaf(game, side, decoded, height);
    }
    if (std::holds_alternative<compute::core::Concede>(move)) return concede(game, side, height);
    return {};
}

std::vector<PlayedMove> play(Game& game, compute::core::DisputeStrategy& defender,
                             compute::core::DisputeStrategy& rival, std::uint64_t height) {
    std::vector<PlayedMove> played;
    for (; game.phase != Phase::decided; ++height) {
        charge_clocks(game, height);
        for (const Side side : {Side::rival, Side::defender}) {
            if (game.phase == Phase::decided) break;
            auto move = (side == Side::defender ? defender : rival).next_move(game, side, waiting_post(game));
            if (!move || std::holds_alternative<compute::core::NoMove>(*move)) continue;
            PlayedMove record{game, side, std::move(*move), height};
            if (apply_move(game, side, record.move, height)) played.push_back(std::move(record));
        }
    }
    return played;
}

}  // namespace quern::test
