// A game about a task far larger than a test can train: 100,000 steps, 10,000 nodes, an output of 16,384 tiles, 512
// micro-steps a tile. The parties' strategies are the real ones; what they would have executed they are given, as
// leaves of which nothing but the disputed micro-step is computed. So the number of moves and their bytes are those of
// a task of that size (doc/verification.md, "Size"). The leaf's time: quern-bench leaf.
#include <gtest/gtest.h>

#include "unit/compute/core/game_world.h"

namespace quern::compute::core::test {
namespace {

using vm::tensor::DType;
using vm::tensor::MicroState;
using vm::tensor::Node;
using vm::tensor::Shape;
using vm::tensor::Tile;

constexpr std::uint64_t kSteps = 100'000;
constexpr std::uint32_t kNodes = 10'000;
constexpr std::uint32_t kSlots = 4'096;
constexpr std::uint32_t kSide = 4'096;  // of the disputed output: 128 x 128 tiles
constexpr std::uint64_t kMicroSteps = 512;
constexpr std::uint32_t kInner = kMicroSteps * 32;  // of its product
constexpr std::uint64_t kMostRounds = 13;           // a post and its pick are one, the leaf is one
constexpr std::size_t kMostBytes = 112U << 10;

// Two large matrices and many scalars; the product of the matrices is the last node, and the update of the last slot
// but one.
Program large_program() {
    vm::tensor::test::Graph graph;
    const std::uint32_t left = graph.add_slot("left", DType::f32, {{1, 1, kSide, kInner}});
    const std::uint32_t right = graph.add_slot("right", DType::f32, {{1, 1, kInner, kSide}});
    while (graph.program.slots.size() < kSlots - 2)
        graph.add_slot("s" + std::to_string(graph.program.slots.size()), DType::f32, {});
    graph.add_slot("product", DType::f32, {{1, 1, kSide, kSide}});
    std::uint32_t sum = graph.add_slot("loss", DType::f32, {});
    while (graph.program.nodes.size() + 1 < kNodes) sum = graph.element(vm::tensor::arith::ElementOp::add, {sum, sum});
    graph.update(kSlots - 1, sum);
    graph.update(kSlots - 2, graph.matmul(left, right));
    graph.finish({});
    EXPECT_EQ(graph.program.nodes.size(), kNodes);
    EXPECT_EQ(graph.program.slots.size(), kSlots);
    EXPECT_TRUE(vm::tensor::validate(graph.program).has_value());
    return std::move(graph.program);
}

Hash32 hash_of(Random& random) {
    Hash32 hash;
    for (auto& byte : hash.data) byte = static_cast<std::uint8_t>(random.next());
    return hash;
}
std::vector<Hash32> hashes_of(Random& random, std::size_t count) {
    std::vector<Hash32> hashes(count);
    for (auto& hash : hashes) hash = hash_of(random);
    return hashes;
}
Tile tile_of(Random& random) {
    Tile tile;
    // Positive numbers around 1: no sum of them is rounded away.
    for (auto& word : tile) word = 0x3f800000U | random.below(1U << 23);
    return tile;
}

// Where the two sides part, and what leads there.
struct Place {
    std::uint64_t step = 0;
    std::uint64_t tile = 0;
    std::uint64_t micro_step = 0;  // not the first
    std::uint32_t element = 0;
    // After the last one partial is +0 whoever claims what.
    [[nodiscard]] std::uint32_t accumulator() const { return micro_step == kMicroSteps - 1 ? 0 : 1; }
};

// What one side has of everything. The two share what lies before the difference.
struct Belief {
    std::vector<Hash32> history;
    StepShare::Roots roots;
    StepShare::TileHashes tiles;
    StepShare::MicroTrace micro;
    StepShare::Leaf leaf;
};

struct Space {
    Program program = large_program();
    std::shared_ptr<const TaskPrograms> programs =
        std::make_shared<const TaskPrograms>(*TaskPrograms::make({program}, plain_body(kSteps)));
    GameContext context;

    Space() {
        context.plan = programs->plan.bytes();
        context.data_roots = {Hash32{}};
        context.stride = 1;
        context.history_leaves = kSteps + 1;
    }
    [[nodiscard]] const Node& disputed() const { return program.nodes.back(); }
};
const Space& space() {
    static const Space one;
    return one;
}

// The two tiles that the micro-step reads, in matrices of which nothing else is known.
class Inputs final : public vm::tensor::TileSource {
public:
    Inputs(Random& random, const Place& place) {
        const Node& node = space().disputed();
        const std::uint64_t row = place.tile / (kSide / 32);
        const std::uint64_t column = place.tile % (kSide / 32);
        const std::array<std::uint64_t, 2> numbers{row * (kInner / 32) + place.micro_step,
                                                   place.micro_step * (kSide / 32) + column};
        for (std::uint32_t operand = 0; operand < 2; ++operand) {
            const vm::tensor::Node& input = space().program.nodes[node.inputs[operand]];
            types.push_back({input.dtype, input.shape});
            words_[operand] = tile_of(random);
            auto hashes = hashes_of(random, input.shape.tiles());
            hashes[numbers[operand]] = vm::tensor::tile_hash(words_[operand]);
            reads_[operand] = {operand, numbers[operand]};
            OperandTile& tile = tiles[operand];
            tile.operand = operand;
            tile.tile = numbers[operand];
            tile.root = vm::tensor::tensor_root_of(hashes);
            tile.bytes = vm::tensor::tile_bytes(words_[operand]);
            tile.tile_path = crypto::merkle_path(hashes, numbers[operand]);
        }
    }
    [[nodiscard]] const Tile* tile(const vm::tensor::TileRead& read) const override {
        for (std::size_t operand = 0; operand < 2; ++operand)
            if (reads_[operand] == read) return &words_[operand];
        return nullptr;
    }

    std::vector<vm::tensor::OperandType> types;
    std::array<OperandTile, 2> tiles;  // without their paths under the trace

private:
    std::array<vm::tensor::TileRead, 2> reads_;
    std::array<Tile, 2> words_;
};

// The true state after the micro-step.
MicroState after(const Inputs& inputs, const Place& place, const MicroState& before) {
    MicroState state = before;
    for (std::uint32_t accumulator = 0; accumulator < 2; ++accumulator)
        for (std::uint32_t element = 0; element < vm::tensor::kTileWords; ++element)
            state.accumulators[accumulator][element] =
                *vm::tensor::evaluate_leaf(space().disputed(), space().program.header, inputs.types,
                                           {place.tile, place.micro_step, accumulator, element}, before, inputs);
    return state;
}

Belief true_belief(Random& random, const Place& place) {
    const Node& node = space().disputed();
    const Inputs inputs(random, place);
    Belief belief;
    belief.micro.leaves = hashes_of(random, kMicroSteps);
    const MicroState before{{tile_of(random), tile_of(random)}};
    const auto put = [&](std::uint64_t at, const MicroState& state) {
        belief.micro.leaves[at] = vm::tensor::micro_state_hash(state);
        belief.micro.states.insert_or_assign(at, state);
    };
    put(kMicroSteps - 1, {{tile_of(random), Tile{}}});
    put(place.micro_step - 1, before);
    const MicroState result = after(inputs, place, before);
    put(place.micro_step, result);
    belief.tiles = hashes_of(random, std::uint64_t{kSide / 32} * (kSide / 32));
    belief.tiles[place.tile] = vm::tensor::tile_hash(belief.micro.states.at(kMicroSteps - 1).accumulators.front());
    belief.roots.slots = hashes_of(random, kSlots);
    belief.roots.trace = hashes_of(random, kNodes);
    for (std::size_t operand = 0; operand < 2; ++operand)
        belief.roots.trace[node.inputs[operand]] = inputs.tiles[operand].root;
    belief.roots.trace.back() = vm::tensor::tensor_root_of(belief.tiles);
    belief.history = hashes_of(random, kSteps + 1);
    belief.leaf.value = result.accumulators[place.accumulator()][place.element];
    for (const Tile& tile : before.accumulators)
        belief.leaf.witness.accumulators.push_back(vm::tensor::tile_bytes(tile));
    belief.leaf.witness.tiles.assign(inputs.tiles.begin(), inputs.tiles.end());
    return belief;
}

// Another word after the micro-step, and everything else that follows it.
Belief false_belief(Random& random, const Belief& truth, const Place& place) {
    Belief belief = truth;
    MicroState& state = belief.micro.states.at(place.micro_step);
    state.accumulators[place.accumulator()][place.element] ^= 1;
    belief.leaf.value ^= 1;
    belief.micro.leaves[place.micro_step] = vm::tensor::micro_state_hash(state);
    for (std::uint64_t at = place.micro_step + 1; at + 1 < kMicroSteps; ++at) belief.micro.leaves[at] = hash_of(random);
    MicroState& last = belief.micro.states.at(kMicroSteps - 1);
    if (&last != &state) last.accumulators[0][place.element] ^= 1;
    belief.micro.leaves[kMicroSteps - 1] = vm::tensor::micro_state_hash(last);
    belief.tiles[place.tile] = vm::tensor::tile_hash(last.accumulators.front());
    belief.roots.trace.back() = vm::tensor::tensor_root_of(belief.tiles);
    for (std::uint64_t step = place.step; step <= kSteps; ++step) belief.history[step] = hash_of(random);
    return belief;
}

// The history's leaf after the disputed step follows from the trace; the paths from what is known last.
void complete(Belief& belief, const Place& place) {
    std::vector<Hash32> slots;
    for (const std::uint32_t update : space().program.updates) slots.push_back(belief.roots.trace[update]);
    belief.history[place.step] = vm::tensor::state_root(slots);
    LeafWitness& witness = belief.leaf.witness;
    witness.micro_path = crypto::merkle_path(belief.micro.leaves, place.micro_step - 1);
    for (OperandTile& tile : witness.tiles)
        tile.root_path = crypto::merkle_path(belief.roots.trace, space().disputed().inputs[tile.operand]);
}

// The real strategy, which finds all that it would execute where its games share it.
class Believer {
public:
    Believer(const Belief& belief, const Place& place) {
        const StepShare::Step step{place.step, belief.history[place.step - 1].data};
        const std::uint32_t node = kNodes - 1;
        share_ = std::make_shared<StepShare>();
        held_.push_back(share_->roots.put(step, belief.roots));
        held_.push_back(share_->tiles.put({step, node}, belief.tiles));
        held_.push_back(share_->micro.put({step, node, place.tile}, belief.micro));
        held_.push_back(share_->leaves.put(
            {step, node, place.tile, place.micro_step, place.accumulator(), place.element}, belief.leaf));
        DisputeParty party;
        party.programs = space().programs.get();
        party.history = belief.history;
        party.state_before = [](std::uint64_t) -> Expected<State> { return fail("test.nothing_is_executed"); };
        party.share = share_;
        strategy_.emplace(std::move(party));
    }
    DisputeStrategy& strategy() { return *strategy_; }

private:
    std::shared_ptr<StepShare> share_;
    std::vector<std::shared_ptr<const void>> held_;
    std::optional<DisputeStrategy> strategy_;
};

TEST(LargeGame, ATaskOfAHundredThousandStepsIsSettledInThirteenRounds) {
    Random random(91);
    std::uint64_t most_rounds = 0;
    std::uint64_t most_bytes = 0;
    // The ends of all trees, and places between.
    const std::vector<Place> places{{1, 0, 1, 0},
                                    {kSteps, 16'383, kMicroSteps - 1, 1'023},
                                    {65'537, 8'192, 256, 512},
                                    {kSteps, 1, 255, 7},
                                    {1 + random.below(kSteps), random.below(16'384), 1 + random.below(511), 99}};
    for (const Place& place : places) {
        SCOPED_TRACE("step " + std::to_string(place.step) + ", tile " + std::to_string(place.tile) + ", micro-step " +
                     std::to_string(place.micro_step));
        Belief truth = true_belief(random, place);
        Belief lie = false_belief(random, truth, place);
        complete(truth, place);
        complete(lie, place);
        for (const bool defends : {true, false}) {
            Believer honest(truth, place);
            Believer liar(lie, place);
            const Hash32 true_root = history_root(truth.history);
            const Hash32 false_root = history_root(lie.history);
            Game game = *open_history_game(space().context, defends ? true_root : false_root,
                                           defends ? false_root : true_root, kBudget, 1000);
            const Player right = player(honest.strategy());
            const Player wrong = player(liar.strategy());
            const Transcript played = play(game, defends ? right : wrong, defends ? wrong : right);
            ASSERT_EQ(game.verdict, defends ? Verdict::defender_wins : Verdict::rival_wins) << game.reason;
            EXPECT_TRUE(played.refused.empty()) << played.refused.front();
            EXPECT_EQ(game.reason, "leaf");
            EXPECT_EQ(game.step, place.step);
            EXPECT_EQ(game.slot, kSlots - 2);
            EXPECT_EQ(game.node, kNodes - 1);
            EXPECT_EQ(game.tile, place.tile);
            EXPECT_EQ(game.micro_step, place.micro_step);
            EXPECT_EQ(game.element, place.element);
            EXPECT_LE(played.largest_game, kGameBytes);
            const std::uint64_t rounds = (played.rounds + 1) / 2;
            EXPECT_LE(rounds, kMostRounds);
            EXPECT_LE(played.bytes, kMostBytes);
            most_rounds = std::max(most_rounds, rounds);
            most_bytes = std::max(most_bytes, played.bytes);
        }
    }
    EXPECT_EQ(most_rounds, kMostRounds);
    std::printf("at most %llu rounds and %llu bytes\n", static_cast<unsigned long long>(most_rounds),
                static_cast<unsigned long long>(most_bytes));
}

}  // namespace
}  // namespace quern::compute::core::test
