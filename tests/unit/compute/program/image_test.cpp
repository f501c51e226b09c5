// Convolution and pooling: values against plain loops in double precision, gradients against differences.
#include "compute/program/image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compute/program/autodiff.h"
#include "compute/program/composite.h"
#include "unit/compute/program/gradient_check.h"

namespace quern::compute::program {
namespace {

using test::check_gradient;
using test::numbers;
using test::values_of;
using Doubles = std::vector<double>;

struct Sizes {
    std::uint32_t count, height, width, channels;
    [[nodiscard]] Shape shape() const { return Shape{{count, height, width, channels}}; }
};

// A value [n,height,width,channels] as images.
Images images(Builder& b, Value x) {
    const auto dims = b.shape(x).dims;
    return {b.reshape(x, matrix_shape(dims[0] * dims[1] * dims[2], dims[3])), dims[0], {dims[1], dims[2]}};
}

// Calls tap(result place, channel's index in x or -1 outside, number of the tap) for each tap of each place.
template <class Tap>
void each_tap(const Sizes& x, const Window2d& window, const Extent2d& places, const Tap& tap) {
    const auto& [kernel, stride, padding, dilation] = window;
    std::size_t place = 0;
    for (std::uint32_t n = 0; n < x.count; ++n)
        for (std::uint32_t i = 0; i < places.height; ++i)
            for (std::uint32_t j = 0; j < places.width; ++j, ++place)
                for (std::uint32_t t = 0; t < kernel.height * kernel.width; ++t) {
                    const std::int64_t row = std::int64_t{i} * stride.height - padding.height +
                                             std::int64_t{t / kernel.width} * dilation.height;
                    const std::int64_t column = std::int64_t{j} * stride.width - padding.width +
                                                std::int64_t{t % kernel.width} * dilation.width;
                    const bool inside = row >= 0 && row < x.height && column >= 0 && column < x.width;
                    tap(place, inside ? ((n * x.height + row) * x.width + column) * x.channels : -1, t);
                }
}

Doubles plain_conv(const Sizes& x, const Doubles& image, const Doubles& weight, const Doubles& bias,
                   const Window2d& window, std::uint32_t groups) {
    const Extent2d places = *places_of(window, {x.height, x.width});
    const std::size_t outputs = bias.size();
    const std::size_t each = x.channels / groups;
    const std::size_t each_output = outputs / groups;
    const std::size_t taps = window.kernel.height * window.kernel.width;
    Doubles result;
    for (std::size_t i = 0; i < x.count * places.height * places.width; ++i)
        result.insert(result.end(), bias.begin(), bias.end());
    each_tap(x, window, places, [&](std::size_t place, std::int64_t at, std::size_t t) {
        if (at < 0) return;
        for (std::size_t o = 0; o < outputs; ++o) {
            const std::size_t group = o / each_output;
            for (std::size_t c = 0; c < each; ++c)
                result[place * outputs + o] += image[static_cast<std::size_t>(at) + group * each + c] *
                                               weight[((group * taps + t) * each + c) * each_output + o % each_output];
        }
    });
    return result;
}

void expect_equal(const Doubles& actual, const Doubles& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 1e-6) << i;
}

const std::vector<Window2d> kWindows{
    {{1, 1}, {1, 1}, {0, 0}, {1, 1}}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}}, {{3, 2}, {2, 1}, {0, 1}, {1, 1}},
    {{2, 3}, {2, 3}, {1, 2}, {1, 1}}, {{2, 2}, {1, 1}, {1, 0}, {3, 2}}, {{1, 1}, {2, 2}, {0, 0}, {1, 1}},
    {{5, 4}, {1, 1}, {0, 0}, {1, 1}},
};
// Side by side over 5 x 4 and over 4 x 3 places; the last but one of each list leaves a column.
const std::vector<Window2d> kTiles{{{5, 2}, {5, 2}, {0, 0}, {1, 1}},
                                   {{1, 2}, {1, 2}, {0, 0}, {1, 1}},
                                   {{5, 1}, {5, 1}, {0, 0}, {1, 2}},
                                   {{5, 3}, {5, 3}, {0, 0}, {1, 1}},
                                   {{5, 4}, {5, 4}, {0, 0}, {1, 1}}};
const std::vector<Window2d> kSmallTiles{{{2, 3}, {2, 3}, {0, 0}, {1, 1}},
                                        {{2, 1}, {2, 1}, {0, 0}, {1, 1}},
                                        {{2, 2}, {2, 2}, {0, 0}, {1, 1}},
                                        {{4, 3}, {4, 3}, {0, 0}, {1, 1}}};

std::vector<Window2d> both(std::vector<Window2d> windows, const std::vector<Window2d>& more) {
    windows.insert(windows.end(), more.begin(), more.end());
    return windows;
}

TEST(Image, convolves_as_plain_loops_do) {
    const Sizes x{2, 5, 4, 6};
    const Doubles image = numbers(x.shape().elements(), 1.3);
    for (const Window2d& window : kWindows)
        for (const std::uint32_t groups : {1U, 2U, 3U, 6U}) {
            const std::uint32_t taps = window.kernel.height * window.kernel.width;
            const Shape kernel{{1, groups, taps * 6 / groups, 6 / groups}};
            const Doubles weight = numbers(kernel.elements(), 0.9);
            const Doubles bias = numbers(6, 0.5);
            const auto conv = [&](Builder& b, std::span<const Value> v) {
                return conv2d(b, images(b, v[0]), v[1], v[2], window, groups).rows;
            };
            expect_equal(values_of({x.shape(), kernel, vector_shape(6)}, {image, weight, bias}, conv),
                         plain_conv(x, image, weight, bias, window, groups));
        }
}

TEST(Image, pools_as_plain_loops_do) {
    const Sizes x{2, 5, 4, 3};
    Doubles image = numbers(x.shape().elements(), 2.0);
    for (double& value : image) value -= 3;  // all below the +0 of what is outside
    for (const Window2d& window : both(kWindows, kTiles)) {
        const Extent2d places = *places_of(window, {x.height, x.width});
        const double taps = window.kernel.height * window.kernel.width;
        Doubles largest(x.count * places.height * places.width * 3, std::numeric_limits<double>::lowest());
        Doubles mean(largest.size(), 0);
        each_tap(x, window, places, [&](std::size_t place, std::int64_t at, std::size_t) {
            for (std::size_t c = 0; at >= 0 && c < 3; ++c) {
                const double value = image[static_cast<std::size_t>(at) + c];
                largest[place * 3 + c] = std::max(largest[place * 3 + c], value);
                mean[place * 3 + c] += value / taps;
            }
        });
        const auto max = [&](Builder& b, std::span<const Value> v) {
            return max_pool2d(b, images(b, v[0]), window).rows;
        };
        const auto average = [&](Builder& b, std::span<const Value> v) {
            return avg_pool2d(b, images(b, v[0]), window).rows;
        };
        expect_equal(values_of({x.shape()}, {image}, max), largest);
        expect_equal(values_of({x.shape()}, {image}, average), mean);
    }
    const auto all = [](Builder& b, std::span<const Value> v) { return global_avg_pool2d(b, images(b, v[0])); };
    Doubles mean(6, 0);
    for (std::size_t i = 0; i < image.size(); ++i) mean[i / 60 * 3 + i % 3] += image[i] / 20;
    expect_equal(values_of({x.shape()}, {image}, all), mean);
}

TEST(Image, is_differentiated) {
    const Shape x{{2, 4, 3, 4}};
    for (const Window2d& window : {kWindows[1], kWindows[2], kWindows[4], kWindows[5]}) {
        const std::uint32_t taps = window.kernel.height * window.kernel.width;
        for (const std::uint32_t groups : {1U, 2U, 4U})
            check_gradient({x, Shape{{1, groups, taps * 4 / groups, 4 / groups}}, vector_shape(4)},
                           [&](Builder& b, std::span<const Value> v) {
                               return conv2d(b, images(b, v[0]), v[1], v[2], window, groups).rows;
                           });
    }
    for (const Window2d& window : both({kWindows[1], kWindows[2], kWindows[4], kWindows[5]}, kSmallTiles)) {
        check_gradient(
            {x}, [&](Builder& b, std::span<const Value> v) { return max_pool2d(b, images(b, v[0]), window).rows; });
        check_gradient(
            {x}, [&](Builder& b, std::span<const Value> v) { return avg_pool2d(b, images(b, v[0]), window).rows; });
    }
    check_gradient({x}, [](Builder& b, std::span<const Value> v) { return global_avg_pool2d(b, images(b, v[0])); });
}

TEST(Image, pools_of_windows_side_by_side_gather_and_scatter_nothing) {
    const auto nodes = [](const Window2d& window) {
        Builder b;
        const auto x = b.slot("x", DType::f32, matrix_shape(2 * 4 * 6, 3), Initializer::normal(1));
        const auto pooled = max_pool2d(b, {x, 2, {4, 6}}, window).rows;
        const auto loss = sum_all(b, pooled);
        b.update(x, gradients(b, loss, std::vector<Value>{x})[0]);
        b.set_loss_slot(b.slot("loss", DType::f32, scalar_shape(), Initializer::zeros()));
        const auto built = b.finish();
        std::size_t found = 0;
        if (!built) return found - 1;
        for (const vm::tensor::Node& node : built->program.nodes)
            found += node.op == vm::tensor::Op::gather_rows || node.op == vm::tensor::Op::scatter_add_rows ? 1 : 0;
        return found;
    };
    EXPECT_EQ(nodes({{2, 2}, {2, 2}, {0, 0}, {1, 1}}), 0U);
    EXPECT_EQ(nodes({{2, 2}, {2, 1}, {0, 0}, {1, 1}}), 8U);
}

TEST(Image, names_windows_and_groups_that_do_not_fit) {
    const auto error = [](const Window2d& window, const Extent2d& image) {
        const auto places = places_of(window, image);
        return places ? std::string("none") : std::string(places.error().name);
    };
    EXPECT_EQ(error({{3, 3}, {1, 1}, {0, 0}, {1, 1}}, {3, 3}), "none");
    EXPECT_EQ(error({{3, 3}, {1, 1}, {0, 0}, {1, 1}}, {2, 3}), "image.bad_window");
    EXPECT_EQ(error({{3, 3}, {1, 1}, {1, 0}, {1, 1}}, {1, 3}), "none");
    EXPECT_EQ(error({{2, 2}, {1, 1}, {0, 2}, {1, 1}}, {4, 4}), "image.bad_window") << "a window outside";
    EXPECT_EQ(error({{2, 2}, {1, 0}, {0, 0}, {1, 1}}, {4, 4}), "image.bad_window");
    EXPECT_EQ(error({{0, 2}, {1, 1}, {0, 0}, {1, 1}}, {4, 4}), "image.bad_window");
    EXPECT_EQ(error({{2, 2}, {1, 1}, {0, 0}, {0, 1}}, {4, 4}), "image.bad_window");
    EXPECT_EQ(error({{2, 2}, {1, 1}, {0, 0}, {1, 1}}, {4, 0}), "image.bad_window");
    EXPECT_EQ(error({{0xffffffff, 1}, {1, 1}, {0xfffffffe, 0}, {0xffffffff, 1}}, {4, 4}), "image.bad_window");
    for (const std::uint32_t groups : {0U, 3U, 4U}) {
        Builder b;
        const auto x = b.slot("x", DType::f32, Shape{{1, 4, 4, 4}}, Initializer::zeros());
        const auto weight = b.slot("w", DType::f32, Shape{{1, 2, 2, 2}}, Initializer::zeros());
        EXPECT_FALSE(conv2d(b, images(b, x), weight, {}, {}, groups).rows.valid());
        EXPECT_EQ(b.status().error().name, "image.bad_groups") << groups;
    }
    Builder b;
    const auto x = b.slot("x", DType::f32, Shape{{1, 2, 2, 1}}, Initializer::zeros());
    EXPECT_FALSE(max_pool2d(b, images(b, x), {{3, 3}, {1, 1}, {0, 0}, {1, 1}}).rows.valid());
    EXPECT_EQ(b.status().error().name, "image.bad_window");
}

}  // namespace
}  // namespace quern::compute::program
