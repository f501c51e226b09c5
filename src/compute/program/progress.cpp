#include "compute/program/progress.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <iterator>

namespace quern::compute::program {
namespace {

constexpr std::string_view kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::string_view kEmpty = "░";
constexpr std::size_t kKeptLosses = 4096;
constexpr std::uint64_t kMinute = 60;
constexpr std::uint64_t kHour = 3'600;

std::string two_digits(std::uint64_t number) {
    std::string text = std::to_string(number);
    if (text.size() < 2) text.insert(text.begin(), '0');
    return text;
}

std::string loss_text(float loss) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", static_cast<double>(loss));
    return text;
}

struct Range {
    float least = INFINITY;
    float most = -INFINITY;

    // In [0, 1]; of values that are all the same 0.
    [[nodiscard]] float height_of(float value) const { return most > least ? (value - least) / (most - least) : 0.0F; }
};
// Of those that are finite.
Range range_of(std::span<const float> values) {
    Range range;
    for (const float value : values)
        if (std::isfinite(value)) range.least = std::min(range.least, value), range.most = std::max(range.most, value);
    return range;
}

// Of each of `width` parts in a row the mean of what is finite, NaN where nothing is.
std::vector<float> means_of(std::span<const float> values, std::size_t width) {
    std::vector<float> means;
    for (std::size_t i = 0; i < width; ++i) {
        double sum = 0;
        std::size_t count = 0;
        for (std::size_t at = values.size() * i / width; at < values.size() * (i + 1) / width; ++at)
            if (std::isfinite(values[at])) sum += static_cast<double>(values[at]), ++count;
        means.push_back(count == 0 ? NAN : static_cast<float>(sum / static_cast<double>(count)));
    }
    return means;
}

}  // namespace

std::string curve_of(std::span<const float> values) {
    if (values.size() < 2) return {};
    const std::size_t width = std::min(values.size(), kCurveWidth);
    std::vector<float> shown;
    for (std::size_t i = 1; i <= width; ++i) shown.push_back(values[values.size() * i / width - 1]);
    const Range range = range_of(shown);
    std::string curve;
    for (const float value : shown) {
        if (!std::isfinite(value)) {
            curve += ' ';
            continue;
        }
        const auto block =
            static_cast<std::size_t>(range.height_of(value) * static_cast<float>(std::size(kBlocks) - 1) + 0.5F);
        curve += kBlocks[std::min(block, std::size(kBlocks) - 1)];
    }
    return curve;
}

std::string clock_text(std::uint64_t seconds) {
    const std::string rest = two_digits(seconds % kMinute);
    if (seconds < kHour) return std::to_string(seconds / kMinute) + ":" + rest;
    return std::to_string(seconds / kHour) + ":" + two_digits(seconds % kHour / kMinute) + ":" + rest;
}

std::string bar_of(std::uint64_t done, std::uint64_t all) {
    const double share = all == 0 ? 1.0 : static_cast<double>(std::min(done, all)) / static_cast<double>(all);
    const auto full = static_cast<std::size_t>(share * static_cast<double>(kBarWidth));
    std::string bar;
    for (std::size_t i = 0; i < kBarWidth; ++i) bar += i < full ? kBlocks[std::size(kBlocks) - 1] : kEmpty;
    return bar;
}

std::string plot_of(std::span<const float> values, std::uint64_t first, std::uint64_t last) {
    if (values.size() < 2) return {};
    const std::vector<float> columns = means_of(values, std::min(values.size(), kPlotWidth));
    const Range range = range_of(columns);
    if (range.least > range.most) return {};
    constexpr std::size_t kParts = std::size(kBlocks);  // of a block
    const std::string top = loss_text(range.most);
    const std::string bottom = loss_text(range.least);
    const std::size_t margin = std::max(top.size(), bottom.size());
    std::string plot;
    for (std::size_t line = kPlotHeight; line-- > 0;) {
        const std::string label = line == kPlotHeight - 1 ? top : line == 0 ? bottom : "";
        plot += std::string(margin - label.size(), ' ') + label + " │";
        for (const float value : columns) {
            if (!std::isfinite(value)) {
                plot += ' ';
                continue;
            }
            // The least is one part high: what is blank is not known.
            const auto parts = 1 + static_cast<std::size_t>(
                                       range.height_of(value) * static_cast<float>(kPlotHeight * kParts - 1) + 0.5F);
            if (parts <= line * kParts)
                plot += ' ';
            else
                plot += kBlocks[std::min(parts - line * kParts, kParts) - 1];
        }
        plot += '\n';
    }
    const std::string from = std::to_string(first);
    const std::string to = std::to_string(last);
    const std::size_t room = columns.size() > from.size() + to.size() ? columns.size() - from.size() - to.size() : 1;
    plot += std::string(margin, ' ') + " └";
    for (std::size_t i = 0; i < columns.size(); ++i) plot += "─";
    plot += '\n' + std::string(margin + 2, ' ') + from + std::string(room, ' ') + to + '\n';
    return plot;
}

void Progress::take(std::uint64_t step, std::optional<std::uint32_t> loss, std::uint64_t now_ms) {
    if (step < step_) kept_.clear(), newest_.reset(), apart_ = 1, since_kept_ = 0, first_step_.reset();
    if (!first_step_) first_step_ = step, first_ms_ = now_ms;
    const bool later = step > step_ || !newest_;
    if (step != step_) newest_ms_ = now_ms;
    step_ = step;
    if (loss && later) recall(*loss);
}

void Progress::recall(std::uint32_t loss) {
    newest_ = std::bit_cast<float>(loss);
    since_kept_ = kept_.empty() ? apart_ : since_kept_ + 1;
    if (since_kept_ < apart_) return;
    since_kept_ = 0;
    if (kept_.size() == kKeptLosses) {
        for (std::size_t i = 0; 2 * i < kept_.size(); ++i) kept_[i] = kept_[2 * i];
        kept_.resize(kKeptLosses / 2);
        apart_ *= 2;
    }
    kept_.push_back(*newest_);
}

std::vector<float> Progress::losses() const {
    std::vector<float> all = kept_;
    if (since_kept_ != 0) all.push_back(*newest_);
    return all;
}

std::optional<std::uint64_t> Progress::seconds_left() const {
    if (!first_step_ || step_ <= *first_step_ || newest_ms_ <= first_ms_ || step_ >= steps_) return std::nullopt;
    const double each_ms = static_cast<double>(newest_ms_ - first_ms_) / static_cast<double>(step_ - *first_step_);
    return static_cast<std::uint64_t>(each_ms * static_cast<double>(steps_ - step_) / 1000.0);
}

json::Value Progress::describe() const {
    const auto left = seconds_left();
    return json::Value::object({{"step", step_},
                                {"steps", steps_},
                                {"loss", newest_ ? json::Value(static_cast<double>(*newest_)) : json::Value()},
                                {"etaS", left ? json::Value(*left) : json::Value()}});
}

std::string Progress::line() const {
    std::string text = bar_of(step_, steps_) + " step " + std::to_string(step_) + " of " + std::to_string(steps_);
    if (newest_) text += "  loss " + loss_text(*newest_);
    if (const std::string curve = curve_of(losses()); !curve.empty()) text += "  " + curve;
    if (const auto left = seconds_left()) text += "  eta " + clock_text(*left);
    return text;
}

std::string Progress::plot() const { return first_step_ ? plot_of(losses(), *first_step_, step_) : std::string(); }

}  // namespace quern::compute::program
