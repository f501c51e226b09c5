#include "compute/program/image.h"

#include <string>

#include "compute/program/composite.h"

namespace quern::compute::program {
namespace {

constexpr float kBelowAll = -0x1.fffffep127F;  // the smallest number: infinities would meet 0 in gradients

std::uint32_t u32(std::uint64_t value) { return static_cast<std::uint32_t>(value); }

Value whole(Builder& b, std::uint64_t value) { return b.constant_i32(static_cast<std::int32_t>(u32(value))); }

// Where a window is laid, and the sizes that follow.
struct Layout {
    std::uint32_t images = 0;
    Extent2d image;
    std::uint32_t channels = 0;
    Extent2d places;

    [[nodiscard]] std::uint64_t rows() const { return std::uint64_t{images} * places.height * places.width; }
};

std::uint32_t taps_of(const Window2d& window) { return window.kernel.height * window.kernel.width; }

bool is_every_place(const Window2d& window) {
    return taps_of(window) == 1 && window.stride.height == 1 && window.stride.width == 1 &&
           window.padding.height == 0 && window.padding.width == 0;
}

bool pads(const Window2d& window) { return window.padding.height != 0 || window.padding.width != 0; }

// One axis of what taps read: place * stride - padding + tap * dilation, and whether it lies in [0, size).
struct Axis {
    Value at;
    Value inside;  // i32 0 or 1
};
Axis axis_of(Builder& b, Value place, Value tap, std::uint32_t stride, std::uint32_t padding, std::uint32_t dilation,
             std::uint32_t size) {
    const auto first = b.imul(place, whole(b, stride));
    const auto offset = b.imul(tap, whole(b, dilation));
    const auto start = b.elementwise(ElementOp::isub, {first, whole(b, padding)});
    const auto at = b.iadd(start, offset);
    const auto below = b.ilt(at, whole(b, size));
    const auto above = b.ilt(b.constant_i32(-1), at);
    return {at, b.elementwise(ElementOp::iand, {below, above})};
}

struct Taps {
    Value words;   // [1,1,rows * taps,channels]
    Value inside;  // i32 [1,height,width,taps] of places; invalid where all are
};

Taps gather_taps(Builder& b, Value x, const Window2d& window, const Layout& layout) {
    const std::uint32_t taps = taps_of(window);
    const auto& [height, width] = layout.image;
    const auto table = b.reshape(x, matrix_shape(layout.images * height * width, layout.channels));
    if (is_every_place(window)) return {table, {}};
    const Shape kernel{{1, 1, window.kernel.height, window.kernel.width}};
    const auto row_tap = b.reshape(b.iota(kernel, 2), vector_shape(taps));
    const auto column_tap = b.reshape(b.iota(kernel, 3), vector_shape(taps));
    const auto row_place = b.iota(Shape{{1, layout.places.height, 1, 1}}, 1);
    const auto column_place = b.iota(Shape{{1, 1, layout.places.width, 1}}, 2);
    const Axis row =
        axis_of(b, row_place, row_tap, window.stride.height, window.padding.height, window.dilation.height, height);
    const Axis column =
        axis_of(b, column_place, column_tap, window.stride.width, window.padding.width, window.dilation.width, width);
    const auto image = b.iota(Shape{{layout.images, 1, 1, 1}}, 0);
    const auto first_row = b.imul(image, whole(b, height));
    const auto line = b.iadd(first_row, row.at);
    auto index = b.iadd(b.imul(line, whole(b, width)), column.at);
    Value inside;
    if (pads(window)) {
        inside = b.elementwise(ElementOp::iand, {row.inside, column.inside});
        // 0 where it is inside, else all bits: an index that no table has reads +0.
        const auto outside = b.elementwise(ElementOp::isub, {inside, b.constant_i32(1)});
        index = b.elementwise(ElementOp::ior, {index, outside});
    }
    const auto rows = u32(layout.rows() * taps);
    return {b.gather_rows(table, b.reshape(index, matrix_shape(rows, 1))), inside};
}

// The builder's error where a size is refused.
std::optional<Layout> layout_of(Builder& b, Value x, const Window2d& window) {
    if (b.failed()) return {};
    const auto dims = b.shape(x).dims;
    const auto places = places_of(window, {dims[1], dims[2]});
    if (!places) {
        b.set_error(places.error().name, places.error().detail);
        return {};
    }
    const Layout layout{dims[0], {dims[1], dims[2]}, dims[3], *places};
    // Rows and taps are numbered by words.
    if (layout.rows() > 0x7fffffff / taps_of(window)) {
        b.set_error("image.bad_window", "more than 2^31 taps");
        return {};
    }
    return layout;
}

Shape result_shape(const Layout& layout, std::uint32_t channels) {
    return Shape{{layout.images, layout.places.height, layout.places.width, channels}};
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

Value conv2d(Builder& b, Value x, Value weight, Value bias, const Window2d& window, std::uint32_t groups) {
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
    const std::uint32_t rows = u32(layout->rows());
    const std::uint32_t each = layout->channels / groups;
    auto words = gather_taps(b, x, window, *layout).words;
    if (groups == 1) {
        words = b.matmul(b.reshape(words, matrix_shape(rows, taps * each)), weight);
    } else {
        words = b.permute(b.reshape(words, Shape{{rows, taps, groups, each}}), {2, 0, 1, 3});
        words = b.matmul(b.reshape(words, Shape{{1, groups, rows, taps * each}}), weight);
        words = b.permute(words, {0, 2, 1, 3});
    }
    words = b.reshape(words, result_shape(*layout, groups * kernel.columns()));
    return bias.valid() ? b.add(words, bias) : words;
}

Value max_pool2d(Builder& b, Value x, const Window2d& window) {
    const auto layout = layout_of(b, x, window);
    if (!layout) return {};
    const auto rows = u32(layout->rows());
    const std::uint32_t taps = taps_of(window);
    const auto [gathered, inside] = gather_taps(b, x, window, *layout);
    auto words = b.reshape(gathered, Shape{{1, rows, taps, layout->channels}});
    if (inside.valid()) {
        const auto all = broadcast_to(b, inside, result_shape(*layout, taps));
        const auto seen = b.reshape(all, Shape{{1, rows, taps, 1}});
        words = b.select(seen, words, b.constant(kBelowAll));
    }
    words = b.max_last(b.permute(words, {0, 1, 3, 2}));
    return b.reshape(words, result_shape(*layout, layout->channels));
}

Value avg_pool2d(Builder& b, Value x, const Window2d& window) {
    const auto layout = layout_of(b, x, window);
    if (!layout) return {};
    const std::uint32_t taps = taps_of(window);
    const auto gathered = gather_taps(b, x, window, *layout).words;
    const auto words = b.reshape(gathered, Shape{{1, u32(layout->rows()), taps, layout->channels}});
    const auto share = b.constant(1.0F / static_cast<float>(taps));
    const auto mean = b.mul(b.sum_rows(words), share);
    return b.reshape(mean, result_shape(*layout, layout->channels));
}

Value global_avg_pool2d(Builder& b, Value x) {
    if (b.failed()) return {};
    const auto dims = b.shape(x).dims;
    const std::uint32_t places = dims[1] * dims[2];
    const Shape result = matrix_shape(dims[0], dims[3]);
    const auto rows = b.reshape(x, Shape{{1, dims[0], places, dims[3]}});
    const auto share = b.constant(1.0F / static_cast<float>(places));
    return b.reshape(b.mul(b.sum_rows(rows), share), result);
}

}  // namespace quern::compute::program
