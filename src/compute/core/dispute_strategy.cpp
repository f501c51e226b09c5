#include "compute/core/dispute_strategy.h"

#include <algorithm>

#include "compute/core/history.h"
#include "crypto/content_shards.h"
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
    explicit Impl(DisputeParty party)
        : party_(std::move(party)), share_(party_.share != nullptr ? party_.share : std::make_shared<StepShare>()) {
        for (const Program& program : party_.programs->programs) provers_.emplace_back(program);
    }

    Expected<Move> next_move(const Game& game, Side side, const SplitMove* post, const Cancellation* cancellation) {
        cancellation_ = cancellation;
        QUERN_CHECK(check_game(game));
        if (game.phase == Phase::leaf) return leaf_move(game, side);
        if (!may_move(game, side)) return Move{NoMove{}};
        post_ = side == Side::rival && has_post(game) ? post : nullptr;
        if (side == Side::rival && has_post(game)) {
            if (post == nullptr) return fail("dispute.post_missing", "the post that waits is not known");
            if (post_hash(*post) != game.post) return fail("dispute.wrong_post", "not the post that waits");
        }
        QUERN_CHECK(prepare(game));
        const auto index = static_cast<std::size_t>(side);
        switch (game.phase) {
            case Phase::history:
                return split(game, index, party_.history);
            case Phase::steps:
                return steps_move(game, index);
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

    Expected<LeafWitness> leaf_witness(const Game& game, const Cancellation* cancellation) {
        cancellation_ = cancellation;
        QUERN_CHECK(check_game(game));
        if (game.phase != Phase::leaf) return fail("dispute.wrong_phase");
        QUERN_CHECK(prepare(game));
        QUERN_CHECK(prepare_leaf(game));
        return leaf_->witness;
    }

private:
    static vm::tensor::LeafTarget target_of(const Game& game) {
        return {game.tile, game.micro_step, game.accumulator, game.element};
    }

    [[nodiscard]] const Program& program() const { return party_.programs->programs[program_]; }
    [[nodiscard]] const ProgramProver& prover() const { return provers_[program_]; }

    // What executing the disputed step once gives: the roots of its nodes' outputs.
    Status prepare(const Game& game) {
        const TaskPlan& plan = party_.programs->plan;
        if (game.context.plan != plan.bytes()) return fail("dispute.bad_game", "the game is about another plan");
        if (game.step != 0) program_ = plan.program_of(game.step);
        if (party_.history.size() != game.context.history_leaves)
            return fail("dispute.wrong_state", "the party's history has another length");
        if (game.phase == Phase::history) return {};
        if (opens_stride(game)) QUERN_CHECK(prepare_stride(game));
        if (game.phase == Phase::steps) return {};
        const StepShare::Step step{game.step, previous_root(game).data};
        if (roots_ != nullptr && step == step_) return {};
        tiles_ = nullptr;
        micro_ = nullptr;
        leaf_ = nullptr;
        step_ = step;
        roots_ = share_->roots.find(step);
        if (roots_ != nullptr) return {};
        QUERN_TRY(const auto before, state_before());
        StepShare::Roots roots{before->slots, std::vector<Hash32>(program().nodes.size())};
        StepShare::TileHashes probed;
        QUERN_CHECK(run(vm::tensor::kLastNode, [&](const TappedNode& tapped) {
            const bool is_probed = at_probe(game) && tapped.number == game.probe_node;
            if (is_probed) probed = tile_hashes(tapped.output);
            roots.trace[tapped.number] = is_probed ? vm::tensor::tensor_root_of(probed) : root_of(tapped, roots.slots);
        }));
        roots_ = share_->roots.put(step, std::move(roots));
        if (at_probe(game)) keep_tiles(static_cast<std::uint32_t>(game.probe_node), std::move(probed));
        return {};
    }

    [[nodiscard]] static bool is_inside_stride(const Game& game) { return (game.step - 1) % game.context.stride != 0; }

    // Whether the move is made of the states inside the stride, or opens one of them.
    static bool opens_stride(const Game& game) {
        if (game.phase == Phase::steps) return true;
        const bool opens_previous = game.phase == Phase::state || (game.phase == Phase::trace && at_probe(game));
        return opens_previous && at_top(game.cursor) && is_inside_stride(game);
    }

    // S_{j-1}: of the history, or of this party's stride; once it was opened and answered as the game holds it.
    [[nodiscard]] const Hash32& previous_root(const Game& game) const {
        if (!is_inside_stride(game)) return party_.history[history_index(game.context, game.step)];
        return opens_stride(game) ? (*stride_)[(game.step - 1) % game.context.stride - 1] : game.previous_state;
    }

    Status prepare_stride(const Game& game) {
        const std::uint64_t first = first_step(game.stride, game.context.stride, game.context.before);
        const StepShare::Stride key{first, steps_leaf_count(game), party_.history[game.stride - 1].data};
        if (stride_ != nullptr && stride_key_ == key) return {};
        stride_key_ = key;
        stride_ = share_->strides.find(key);
        if (stride_ != nullptr) return {};
        QUERN_TRY(auto states, party_.states_of(first, first + key.count - 1));
        if (states.size() != key.count) return fail("dispute.wrong_state", "the stride has another length");
        stride_ = share_->strides.put(key, std::move(states));
        return {};
    }

    [[nodiscard]] Status not_cancelled() const {
        if (is_requested(cancellation_)) return busy(kMoveCancelled);
        return {};
    }

    // The state before the disputed step, replayed to unless it is kept.
    Expected<std::shared_ptr<const StepShare::Before>> state_before() {
        if (auto known = share_->states.find(step_)) return known;
        share_->states.make_room();
        StepShare::Before before;
        QUERN_TRY(before.state, party_.state_before(step_.number));
        QUERN_CHECK(vm::tensor::check_state(program(), before.state));
        before.slots = vm::tensor::slot_roots(before.state, party_.pool, cancellation_);
        QUERN_CHECK(not_cancelled());
        if (vm::tensor::state_root(before.slots).data != step_.before)
            return fail("dispute.wrong_state", "the state before the step is not the history's");
        return share_->states.put(step_, std::move(before));
    }

    // A tapped run of the disputed step up to node `last`. What its taps kept is whole unless it fails.
    Status run(std::uint32_t last, const vm::tensor::Tap& tap) {
        QUERN_TRY(const auto before, state_before());
        vm::tensor::Alter alter;
        if (party_.alter)
            alter = [this](std::uint32_t node, Tensor& output) { party_.alter(step_.number, node, output); };
        // The executor and its arena end with the run: between two moves of a game lie blocks.
        vm::tensor::Executor executor(program(), party_.backend, party_.pool, cancellation_);
        if (!executor.run_tapped(before->state, *party_.data, party_.seed, tap, alter, last))
            return busy(is_requested(cancellation_) ? kMoveCancelled : kDataMissing);
        return {};
    }

    StepShare::TileHashes tile_hashes(const vm::tensor::TensorView& tensor) const {
        return vm::tensor::tile_hashes(tensor, party_.pool, cancellation_);
    }

    // The roots of slots are known, unless their outputs were altered.
    Hash32 root_of(const TappedNode& tapped, std::span<const Hash32> slots) {
        const vm::tensor::Node& node = *tapped.node;
        if (node.op == Op::slot && !party_.alter) return slots[node.attributes[0]];
        return vm::tensor::tensor_root(tapped.output, party_.pool, cancellation_);
    }

    void keep_tiles(std::uint32_t node, StepShare::TileHashes hashes) {
        tiles_ = share_->tiles.put({step_, node}, std::move(hashes));
        tiles_node_ = node;
    }

    // Hashes of all tiles of the disputed node's output, in tiles_.
    Status prepare_tiles(std::uint32_t node) {
        if (tiles_ != nullptr && tiles_node_ == node) return {};
        tiles_node_ = node;
        tiles_ = share_->tiles.find({step_, node});
        if (tiles_ != nullptr) return {};
        StepShare::TileHashes hashes;
        QUERN_CHECK(run(node, [&](const TappedNode& tapped) {
            if (tapped.number == node) hashes = tile_hashes(tapped.output);
        }));
        keep_tiles(node, std::move(hashes));
        return {};
    }

    Status check_tile(const Game& game) const {
        if (game.node < roots_->trace.size() && game.tile < program().nodes[game.node].shape.tiles() &&
            game.node_bytes.front() == vm::tensor::encode(program().nodes[game.node]))
            return {};
        return fail("dispute.bad_game", "the node is not this program's");
    }

    static StepShare::TileKey tile_key(const StepShare::Step& step, const Game& game) {
        return {step, static_cast<std::uint32_t>(game.node), game.tile};
    }

    // Of a trace too long to be kept whole the states around the disputed one and the last.
    StepShare::MicroTrace trace_of(const Game& game, const TappedNode& tapped) const {
        std::vector<vm::tensor::OperandType> types;
        for (const auto& operand : tapped.operands) types.push_back({operand.dtype, operand.shape()});
        const std::uint64_t steps = vm::tensor::micro_step_count(*tapped.node, types);
        const bool whole = vm::tensor::micro_state_bytes(*tapped.node, types) <= party_.kept_micro_bytes;
        StepShare::MicroTrace trace;
        vm::tensor::each_micro_state(tapped, game.tile, [&](const MicroState& state) {
            const std::uint64_t at = trace.leaves.size();
            trace.leaves.push_back(vm::tensor::micro_state_hash(state));
            if (whole || at + 1 == steps || at == game.micro_step || at + 1 == game.micro_step)
                trace.states.emplace(at, state);
            return !is_requested(cancellation_);
        });
        return trace;
    }

    // Whether the trace of the disputed tile is there, with state `state`.
    [[nodiscard]] bool has_micro_trace(const Game& game, std::uint64_t state) {
        if (micro_ == nullptr || micro_key_ != tile_key(step_, game)) {
            micro_key_ = tile_key(step_, game);
            micro_ = share_->micro.find(micro_key_);
        }
        return micro_ != nullptr && (state >= micro_->leaves.size() || micro_->states.contains(state));
    }

    // The micro-trace of the disputed tile, with the state after its disputed micro-step. Its last state is the tile
    // that this party claims: of an honest one the computed tile, of a dishonest one the altered.
    Status prepare_micro(const Game& game, bool with_state) {
        QUERN_CHECK(check_tile(game));
        if (has_micro_trace(game, with_state ? game.micro_step : vm::tensor::kLastNode)) return {};
        const auto node = static_cast<std::uint32_t>(game.node);
        StepShare::MicroTrace trace;
        QUERN_CHECK(run(node, [&](const TappedNode& tapped) {
            if (tapped.number == node) trace = trace_of(game, tapped);
        }));
        micro_ = share_->micro.put(micro_key_, std::move(trace));
        return {};
    }

    // The disputed element by this party's execution, and what proves it.
    Status prepare_leaf(const Game& game) {
        QUERN_CHECK(check_tile(game));
        const auto node = static_cast<std::uint32_t>(game.node);
        const StepShare::ElementKey key{step_, node, game.tile, game.micro_step, game.accumulator, game.element};
        if (leaf_ != nullptr && leaf_key_ == key) return {};
        leaf_key_ = key;
        leaf_ = share_->leaves.find(key);
        if (leaf_ != nullptr) return {};
        const bool known = has_micro_trace(game, game.micro_step == 0 ? vm::tensor::kLastNode : game.micro_step - 1);
        StepShare::MicroTrace trace;
        Expected<StepShare::Leaf> leaf = StepShare::Leaf{};
        QUERN_CHECK(run(node, [&](const TappedNode& tapped) {
            if (tapped.number != node) return;
            if (!known) trace = trace_of(game, tapped);
            if (!is_requested(cancellation_)) leaf = leaf_of(game, tapped, known ? *micro_ : trace);
        }));
        if (!known) micro_ = share_->micro.put(micro_key_, std::move(trace));
        QUERN_TRY(StepShare::Leaf found, std::move(leaf));
        leaf_ = share_->leaves.put(key, std::move(found));
        return {};
    }

    Expected<StepShare::Leaf> leaf_of(const Game& game, const TappedNode& tapped, const StepShare::MicroTrace& trace) {
        const vm::tensor::LeafTarget target = target_of(game);
        if (target.micro_step >= trace.leaves.size()) return fail("dispute.bad_game", "micro-step");
        LeafWitness witness;
        MicroState before = vm::tensor::initial_micro_state(*tapped.node);
        if (target.micro_step > 0) {
            before = trace.states.at(target.micro_step - 1);
            for (const vm::tensor::Tile& tile : before.accumulators)
                witness.accumulators.push_back(vm::tensor::tile_bytes(tile));
            witness.micro_path = crypto::merkle_path(trace.leaves, target.micro_step - 1);
        }
        const auto leaf = vm::tensor::evaluate_leaf(tapped, program().header, target, before, *party_.data);
        if (!leaf)
            return tapped.node->op == Op::window ? busy(kDataMissing, leaf.error().to_string()) : fail(leaf.error());
        std::array<StepShare::TileHashes, vm::tensor::kMaxInputs> hashes;  // of the operands that are read
        for (const auto& [read, words] : leaf->tiles) {
            if (tapped.node->op == Op::window && read.operand == vm::tensor::kDataOperand) {
                QUERN_TRY(OperandTile tile, data_tile(tapped.node->attributes[0], read.tile));
                witness.tiles.push_back(std::move(tile));
                continue;
            }
            const std::uint32_t input = tapped.node->inputs[read.operand];
            StepShare::TileHashes& known = hashes[read.operand];
            if (known.empty()) known = tile_hashes(tapped.operands[read.operand]);
            OperandTile tile;
            tile.operand = read.operand;
            tile.tile = read.tile;
            tile.root = roots_->trace[input];
            tile.root_path = crypto::merkle_path(roots_->trace, input);
            tile.bytes = vm::tensor::tile_bytes(words);
            tile.tile_path = crypto::merkle_path(known, read.tile);
            witness.tiles.push_back(std::move(tile));
        }
        return StepShare::Leaf{leaf->value, std::move(witness)};
    }

    Expected<OperandTile> data_tile(std::uint32_t set, std::uint64_t number) const {
        const auto bytes = vm::tensor::read_data_tile(program().header.data[set], *party_.data, set, number);
        auto path = party_.data->tile_path(set, number);
        if (!bytes || !path) return busy(kDataMissing);
        OperandTile tile;
        tile.operand = vm::tensor::kDataOperand;
        tile.tile = number;
        tile.bytes = *bytes;
        tile.tile_path = std::move(*path);
        return tile;
    }

    // The descendants of the game's node in this party's tree: the defender posts them, the rival picks the first that
    // is not the defender's. A concession when the node is not this party's.
    [[nodiscard]] Move split(const Game& game, std::size_t side, std::span<const Hash32> leaves) const {
        if (leaves.size() != game.cursor.leaf_count) return Concede{};
        const PostRange range = post_range(game.cursor);
        const std::vector<Hash32> level = crypto::merkle_level(leaves, range.level);
        const std::vector<Hash32> nodes(level.begin() + static_cast<std::ptrdiff_t>(range.begin),
                                        level.begin() + static_cast<std::ptrdiff_t>(range.begin + range.count));
        if (!check_post(game.cursor, side, nodes)) return Concede{};
        SplitMove move;
        move.phase = static_cast<std::uint8_t>(game.phase);
        if (side == static_cast<std::size_t>(Side::defender)) {
            move.nodes = nodes;
            return move;
        }
        auto pick = first_difference(post_->nodes, nodes);
        if (!pick) return Concede{};
        move.pick = std::move(*pick);
        return move;
    }

    void open_previous_state(const Game& game, SplitMove& move) const {
        move.previous_state = previous_root(game);
        const std::uint64_t stride = game.context.stride;
        move.previous_path = is_inside_stride(game)
                                 ? crypto::merkle_path(*stride_, (game.step - 1) % stride - 1)
                                 : history_path(party_.history, history_index(game.context, game.step));
    }

    [[nodiscard]] Expected<Move> steps_move(const Game& game, std::size_t side) const {
        if (!game.probe && stride_->back() != game.stride_roots[side]) return Move{Concede{}};
        Move move = split(game, side, *stride_);
        if (!at_top(game.cursor)) return move;
        if (auto* made = std::get_if<SplitMove>(&move); made != nullptr && !game.probe)
            made->anchor_path = crypto::merkle_path(*stride_, stride_->size() - 1);
        // Of a probe the lists may be the same.
        if (std::holds_alternative<Concede>(move) && game.probe && post_ != nullptr) {
            SplitMove same;
            same.phase = static_cast<std::uint8_t>(game.phase);
            return Move{std::move(same)};
        }
        return move;
    }

    Expected<Move> state_move(const Game& game, std::size_t side) const {
        std::vector<Hash32> slots;
        for (const std::uint32_t update : program().updates) slots.push_back(roots_->trace[update]);
        Move move = split(game, side, slots);
        if (auto* post = std::get_if<SplitMove>(&move); post != nullptr && at_top(game.cursor) && post_ == nullptr)
            open_previous_state(game, *post);
        return move;
    }

    Expected<Move> trace_move(const Game& game, std::size_t side) {
        Move move = split(game, side, roots_->trace);
        auto* made = std::get_if<SplitMove>(&move);
        if (made == nullptr || !at_top(game.cursor)) return move;
        if (!at_probe(game)) {
            if (game.slot >= program().slots.size()) return fail("dispute.bad_game", "slot");
            const std::uint32_t update = program().updates[game.slot];
            if (roots_->trace[update] != game.slot_roots[side]) return Move{Concede{}};
            made->program.push_back(prover().update(game.slot));
            made->anchor_path = crypto::merkle_path(roots_->trace, update);
            return move;
        }
        if (game.probe_node >= roots_->trace.size() ||
            game.probe_tile >= program().nodes[game.probe_node].shape.tiles())
            return fail("dispute.bad_game", "probe");
        QUERN_CHECK(prepare_tiles(static_cast<std::uint32_t>(game.probe_node)));
        const std::vector<Hash32>& tiles = *tiles_;
        if (tiles[game.probe_tile] != game.claims[side]) return Move{Concede{}};
        if (post_ == nullptr) open_previous_state(game, *made);
        made->program.push_back(prover().node(game.probe_node));
        made->anchor_path = crypto::merkle_path(roots_->trace, game.probe_node);
        made->anchor_leaf = roots_->trace[game.probe_node];
        made->probe_path = crypto::merkle_path(tiles, game.probe_tile);
        return move;
    }

    Expected<Move> tile_move(const Game& game, std::size_t side) {
        if (game.node >= roots_->trace.size()) return fail("dispute.bad_game", "node");
        const auto node = static_cast<std::uint32_t>(game.node);
        const vm::tensor::Node& definition = program().nodes[node];
        if (vm::tensor::is_kind(definition.op, vm::tensor::OpKind::input)) return input_move(game, side, node);
        if (!is_next(game, static_cast<Side>(side))) return Move{NoMove{}};
        QUERN_CHECK(prepare_tiles(node));
        const std::vector<Hash32>& tiles = *tiles_;
        if (!at_top(game.cursor) || post_ != nullptr) return split(game, side, tiles);
        // The game does not know the number of tiles yet: this party's own node says it.
        Game opened = game;
        opened.cursor =
            sealed_cursor(MerkleTag::bytes, definition.shape.tiles(), game.cursor.nodes[0], game.cursor.nodes[1]);
        Move move = split(opened, side, tiles);
        if (auto* post = std::get_if<SplitMove>(&move); post != nullptr) open_nodes(node, *post);
        return move;
    }

    void open_nodes(std::uint32_t node, SplitMove& move) const {
        move.program.push_back(prover().node(node));
        for (const std::uint32_t input : program().nodes[node].inputs) move.program.push_back(prover().node(input));
    }

    // An input's true root is known: whoever has it shows it.
    Expected<Move> input_move(const Game& game, std::size_t side, std::uint32_t node) const {
        const vm::tensor::Node& definition = program().nodes[node];
        SplitMove move;
        move.phase = static_cast<std::uint8_t>(Phase::tile);
        open_nodes(node, move);
        Hash32 truth;
        if (definition.op == Op::slot) {
            const std::uint32_t slot = definition.attributes[0];
            truth = roots_->slots[slot];
            move.anchor_leaf = truth;
            move.anchor_path = crypto::merkle_path(roots_->slots, slot);
        } else {
            truth = vm::tensor::tensor_root(vm::tensor::seed_tensor(game.context.seed_beacon));
        }
        if (truth != game.cursor.nodes[side]) return Move{NoMove{}};
        return Move{std::move(move)};
    }

    Expected<Move> micro_move(const Game& game, std::size_t side) {
        QUERN_CHECK(prepare_micro(game, false));
        Move move = split(game, side, micro_->leaves);
        if (auto* made = std::get_if<SplitMove>(&move); made != nullptr && at_top(game.cursor))
            made->anchor_path = crypto::merkle_path(micro_->leaves, micro_->leaves.size() - 1);
        return move;
    }

    Expected<Move> element_move(const Game& game, std::size_t side) {
        QUERN_CHECK(prepare_micro(game, true));
        if (game.micro_step >= micro_->leaves.size()) return fail("dispute.bad_game", "micro-step");
        if (vm::tensor::tile_hash(micro_->states.rbegin()->second.accumulators.front()) != game.tile_hashes[side])
            return Move{Concede{}};
        SplitMove move;
        move.phase = static_cast<std::uint8_t>(Phase::element);
        if (post_ != nullptr) move.tiles = post_->tiles;
        for (const vm::tensor::Tile& tile : micro_->states.at(game.micro_step).accumulators)
            move.tiles.push_back(vm::tensor::tile_bytes(tile));
        return Move{std::move(move)};
    }

    Expected<Move> leaf_move(const Game& game, Side side) {
        QUERN_CHECK(prepare(game));
        QUERN_CHECK(prepare_leaf(game));
        if (leaf_->value != game.values[static_cast<std::size_t>(side)]) return Move{NoMove{}};
        return Move{leaf_->witness};
    }

    DisputeParty party_;
    std::vector<ProgramProver> provers_;  // by program
    std::size_t program_ = 0;             // of the disputed step
    const std::shared_ptr<StepShare> share_;
    const Cancellation* cancellation_ = nullptr;  // of the move that is worked out ...
    const SplitMove* post_ = nullptr;             // ... and the post that it answers; null: it answers none
    StepShare::Stride stride_key_;
    std::shared_ptr<const StepShare::StateRoots> stride_;
    StepShare::Step step_;  // the disputed one, and what is held of it; null: nothing yet
    std::shared_ptr<const StepShare::Roots> roots_;
    std::uint32_t tiles_node_ = 0;
    std::shared_ptr<const StepShare::TileHashes> tiles_;
    StepShare::TileKey micro_key_;
    std::shared_ptr<const StepShare::MicroTrace> micro_;
    StepShare::ElementKey leaf_key_;
    std::shared_ptr<const StepShare::Leaf> leaf_;
};

constexpr std::uint64_t kShardTiles = std::uint64_t{1} << crypto::kContentShardLevel;

// What one game keeps of a step between two moves, and one of its moves makes beside its run.
std::uint64_t game_bytes(const Program& program, std::uint64_t stride) {
    std::uint64_t kept = 0;
    for (const vm::tensor::Node& node : program.nodes) {
        std::uint64_t tiles = node.shape.tiles();  // of the node, or of its operands for a leaf
        std::vector<vm::tensor::OperandType> types;
        for (const std::uint32_t input : node.inputs) {
            types.push_back({program.nodes[input].dtype, program.nodes[input].shape});
            tiles += types.back().shape.tiles();
        }
        const std::uint64_t steps = vm::tensor::micro_step_count(node, types);
        const std::uint64_t few = 4 * vm::tensor::accumulator_count(node) * vm::tensor::kTileBytes;
        const std::uint64_t states = std::min(vm::tensor::micro_state_bytes(node, types), kKeptMicroBytes + few);
        kept = std::max(kept, (tiles + steps) * Hash32::kSize + states + vm::tensor::micro_copy_bytes(node, types));
    }
    std::uint64_t roots = program.nodes.size() + program.slots.size();
    std::uint64_t data_hashes = 0;  // of the tensor that has most: for a path, in a shard and above it
    for (const vm::tensor::DataSet& data : program.header.data) {
        const std::uint64_t tiles = vm::tensor::data_tiles(data);
        const std::uint64_t above = crypto::content_shard_count(vm::tensor::data_bytes(data));
        data_hashes = std::max(data_hashes, std::min(tiles, kShardTiles) + (above > 1 ? 2 * above : 0));
    }
    roots += data_hashes;
    const std::uint64_t states = stride > 1 ? 3 * stride : 0;  // and two levels of their tree, for a path
    return (roots + states) * Hash32::kSize + kept;
}

std::uint64_t game_bytes(std::span<const Program> programs, std::uint64_t stride) {
    std::uint64_t most = 0;
    for (const Program& program : programs) most = std::max(most, game_bytes(program, stride));
    return most;
}

std::uint64_t dispute_bytes(const Program& program, std::uint64_t stride) {
    return vm::tensor::tapped_bytes(program) + game_bytes(program, stride);
}

DisputeStrategy::DisputeStrategy(DisputeParty party) : impl_(std::make_unique<Impl>(std::move(party))) {}
DisputeStrategy::~DisputeStrategy() = default;
DisputeStrategy::DisputeStrategy(DisputeStrategy&&) noexcept = default;
DisputeStrategy& DisputeStrategy::operator=(DisputeStrategy&&) noexcept = default;

Expected<Move> DisputeStrategy::next_move(const Game& game, Side side, const SplitMove* post,
                                          const Cancellation* cancellation) {
    return impl_->next_move(game, side, post, cancellation);
}

Expected<LeafWitness> DisputeStrategy::leaf_witness(const Game& game, const Cancellation* cancellation) {
    return impl_->leaf_witness(game, cancellation);
}

}  // namespace quern::compute::core
