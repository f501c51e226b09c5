// Whose turn it is, and the chess clocks of a game.
#include <algorithm>
#include <limits>

#include "compute/core/dispute_game.h"

namespace quern::compute::core {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

Side next_side(const Game& game) { return game.phase == Phase::leaf || has_post(game) ? Side::rival : Side::defender; }

// Milliseconds until a clock decides the game; kNever while both stand still.
std::uint64_t time_left(const Game& game) {
    const Side side = next_side(game);
    return owes_move(game, side) ? game.budget[static_cast<std::size_t>(side)] : kNever;
}

}  // namespace

void begin_game(Game& game, std::array<std::uint64_t, 2> clocks, std::uint64_t now) {
    game.budget.assign(clocks.begin(), clocks.end());
    game.charged_to = now;
}

bool is_next(const Game& game, Side side) { return game.phase < Phase::decided && next_side(game) == side; }

bool owes_move(const Game& game, Side side) {
    return has_begun(game) && game.budget.size() == 2 && is_next(game, side);
}

bool may_move(const Game& game, Side side) {
    const bool may_be_proven =
        game.phase == Phase::leaf || (game.phase == Phase::tile && at_top(game.cursor) && !has_post(game));
    return may_be_proven || is_next(game, side);
}

void charge_clocks(Game& game, std::uint64_t now) {
    if (game.phase >= Phase::decided || now <= game.charged_to) return;
    const Side side = next_side(game);
    const std::uint64_t left = time_left(game);
    const std::uint64_t elapsed = std::min(now - game.charged_to, left);
    game.charged_to += elapsed;
    if (left == kNever) return;
    game.budget[static_cast<std::size_t>(side)] -= elapsed;
    if (elapsed < left) return;
    game.verdict = side == Side::rival ? Verdict::defender_wins : Verdict::rival_wins;
    game.phase = Phase::decided;
    game.reason = "clock";
    game.post = {};
}

std::uint64_t next_deadline(const Game& game) {
    const std::uint64_t left = time_left(game);
    if (left == kNever) return 0;
    return left > kNever - game.charged_to ? kNever : game.charged_to + left;
}

}  // namespace quern::compute::core
