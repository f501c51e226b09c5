#include "compute/core/dispute_strategy.h"

#include <algorithm>

#include "compute/core/history.h"
#include "vm/tensor/tap.h"

namespace quern::compute::core {

using crypto::MerkleTag;
using vm::tensor::MicroState;
using vm::tensor::Op;
using vm::tensor::Program;
using vm::tensor::State;
using vm::tensor::TappedNode;
using vm::tensor::Tensor;

class DisputeStrategy::Impl {
public:
    explicit Impl(DisputeParty party) : party_(std::move(party)), prover_(*party_.program) {}

    Expected<Move> next_move(const Game& game, Side side) {
        QUERN_CHECK(check_game(game));
        const auto index = static_cast<std::size_t>(side);
        switch (game.phase) {
            case Phase::decided:
                return Move{NoMove{}};
            case Phase::leaf:
                return leaf_move(game, side);
            default:
                break;
        }
        if (game.posts[index].present) return Move{NoMove{}};
        QUERN_CHECK(prepare(game));
        switch (game.phase) {
            case Phase::history:
                return post(game, index, party_.history);
            case Phase::state:
                return state_move(game, index);
            case Phase::trace:
                return trace_move(game, index);
            case Phase::tile:
                return tile_move(game, index);
            case Phase::micro:
                return micro_move(game, index);
            default:
                return element_move(game, index);
        }
    }

    Expected<LeafWitness> leaf_witness(const Game& game) {
        QUERN_CHECK(check_game(game));
        if (game.phase != Phase::leaf) return fail("dispute.wrong_phase");
        QUERN_CHECK(prepare(game));
        QUERN_CHECK(prepare_leaf(game));
        return leaf_.witness;
    }

private:
    static vm::tensor::LeafTarget target(const Game& game) {
        return {game.tile, game.micro_step, game.accumulator, game.element};
    }

    // Executes the disputed step once, for the roots of its nodes' outputs.
    Status prepare(const Game& game) {
        if (game.context.program_root != prover_.root())
            return fail("dispute.bad_game", "the game is about another program");
        if (party_.history.size() != game.context.history_leaves)
            return fail("dispute.wrong_state", "the party's history has another length");
        if (game.phase == Phase::history || game.step == step_) return {};
        step_ = 0;
        QUERN_TRY(before_, party_.state_before(game.step));
        QUERN_CHECK(vm::tensor::check_state(*party_.program, before_));
        previous_slots_ = vm::tensor::slot_roots(before_, party_.pool);
        if (vm::tensor::state_root(previous_slots_) != party_.history[game.step - 1])
            return fail("dispute.wrong_state", "the state before the step is not the history's");
        step_ = game.step;
        trace_.assign(party_.program->nodes.size(), {});
        tiles_ = {};
        micro_ = {};
        leaf_ = {};
        run(vm::tensor::kLastNode, [&](const TappedNode& tapped) {
            if (game.probe && tapped.number == game.probe_node) keep_tile_hashes(tapped);
            trace_[tapped.number] = root_of(tapped);
        });
        return {};
    }

    // A tapped run of the disputed step up to node `last`.
    void run(std::uint32_t last, const vm::tensor::Tap& tap) {
        vm::tensor::Alter alter;
        if (party_.alter) alter = [this](std::uint32_t node, Tensor& output) { party_.alter(step_, node, output); };
        // The executor and its arena end with the run: between two moves of a game lie blocks.
        vm::tensor::Executor executor(*party_.program, party_.backend, party_.pool);
        executor.run_tapped(before_, *party_.data, party_.seed, tap, alter, last);
    }

    // The roots of slots are known and the data set is hashed once a game, unless their outputs were altered.
    Hash32 root_of(const TappedNode& tapped) {
        const vm::tensor::Node& node = *tapped.node;
        if (node.op == Op::slot && !party_.alter) return previous_slots_[node.attributes[0]];
        if (node.op == Op::data && !party_.alter) return vm::tensor::tensor_root_of(data_tiles(tapped.output));
        if (tiles_.known && tiles_.node == tapped.number) return vm::tensor::tensor_root_of(tiles_.hashes);
        return vm::tensor::tensor_root(tapped.output, party_.pool);
    }

    const std::vector<Hash32>& data_tiles(const vm::tensor::TensorView& data) {
        if (data_tiles_.empty()) data_tiles_ = vm::tensor::tile_hashes(data, party_.pool);
        return data_tiles_;
    }

    void keep_tile_hashes(const TappedNode& tapped) {
        tiles_ = {true, tapped.number, vm::tensor::tile_hashes(tapped.output, party_.pool)};
    }

    // Hashes of all tiles of the disputed node's output.
    const std::vector<Hash32>& tile_hashes_of(std::uint32_t node) {
        if (!tiles_.known || tiles_.node != node)
            run(node, [&](const TappedNode& tapped) {
                if (tapped.number == node) keep_tile_hashes(tapped);
            });
        return tiles_.hashes;
    }

    Status check_tile(const Game& game) const {
        if (game.node < trace_.size() && game.tile < party_.program->nodes[game.node].shape.tiles() &&
            game.node_bytes.front() == vm::tensor::encode(party_.program->nodes[game.node]))
            return {};
        return fail("dispute.bad_game", "the node is not this program's");
    }

    void keep_micro_trace(const Game& game, const TappedNode& tapped) {
        micro_ = {tapped.number, game.tile, vm::tensor::micro_trace(tapped, game.tile), {}};
        for (const MicroState& state : micro_.states) micro_.leaves.push_back(vm::tensor::micro_state_hash(state));
    }

    [[nodiscard]] bool has_micro_trace(const Game& game) const {
        return !micro_.states.empty() && micro_.node == game.node && micro_.tile == game.tile;
    }

    // The micro-trace of the disputed tile. Its last state is the tile that this party claims: of an honest one the
    // computed tile, of a dishonest one the altered.
    Status prepare_micro(const Game& game) {
        QUERN_CHECK(check_tile(game));
        if (has_micro_trace(game)) return {};
        const auto node = static_cast<std::uint32_t>(game.node);
        run(node, [&](const TappedNode& tapped) {
            if (tapped.number == node) keep_micro_trace(game, tapped);
        });
        return {};
    }

    static bool same_target(const vm::tensor::LeafTarget& a, const vm::tensor::LeafTarget& b) {
        return a.tile == b.tile && a.micro_step == b.micro_step && a.accumulator == b.accumulator &&
               a.element == b.element;
    }

    // The disputed element by this party's execution, and what proves it.
    Status prepare_leaf(const Game& game) {
        QUERN_CHECK(check_tile(game));
        const vm::tensor::LeafTarget target{game.tile, game.micro_step, game.accumulator, game.element};
        if (leaf_.known && leaf_.node == game.node && same_target(leaf_.target, target)) return {};
        const auto node = static_cast<std::uint32_t>(game.node);
        Status status;
        run(node, [&](const TappedNode& tapped) {
            if (tapped.number != node) return;
            if (!has_micro_trace(game)) keep_micro_trace(game, tapped);
            status = keep_leaf(target, tapped);
        });
        return status;
    }

    Status keep_leaf(const vm::tensor::LeafTarget& target, const TappedNode& tapped) {
        if (target.micro_step >= micro_.states.size()) return fail("dispute.bad_game", "micro-step");
        LeafWitness witness;
        MicroState before = vm::tensor::initial_micro_state(*tapped.node);
        if (target.micro_step > 0) {
            before = micro_.states[target.micro_step - 1];
            for (const vm::tensor::Tile& tile : before.accumulators)
                witness.accumulators.push_back(vm::tensor::tile_bytes(tile));
            witness.micro_path = crypto::merkle_path(micro_.leaves, target.micro_step - 1);
        }
        QUERN_TRY(const vm::tensor::TappedLeaf leaf,
                  vm::tensor::evaluate_leaf(tapped, party_.program->header, target, before));
        std::array<std::vector<Hash32>, vm::tensor::kMaxInputs> hashes;  // of the operands that are read
        for (const auto& [read, words] : leaf.tiles) {
            const std::uint32_t input = tapped.node->inputs[read.operand];
            std::vector<Hash32>& known = hashes[read.operand];
            if (known.empty()) known = operand_tile_hashes(tapped, read.operand);
            OperandTile tile;
            tile.operand = read.operand;
            tile.tile = read.tile;
            tile.root = trace_[input];
            tile.root_path = crypto::merkle_path(trace_, input);
            tile.bytes = vm::tensor::tile_bytes(words);
            tile.tile_path = crypto::merkle_path(known, read.tile);
            witness.tiles.push_back(std::move(tile));
        }
        leaf_ = {true, tapped.number, target, leaf.value, std::move(witness)};
        return {};
    }

    std::vector<Hash32> operand_tile_hashes(const TappedNode& tapped, std::uint32_t operand) {
        const vm::tensor::Node& node = party_.program->nodes[tapped.node->inputs[operand]];
        if (node.op == Op::data && !party_.alter) return data_tiles(tapped.operands[operand]);
        return vm::tensor::tile_hashes(tapped.operands[operand], party_.pool);
    }

    // The descendants of the game's node in this party's tree; a concession when its node is not this party's.
    static Move post(const Game& game, std::size_t side, std::span<const Hash32> leaves) {
        if (leaves.size() != game.cursor.leaf_count) return Concede{};
        const PostRange range = post_range(game.cursor);
        const std::vector<Hash32> level = crypto::merkle_level(leaves, range.level);
        SplitMove move;
        move.phase = static_cast<std::uint8_t>(game.phase);
        move.nodes.assign(level.begin() + static_cast<std::ptrdiff_t>(range.begin),
                          level.begin() + static_cast<std::ptrdiff_t>(range.begin + range.count));
        if (!check_post(game.cursor, side, move.nodes)) return Concede{};
        return move;
    }

    static std::vector<Hash32> anchor_path(const Game& game, std::span<const Hash32> leaves, std::uint64_t index) {
        return post_range(game.cursor).level == 0 ? std::vector<Hash32>{} : crypto::merkle_path(leaves, index);
    }

    void open_previous_state(const Game& game, SplitMove& move) const {
        move.previous_state = party_.history[game.step - 1];
        move.previous_path = history_path(party_.history, game.step - 1);
    }

    Expected<Move> state_move(const Game& game, std::size_t side) const {
        std::vector<Hash32> slots;
        for (const std::uint32_t update : party_.program->updates) slots.push_back(trace_[update]);
        Move move = post(game, side, slots);
        if (auto* split = std::get_if<SplitMove>(&move); split != nullptr && at_top(game.cursor))
            open_previous_state(game, *split);
        return move;
    }

    Expected<Move> trace_move(const Game& game, std::size_t side) {
        Move move = post(game, side, trace_);
        auto* split = std::get_if<SplitMove>(&move);
        if (split == nullptr || !at_top(game.cursor)) return move;
        if (!game.probe) {
            if (game.slot >= party_.program->slots.size()) return fail("dispute.bad_game", "slot");
            const std::uint32_t update = party_.program->updates[game.slot];
            if (trace_[update] != game.slot_roots[side]) return Move{Concede{}};
            split->program.push_back(prover_.update(game.slot));
            split->anchor_path = anchor_path(game, trace_, update);
            return move;
        }
        if (game.probe_node >= trace_.size() || game.probe_tile >= party_.program->nodes[game.probe_node].shape.tiles())
            return fail("dispute.bad_game", "probe");
        const std::vector<Hash32>& tiles = tile_hashes_of(static_cast<std::uint32_t>(game.probe_node));
        if (tiles[game.probe_tile] != game.claims[side]) return Move{Concede{}};
        open_previous_state(game, *split);
        split->program.push_back(prover_.node(game.probe_node));
        split->anchor_path = anchor_path(game, trace_, game.probe_node);
        split->anchor_leaf = trace_[game.probe_node];
        split->probe_path = crypto::merkle_path(tiles, game.probe_tile);
        return move;
    }

    Expected<Move> tile_move(const Game& game, std::size_t side) {
        if (game.node >= trace_.size()) return fail("dispute.bad_game", "node");
        const auto node = static_cast<std::uint32_t>(game.node);
        const vm::tensor::Node& definition = party_.program->nodes[node];
        if (vm::tensor::is_kind(definition.op, vm::tensor::OpKind::input)) return input_move(game, side, node);
        const std::vector<Hash32>& tiles = tile_hashes_of(node);
        if (!at_top(game.cursor)) return post(game, side, tiles);
        // The game may not know the number of tiles yet: this party's own node says it.
        Game opened = game;
        opened.cursor =
            sealed_cursor(MerkleTag::bytes, definition.shape.tiles(), game.cursor.nodes[0], game.cursor.nodes[1]);
        Move move = post(opened, side, tiles);
        if (auto* split = std::get_if<SplitMove>(&move); split != nullptr) open_nodes(node, *split);
        return move;
    }

    void open_nodes(std::uint32_t node, SplitMove& move) const {
        move.program.push_back(prover_.node(node));
        for (const std::uint32_t input : party_.program->nodes[node].inputs)
            move.program.push_back(prover_.node(input));
    }

    // An input's true root is known: whoever has it shows it.
    Expected<Move> input_move(const Game& game, std::size_t side, std::uint32_t node) const {
        const vm::tensor::Node& definition = party_.program->nodes[node];
        SplitMove move;
        move.phase = static_cast<std::uint8_t>(Phase::tile);
        open_nodes(node, move);
        Hash32 truth;
        if (definition.op == Op::slot) {
            const std::uint32_t slot = definition.attributes[0];
            truth = previous_slots_[slot];
            move.anchor_leaf = truth;
            move.anchor_path = crypto::merkle_path(previous_slots_, slot);
        } else if (definition.op == Op::data) {
            truth = game.context.data_root;
        } else {
            truth = vm::tensor::tensor_root(vm::tensor::seed_tensor(game.context.seed_beacon));
        }
        if (truth != game.cursor.nodes[side]) return Move{NoMove{}};
        return Move{std::move(move)};
    }

    Expected<Move> micro_move(const Game& game, std::size_t side) {
        QUERN_CHECK(prepare_micro(game));
        Move move = post(game, side, micro_.leaves);
        if (auto* split = std::get_if<SplitMove>(&move); split != nullptr && at_top(game.cursor))
            split->anchor_path = anchor_path(game, micro_.leaves, micro_.leaves.size() - 1);
        return move;
    }

    Expected<Move> element_move(const Game& game, std::size_t side) {
        QUERN_CHECK(prepare_micro(game));
        if (game.micro_step >= micro_.states.size()) return fail("dispute.bad_game", "micro-step");
        if (vm::tensor::tile_hash(micro_.states.back().accumulators.front()) != game.tile_hashes[side])
            return Move{Concede{}};
        SplitMove move;
        move.phase = static_cast<std::uint8_t>(Phase::element);
        for (const vm::tensor::Tile& tile : micro_.states[game.micro_step].accumulators)
            move.tiles.push_back(vm::tensor::tile_bytes(tile));
        return Move{std::move(move)};
    }

    Expected<Move> leaf_move(const Game& game, Side side) {
        QUERN_CHECK(prepare(game));
        QUERN_CHECK(prepare_leaf(game));
        if (leaf_.value != game.values[static_cast<std::size_t>(side)]) return Move{NoMove{}};
        return Move{leaf_.witness};
    }

    struct KeptTiles {
        bool known = false;
        std::uint32_t node = 0;
        std::vector<Hash32> hashes;  // of all tiles of the node's output
    };
    struct KeptMicroTrace {
        std::uint64_t node = 0;
        std::uint64_t tile = 0;
        std::vector<MicroState> states;  // none: nothing is kept
        std::vector<Hash32> leaves;
    };
    struct KeptLeaf {
        bool known = false;
        std::uint32_t node = 0;
        vm::tensor::LeafTarget target;
        std::uint32_t value = 0;
        LeafWitness witness;
    };

    DisputeParty party_;
    ProgramProver prover_;
    std::vector<Hash32> data_tiles_;      // hashes, the same in all steps
    std::uint64_t step_ = 0;              // 0: nothing executed yet
    State before_;                        // S_{step-1}
    std::vector<Hash32> previous_slots_;  // its slots' roots
    std::vector<Hash32> trace_;           // roots of the outputs of the step's nodes
    KeptTiles tiles_;
    KeptMicroTrace micro_;
    KeptLeaf leaf_;
};

std::uint64_t dispute_bytes(const Program& program) {
    std::uint64_t kept = 0;
    for (const vm::tensor::Node& node : program.nodes) {
        std::uint64_t tiles = node.shape.tiles();  // of the node, or of its operands for a leaf
        std::vector<vm::tensor::OperandType> types;
        for (const std::uint32_t input : node.inputs) {
            types.push_back({program.nodes[input].dtype, program.nodes[input].shape});
            tiles += types.back().shape.tiles();
        }
        kept = std::max(kept, tiles * Hash32::kSize + vm::tensor::micro_trace_bytes(node, types));
    }
    const std::uint64_t roots = program.nodes.size() + program.slots.size() + vm::tensor::data_shape(program).tiles();
    return vm::tensor::tapped_bytes(program) + roots * Hash32::kSize + kept;
}

DisputeStrategy::DisputeStrategy(DisputeParty party) : impl_(std::make_unique<Impl>(std::move(party))) {}
DisputeStrategy::~DisputeStrategy() = default;
DisputeStrategy::DisputeStrategy(DisputeStrategy&&) noexcept = default;
DisputeStrategy& DisputeStrategy::operator=(DisputeStrategy&&) noexcept = default;

Expected<Move> DisputeStrategy::next_move(const Game& game, Side side) { return impl_->next_move(game, side); }

Expected<LeafWitness> DisputeStrategy::leaf_witness(const Game& game) { return impl_->leaf_witness(game); }

}  // namespace quern::compute::core
