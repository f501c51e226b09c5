// The last move: the chain executes one element of one micro-step from proven tiles.
#include <optional>

#include "compute/core/dispute_game.h"
#include "vm/tensor/data.h"

namespace quern::compute::core {

using vm::tensor::MicroState;
using vm::tensor::Tile;
using vm::tensor::TileRead;

namespace {

class WitnessTiles final : public vm::tensor::TileSource {
public:
    void add(const TileRead& read, const Tile& tile) { tiles_.push_back({read, tile}); }
    [[nodiscard]] const Tile* tile(const TileRead& read) const override {
        for (const Entry& entry : tiles_)
            if (entry.read == read) return &entry.tile;
        return nullptr;
    }

private:
    struct Entry {
        TileRead read;
        Tile tile;
    };
    std::vector<Entry> tiles_;
};

Status check_top(const Hash32& top, const Hash32& leaf, std::uint64_t index, std::uint64_t count,
                 std::span<const Hash32> path, const char* what) {
    const Expected<Hash32> found = crypto::merkle_top_from_path(leaf, index, count, path);
    if (!found || *found != top) return fail("dispute.bad_witness", what);
    return {};
}

// The accumulators before the disputed micro-step, proven as leaf u-1 of the sender's micro-trace: agreed, since u is
// the first that differs.
Expected<MicroState> state_before(const Game& game, std::size_t side, const DisputedNode& disputed,
                                  const LeafWitness& witness) {
    if (game.micro_step == 0) {
        if (!witness.accumulators.empty() || !witness.micro_path.empty())
            return fail("dispute.bad_witness", "the first micro-step starts from fixed accumulators");
        return vm::tensor::initial_micro_state(disputed.node);
    }
    if (witness.accumulators.size() != disputed.accumulators)
        return fail("dispute.bad_witness", "wrong number of accumulators");
    MicroState state;
    for (const Bytes& bytes : witness.accumulators) {
        const auto tile = vm::tensor::tile_from_bytes(bytes);
        if (!tile) return fail("dispute.bad_witness", tile.error().to_string());
        state.accumulators.push_back(*tile);
    }
    QUERN_CHECK(check_top(game.micro_tops[side], vm::tensor::micro_state_hash(state), game.micro_step - 1,
                          disputed.micro_steps, witness.micro_path, "the accumulators before the micro-step"));
    return state;
}

// A tile of the data that a window node reads, under the task's root: bytes of a content of the header's size.
Status add_data_tile(const Game& game, const DisputedNode& disputed, const OperandTile& tile, WitnessTiles& tiles) {
    const std::size_t set = disputed.node.attributes[0];
    const vm::tensor::DataSet& data = disputed.header.data[set];
    const std::uint64_t count = vm::tensor::data_tiles(data);
    if (tile.tile >= count) return fail("dispute.bad_witness", "there is no such tile");
    if (tile.bytes.size() != vm::tensor::data_tile_bytes(data, tile.tile))
        return fail("dispute.bad_witness", "the tile has another size");
    if (!tile.root.is_zero() || !tile.root_path.empty())
        return fail("dispute.bad_witness", "the root of data is the task's");
    const auto top = crypto::merkle_top_from_path(crypto::merkle_leaf(tile.bytes), tile.tile, count, tile.tile_path);
    if (!top || crypto::bytes_id(vm::tensor::data_bytes(data), *top) != game.context.data_roots[set])
        return fail("dispute.bad_witness", "the tile is not the data's");
    tiles.add({tile.operand, tile.tile}, vm::tensor::pack_data_tile(tile.bytes));
    return {};
}

// An operand's node precedes the first differing node, so its leaf is agreed whoever proves it.
Status add_tile(const Game& game, std::size_t side, const DisputedNode& disputed, const OperandTile& tile,
                WitnessTiles& tiles) {
    if (disputed.valid && disputed.node.op == vm::tensor::Op::window && tile.operand == vm::tensor::kDataOperand)
        return add_data_tile(game, disputed, tile, tiles);
    if (tile.operand >= disputed.operands.size()) return fail("dispute.bad_witness", "there is no such operand");
    const vm::tensor::OperandType& type = disputed.operands[tile.operand];
    if (tile.tile >= type.shape.tiles()) return fail("dispute.bad_witness", "there is no such tile");
    const auto words = vm::tensor::tile_from_bytes(tile.bytes);
    if (!words) return fail("dispute.bad_witness", words.error().to_string());
    QUERN_CHECK(check_top(game.trace_tops[side], tile.root, disputed.node.inputs[tile.operand],
                          disputed.header.node_count, tile.root_path, "the operand's root"));
    if (!crypto::check_tile_path(tile.root, crypto::merkle_leaf(tile.bytes), tile.tile, type.shape.tiles(),
                                 tile.tile_path))
        return fail("dispute.bad_witness", "the tile is not the operand's");
    tiles.add({tile.operand, tile.tile}, *words);
    return {};
}

}  // namespace

Status apply_leaf(Game& game, Side side, const LeafWitness& witness, std::uint64_t now) {
    QUERN_CHECK(check_game(game));
    const auto index = static_cast<std::size_t>(side);
    if (game.phase == Phase::decided) return fail("dispute.decided");
    Game next = game;
    charge_clocks(next, now);
    if (next.phase == Phase::decided) return fail("dispute.clock_ran_out");
    if (next.phase != Phase::leaf)
        return fail("dispute.wrong_phase", std::string("the game is in phase ") + to_string(next.phase));
    if (witness.tiles.size() > vm::tensor::kMaxLeafTiles) return fail("dispute.bad_witness", "too many tiles");

    QUERN_TRY(const DisputedNode disputed, disputed_node(next));
    QUERN_TRY(const MicroState before, state_before(next, index, disputed, witness));
    WitnessTiles tiles;
    for (const OperandTile& tile : witness.tiles) QUERN_CHECK(add_tile(next, index, disputed, tile, tiles));
    const vm::tensor::LeafTarget target{next.tile, next.micro_step, next.accumulator, next.element};
    next.true_value = 0;  // every element of a node that is none
    if (disputed.valid) {
        QUERN_TRY(next.true_value,
                  vm::tensor::evaluate_leaf(disputed.node, disputed.header, disputed.operands, target, before, tiles));
    }
    next.verdict = next.true_value == next.values[0]   ? Verdict::defender_wins
                   : next.true_value == next.values[1] ? Verdict::rival_wins
                                                       : Verdict::both_lose;
    next.phase = Phase::decided;
    next.reason = "leaf";
    game = std::move(next);
    return {};
}

}  // namespace quern::compute::core
