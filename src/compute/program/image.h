// Convolution and pooling over images, composed of builder ops. Used by model builders and tests. Pure functions on a
// Builder.
//
// Images are a matrix with a row for each place, image after image and row after row, and a column for each channel:
// [n, height, width, channels] would fill its tiles only where width and channels do. A window lies at each place (i,
// j) of the result: its tap (y, x) reads row i * stride - padding + y * dilation and the column alike; what is outside
// the image reads +0, in a maximum nothing. The words of taps are gathered by indices that iota and integer arithmetic
// make, so that gradients are sums of rows by scatter_add_rows, in its order.
#pragma once

#include "compute/program/builder.h"

namespace quern::compute::program {

struct Extent2d {
    std::uint32_t height = 1;
    std::uint32_t width = 1;
};

struct Window2d {
    Extent2d kernel;
    Extent2d stride;
    Extent2d padding{0, 0};  // on each side
    Extent2d dilation;
};

struct Images {
    Value rows;  // [1,1,count * height * width,channels]; invalid when the builder has failed
    std::uint32_t count = 0;
    Extent2d extent;
};

// Places of a window in an image of that extent. Errors: image.bad_window (an extent of 0, padding of a whole window or
// more, which would lie outside, or a window larger than the padded image).
[[nodiscard]] Expected<Extent2d> places_of(const Window2d& window, const Extent2d& image);

// Cross-correlation, as frameworks call convolution. weight [1, groups, taps * channels / groups, outputs / groups],
// where tap y * kernel.width + x comes before the next and holds the group's channels; bias [1,1,1,outputs] (left out
// when invalid). Of several groups each is a
// product of its own; where each has one channel and one output, taps are added up one by one. The builder's error:
// image.bad_window, image.bad_groups, or of the ops.
[[nodiscard]] Images conv2d(Builder& b, const Images& x, Value weight, Value bias, const Window2d& window,
                            std::uint32_t groups = 1);
// The largest value of each window, by channel; of equal ones the first has the gradient, as PyTorch has it.
[[nodiscard]] Images max_pool2d(Builder& b, const Images& x, const Window2d& window);
// The mean of each window, by channel: what is outside counts as zero (count_include_pad of PyTorch).
[[nodiscard]] Images avg_pool2d(Builder& b, const Images& x, const Window2d& window);
// The mean over all places: [1,1,count,channels].
[[nodiscard]] Value global_avg_pool2d(Builder& b, const Images& x);

}  // namespace quern::compute::program
