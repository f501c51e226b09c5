#include "chain/ethereum/difficulty.h"

#include <algorithm>

namespace quern::chain::ethereum {
namespace {

constexpr std::uint64_t kMinDifficulty = 131'072;
constexpr std::uint64_t kBoundDivisor = 2'048;
constexpr std::int64_t kLowestStep = -99;
constexpr std::uint64_t kBombPeriod = 100'000;  // blocks

// By how many 2048ths of itself it changes.
std::int64_t steps(Revision revision, const Header& parent, std::uint64_t timestamp) {
    const std::uint64_t seconds = timestamp - parent.timestamp;
    if (revision < Revision::homestead) return seconds < 13 ? 1 : -1;
    const std::uint64_t unit = revision < Revision::byzantium ? 10 : 9;
    const auto late = static_cast<std::int64_t>(std::min<std::uint64_t>(seconds / unit, 200));
    const bool has_ommers = revision >= Revision::byzantium && parent.ommers_hash != types::kEmptyOmmersHash;
    return std::max((has_ommers ? 2 : 1) - late, kLowestStep);
}

}  // namespace

Uint256 next_difficulty(const Fork& fork, const Header& parent, std::uint64_t timestamp) {
    const std::int64_t change = steps(fork.revision, parent, timestamp);
    const Uint256 step = parent.difficulty / Uint256(kBoundDivisor);
    const Uint256 all = step * Uint256(static_cast<std::uint64_t>(change < 0 ? -change : change));
    Uint256 difficulty = change < 0 ? parent.difficulty - all : parent.difficulty + all;
    difficulty = std::max(difficulty, Uint256(kMinDifficulty));
    const std::uint64_t number = parent.number + 1;
    const std::uint64_t period = (number > fork.bomb_delay ? number - fork.bomb_delay : 0) / kBombPeriod;
    if (period >= 2) difficulty += Uint256(1) << static_cast<unsigned>(std::min<std::uint64_t>(period - 2, 256));
    return difficulty;
}

}  // namespace quern::chain::ethereum
