// For each op of the machine: a game about one of its nodes, up to its leaf, where each part of the opened node and of
// the honest side's witness is corrupted in turn and must be refused by name. Complete over the tables of ops.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "unit/compute/core/game_world.h"

namespace quern::compute::core::test {
namespace {

using vm::tensor::OpKind;

const World& world() {
    static const World instance = make_world(every_kind_program(), 3);
    return instance;
}

std::string kind_of(const vm::tensor::Node& node) {
    return std::string(node.op == Op::elementwise ? vm::tensor::arith::find_element_op(node.element)->name
                                                  : vm::tensor::find_op(node.op)->name);
}

// Of each kind the node with the most micro-steps. Games about input nodes end without a leaf.
std::map<std::string, std::uint32_t> nodes_by_kind() {
    std::map<std::string, std::pair<std::uint64_t, std::uint32_t>> found;
    const Program& program = world().program;
    for (std::uint32_t number = 0; number < program.nodes.size(); ++number) {
        const vm::tensor::Node& node = program.nodes[number];
        if (vm::tensor::is_kind(node.op, OpKind::input)) continue;
        const auto types = vm::tensor::test::operand_types(program, node);
        const std::uint64_t steps = vm::tensor::micro_step_count(node, types);
        auto& best = found[kind_of(node)];
        if (steps > best.first) best = {steps, number};
    }
    std::map<std::string, std::uint32_t> nodes;
    for (const auto& [kind, best] : found) nodes[kind] = best.second;
    return nodes;
}

Hash32 changed(Hash32 hash) {
    hash.data[13] ^= 0x20;
    return hash;
}

// Calls refused(what) after each single change of the hashes, which it takes back.
template <class Refused>
void corrupt_path(std::vector<Hash32>& path, const std::string& what, const Refused& refused) {
    const std::vector<Hash32> good = path;
    for (std::size_t i = 0; i < good.size(); ++i) {
        path[i] = changed(good[i]);
        refused(what + " hash " + std::to_string(i));
        path = good;
    }
    path.push_back(Hash32{});
    refused(what + " longer");
    path = good;
    if (path.empty()) return;
    path.pop_back();
    refused(what + " shorter");
    path = good;
}
template <class Refused>
void corrupt_bytes(Bytes& bytes, std::size_t stride, const std::string& what, const Refused& refused) {
    const Bytes good = bytes;
    for (std::size_t i = 0; i < good.size(); i += stride) {
        bytes[i] ^= 0x40;
        refused(what + " byte " + std::to_string(i));
        bytes = good;
    }
    bytes.back() ^= 1;
    refused(what + " last byte");
    bytes = good;
    bytes.pop_back();
    refused(what + " shorter");
    bytes = good;
    bytes.push_back(0);
    refused(what + " longer");
    bytes = good;
}
constexpr std::size_t kSomeBytes = 509;  // of a tile's 4,096

// The openings of the disputed node and of its operands' nodes, in the defender's post.
void corrupt_openings(const Game& game, const SplitMove& good) {
    Game accepted = game;
    ASSERT_TRUE(apply_split(accepted, Side::defender, good, 1000));
    SplitMove move = good;
    const auto refused = [&](const std::string& what) {
        Game tried = game;
        const Status status = apply_split(tried, Side::defender, move, 1000);
        ASSERT_FALSE(status) << what;
        EXPECT_EQ(status.error().name, "dispute.bad_opening") << what;
        EXPECT_EQ(chain::types::encode_record(tried), chain::types::encode_record(game)) << what;
    };
    for (std::size_t i = 0; i < move.program.size(); ++i) {
        const std::string what = "opening " + std::to_string(i);
        corrupt_bytes(move.program[i].bytes, 1, what, refused);
        corrupt_path(move.program[i].path, what + " path", refused);
        move.program[i].index ^= 1;
        refused(what + " index");
        move.program[i].index ^= 1;
    }
}

struct Refusals {
    std::size_t of_tiles = 0;
    std::size_t of_accumulators = 0;
};

Refusals corrupt_witness(const Game& game, const LeafWitness& good) {
    Refusals count;
    LeafWitness witness = good;
    const auto refused_by = [&](const std::string& what, const std::set<std::string_view>& names) {
        Game tried = game;
        const Status status = apply_leaf(tried, Side::rival, witness, 1000);
        ASSERT_FALSE(status) << what;
        EXPECT_TRUE(names.contains(status.error().name)) << what << ": " << status.error().to_string();
        EXPECT_EQ(chain::types::encode_record(tried), chain::types::encode_record(game)) << what;
    };
    const auto refused = [&](const std::string& what) { refused_by(what, {"dispute.bad_witness"}); };
    for (std::size_t i = 0; i < good.accumulators.size(); ++i) {
        const std::string what = "accumulator " + std::to_string(i);
        corrupt_bytes(witness.accumulators[i], kSomeBytes, what, refused);
        witness.accumulators[i][game.element * 4] ^= 1;  // the word that the micro-step goes on from
        refused(what + " element");
        witness = good;
        ++count.of_accumulators;
    }
    witness.accumulators.emplace_back(vm::tensor::kTileBytes);
    refused("one accumulator more");
    witness = good;
    corrupt_path(witness.micro_path, "micro-trace path", refused);
    for (std::size_t i = 0; i < good.tiles.size(); ++i) {
        const std::string what = "tile " + std::to_string(i);
        OperandTile& tile = witness.tiles[i];
        corrupt_bytes(tile.bytes, kSomeBytes, what, refused);
        corrupt_path(tile.tile_path, what + " path", refused);
        corrupt_path(tile.root_path, what + " root path", refused);
        tile.root = changed(tile.root);
        refused(what + " root");
        tile.root = good.tiles[i].root;
        for (const std::uint64_t other :
             std::array<std::uint64_t, 3>{tile.tile + 1, tile.tile ^ 1, ~std::uint64_t{0}}) {
            tile.tile = other;
            refused(what + " number");
        }
        tile.tile = good.tiles[i].tile;
        // Where both operands are one node's, the tile is the other's as well, and what is read is missing.
        tile.operand ^= 1;
        refused_by(what + " operand", {"dispute.bad_witness", "leaf.missing_tile"});
        tile.operand = vm::tensor::kMaxInputs;
        refused(what + " operand beyond");
        witness = good;
        witness.tiles.erase(witness.tiles.begin() + static_cast<std::ptrdiff_t>(i));
        refused_by(what + " left out", {"leaf.missing_tile"});
        witness = good;
        ++count.of_tiles;
    }
    return count;
}

TEST(LeafWitness, has_a_node_of_each_op) {
    std::set<std::string> wanted;
    for (const auto& op : vm::tensor::kOps)
        if (op.kind != OpKind::input && op.kind != OpKind::elementwise) wanted.emplace(op.name);
    for (const auto& op : vm::tensor::arith::kElementOps) wanted.emplace(op.name);
    std::set<std::string> found;
    for (const auto& [kind, node] : nodes_by_kind()) found.insert(kind);
    EXPECT_EQ(found, wanted);
}

TEST(LeafWitness, of_each_op_is_refused_when_any_part_is_corrupted) {
    Refusals all;
    for (const auto& [kind, number] : nodes_by_kind()) {
        SCOPED_TRACE(kind + ", node " + std::to_string(number));
        const Alter lie = flip(2, number, 7, 1U << 22);
        const History history = altered_history(world(), lie, 2);
        DisputeStrategy liar = dishonest_player(world(), history, lie);
        DisputeStrategy honest = honest_player(world());
        Game game = history_game(world(), history.root(), world().root());
        for (int i = 0; i < 60 && game.phase < Phase::leaf; ++i)
            for (const Side side : {Side::defender, Side::rival}) {
                if (game.phase >= Phase::leaf) break;
                const Phase phase = game.phase;
                const auto move = (side == Side::defender ? liar : honest).next_move(game, side, waiting_post(game));
                ASSERT_TRUE(move) << move.error().to_string();
                const auto* const post = std::get_if<SplitMove>(&*move);
                if (phase == Phase::tile && post != nullptr && !post->program.empty()) corrupt_openings(game, *post);
                ASSERT_TRUE(apply(game, side, *move, 1000));
            }
        ASSERT_EQ(game.phase, Phase::leaf);
        ASSERT_EQ(game.node, number);
        const auto good = honest.leaf_witness(game);
        ASSERT_TRUE(good) << good.error().to_string();
        const auto types = vm::tensor::test::operand_types(world().program, world().program.nodes[number]);
        EXPECT_EQ(good->accumulators.empty(), vm::tensor::micro_step_count(world().program.nodes[number], types) == 1);
        const Refusals count = corrupt_witness(game, *good);
        all.of_tiles += count.of_tiles;
        all.of_accumulators += count.of_accumulators;
        ASSERT_TRUE(apply_leaf(game, Side::rival, *good, 1000));
        EXPECT_EQ(game.verdict, Verdict::rival_wins);
        EXPECT_EQ(game.true_value, game.values[1]);
        if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_GT(all.of_tiles, 60U);
    EXPECT_GT(all.of_accumulators, 8U);
}

}  // namespace
}  // namespace quern::compute::core::test
