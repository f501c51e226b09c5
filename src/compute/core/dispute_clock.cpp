// The chess clocks of a game.
#include <algorithm>
#include <limits>

#include "compute/core/dispute_game.h"

namespace quern::compute::core {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

// Milliseconds until the side's clock decides the game; kNever while it stands still.
std::uint64_t time_left(const Game& game, Side side) {
    return owes_move(game, side) ? game.budget[static_cast<std::size_t>(side)] : kNever;
}

}  // namespace

bool owes_move(const Game& game, Side side) {
    const auto index = static_cast<std::size_t>(side);
    if (game.phase >= Phase::decided || game.posts.size() != 2 || game.budget.size() != 2) return false;
    if (!has_begun(game)) return false;
    return game.phase == Phase::leaf ? side == Side::rival : !game.posts[index].present;
}

void charge_clocks(Game& game, std::uint64_t now) {
    if (game.phase >= Phase::decided || now <= game.charged_to) return;
    const std::uint64_t defender = time_left(game, Side::defender);
    const std::uint64_t rival = time_left(game, Side::rival);
    const std::uint64_t first = std::min(defender, rival);
    const std::uint64_t elapsed = std::min(now - game.charged_to, first);
    if (defender != kNever) game.budget[0] -= elapsed;
    if (rival != kNever) game.budget[1] -= elapsed;
    if (elapsed < first) {
        game.charged_to = now;
        return;
    }
    game.charged_to += elapsed;
    game.verdict = rival == first ? Verdict::defender_wins : Verdict::rival_wins;
    game.phase = Phase::decided;
    game.reason = "clock";
    game.posts.assign(2, {});
}

std::uint64_t next_deadline(const Game& game) {
    const std::uint64_t first = std::min(time_left(game, Side::defender), time_left(game, Side::rival));
    if (first == kNever) return 0;
    return first > kNever - game.charged_to ? kNever : game.charged_to + first;
}

}  // namespace quern::compute::core
