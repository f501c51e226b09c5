// Convolution and pooling over images, composed of builder ops. Used by model builders and tests. Pure functions on a
// Builder.
//
// Images are [n, height, width, channels]. A window lies at each place (i, j) of the result: its tap (y, x) reads row
// i * stride - padding + y * dilation and the column alike; what is outside the image reads +0, in a maximum nothing.
// The words of taps are gathered by indices that iota and integer arithmetic make, so that gradients are sums of rows
// by scatter_add_rows, in its order.
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

// Places of a window in an image of that extent. Errors: image.bad_window (an extent of 0, padding of a whole window or
// more, which would lie outside, or a window larger than the padded image).
[[nodiscard]] Expected<Extent2d> places_of(const Window2d& window, const Extent2d& image);

// Cross-correlation, as frameworks call convolution. weight [1, groups, taps * channels / groups, outputs / groups],
// where tap y * kernel.width + x comes before the next and holds the group's channels; bias [1,1,1,outputs] (left out
// when invalid). Gives [n, places, outputs]. The builder's error: image.bad_window, image.bad_groups, or of the ops.
[[nodiscard]] Value conv2d(Builder& b, Value x, Value weight, Value bias, const Window2d& window,
                           std::uint32_t groups = 1);
// The largest value of each window, by channel; equal ones share the gradient.
[[nodiscard]] Value max_pool2d(Builder& b, Value x, const Window2d& window);
// The mean of each window, by channel: what is outside counts as zero (count_include_pad of PyTorch).
[[nodiscard]] Value avg_pool2d(Builder& b, Value x, const Window2d& window);
// The mean over all places: [n,h,w,c] -> [1,1,n,c].
[[nodiscard]] Value global_avg_pool2d(Builder& b, Value x);

}  // namespace quern::compute::program
