#include "compute/core/dispute_strategy.h"

#include <algorithm>

#include "compute/core/history.h"

namespace quern::compute::core {

using crypto::MerkleTag;
using vm::tensor::MicroState;
using vm::tensor::NodeOutputs;
using vm::tensor::Op;
using vm::tensor::Program;
using vm::tensor::Tensor;
using vm::tensor::TileRead;

namespace {

std::vector<const Tensor*> inputs_of(const Program& program, std::uint32_t node, const NodeOutputs& outputs) {
    std::vector<const Tensor*> inputs;
    for (const std::uint32_t input : program.nodes[node].inputs) inputs.push_back(&outputs[input]);
    return inputs;
}

// Serves tiles straight from whole tensors.
class TensorTiles final : public vm::tensor::TileSource {
public:
    TensorTiles(std::span<const Tensor* const> inputs, std::span<const TileRead> reads) {
        for (const TileRead& read : reads)
            tiles_.push_back({read, vm::tensor::read_tile(*inputs[read.operand], read.tile)});
    }
    [[nodiscard]] const vm::tensor::Tile* tile(const TileRead& read) const override {
        for (const auto& [key, tile] : tiles_)
            if (key == read) return &tile;
        return nullptr;
    }

private:
    std::vector<std::pair<TileRead, vm::tensor::Tile>> tiles_;
};

}  // namespace

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
        QUERN_CHECK(prepare_micro(game));
        const auto node = static_cast<std::uint32_t>(game.node);
        const std::vector<const Tensor*> inputs = inputs_of(*party_.program, node, outputs_);
        LeafWitness witness;
        if (game.micro_step > 0) {
            for (const vm::tensor::Tile& tile : micro_[game.micro_step - 1].accumulators)
                witness.accumulators.push_back(vm::tensor::tile_bytes(tile));
            witness.micro_path = crypto::merkle_path(micro_leaves_, game.micro_step - 1);
        }
        for (const TileRead& read : vm::tensor::leaf_reads(party_.program->nodes[node], inputs, target(game))) {
            const std::uint32_t input = party_.program->nodes[node].inputs[read.operand];
            OperandTile tile;
            tile.operand = read.operand;
            tile.tile = read.tile;
            tile.root = trace_[input];
            tile.root_path = crypto::merkle_path(trace_, input);
            tile.bytes = vm::tensor::tile_bytes(vm::tensor::read_tile(outputs_[input], read.tile));
            tile.tile_path = crypto::merkle_path(vm::tensor::tile_hashes(outputs_[input]), read.tile);
            witness.tiles.push_back(std::move(tile));
        }
        return witness;
    }

private:
    static vm::tensor::LeafTarget target(const Game& game) {
        return {game.tile, game.micro_step, game.accumulator, game.element};
    }

    // Executes the disputed step once: node outputs and their roots.
    Status prepare(const Game& game) {
        if (game.context.program_root != prover_.root())
            return fail("dispute.bad_game", "the game is about another program");
        if (party_.history.size() != game.context.history_leaves)
            return fail("dispute.wrong_state", "the party's history has another length");
        if (game.phase == Phase::history || game.step == step_) return {};
        QUERN_TRY(const vm::tensor::State state, party_.state_before(game.step));
        QUERN_CHECK(vm::tensor::check_state(*party_.program, state));
        if (vm::tensor::state_root(state) != party_.history[game.step - 1])
            return fail("dispute.wrong_state", "the state before the step is not the history's");
        vm::tensor::Executor executor(*party_.program, party_.backend, party_.pool);
        if (party_.alter) {
            const std::uint64_t step = game.step;
            outputs_ = executor.run_altered(state, *party_.data, party_.seed, [&](std::uint32_t node, Tensor& output) {
                party_.alter(step, node, output);
            });
        } else {
            outputs_ = executor.run_all(state, *party_.data, party_.seed);
        }
        trace_.assign(outputs_.size(), {});
        const auto hash_range = [this](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; ++i) trace_[i] = vm::tensor::tensor_root(outputs_[i]);
        };
        if (party_.pool != nullptr)
            party_.pool->parallel_ranges(outputs_.size(), hash_range);
        else
            hash_range(0, outputs_.size());
        previous_slots_ = vm::tensor::slot_roots(state);
        step_ = game.step;
        micro_.clear();
        return {};
    }

    // The micro-trace of the disputed tile. Its last state is the tile that this party claims: of an honest one the
    // computed tile, of a dishonest one the altered.
    Status prepare_micro(const Game& game) {
        if (game.node >= outputs_.size() || game.tile >= outputs_[game.node].shape.tiles() ||
            game.node_bytes.front() != vm::tensor::encode(party_.program->nodes[game.node]))
            return fail("dispute.bad_game", "the node is not this program's");
        if (!micro_.empty() && micro_node_ == game.node && micro_tile_ == game.tile) return {};
        const auto node = static_cast<std::uint32_t>(game.node);
        micro_ =
            vm::tensor::micro_trace(party_.program->nodes[node], inputs_of(*party_.program, node, outputs_), game.tile);
        for (vm::tensor::Tile& tile : micro_.back().accumulators) tile = {};
        micro_.back().accumulators.front() = vm::tensor::read_tile(outputs_[node], game.tile);
        micro_leaves_.clear();
        for (const MicroState& state : micro_) micro_leaves_.push_back(vm::tensor::micro_state_hash(state));
        micro_node_ = game.node;
        micro_tile_ = game.tile;
        return {};
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
        for (const vm::tensor::Slot& slot : party_.program->slots) slots.push_back(trace_[slot.update_node]);
        Move move = post(game, side, slots);
        if (auto* split = std::get_if<SplitMove>(&move); split != nullptr && at_top(game.cursor))
            open_previous_state(game, *split);
        return move;
    }

    Expected<Move> trace_move(const Game& game, std::size_t side) const {
        Move move = post(game, side, trace_);
        auto* split = std::get_if<SplitMove>(&move);
        if (split == nullptr || !at_top(game.cursor)) return move;
        if (!game.probe) {
            if (game.slot >= party_.program->slots.size()) return fail("dispute.bad_game", "slot");
            const std::uint32_t update = party_.program->slots[game.slot].update_node;
            if (trace_[update] != game.slot_roots[side]) return Move{Concede{}};
            split->program.push_back(prover_.slot(game.slot));
            split->anchor_path = anchor_path(game, trace_, update);
            return move;
        }
        if (game.probe_node >= outputs_.size() || game.probe_tile >= outputs_[game.probe_node].shape.tiles())
            return fail("dispute.bad_game", "probe");
        const std::vector<Hash32> tiles = vm::tensor::tile_hashes(outputs_[game.probe_node]);
        if (tiles[game.probe_tile] != game.claims[side]) return Move{Concede{}};
        open_previous_state(game, *split);
        split->program.push_back(prover_.node(game.probe_node));
        split->anchor_path = anchor_path(game, trace_, game.probe_node);
        split->anchor_leaf = trace_[game.probe_node];
        split->probe_path = crypto::merkle_path(tiles, game.probe_tile);
        return move;
    }

    Expected<Move> tile_move(const Game& game, std::size_t side) const {
        if (game.node >= outputs_.size()) return fail("dispute.bad_game", "node");
        const auto node = static_cast<std::uint32_t>(game.node);
        const vm::tensor::Node& definition = party_.program->nodes[node];
        if (vm::tensor::is_kind(definition.op, vm::tensor::OpKind::input)) return input_move(game, side, node);
        if (!at_top(game.cursor)) return post(game, side, vm::tensor::tile_hashes(outputs_[node]));
        // The game may not know the number of tiles yet: this party's own node says it.
        Game opened = game;
        opened.cursor = sealed_cursor(MerkleTag::tensor, definition.shape.tiles(),
                                      vm::tensor::tensor_context(definition.dtype, definition.shape),
                                      game.cursor.nodes[0], game.cursor.nodes[1]);
        Move move = post(opened, side, vm::tensor::tile_hashes(outputs_[node]));
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
        Move move = post(game, side, micro_leaves_);
        if (auto* split = std::get_if<SplitMove>(&move); split != nullptr && at_top(game.cursor))
            split->anchor_path = anchor_path(game, micro_leaves_, micro_leaves_.size() - 1);
        return move;
    }

    Expected<Move> element_move(const Game& game, std::size_t side) {
        QUERN_CHECK(prepare_micro(game));
        if (game.micro_step >= micro_.size()) return fail("dispute.bad_game", "micro-step");
        if (vm::tensor::tile_hash(micro_.back().accumulators.front()) != game.tile_hashes[side]) return Move{Concede{}};
        SplitMove move;
        move.phase = static_cast<std::uint8_t>(Phase::element);
        for (const vm::tensor::Tile& tile : micro_[game.micro_step].accumulators)
            move.tiles.push_back(vm::tensor::tile_bytes(tile));
        return Move{std::move(move)};
    }

    Expected<Move> leaf_move(const Game& game, Side side) {
        QUERN_CHECK(prepare(game));
        QUERN_CHECK(prepare_micro(game));
        const auto node = static_cast<std::uint32_t>(game.node);
        const vm::tensor::Node& definition = party_.program->nodes[node];
        const std::vector<const Tensor*> inputs = inputs_of(*party_.program, node, outputs_);
        std::vector<vm::tensor::OperandType> types;
        for (const Tensor* input : inputs) types.push_back({input->dtype, input->shape});
        const MicroState before =
            game.micro_step == 0 ? vm::tensor::initial_micro_state(definition) : micro_[game.micro_step - 1];
        const TensorTiles tiles(inputs, vm::tensor::leaf_reads(definition, inputs, target(game)));
        QUERN_TRY(const std::uint32_t value,
                  vm::tensor::evaluate_leaf(definition, party_.program->header, types, target(game), before, tiles));
        if (value != game.values[static_cast<std::size_t>(side)]) return Move{NoMove{}};
        QUERN_TRY(LeafWitness witness, leaf_witness(game));
        return Move{std::move(witness)};
    }

    DisputeParty party_;
    ProgramProver prover_;
    std::uint64_t step_ = 0;  // 0: nothing executed yet
    NodeOutputs outputs_;
    std::vector<Hash32> trace_;           // tensor roots of outputs_
    std::vector<Hash32> previous_slots_;  // slot roots of S_{step-1}
    std::vector<MicroState> micro_;
    std::vector<Hash32> micro_leaves_;
    std::uint64_t micro_node_ = 0;
    std::uint64_t micro_tile_ = 0;
};

DisputeStrategy::DisputeStrategy(DisputeParty party) : impl_(std::make_unique<Impl>(std::move(party))) {}
DisputeStrategy::~DisputeStrategy() = default;
DisputeStrategy::DisputeStrategy(DisputeStrategy&&) noexcept = default;
DisputeStrategy& DisputeStrategy::operator=(DisputeStrategy&&) noexcept = default;

Expected<Move> DisputeStrategy::next_move(const Game& game, Side side) { return impl_->next_move(game, side); }

Expected<LeafWitness> DisputeStrategy::leaf_witness(const Game& game) { return impl_->leaf_witness(game); }

}  // namespace quern::compute::core
