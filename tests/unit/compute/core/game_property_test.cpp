// Random games with random lies at every level: in the execution, and on top of it in the trees that nobody has
// committed to. The honest side wins each, in a bounded number of moves, and what the state keeps stays small at all
// times.
#include <gtest/gtest.h>

#include "unit/compute/core/game_world.h"

namespace quern::compute::core::test {
namespace {

constexpr std::uint64_t kMostMoves = 40;
constexpr std::uint64_t kStride = 3;

const World& world(std::uint32_t number) {
    static const World worlds[] = {make_world(every_kind_program(), 3),
                                   make_world(every_kind_program(), 2 * kStride, 1, kStride),
                                   make_world(vm::tensor::test::training_program(4, 5, 7), 4 * kStride, 1, kStride)};
    return worlds[number];
}
constexpr std::uint32_t kWorlds = 3;

// Plays its altered execution, and lies about leaves of open trees too: about any but the anchored one, in whose place
// it has to show what it has claimed. It knows nothing below such a leaf: it is caught there, or by its clock.
class TreeLiar {
public:
    TreeLiar(const World& world, DisputeStrategy& strategy, Random& random)
        : world_(world), strategy_(strategy), random_(random) {}

    Expected<Move> operator()(const Game& game, Side side) {
        const SplitMove* const post = waiting_post(game);
        auto move = strategy_.next_move(game, side, post);
        // Where its own execution can stand for nothing it keeps still: conceding would end the game too soon.
        if (!move || std::holds_alternative<Concede>(*move)) return Move{NoMove{}};
        auto* split = std::get_if<SplitMove>(&*move);
        if (split == nullptr || game.cursor.sealed || !at_top(game.cursor) || random_.below(2) == 0) return move;
        const PostRange range = post_range(game.cursor);
        if (range.level != 0) return move;  // sub-roots of the leaves: nothing below them could be shown
        std::vector<Hash32> leaves = side == Side::defender ? split->nodes : own_leaves(*split, *post);
        if (leaves.empty()) return move;
        const auto at = random_.below(static_cast<std::uint32_t>(leaves.size()));
        leaves[at].data[random_.below(32)] ^= 1;
        SplitMove lie = *split;
        if (!split->anchor_path.empty()) {
            const std::uint64_t anchor = game.phase != Phase::trace ? leaves.size() - 1
                                         : at_probe(game)           ? game.probe_node
                                                                    : world_.program.updates[game.slot];
            if (at == anchor) return move;
            lie.anchor_path = crypto::merkle_path(leaves, anchor);
        }
        if (side == Side::defender) {
            lie.nodes = leaves;
        } else {
            const auto pick = first_difference(post->nodes, leaves);
            if (!pick) return move;
            lie.pick = *pick;
        }
        Game tried = game;
        if (!apply(tried, side, lie, game.charged_to)) return move;
        ++lies;
        return Move{std::move(lie)};
    }

    int lies = 0;

private:
    // What the rival's pick shows of its leaves; the others are the defender's, which it may claim as well.
    static std::vector<Hash32> own_leaves(const SplitMove& split, const SplitMove& post) {
        std::vector<Hash32> leaves = post.nodes;
        if (split.pick.nodes.size() != 2 || split.pick.position >= leaves.size()) return {};
        leaves[split.pick.position] = split.pick.nodes[1];
        return leaves;
    }
    const World& world_;
    DisputeStrategy& strategy_;
    Random& random_;
};

TEST(GameProperty, AnHonestSideBeatsRandomLiesInFewMovesAndLittleState) {
    Random random(4711);
    int games = 0;
    int lies = 0;
    std::uint64_t most_moves = 0;
    std::size_t largest = 0;
    for (int round = 0; round < 100; ++round) {
        const World& task = world(random.below(kWorlds));
        const bool defends = random.below(2) == 0;
        const std::uint64_t step = 1 + random.below(static_cast<std::uint32_t>(task.steps()));
        const auto node = random.below(static_cast<std::uint32_t>(task.program.nodes.size()));
        const Alter alter = flip(step, node, random.next(), 1U << random.below(23));
        History history = altered_history(task, alter, step);
        DisputeStrategy honest = honest_player(task);
        Game game;
        if (random.below(3) == 0) {  // about a probe, from the true history with lies inside its stride
            const std::uint64_t last =
                std::min(task.steps(), (step - 1) / task.context.stride * task.context.stride + task.context.stride);
            const std::uint64_t probed = step + random.below(static_cast<std::uint32_t>(last - step + 1));
            vm::tensor::Executor executor(task.program, vm::tensor::arith::best_backend(), nullptr);
            const auto at = [&](const State& before, bool altered) {
                return executor.run_altered(before, task.data, task.seed, [&](std::uint32_t number, Tensor& output) {
                    if (altered) alter(probed, number, output);
                });
            };
            const auto truth = vm::tensor::tile_hashes(at(task.states[probed - 1], false)[node]);
            const auto lie = vm::tensor::tile_hashes(at(history.states[probed - 1], true)[node]);
            std::size_t tile = 0;
            while (tile < truth.size() && truth[tile] == lie[tile]) ++tile;
            if (tile == truth.size()) continue;
            game = *open_probe_game(task.context, task.root(), probed, node, tile, defends ? lie[tile] : truth[tile],
                                    defends ? truth[tile] : lie[tile], kBudget, 1000);
            // Of the accepted history, but for the states inside the probed stride.
            std::vector<Hash32> roots = task.roots;
            for (std::uint64_t inside = step; inside < probed; ++inside) roots[inside] = history.roots[inside];
            history.roots = std::move(roots);
        } else {
            if (history.root() == task.root()) continue;
            game = history_game(task, defends ? history.root() : task.root(), defends ? task.root() : history.root());
        }
        DisputeStrategy dishonest = dishonest_player(task, history, alter);
        TreeLiar liar(task, dishonest, random);
        const Player lying = [&](const Game& now, Side side) { return liar(now, side); };
        const Transcript played = play(game, defends ? lying : player(honest), defends ? player(honest) : lying);
        ASSERT_EQ(game.verdict, defends ? Verdict::rival_wins : Verdict::defender_wins)
            << "round " << round << " by " << game.reason << ": "
            << (played.refused.empty() ? std::string() : played.refused.front());
        if (liar.lies == 0) {
            EXPECT_TRUE(played.refused.empty()) << played.refused.front();
        }
        EXPECT_LE(played.rounds, kMostMoves);
        EXPECT_LE(played.largest_game, kGameBytes);
        ++games;
        lies += liar.lies;
        most_moves = std::max(most_moves, played.rounds);
        largest = std::max(largest, played.largest_game);
    }
    std::printf("%d games, %d lies in trees: at most %llu moves, %zu bytes of state\n", games, lies,
                static_cast<unsigned long long>(most_moves), largest);
    EXPECT_GT(games, 40);
    EXPECT_GT(lies, 10);
}

}  // namespace
}  // namespace quern::compute::core::test
