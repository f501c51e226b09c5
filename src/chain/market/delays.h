// When things are due: market times at which a task's states end and a clock runs out, heights at which a draw's beacon
// comes. Market time (Globals::market_ms) counts the milliseconds between blocks, of each at most five times the pause
// of an idle chain, so that nobody loses by a chain that stood still (doc/market.md). Used by execution, invariants and
// workers. Pure functions; thread-safe.
#pragma once

#include <algorithm>
#include <optional>

#include "chain/market/work.h"
#include "chain/params/params.h"

namespace quern::chain::market {

// What a block whose timestamp is `elapsed_ms` above its parent's adds to market time: something, since timestamps
// grow strictly.
[[nodiscard]] constexpr std::uint64_t market_step(std::uint64_t max_idle_ms, std::uint64_t elapsed_ms) {
    return std::min(elapsed_ms, params::kMaxBlockIdles * max_idle_ms);
}
// Windows are limited to 2^40 seconds at most, so nothing here overflows.
[[nodiscard]] constexpr std::uint64_t in_ms(std::uint64_t seconds) { return seconds * 1000; }

// The height whose beacon decides a draw that is anchored at `height`: nobody who could still act knew it.
[[nodiscard]] constexpr std::uint64_t draw_height(std::uint64_t anchor) { return anchor + params::kBeaconDelay; }
// The earliest market time of that block when the anchor's is `market_ms`: each block adds a millisecond at least. A
// draw is due when both the height and this are reached.
[[nodiscard]] constexpr std::uint64_t draw_due(std::uint64_t market_ms) { return market_ms + params::kBeaconDelay; }
// The height whose beacon stands for that of `height` when a draw at `now` (at least `height`) asks: older ones than
// the window are gone, and a draw that was left so long uses the newest height that is a multiple of the window later,
// so that nobody gains a choice by waiting a block.
[[nodiscard]] constexpr std::uint64_t beacon_height(std::uint64_t height, std::uint64_t now) {
    return height + (now - height) / params::kBeaconWindow * params::kBeaconWindow;
}
// The anchor of the draw that is made at `now`: with an old one its table and what was declared go the way of its
// beacon.
[[nodiscard]] constexpr std::uint64_t anchor_of(std::uint64_t anchor, std::uint64_t now) {
    return beacon_height(draw_height(anchor), now) - params::kBeaconDelay;
}
// Whether the state ends with a draw whose anchor is set: of the profilers, of the solver, of the verifiers.
[[nodiscard]] inline bool awaits_draw(const types::Task& task) {
    return (task.state == types::TaskState::open || task.state == types::TaskState::profiling) && task.draw_at != 0;
}
[[nodiscard]] inline bool awaits_draw(const types::Claim& claim) {
    return claim.state == types::ClaimState::proved && claim.draw_at != 0;
}
// Whether reports wait for the beacon that forces errors in them ("Forced errors"), anchored at reveal_at.
[[nodiscard]] inline bool awaits_forced_beacon(const types::Claim& claim) {
    return claim.state == types::ClaimState::revealing && claim.reveal_at != 0 && claim.forced_beacon.is_zero();
}
// The anchor of what the next tick draws; nullopt: it draws nothing.
[[nodiscard]] inline std::optional<std::uint64_t> draw_anchor(const types::Task& task) {
    return awaits_draw(task) ? std::optional(task.draw_at) : std::nullopt;
}
[[nodiscard]] inline std::optional<std::uint64_t> draw_anchor(const types::Claim& claim) {
    if (awaits_forced_beacon(claim)) return claim.reveal_at;
    return awaits_draw(claim) ? std::optional(claim.draw_at) : std::nullopt;
}
// Of a claim with its Custody, if it has one: the second draw of custodians comes while it is in custody. Whether it
// waits for that one, and for which draw.
[[nodiscard]] inline bool awaits_custodians(const types::Claim& claim, const std::optional<types::Custody>& custody) {
    return claim.state == types::ClaimState::custody && custody && custody->draw_at != 0;
}
[[nodiscard]] inline std::optional<std::uint64_t> draw_anchor(const types::Claim& claim,
                                                              const std::optional<types::Custody>& custody) {
    return awaits_custodians(claim, custody) ? std::optional(custody->draw_at) : draw_anchor(claim);
}

// When bidding ends: bids are taken before that.
[[nodiscard]] inline std::uint64_t bids_until(const types::Task& task) {
    return task.since + in_ms(task.spec.windows.bid_s);
}
// Of a task that has ended: it is not deleted before, and nothing can be asked about its last state from then on.
[[nodiscard]] inline std::uint64_t retention_end(const params::MarketParams& market, const types::Task& task) {
    return task.since + in_ms(market.retention_s);
}
// From when a commitment of `since` could have been revealed: its place may be taken, its owner pays for the silence.
[[nodiscard]] inline std::uint64_t reveal_expected(const params::MarketParams& market, std::uint64_t since) {
    return since + in_ms(market.min_window_s);
}
// Seconds of a side's clock in a dispute beside the moves themselves: the task gives a solver heartbeat_s for a
// segment, and who has to compute states again must not lose by the clock, nor who answers for two claims at once.
[[nodiscard]] inline std::uint64_t dispute_replay_s(const types::TaskSubmitPayload& spec, const PlannedWork& plan) {
    return spec.windows.heartbeat_s * dispute_segments(plan) * claims_at_once(stretch_count(plan.steps, plan.tranche));
}
// A side's clock in a dispute about the task when it plays no other, milliseconds.
[[nodiscard]] inline std::uint64_t dispute_clock(const params::MarketParams& market, const types::Task& task) {
    return in_ms(market.dispute_clock_s + dispute_replay_s(task.spec, work_of(task).plan));
}
// A side's clock in a game that begins while its party plays `others` in the same role: as much for each of them, so
// that whoever plays one after the other has the time.
[[nodiscard]] inline std::uint64_t dispute_clock(const params::MarketParams& market, const types::Task& task,
                                                 std::uint64_t others) {
    return dispute_clock(market, task) * std::min(others + 1, params::kMaxGamesCounted);
}
// No deadline is later than this, seen from `market_ms`: a state lasts two windows of the task at most, which is less
// than the longest clock of a side, with a window in each part of it.
[[nodiscard]] inline std::uint64_t latest_deadline(const params::MarketParams& market, std::uint64_t market_ms) {
    static_assert(params::kMaxGamesCounted >= 2);
    return draw_due(market_ms) +
           in_ms(params::kMaxGamesCounted * (market.dispute_clock_s + market.max_window_s) + market.min_window_s);
}

}  // namespace quern::chain::market
