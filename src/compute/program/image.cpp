#include "compute/program/image.h"

#include <string>
#include <vector>

#include "compute/program/composite.h"

namespace quern::compute::program {
namespace {

constexpr float kBelowAll = -0x1.fffffep127F;  // the smallest number: infinities would meet 0 in gradients

std::uint32_t u32(std::uint64_t value) { return static_cast<std::uint32_t>(value); }

Value whole(Builder& b, std::uint64_t value) { return b.constant_i32(static_cast<std::int32_t>(u32(value))); }

// Where a window is laid, and the sizes that follow.
struct Layout {
    std::uint32_t channels = 0;
    Extent2d places;
    std::uint64_t rows = 0;  // of all images
};

std::uint32_t taps_of(const Window2d& window) { return window.kernel.height * window.kernel.width; }

bool is_every_place(const Window2d& window) {
    return taps_of(window) == 1 && window.stride.height == 1 && window.stride.width == 1 &&
           window.padding.height == 0 && window.padding.width == 0;
}

bool pads(const Window2d& window) { return window.padding.height != 0 || window.padding.width != 0; }

// i32 0 or 1: whether `at` lies in [0, size).
Value is_inside(Builder& b, Value at, std::uint32_t size) {
    const auto below = b.ilt(at, whole(b, size));
    const auto above = b.ilt(b.constant_i32(-1), at);
    return b.elementwise(ElementOp::iand, {below, above});
}

Value quotient(Builder& b, Value x, std::uint64_t by) { return b.elementwise(ElementOp::idiv, {x, whole(b, by)}); }
Value remainder(Builder& b, Value x, std::uint64_t by) { return b.elementwise(ElementOp::irem, {x, whole(b, by)}); }

// first * stride + tap * dilation - padding.
Value offset_of(Builder& b, Value first, std::uint32_t stride, Value tap, std::uint32_t dilation,
                std::uint32_t padding) {
    const auto start = b.imul(first, whole(b, stride));
    const auto step = b.imul(tap, whole(b, dilation));
    const auto sum = b.iadd(start, step);
    return b.elementwise(ElementOp::isub, {sum, whole(b, padding)});
}

struct Taps {
    Value words;   // [1,1,rows * taps,channels]
    Value inside;  // i32 [1,1,lines of places,places of a line * taps]; invalid where all are
};

// Taps [first, first + taps) of each place. What a tap reads is a sum of what its line of places says (image and row)
// and what its place in the line and the tap do, so that nearly all of it is worked out on vectors.
Taps gather_taps(Builder& b, const Images& x, const Window2d& window, const Layout& layout, std::uint32_t first,
                 std::uint32_t taps) {
    if (is_every_place(window)) return {x.rows, {}};
    const auto& [height, width] = x.extent;
    const auto line = b.iota(matrix_shape(x.count * layout.places.height, 1), 2);
    const auto image = quotient(b, line, layout.places.height);
    const auto image_row = b.imul(image, whole(b, height));
    const auto line_place = remainder(b, line, layout.places.height);
    const auto line_row = b.imul(line_place, whole(b, window.stride.height));
    const auto first_row = b.iadd(image_row, line_row);
    const auto line_start = b.imul(first_row, whole(b, width));

    const auto place = b.iota(vector_shape(layout.places.width * taps), 3);
    const auto place_tap = remainder(b, place, taps);
    const auto tap = b.iadd(place_tap, whole(b, first));
    const auto kernel_row = quotient(b, tap, window.kernel.width);
    const auto tap_row = offset_of(b, b.constant_i32(0), 1, kernel_row, window.dilation.height, window.padding.height);
    const auto place_column = quotient(b, place, taps);
    const auto kernel_column = remainder(b, tap, window.kernel.width);
    const auto column =
        offset_of(b, place_column, window.stride.width, kernel_column, window.dilation.width, window.padding.width);
    const auto row_words = b.imul(tap_row, whole(b, width));
    const auto place_start = b.iadd(row_words, column);

    auto index = b.iadd(line_start, place_start);
    Value inside;
    if (pads(window)) {
        const auto row_inside = is_inside(b, b.iadd(line_row, tap_row), height);
        const auto column_inside = is_inside(b, column, width);
        inside = b.elementwise(ElementOp::iand, {row_inside, column_inside});
        // 0 where it is inside, else all bits: an index that no table has reads +0.
        const auto outside = b.elementwise(ElementOp::isub, {inside, b.constant_i32(1)});
        index = b.elementwise(ElementOp::ior, {index, outside});
    }
    return {b.gather_rows(x.rows, b.reshape(index, vector_shape(u32(layout.rows * taps)))), inside};
}

// One tap of each place, [1,1,rows,channels].
Taps gather_tap(Builder& b, const Images& x, const Window2d& window, const Layout& layout, std::uint32_t tap) {
    return gather_taps(b, x, window, layout, tap, 1);
}

// Whether windows lie side by side and cover the image: each word is read once.
bool tiles(const Images& x, const Window2d& window) {
    const auto along = [](std::uint32_t size, std::uint32_t kernel, std::uint32_t stride, std::uint32_t padding,
                          std::uint32_t dilation) {
        return kernel == stride && padding == 0 && (dilation == 1 || kernel == 1) && size % kernel == 0;
    };
    return along(x.extent.height, window.kernel.height, window.stride.height, window.padding.height,
                 window.dilation.height) &&
           along(x.extent.width, window.kernel.width, window.stride.width, window.padding.width, window.dilation.width);
}

// What each tap of such windows reads, [lines of places,1,places of a line,channels]: views, whose gradients are put
// side by side again.
std::vector<Value> slice_taps(Builder& b, const Images& x, const Window2d& window, const Layout& layout) {
    const auto& [height, width] = window.kernel;
    const std::uint32_t lines = x.count * layout.places.height;
    const Shape line{{lines, 1, layout.places.width, width * layout.channels}};
    const Shape tap{{lines, 1, layout.places.width, layout.channels}};
    const auto all = b.reshape(x.rows, Shape{{lines, height, line.dims[2], line.dims[3]}});
    std::vector<Value> taps;
    for (std::uint32_t row = 0; row < height && !b.failed(); ++row) {
        const auto words = height == 1 ? all : b.slice(all, {0, row, 0, 0}, line);
        for (std::uint32_t column = 0; column < width; ++column)
            taps.push_back(width == 1 ? words : b.slice(words, {0, 0, 0, column * layout.channels}, tap));
    }
    return taps;
}

// Each tap's words put together, one tap after the other: [1,1,rows,channels].
template <class Fold>
Value fold_taps(Builder& b, const Images& x, const Window2d& window, const Layout& layout, Fold fold) {
    Value folded;
    if (!tiles(x, window)) {
        for (std::uint32_t tap = 0; tap < taps_of(window) && !b.failed(); ++tap)
            folded = fold(folded, gather_tap(b, x, window, layout, tap));
        return folded;
    }
    for (const Value words : slice_taps(b, x, window, layout)) folded = fold(folded, Taps{words, {}});
    return b.reshape(folded, matrix_shape(u32(layout.rows), layout.channels));
}

// The builder's error where a size is refused.
std::optional<Layout> layout_of(Builder& b, const Images& x, const Window2d& window) {
    if (b.failed()) return {};
    const std::uint64_t inputs = std::uint64_t{x.count} * x.extent.height * x.extent.width;
    if (b.shape(x.rows).leading() != 1 || b.shape(x.rows).rows() != inputs) {
        b.set_error("image.bad_rows", b.shape(x.rows).to_string() + " for " + std::to_string(inputs) + " places");
        return {};
    }
    const auto places = places_of(window, x.extent);
    if (!places) {
        b.set_error(places.error().name, places.error().detail);
        return {};
    }
    const Layout layout{b.shape(x.rows).columns(), *places, std::uint64_t{x.count} * places->height * places->width};
    // Rows and taps are numbered by words.
    if (layout.rows > 0x7fffffff / taps_of(window)) {
        b.set_error("image.bad_window", "more than 2^31 taps");
        return {};
    }
    return layout;
}

Images result_of(const Images& x, const Layout& layout, Value rows) { return {rows, x.count, layout.places}; }

// Columns [begin, begin + count) of a matrix.
Value columns_of(Builder& b, Value x, std::uint32_t begin, std::uint32_t count) {
    return b.slice(x, {0, 0, 0, begin}, matrix_shape(b.shape(x).rows(), count));
}

// A channel for each group, and an output.
Value convolve_channels(Builder& b, const Images& x, Value weight, const Window2d& window, const Layout& layout) {
    const auto by_tap = b.permute(weight, {0, 3, 2, 1});  // [1,1,taps,channels]
    Value sum;
    for (std::uint32_t tap = 0; tap < taps_of(window) && !b.failed(); ++tap) {
        const auto words = gather_tap(b, x, window, layout, tap).words;
        const auto factor = b.slice(by_tap, {0, 0, tap, 0}, vector_shape(layout.channels));
        sum = sum.valid() ? b.fma(words, factor, sum) : b.mul(words, factor);
    }
    return sum;
}

// x [1,1,rows,channels of a group] by weight [1,1,taps * those,outputs].
Value convolve_group(Builder& b, const Images& x, Value weight, const Window2d& window, const Layout& layout) {
    const auto words = gather_taps(b, x, window, layout, 0, taps_of(window)).words;
    return b.matmul(b.reshape(words, matrix_shape(u32(layout.rows), b.shape(weight).rows())), weight);
}

}  // namespace

Expected<Extent2d> places_of(const Window2d& window, const Extent2d& image) {
    const auto along = [](std::uint64_t size, std::uint64_t kernel, std::uint64_t stride, std::uint64_t padding,
                          std::uint64_t dilation) -> Expected<std::uint32_t> {
        if (size == 0 || kernel == 0 || stride == 0 || dilation == 0) return fail("image.bad_window", "an extent is 0");
        const std::uint64_t covered = (kernel - 1) * dilation + 1;
        if (padding >= covered) return fail("image.bad_window", "padding of a whole window");
        if (covered > size + 2 * padding)
            return fail("image.bad_window",
                        "a window of " + std::to_string(covered) + " over " + std::to_string(size + 2 * padding));
        return u32((size + 2 * padding - covered) / stride + 1);
    };
    Extent2d places;
    QUERN_TRY(places.height, along(image.height, window.kernel.height, window.stride.height, window.padding.height,
                                   window.dilation.height));
    QUERN_TRY(places.width, along(image.width, window.kernel.width, window.stride.width, window.padding.width,
                                  window.dilation.width));
    return places;
}

Images conv2d(Builder& b, const Images& x, Value weight, Value bias, const Window2d& window, std::uint32_t groups) {
    const auto layout = layout_of(b, x, window);
    if (!layout) return {};
    const Shape kernel = b.shape(weight);
    const std::uint32_t taps = taps_of(window);
    if (groups == 0 || layout->channels % groups != 0 ||
        kernel != Shape{{1, groups, taps * (layout->channels / groups), kernel.columns()}}) {
        b.set_error("image.bad_groups", std::to_string(groups) + " groups of " + std::to_string(layout->channels) +
                                            " channels, weight for " + std::to_string(kernel.rows()));
        return {};
    }
    const std::uint32_t each = layout->channels / groups;
    Value rows;
    if (groups == 1) {
        rows = convolve_group(b, x, weight, window, *layout);
    } else if (each == 1 && kernel.columns() == 1) {
        rows = convolve_channels(b, x, weight, window, *layout);
    } else {
        for (std::uint32_t group = 0; group < groups && !b.failed(); ++group) {
            const Images part{columns_of(b, x.rows, group * each, each), x.count, x.extent};
            const auto own = b.slice(weight, {0, group, 0, 0}, matrix_shape(kernel.rows(), kernel.columns()));
            const auto result = convolve_group(b, part, own, window, *layout);
            rows = rows.valid() ? b.concat(rows, result, 3) : result;
        }
    }
    return result_of(x, *layout, bias.valid() ? b.add(rows, bias) : rows);
}

Images max_pool2d(Builder& b, const Images& x, const Window2d& window) {
    const auto layout = layout_of(b, x, window);
    if (!layout) return {};
    const auto largest = fold_taps(b, x, window, *layout, [&](Value so_far, const Taps& tap) {
        Value words = tap.words;
        if (tap.inside.valid()) {
            const auto seen = b.reshape(tap.inside, matrix_shape(u32(layout->rows), 1));
            words = b.select(seen, words, b.constant(kBelowAll));
        }
        return so_far.valid() ? b.max(so_far, words) : words;
    });
    return result_of(x, *layout, largest);
}

Images avg_pool2d(Builder& b, const Images& x, const Window2d& window) {
    const auto layout = layout_of(b, x, window);
    if (!layout) return {};
    const auto sum = fold_taps(b, x, window, *layout, [&](Value so_far, const Taps& tap) {
        return so_far.valid() ? b.add(so_far, tap.words) : tap.words;
    });
    const auto share = b.constant(1.0F / static_cast<float>(taps_of(window)));
    return result_of(x, *layout, b.mul(sum, share));
}

Value global_avg_pool2d(Builder& b, const Images& x) {
    if (b.failed()) return {};
    const std::uint32_t places = x.extent.height * x.extent.width;
    const std::uint32_t channels = b.shape(x.rows).columns();
    const auto rows = b.reshape(x.rows, Shape{{1, x.count, places, channels}});
    const auto share = b.constant(1.0F / static_cast<float>(places));
    return b.mul(b.reshape(b.sum_rows(rows), matrix_shape(x.count, channels)), share);
}

}  // namespace quern::compute::program
