// When things are due: heights at which a task's states end, a draw's beacon comes and a clock runs out. Used by
// execution, invariants and workers. Pure functions; thread-safe.
#pragma once

#include "chain/params/params.h"
#include "chain/types/native_objects.h"

namespace quern::chain::market {

// The height whose beacon decides a draw that is anchored at `height`: nobody who could still act knew it.
[[nodiscard]] constexpr std::uint64_t draw_height(std::uint64_t anchor) { return anchor + params::kBeaconDelay; }
// The height whose beacon stands for that of `height` when a draw at `now` (at least `height`) asks: older ones than
// the window are gone, and a draw that was left so long uses the newest height that is a multiple of the window later,
// so that nobody gains a choice by waiting a block.
[[nodiscard]] constexpr std::uint64_t beacon_height(std::uint64_t height, std::uint64_t now) {
    return height + (now - height) / params::kBeaconWindow * params::kBeaconWindow;
}

// Height at which bidding ends: bids are taken below it.
[[nodiscard]] inline std::uint64_t bids_until(const types::Task& task) { return task.since + task.spec.bid_blocks; }
// From when a commitment of `height` could have been revealed: its place may be taken, its owner pays for the silence.
[[nodiscard]] inline std::uint64_t reveal_expected(const params::MarketParams& market, std::uint64_t height) {
    return height + market.min_deadline_blocks;
}
// Each side's clock in a dispute about the task, blocks. Beside the moves themselves it covers the replay of one
// segment, for which the task gives a solver its heartbeat_blocks: who has to compute a state again must not lose by
// the clock.
[[nodiscard]] inline std::uint64_t dispute_clock(const params::MarketParams& market, const types::Task& task) {
    return market.dispute_clock_blocks + task.spec.heartbeat_blocks;
}
// No deadline is later than this, seen from `height`: a state lasts two windows of the task at most; a game two clocks,
// each with a window in it.
[[nodiscard]] inline std::uint64_t latest_deadline(const params::MarketParams& market, std::uint64_t height) {
    return draw_height(height) + 2 * market.max_deadline_blocks + 2 * market.dispute_clock_blocks +
           market.min_deadline_blocks;
}

}  // namespace quern::chain::market
