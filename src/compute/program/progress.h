// How a training stands, for people and scripts: steps, a bar, the curve of the loss, the time that is left. Used by
// quern-train and quern-compile. Plain values; numbers here are shown and decide nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace quern::compute::program {

// What a program tells while it works. `data` is an object without "event"; `text` is for people and may be empty.
struct Event {
    std::string_view name;
    json::Value data;
    std::string text;
    bool passing = false;  // a line that the next one may overwrite: progress
};

inline constexpr std::size_t kCurveWidth = 24;
inline constexpr std::size_t kBarWidth = 20;
inline constexpr std::size_t kPlotWidth = 60;
inline constexpr std::size_t kPlotHeight = 8;

// The values as a row of blocks, at most kCurveWidth: the newest is last, the least lowest. Those that are not finite
// are blank. Empty of fewer than two values.
[[nodiscard]] std::string curve_of(std::span<const float> values);
// "1:05", "2:00:09".
[[nodiscard]] std::string clock_text(std::uint64_t seconds);
// kBarWidth blocks, of which as many are full as whole ones of them are done.
[[nodiscard]] std::string bar_of(std::uint64_t done, std::uint64_t all);
// The values over steps `first` to `last` as kPlotHeight lines of blocks and two below, each ending with '\n'. A column
// is the mean of the finite values that fall into it, of which the least and the largest stand at the left; blank where
// there are none. Empty of fewer than two values, and where none is finite.
[[nodiscard]] std::string plot_of(std::span<const float> values, std::uint64_t first, std::uint64_t last);

// Steps of a training as they come. However many there are it keeps some thousand losses, evenly spaced.
class Progress {
public:
    explicit Progress(std::uint64_t steps) : steps_(steps) {}
    // Steps that are done, at this time; `loss`: bits of the loss at that step, where it is known. Fewer than before
    // begins anew.
    void take(std::uint64_t step, std::optional<std::uint32_t> loss, std::uint64_t now_ms);
    // A loss from before the first step that is taken.
    void recall(std::uint32_t loss);
    [[nodiscard]] std::uint64_t step() const { return step_; }
    // Seconds until the last step, by the pace since the first that was seen.
    [[nodiscard]] std::optional<std::uint64_t> seconds_left() const;
    // Members step, steps, loss and etaS; the last two null where they are not known, or the loss is no number.
    [[nodiscard]] json::Value describe() const;
    [[nodiscard]] std::string line() const;
    // Of the steps that were seen.
    [[nodiscard]] std::string plot() const;

private:
    [[nodiscard]] std::vector<float> losses() const;  // that are kept, and the newest

    std::uint64_t steps_;
    std::uint64_t step_ = 0;
    std::optional<std::uint64_t> first_step_;
    std::uint64_t first_ms_ = 0;
    std::uint64_t newest_ms_ = 0;
    std::vector<float> kept_;       // each so-and-so-many-th of all
    std::uint64_t apart_ = 1;       // so many
    std::uint64_t since_kept_ = 0;  // losses since the last that is kept
    std::optional<float> newest_;
};

}  // namespace quern::compute::program
