// The timers of a view (rule 4 and rule 10). The proposal timer is 2 delta and the advance timer 3 delta, times 1.5 for
// each view by which the current one is further from the last finalized view than in the good case, decaying by one
// step per finalized view; what a master may wait before it proposes comes on top. A node that was away comes into
// views without those before them, and knows of the last finalized one later: then it takes back what it has grown by
// for want of knowing, else a quorum that needs its vote would wait for timers of hours. Pure; belongs to the core.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace quern::chain::consensus::sdbft {

inline constexpr std::uint64_t kMaxTimerMs = 10 * 60 * 1000;

// base * 1.5^steps, at most kMaxTimerMs (but never below base).
[[nodiscard]] constexpr std::uint64_t backed_off(std::uint64_t base, std::uint64_t steps) {
    std::uint64_t value = base;
    for (std::uint64_t i = 0; i < steps && value < kMaxTimerMs; ++i) value += (value + 1) / 2;
    return std::max(base, std::min(value, kMaxTimerMs));
}

class Pacemaker {
public:
    Pacemaker(std::uint64_t delta_ms, std::uint64_t allowance_ms) : delta_(delta_ms), allowance_(allowance_ms) {}

    // In the good case view v is entered when v - 2 is final and v - 1 about to be.
    void enter(std::uint64_t view, std::uint64_t last_finalized, std::uint64_t now) {
        if (view > view_ + 1 && !steps_before_) steps_before_ = steps_;
        view_ = view;
        entered_at_ = now;
        steps_ = std::max(steps_, too_far(last_finalized));
        set_timers();
        repeat_at_ = advance_at_;
    }
    void finalized_view(std::uint64_t view) {
        if (const auto before = std::exchange(steps_before_, std::nullopt)) {
            steps_ = std::min(steps_, std::max(*before, too_far(view)));
            set_timers();
            repeat_at_ = std::min(repeat_at_, advance_at_);
        }
        steps_ -= steps_ > 0 ? 1 : 0;
    }
    void new_epoch() {
        steps_ = 0;
        view_ = 0;
        steps_before_.reset();
    }
    // The next rebroadcast while the view lasts.
    void repeated(std::uint64_t now) { repeat_at_ = now + backed_off(3 * delta_, std::min(steps_, kRepeatSteps)); }
    // After which another honest node that can hear this one is in its view: the longest pause between two rebroadcasts
    // of what opened the view, and a message's delay.
    [[nodiscard]] std::uint64_t entry_spread() const { return backed_off(3 * delta_, kRepeatSteps) + delta_; }

    [[nodiscard]] std::uint64_t proposal_at() const { return proposal_at_; }
    [[nodiscard]] std::uint64_t advance_at() const { return advance_at_; }
    [[nodiscard]] std::uint64_t repeat_at() const { return repeat_at_; }
    [[nodiscard]] std::uint64_t steps() const { return steps_; }

private:
    static constexpr std::uint64_t kRepeatSteps = 4;
    [[nodiscard]] std::uint64_t too_far(std::uint64_t last_finalized) const {
        const std::uint64_t distance = view_ - std::min(view_, last_finalized);
        return distance > 2 ? distance - 2 : 0;
    }
    void set_timers() {
        proposal_at_ = entered_at_ + allowance_ + backed_off(2 * delta_, steps_);
        advance_at_ = entered_at_ + allowance_ + backed_off(3 * delta_, steps_);
    }
    std::uint64_t delta_;
    std::uint64_t allowance_;
    std::uint64_t view_ = 0;
    std::uint64_t entered_at_ = 0;
    std::uint64_t steps_ = 0;
    std::optional<std::uint64_t> steps_before_;  // it jumped into a view, and nothing is final since
    std::uint64_t proposal_at_ = 0;
    std::uint64_t advance_at_ = 0;
    std::uint64_t repeat_at_ = 0;
};

}  // namespace quern::chain::consensus::sdbft
