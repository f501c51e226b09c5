// What is shown of a training: bar, curve and plot, the time left.
#include "compute/program/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>

namespace quern::compute::program {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = text.find('\n', at);
        EXPECT_NE(end, std::string::npos) << "each line ends";
        lines.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return lines;
}
std::size_t count_of(const std::string& text, const std::string& what) {
    std::size_t count = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++count;
    return count;
}

TEST(CurveTest, falls_from_high_to_low) {
    const float values[] = {4, 3, 2, 1};
    EXPECT_EQ(curve_of(values), "█▆▃▁");
    EXPECT_EQ(curve_of(std::span(values).first(1)), "");
    const float flat[] = {2, 2};
    EXPECT_EQ(curve_of(flat), "▁▁");
    const float broken[] = {1, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 2};
    EXPECT_EQ(curve_of(broken), "▁  █");
}

TEST(CurveTest, is_no_wider_than_its_width_and_ends_with_the_newest) {
    std::vector<float> values(1'000, 1.0F);
    values.back() = 2.0F;
    std::string wanted;
    for (std::size_t i = 1; i < kCurveWidth; ++i) wanted += "▁";
    EXPECT_EQ(curve_of(values), wanted + "█");
}

TEST(ClockTextTest, tells_hours_where_there_are_some) {
    EXPECT_EQ(clock_text(0), "0:00");
    EXPECT_EQ(clock_text(65), "1:05");
    EXPECT_EQ(clock_text(7'209), "2:00:09");
}

TEST(ProgressTest, reckons_the_time_left_by_the_pace_since_it_looks) {
    Progress progress(100);
    progress.take(10, std::nullopt, 5'000);
    EXPECT_FALSE(progress.seconds_left()) << "one look has no pace";
    progress.take(20, std::nullopt, 15'000);
    EXPECT_EQ(progress.seconds_left(), 80U);
    progress.take(20, std::nullopt, 60'000);
    EXPECT_EQ(progress.seconds_left(), 80U) << "a checkpoint that is awaited makes it no slower";
    progress.take(100, std::nullopt, 95'000);
    EXPECT_FALSE(progress.seconds_left());
    progress.take(5, std::nullopt, 96'000);
    EXPECT_FALSE(progress.seconds_left()) << "another round begins anew";
}

TEST(ProgressTest, says_null_for_what_is_not_known) {
    Progress progress(8);
    EXPECT_EQ(progress.describe().dump(), R"({"step":0,"steps":8,"loss":null,"etaS":null})");
    progress.take(2, std::bit_cast<std::uint32_t>(1.5F), 1'000);
    progress.take(4, std::bit_cast<std::uint32_t>(0.5F), 2'000);
    EXPECT_EQ(progress.describe().dump(), R"({"step":4,"steps":8,"loss":0.5,"etaS":2})");
    EXPECT_EQ(progress.line(), "██████████░░░░░░░░░░ step 4 of 8  loss 0.5  █▁  eta 0:02");
}

TEST(ProgressTest, keeps_the_whole_way_of_a_long_training) {
    constexpr std::uint64_t kSteps = 50'000;
    Progress progress(kSteps);
    for (std::uint64_t step = 1; step <= kSteps; ++step)  // falls evenly from 10 to 0
        progress.take(step, std::bit_cast<std::uint32_t>(10.0F - 10.0F * static_cast<float>(step) / kSteps), step);
    EXPECT_EQ(progress.describe().dump(), R"({"step":50000,"steps":50000,"loss":0.0,"etaS":null})");
    const std::string line = progress.line();
    EXPECT_NE(line.find("██▇▇▇▆▆▆▆▅▅▅▄▄▄▃▃▃▃▂▂▂▁▁"), std::string::npos) << line;
    const auto plot = lines_of(progress.plot());
    ASSERT_EQ(plot.size(), kPlotHeight + 2);
    EXPECT_TRUE(plot.back().ends_with("50000")) << plot.back();
    EXPECT_NE(plot.back().find(" 1 "), std::string::npos) << plot.back();
}

TEST(BarTest, is_full_when_all_is_done) {
    const std::string empty = bar_of(0, 8);
    EXPECT_EQ(count_of(empty, "░"), kBarWidth);
    EXPECT_EQ(count_of(bar_of(7, 8), "█"), 17U);
    EXPECT_EQ(count_of(bar_of(~std::uint64_t{0} - 1, ~std::uint64_t{0}), "█"), kBarWidth);
    EXPECT_EQ(count_of(bar_of(8, 8), "█"), kBarWidth);
    EXPECT_EQ(count_of(bar_of(9, 8), "█"), kBarWidth);
    EXPECT_EQ(count_of(bar_of(0, 0), "█"), kBarWidth);
}

TEST(PlotTest, stands_between_the_least_and_the_most) {
    EXPECT_EQ(plot_of(std::vector<float>{4, 1.5, 2}, 1, 3),
              "  4 │█  \n"
              "    │█  \n"
              "    │█  \n"
              "    │█  \n"
              "    │█  \n"
              "    │█  \n"
              "    │█ ▆\n"
              "1.5 │█▁█\n"
              "    └───\n"
              "     1 3\n");
    EXPECT_EQ(plot_of(std::vector<float>{4}, 1, 1), "");
    EXPECT_EQ(plot_of(std::vector<float>{kNaN, kNaN}, 1, 2), "");
    const std::string broken = plot_of(std::vector<float>{2, kNaN, std::numeric_limits<float>::infinity(), 2}, 1, 4);
    EXPECT_EQ(lines_of(broken)[kPlotHeight - 1], "2 │▁  ▁") << "what is no number is blank";
}

TEST(PlotTest, shows_means_where_there_are_more_values_than_columns) {
    std::vector<float> values;
    for (std::size_t i = 0; i < 100 * kPlotWidth; ++i) values.push_back(i % 2 == 0 ? 0.0F : 2.0F);
    values[0] = 1000;    // of the first hundred
    values[150] = kNaN;  // of the second, whose others are numbers
    const auto plot = lines_of(plot_of(values, 1, values.size()));
    EXPECT_EQ(plot[0], "11 │█" + std::string(kPlotWidth - 1, ' '));
    EXPECT_EQ(count_of(plot[kPlotHeight - 1], "▁"), kPlotWidth - 1);
}

}  // namespace
}  // namespace quern::compute::program
