// The chain's leaf, and whole dispute games about the demo's transformer.
#include <map>

#include "bench/cases.h"
#include "crypto/hash.h"
#include "support/training_game.h"
#include "vm/tensor/leaf.h"

namespace quern::bench {
namespace {

using namespace compute::core;
using test::PlayedMove;
using vm::tensor::Node;
using vm::tensor::Op;

constexpr std::uint64_t kBudget = 120;
constexpr std::uint64_t kHeight = 1'000;
constexpr std::uint64_t kWrongStep = 2;

std::string kind_of(const Node& node) {
    if (node.op == Op::elementwise) return std::string(vm::tensor::arith::find_element_op(node.element)->name);
    static const std::map<Op, const char*> names{{Op::full, "full"},
                                                 {Op::iota, "iota"},
                                                 {Op::philox, "philox"},
                                                 {Op::matmul, "matmul"},
                                                 {Op::sum_last, "sum_last"},
                                                 {Op::max_last, "max_last"},
                                                 {Op::sum_rows, "sum_rows"},
                                                 {Op::reshape, "reshape"},
                                                 {Op::permute, "permute"},
                                                 {Op::slice, "slice"},
                                                 {Op::concat, "concat"},
                                                 {Op::gather_rows, "gather_rows"},
                                                 {Op::scatter_add_rows, "scatter_add_rows"}};
    const auto found = names.find(node.op);
    return found == names.end() ? std::string() : found->second;  // inputs have no leaf
}

struct Played {
    Game game;
    std::vector<PlayedMove> moves;
};

// A solver that altered `node` in step kWrongStep, against a whistleblower. nullopt: the change is lost on the way.
std::optional<Played> play_about(const test::Training& honest, std::uint32_t node, std::uint64_t word,
                                 const test::TrainOptions& options) {
    const test::Alter alter = [=](std::uint64_t step, std::uint32_t at, vm::tensor::Tensor& output) {
        if (step == kWrongStep && at == node) output.words[word % output.words.size()] ^= 0x00400000;
    };
    const test::Training liar = test::train_altered(honest, alter, kWrongStep, options);
    if (liar.history_root() == honest.history_root()) return std::nullopt;
    Played played;
    played.game =
        must(open_history_game(honest.context(), liar.history_root(), honest.history_root(), kBudget, kHeight), "game");
    auto defender = test::player_of(liar, alter, options);
    auto rival = test::player_of(honest, {}, options);
    played.moves = test::play(played.game, defender, rival, kHeight);
    if (played.game.verdict != Verdict::rival_wins)
        give_up("the cheat won the game about node " + std::to_string(node));
    return played;
}

class WitnessTiles final : public vm::tensor::TileSource {
public:
    explicit WitnessTiles(const LeafWitness& witness) {
        for (const OperandTile& operand : witness.tiles)
            tiles_[{operand.operand, operand.tile}] = must(vm::tensor::tile_from_bytes(operand.bytes), "tile");
    }
    [[nodiscard]] const vm::tensor::Tile* tile(const vm::tensor::TileRead& read) const override {
        const auto found = tiles_.find({read.operand, read.tile});
        return found == tiles_.end() ? nullptr : &found->second;
    }

private:
    std::map<std::pair<std::uint32_t, std::uint64_t>, vm::tensor::Tile> tiles_;
};

// One kind's leaf: the element alone, and as the chain gets it: bytes, Merkle paths, element, verdict.
void time_leaf(Bench& bench, const std::string& kind, const PlayedMove& last) {
    const auto& witness = std::get<LeafWitness>(last.move);
    const Game& game = last.before;
    const DisputedNode disputed = must(disputed_node(game), "disputed node");
    vm::tensor::MicroState before = vm::tensor::initial_micro_state(disputed.node);
    for (std::size_t i = 0; i < witness.accumulators.size(); ++i)
        before.accumulators[i] = must(vm::tensor::tile_from_bytes(witness.accumulators[i]), "accumulator");
    const vm::tensor::LeafTarget target{game.tile, game.micro_step, game.accumulator, game.element};
    const WitnessTiles tiles(witness);
    const Bytes bytes = test::move_bytes(last.move);
    const auto timings = bench.time(
        {[&] {
             keep(vm::tensor::evaluate_leaf(disputed.node, disputed.header, disputed.operands, target, before, tiles));
         },
         [&] {
             Game copy = game;
             const auto decoded = decode_leaf_witness(bytes);
             must(apply_leaf(copy, last.side, *decoded, last.height), "leaf");
             keep(copy);
         },
         [&] { keep(crypto::sha256(bytes)); }});
    bench.add_time("leaf " + kind + ", element alone", timings[0], 1);
    bench.add_time("leaf " + kind + ", with its witness", timings[1], 1, "SHA-256 of the witness", &timings[2], 1,
                   std::to_string(bytes.size()) + " bytes");
}

}  // namespace

void bench_leaf(Bench& bench) {
    const test::TrainOptions options{vm::tensor::arith::best_backend(), nullptr};
    const test::Training honest = test::train(test::demo_architecture(200), kWrongStep, options);
    const auto& nodes = honest.program().nodes;
    std::map<std::string, std::uint32_t> tried;  // how often a kind's lie was lost on the way
    for (std::uint32_t node = 0; node < nodes.size(); ++node) {
        const std::string kind = kind_of(nodes[node]);
        if (kind.empty() || tried[kind] == 4) continue;
        const auto played = play_about(honest, node, nodes[node].shape.elements() / 3, options);
        if (!played || !std::holds_alternative<LeafWitness>(played->moves.back().move)) {
            ++tried[kind];
            continue;
        }
        tried[kind] = 4;
        time_leaf(bench, kind, played->moves.back());
    }
}

void bench_dispute(Bench& bench) {
    constexpr std::uint64_t kSteps = 300;
    const test::TrainOptions options{vm::tensor::arith::best_backend(), nullptr, kWrongStep};
    const test::Training honest = test::train(test::demo_architecture(1'000), kSteps, options);
    const auto& nodes = honest.program().nodes;
    // The last matmul of the forward pass: deep in the program, with a micro-trace.
    std::uint32_t node = 0;
    for (std::uint32_t i = 0; i < nodes.size(); ++i)
        if (nodes[i].op == Op::matmul && nodes[i].shape.columns() == 98) node = i;
    const double start = steady_seconds();
    const auto played = play_about(honest, node, 12'345, options);
    if (!played) give_up("the lie was lost on the way");
    std::map<std::string, std::pair<int, std::size_t>> phases;
    std::size_t bytes = 0;
    std::size_t largest = 0;
    for (const PlayedMove& move : played->moves) {
        const std::size_t size = test::move_bytes(move.move).size();
        auto& [count, sum] = phases[to_string(move.before.phase)];
        ++count;
        sum += size;
        bytes += size;
        largest = std::max(largest, size);
    }
    const std::string name =
        "dispute about 1 of " + std::to_string(kSteps) + " steps, " + std::to_string(nodes.size()) + " nodes";
    bench.add_count(name + ": moves", static_cast<double>(played->moves.size()), "moves");
    bench.add_count(name + ": bytes", static_cast<double>(bytes), "bytes");
    bench.add_count(name + ": largest move", static_cast<double>(largest), "bytes");
    for (const PlayedMove& move : played->moves) {
        const auto entry = phases.find(to_string(move.before.phase));
        if (entry == phases.end()) continue;
        bench.add_count("dispute, " + entry->first + " phase", static_cast<double>(entry->second.second), "bytes",
                        std::to_string(entry->second.first) + " moves");
        phases.erase(entry);
    }
    bench.add_count("dispute, the liar's training and both players", steady_seconds() - start, "s");
}

}  // namespace quern::bench
